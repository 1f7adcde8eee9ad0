"""What the tables must look like, and in what state a database is. Imports no migration tool."""

from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from sqlalchemy import Connection, MetaData, inspect, text

_REVISION_TABLE = text(
    "create table alembic_version (version_num varchar(32) not null,"
    " constraint alembic_version_pkc primary key (version_num))"
)
_STAMP = text("insert into alembic_version (version_num) values (:head)")
_REVISION = text("select version_num from alembic_version")


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """`head` is the newest revision in the directory `migrations`; `metadata` is what that revision makes."""

    head: str
    migrations: Path
    metadata: MetaData


class State(Enum):
    EMPTY = "empty"
    CURRENT = "current"
    OTHER = "of another revision"
    FOREIGN = "not ours"


def revision(conn: Connection) -> str | None:
    """The stored revision; None where no migration has ever run."""
    if not inspect(conn).has_table("alembic_version"):
        return None
    return conn.execute(_REVISION).scalar_one_or_none()


def state_of(conn: Connection, schema: Schema) -> State:
    """What must be done before the database can be used."""
    stored = revision(conn)
    if stored is not None:
        return State.CURRENT if stored == schema.head else State.OTHER
    return State.FOREIGN if inspect(conn).get_table_names() else State.EMPTY


def create(conn: Connection, schema: Schema) -> None:
    """Make all tables of an empty database at once.

    What the migrations make is the same (a test holds it), but loading the migration tool takes over a second.
    """
    schema.metadata.create_all(conn)
    # Of two indexes that promise as much, SQLite takes the one made last: it should be that of the few rows still open.
    for table in schema.metadata.sorted_tables:
        for index in table.indexes:
            if "where" in index.info:
                index.drop(conn)
                index.create(conn)
    conn.execute(_REVISION_TABLE)
    conn.execute(_STAMP, {"head": schema.head})
