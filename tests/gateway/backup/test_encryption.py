"""An encrypted file is read with its passphrase alone, and only as it was written."""

from collections.abc import Callable
from io import BytesIO

import pytest

from agent.storage.errors import BackupRefused
from gateway.backup.archive import MAGIC
from gateway.backup.encryption import PIECE, TAG, EncryptedReader, EncryptedWriter

pytestmark = pytest.mark.requirement("G-36")

QUICK = 2**4  # the cost of the key does not matter here


def encrypted(plain: bytes) -> bytes:
    out = BytesIO()
    writer = EncryptedWriter(out, "the passphrase", magic=MAGIC, n=QUICK)
    for start in range(0, len(plain), 10_000):
        writer.write(plain[start : start + 10_000])
    writer.finish()
    return out.getvalue()


def decrypted(data: bytes, passphrase: str = "the passphrase") -> bytes:
    opened = BytesIO(data)
    opened.seek(len(MAGIC))
    reader, parts = EncryptedReader(opened, passphrase, "it", magic=MAGIC), []
    while part := reader.read(7_777):
        parts.append(part)
    return b"".join(parts)


@pytest.mark.parametrize("size", [0, 1, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE, 3 * PIECE + 5])
def test_what_was_written_is_read(size: int) -> None:
    plain = bytes(number % 251 for number in range(size))
    data = encrypted(plain)
    assert decrypted(data) == plain
    assert size < 100 or plain[:100] not in data


HEADER = len(encrypted(b"")) - TAG
THREE = bytes(3 * PIECE)


def swapped(data: bytes) -> bytes:
    first, second = data[HEADER : HEADER + PIECE + TAG], data[HEADER + PIECE + TAG : HEADER + 2 * (PIECE + TAG)]
    return data[:HEADER] + second + first + data[HEADER + 2 * (PIECE + TAG) :]


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        pytest.param(lambda data: data[:-1], "cut or changed", id="a byte is missing"),
        pytest.param(lambda data: data[: HEADER + 2 * (PIECE + TAG)], "cut or changed", id="the last piece is missing"),
        pytest.param(lambda data: data[:HEADER], "cut or changed", id="all pieces are missing"),
        pytest.param(lambda data: data + b"x", "cut or changed", id="something is added"),
        pytest.param(swapped, "cut or changed", id="pieces change places"),
        pytest.param(lambda data: data[:-5] + b"\0" + data[-4:], "cut or changed", id="a byte is another"),
        pytest.param(lambda data: data.replace(b'"p": 1', b'"p": 9'), "damaged", id="another cost"),
        pytest.param(lambda data: data.replace(b'"n": 16', b'"n": 99'), "damaged", id="a cost that cannot be"),
        pytest.param(lambda data: data.replace(b'"n": 16', b'"n": 1073741824'), "damaged", id="a cost beyond bounds"),
        pytest.param(lambda data: data.replace(b"AES-256", b"AES-257"), "first lines were changed", id="the header"),
        pytest.param(lambda data: data[: len(MAGIC) + 10], "damaged", id="a header that is cut"),
    ],
)
def test_what_was_changed_is_refused(spoil: Callable[[bytes], bytes], words: str) -> None:
    with pytest.raises(BackupRefused, match=words):
        decrypted(spoil(encrypted(THREE)))


def test_another_passphrase_is_told_as_such() -> None:
    with pytest.raises(BackupRefused, match="passphrase is not that of"):
        decrypted(encrypted(b"text"), "another")
