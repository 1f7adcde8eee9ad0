"""Encryption of an archive by a passphrase: scrypt for the key, AES-256-GCM in pieces, both of `cryptography`.

The pieces follow the STREAM construction (Hoang, Reyhanitabar, Rogaway, Vizár 2015, section 7), as `age` does: the
nonce counts the pieces and marks the last one, so that none can be cut off, swapped or repeated.
"""

import hashlib
import hmac
import json
import os
from typing import BinaryIO

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from agent.storage.errors import BackupRefused

PIECE = 64 * 1024  # bytes of plain text
TAG = 16
SALT = 16
SCRYPT_N, SCRYPT_R, SCRYPT_P = 2**17, 8, 1  # 128 MB for a moment: OWASP, Password Storage Cheat Sheet, scrypt
LARGEST_N = 2**20  # a header from elsewhere must not ask for more memory than this takes (1 GB)
LONGEST_HEADER = 1024


class EncryptedWriter:
    """Encrypts what is written to it, behind `magic`. Without `finish` the file counts as cut."""

    def __init__(self, file: BinaryIO, passphrase: str, *, magic: bytes, n: int = SCRYPT_N) -> None:
        salt = os.urandom(SALT)
        header = {"kdf": "scrypt", "n": n, "r": SCRYPT_R, "p": SCRYPT_P, "salt": salt.hex(), "cipher": "AES-256-GCM"}
        line = magic + json.dumps(header).encode() + b"\n"
        key, check = _keys(passphrase, salt, n, SCRYPT_R, SCRYPT_P)
        file.write(line + hmac.digest(check, line, hashlib.sha256))
        self._cipher = AESGCM(key)
        self._file = file
        self._pending = bytearray()
        self._count = 0

    def write(self, data: bytes, /) -> int:
        self._pending += data
        while len(self._pending) > PIECE:  # the last piece is held back: it is marked as such
            self._put(bytes(self._pending[:PIECE]), last=False)
            del self._pending[:PIECE]
        return len(data)

    def finish(self) -> None:
        """Write the last piece."""
        self._put(bytes(self._pending), last=True)
        self._pending.clear()

    def _put(self, piece: bytes, *, last: bool) -> None:
        self._file.write(self._cipher.encrypt(_nonce(self._count, last=last), piece, None))
        self._count += 1


class EncryptedReader:
    """Gives the plain text of a file whose `magic` has been read. Raises BackupRefused where it is not as written."""

    def __init__(self, file: BinaryIO, passphrase: str, named: str, *, magic: bytes) -> None:
        self._named = named
        line = file.readline(LONGEST_HEADER)
        try:
            header = json.loads(line)
            salt, n, r, p = bytes.fromhex(header["salt"]), int(header["n"]), int(header["r"]), int(header["p"])
            if not 2 <= n <= LARGEST_N or n & (n - 1) or r != SCRYPT_R or p != SCRYPT_P:
                raise ValueError(n)
        except (ValueError, KeyError, TypeError):
            raise BackupRefused(f"{named} is damaged: its first lines cannot be read; choose another copy") from None
        key, check = _keys(passphrase, salt, n, r, p)
        if not hmac.compare_digest(hmac.digest(check, magic + line, hashlib.sha256), file.read(32)):
            raise BackupRefused(f"the passphrase is not that of {named}, or its first lines were changed")
        self._cipher = AESGCM(key)
        self._file = file
        self._ahead = file.read(PIECE + TAG)
        self._plain = b""
        self._count = 0
        self._ended = False

    def read(self, size: int = -1) -> bytes:
        """Up to `size` bytes, fewer at the end alone."""
        parts, left = [], size
        while left and (self._plain or not self._ended):
            if not self._plain:
                self._plain = self._next()
            part = self._plain if left < 0 else self._plain[:left]
            self._plain = self._plain[len(part) :]
            parts.append(part)
            left -= len(part) if left > 0 else 0
        return b"".join(parts)

    def _next(self) -> bytes:
        piece, self._ahead = self._ahead, self._file.read(PIECE + TAG)
        self._ended = not self._ahead
        try:
            plain = self._cipher.decrypt(_nonce(self._count, last=self._ended), piece, None)
        except (InvalidTag, ValueError):
            raise BackupRefused(f"{self._named} was cut or changed after it was made; choose another copy") from None
        self._count += 1
        return plain


def _keys(passphrase: str, salt: bytes, n: int, r: int, p: int) -> tuple[bytes, bytes]:
    """The key of the pieces, and that of the header's check."""
    both = Scrypt(salt=salt, length=64, n=n, r=r, p=p).derive(passphrase.encode())
    return both[:32], both[32:]


def _nonce(count: int, *, last: bool) -> bytes:
    return count.to_bytes(11, "big") + bytes([last])
