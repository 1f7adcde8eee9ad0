"""A copy of a running SQLite database, whole and consistent, while others go on writing."""

import os
import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from urllib.parse import quote

import anyio

from agent.storage.database import Database, RetryingDatabase
from agent.storage.errors import BackupRefused
from agent.storage.sqlite import SqliteDatabase


async def back_up(database: Database, to: Path) -> int:
    """Copy the database to the new file `to` and return its size in bytes.

    The file is there whole or not at all, and nobody else may read it. Raises BackupRefused with what to do instead.
    """
    inner = database.inner if isinstance(database, RetryingDatabase) else database
    if not isinstance(inner, SqliteDatabase):
        raise BackupRefused(
            "PostgreSQL has no single file to copy: name an archive, FILE.tar, or use its own tool: pg_dump "
            "--format=custom --file=tieline.dump DATABASE (and pg_restore --clean --dbname=DATABASE tieline.dump)"
        )
    return await anyio.to_thread.run_sync(copy_file, inner.path, to)


def copy_file(database: Path, to: Path) -> int:
    """The same, blocking, by path; `database` may be in use by this process."""
    if to.exists():
        raise BackupRefused(f"{to} exists already; name a new file")
    if not to.parent.exists():  # not made: a backup disk that is not mounted must not go unnoticed
        raise BackupRefused(f"there is no folder {to.parent}; make it, or see whether its disk is there")
    partial = to.with_name(f".{to.name}.partial")
    # A full disk leaves SQLite's journal of the copy behind, which would be played into the next one of that name.
    parts = (partial, partial.with_name(f"{partial.name}-journal"))
    try:
        for part in parts:
            part.unlink(missing_ok=True)
        os.close(os.open(partial, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        _copy(database, partial)
        size = partial.stat().st_size
        partial.rename(to)
    except (OSError, sqlite3.Error) as error:
        for part in parts:
            with suppress(OSError):
                part.unlink()
        raise BackupRefused(f"cannot write the backup {to}: {error}") from error
    return size


def _copy(database: Path, to: Path) -> None:
    source_uri = f"file:{quote(str(database))}?mode=ro"
    with closing(sqlite3.connect(source_uri, uri=True)) as source, closing(sqlite3.connect(to)) as target:
        source.backup(target)  # in one step: a snapshot that does not hold up the writer
        target.execute("PRAGMA journal_mode = DELETE").fetchall()  # one file, nothing beside it
        found = target.execute("PRAGMA quick_check").fetchone()[0]
        if found != "ok":
            raise sqlite3.DatabaseError(f"the copy is damaged: {found}")
    with to.open("rb+") as copied:
        os.fsync(copied.fileno())
