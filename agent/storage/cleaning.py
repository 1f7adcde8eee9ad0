"""Takes out of SQLite's file what was deleted: full-text indexes, free pages and the log keep old bytes until then.

On PostgreSQL that is the server's business (VACUUM): nothing is done here.
"""

from typing import Any

from sqlalchemy import Connection, func, select, text, update

from agent.storage.memory_tables import memory_erasure

LARGE = 256_000_000  # bytes of a file that takes seconds to rebuild, in which nobody writes
NOT_BEFORE_US = 24 * 3600 * 1_000_000  # since the last time, for a large one
MERGED = 200  # pages of a full-text index in one transaction
INDEXES = ("memory_fts", "passage_fts")


def is_due(conn: Connection, *, at: int, large: int = LARGE) -> bool:
    """Whether something was erased since the last time. A file of `large` bytes or more is rebuilt once a day."""
    waiting = select(memory_erasure.c.id).where(memory_erasure.c.cleaned_at.is_(None)).limit(1)
    if conn.execute(waiting).first() is None:
        return False
    last = conn.execute(select(func.max(memory_erasure.c.cleaned_at))).scalar_one()
    return last is None or at - last >= NOT_BEFORE_US or _size(conn) < large


def merge(conn: Connection, *, first: bool) -> bool:
    """Some of the work that leaves nothing of removed rows in the full-text indexes; whether it is done.

    `first` begins it: all pieces of an index are to become one (SQLite, FTS5: "merge" with a negative number).
    """
    if conn.dialect.name != "sqlite":
        return True
    raw: Any = conn.connection.driver_connection
    done = not first
    for index in INDEXES:
        before, pages = raw.total_changes, -MERGED if first else MERGED
        conn.execute(text(f"INSERT INTO {index}({index}, rank) VALUES ('merge', {pages})"))  # noqa: S608 - our own
        done = done and raw.total_changes - before < 2  # the command itself may count as one
    return done


def _size(conn: Connection) -> int:
    if conn.dialect.name != "sqlite":
        return 0
    pages, each = (conn.execute(text(f"PRAGMA {name}")).scalar_one() for name in ("page_count", "page_size"))
    return int(pages * each)


def clean(conn: Connection) -> bool:
    """Rebuild the file, alone in the writing thread; False when others share the transaction: ask again.

    Takes as long as it takes to copy the file. Nobody writes meanwhile.
    """
    if conn.dialect.name != "sqlite":
        return True
    raw: Any = conn.connection.driver_connection
    if raw.in_transaction:
        return False
    raw.execute("VACUUM")
    raw.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    return True


def note_cleaned(conn: Connection, *, at: int) -> None:
    """It was done."""
    conn.execute(update(memory_erasure).where(memory_erasure.c.cleaned_at.is_(None)).values(cleaned_at=at))
