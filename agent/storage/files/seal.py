"""Encryption of secrets that the database keeps for several processes, by a key that lies on each of their machines.

AES-256-GCM of `cryptography`. Slow to import: loaded by name where there is such a key.
"""

import hashlib
import os
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

LEAST = 32  # bytes of the key's file; it must be random, since no work is put into guessing it
MOST = 4096
NONCE = 12

_PURPOSE = b"tieline secrets in the database 1\0"


class KeySeal:
    """Keeps the promise of `agent.storage.files.kept.Seal`."""

    def __init__(self, key: bytes) -> None:
        """Raises ValueError for a key that is too short."""
        if not LEAST <= len(key.strip()) <= MOST:
            raise ValueError(f"it has {len(key.strip())} bytes; {LEAST} to {MOST} are wanted, all random")
        self._cipher = AESGCM(hashlib.sha256(_PURPOSE + key.strip()).digest())

    def close(self, content: bytes, about: str) -> bytes:
        nonce = os.urandom(NONCE)
        return nonce + self._cipher.encrypt(nonce, content, about.encode())

    def open(self, sealed: bytes, about: str) -> bytes:
        try:
            return self._cipher.decrypt(sealed[:NONCE], sealed[NONCE:], about.encode())
        except InvalidTag as error:
            raise ValueError("it was encrypted with another key; each machine needs the same one") from error


def read_seal(path: Path) -> KeySeal:
    """The seal of that key. Blocking. Raises OSError, and ValueError for a file that is no key."""
    with path.open("rb") as file:
        return KeySeal(file.read(MOST + 1))
