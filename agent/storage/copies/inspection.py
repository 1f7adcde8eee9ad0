"""Inspection of a database for the doctor and the dashboard: reads alone, makes and changes nothing."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TypeVar

from sqlalchemy import Connection, create_engine, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from agent.storage.connect import Schema, State, migrating_from, revision, state_of, target_of
from agent.storage.errors import DatabaseUnusable
from agent.storage.sqlite import damage_in, damaged, emptied

T = TypeVar("T")

CONNECT_WITHIN_S = 5
_SIZE_OF_FILE = text("select page_count * page_size from pragma_page_count(), pragma_page_size()")
_OF_SERVER = text(
    "select pg_database_size(current_database()) as size, clock_timestamp() as now,"
    " current_setting('server_version') as version"
)


def look(url: str, home: Path, schema: Schema) -> State | None:
    """The state of its tables; None for a SQLite file that is not there yet. Blocking. Raises DatabaseUnusable."""
    target = target_of(url, home)
    if isinstance(target, Path) and not target.exists():
        return None
    if isinstance(target, Path) and (lost := emptied(target)) is not None:
        raise lost
    return read(url, home, lambda conn: state_of(conn, schema))


def look_at_revision(url: str, home: Path, schema: Schema) -> None:
    """Make sure that tables of another revision can be migrated. Blocking. Raises DatabaseUnusable."""
    migrating_from(read(url, home, revision), schema)


def check_pages(url: str, home: Path) -> None:
    """Read every page of a SQLite file that is there. Blocking; takes as long as that. Raises DatabaseUnusable.

    PostgreSQL checks its pages by itself when it reads them.
    """
    target = target_of(url, home)
    if isinstance(target, Path):
        found = read(url, home, lambda conn: conn.exec_driver_sql("PRAGMA quick_check(1)").scalar_one())
        if found != "ok":
            raise damaged(target, found.splitlines()[-1])


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
        if isinstance(target, Path) and (damage := damage_in(target, error)) is not None:
            raise damage from error
        reason = str(error.orig if isinstance(error, DBAPIError) else error).strip()
        raise DatabaseUnusable(f"cannot read the database: {reason}") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseState:
    """The state of an open database. `size` in bytes; `now` is a server's clock, which SQLite has not."""

    revision: str | None
    size: int
    server: str = ""
    now: datetime | None = None


def database_state(conn: Connection) -> DatabaseState:
    """Its revision, and what a server tells of itself."""
    if conn.dialect.name != "postgresql":
        return DatabaseState(revision=revision(conn), size=conn.execute(_SIZE_OF_FILE).scalar_one())
    row = conn.execute(_OF_SERVER).one()
    return DatabaseState(revision=revision(conn), server=row.version, size=row.size, now=row.now)
