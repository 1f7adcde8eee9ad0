"""A look at the database that an address names, for the doctor: opens it read-only, makes and changes nothing."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from sqlalchemy import Connection, create_engine
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from agent.storage.errors import DatabaseUnusable
from agent.storage.opening import target_of
from agent.storage.schema import Schema, State, state_of

T = TypeVar("T")

CONNECT_WITHIN_S = 5


def look(url: str, home: Path, schema: Schema) -> State | None:
    """How its tables stand; None for a SQLite file that is not there yet. Blocking. Raises DatabaseUnusable."""
    target = target_of(url, home)
    if isinstance(target, Path) and not target.exists():
        return None
    return read(url, home, lambda conn: state_of(conn, schema))


def read(url: str, home: Path, work: Callable[[Connection], T]) -> T:
    """Read something in a database that is there. Blocking. Raises DatabaseUnusable."""
    target = target_of(url, home)
    if isinstance(target, Path):
        engine = create_engine(f"sqlite:///file:{target}?mode=ro&uri=true", poolclass=NullPool)
    else:
        options = {"connect_timeout": CONNECT_WITHIN_S, "options": "-c default_transaction_read_only=on"}
        engine = create_engine(target, poolclass=NullPool, connect_args=options)
    try:
        with engine.connect() as conn:
            return work(conn)
    except (DBAPIError, ImportError) as error:
        reason = str(error.orig if isinstance(error, DBAPIError) else error).strip()
        raise DatabaseUnusable(f"cannot read the database: {reason}") from error
