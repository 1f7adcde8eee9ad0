"""Takes out of SQLite's file what was deleted: free pages and the log keep old bytes until then.

On PostgreSQL that is the server's business (VACUUM): nothing is done here.
"""

from typing import Any

from sqlalchemy import Connection, select, update

from agent.storage.memory_tables import memory_erasure


def is_due(conn: Connection) -> bool:
    """Whether something was erased since the last time."""
    return (
        conn.execute(select(memory_erasure.c.id).where(memory_erasure.c.cleaned_at.is_(None)).limit(1)).first()
        is not None
    )


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
