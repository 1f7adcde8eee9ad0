"""What started servers complain of, in files that do not fill the disk: the newest megabyte, and one older file.

Blocking: call it in a thread.
"""

import os
from pathlib import Path

MOST = 1_000_000  # bytes of one file


def bounded(path: Path) -> None:
    """Move what is too much to the older file; a program that writes the file meanwhile goes on at its new end.

    Raises OSError.
    """
    if not path.exists() or path.stat().st_size <= MOST:
        return
    with path.open("r+b") as file:
        file.seek(-MOST, os.SEEK_END)
        kept = file.read()
        older = older_of(path)
        older.write_bytes(kept)
        older.chmod(0o600)
        file.truncate(0)


def last_line(path: Path) -> str:
    """The newest line that says something, without control characters, 200 characters at most; "" without any.

    Raises OSError.
    """
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - 4_096))
        lines = file.read().decode("utf-8", "replace").splitlines()
    said = (" ".join("".join(sign if sign.isprintable() else " " for sign in line).split()) for line in reversed(lines))
    return next(filter(None, said), "")[:200]


def older_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.1")
