"""Pairing codes: how they look and how long they live. The store keeps only their hash (DESIGN §6)."""

import hashlib
from datetime import timedelta

LIFETIME = timedelta(minutes=10)
LENGTH = 8
MOST_PENDING = 50  # open requests over all accounts; beyond it strangers hear nothing
WRONG_TRIES = 10  # wrong codes an hour before `approve` refuses
# Without letters and digits that look alike.
ALPHABET = "ABCDEFGHJKMNPQRSTVWXYZ23456789"


def code_from(entropy: bytes) -> str:
    """The code that these random bytes (at least 8) spell."""
    if len(entropy) < LENGTH:
        raise ValueError(f"{len(entropy)} random bytes are too few for a code of {LENGTH}")
    number = int.from_bytes(entropy)
    letters = []
    for _ in range(LENGTH):
        number, index = divmod(number, len(ALPHABET))
        letters.append(ALPHABET[index])
    return "".join(letters)


def normalised(code: str) -> str:
    """What people type, as the code was made: upper case, no blanks or dashes."""
    return "".join(letter for letter in code.upper() if letter.isalnum())


def digest(code: str) -> str:
    """What is stored of a code."""
    return hashlib.sha256(f"tieline pairing {normalised(code)}".encode()).hexdigest()
