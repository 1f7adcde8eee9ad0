"""Dump and load of a PostgreSQL database: one file a table, as COPY writes it, all of one moment. Blocking."""

import re
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import psycopg
from sqlalchemy import URL, Connection, Engine, Table, create_engine, inspect, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from agent.storage.connect import Schema, State, create, migrating_from, revision, state_of
from agent.storage.copies.dumped_tables import PIECE, DumpedTable, name_of
from agent.storage.copies.restore import MARGIN, put_aside
from agent.storage.errors import BackupRefused, DatabaseHeld
from agent.storage.postgres import OWNER_KEY

CONNECT_WITHIN_S = 10
NUMBERED = ("id", "no")  # what the column of such numbers may be called
_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")


_COLUMNS = text(
    # pgvector's own columns are made anew at a start
    "SELECT column_name FROM information_schema.columns WHERE table_schema = current_schema() AND table_name = :name"
    " AND udt_name <> 'vector' ORDER BY ordinal_position"
)


def dump(
    url: URL, folder: Path, schema: Schema, without: Collection[str] = ()
) -> tuple[str | None, tuple[DumpedTable, ...]]:
    """Write all tables into the folder, those first that others refer to; gives the revision and the tables.

    They are our tables with the columns that the database has: it may be of an older version. Reads one snapshot: what
    others commit meanwhile is not in it, and nobody waits. Tables in `without` are left out. Raises BackupRefused.
    """
    engine = engine_of(url)
    try:
        with engine.connect() as conn:
            conn = conn.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
            stored = revision(conn)
            ours = {*schema.metadata.tables, *schema.former_tables}
            there = [name for name, _ in inspect(conn).get_sorted_table_and_fkc_names() if name in ours - {*without}]
            return stored, tuple(_dump_table(conn, name, folder) for name in there)
    except (DBAPIError, psycopg.Error, OSError) as error:
        raise BackupRefused(f"the database cannot be copied: {reason_of(error)}") from error
    finally:
        engine.dispose()


def _dump_table(conn: Connection, name: str, folder: Path) -> DumpedTable:
    columns = tuple(conn.execute(_COLUMNS, {"name": name}).scalars())
    rows, statement = 0, f"COPY {quoted(name)} ({', '.join(map(quoted, columns))}) TO STDOUT"
    with (folder / name_of(name)).open("wb") as file, cursor_of(conn) as cursor, cursor.copy(statement) as copied:
        for block in copied:
            rows += bytes(block).count(b"\n")  # one within a value is written as two characters
            file.write(block)
    return DumpedTable(name=name, columns=columns, rows=rows, last=_last(conn, name, columns))


def _last(conn: Connection, table: str, columns: tuple[str, ...]) -> int | None:
    numbered = _numbered(conn, table, columns)
    if numbered is None:
        return None
    found = conn.execute(text(f"SELECT last_value, is_called FROM {numbered[1]}")).one()  # noqa: S608 - the server's name
    return int(found.last_value) if found.is_called else 0


def _numbered(conn: Connection, table: str, columns: tuple[str, ...]) -> tuple[str, str] | None:
    """The column whose numbers the server gives, and its sequence, quoted by the server; None where there is none."""
    asked = text("SELECT pg_get_serial_sequence(:table, :column)")
    for column in NUMBERED:
        if column in columns:
            found: str | None = conn.execute(asked, {"table": quoted(table), "column": column}).scalar_one()
            if found is not None:
                return column, found
    return None


def load(
    url: URL,
    folder: Path,
    tables: tuple[DumpedTable, ...],
    stored: str,
    *,
    schema: Schema,
    at: int,
    others: Callable[[Connection], int],
    before_commit: Callable[[], None],
    keep_open: bool = False,
) -> tuple[int, int, int]:
    """Fill an empty database; gives what was put aside, as `agent.storage.copies.restore` does. Raises BackupRefused.

    One transaction: it is filled whole or not at all. `before_commit` is called when only the commit is left.
    """
    wrong = [name for one in tables for name in (one.name, *one.columns) if not _NAME.fullmatch(name)]
    if wrong:
        raise BackupRefused(f"the backup names a table or column {wrong[0]!r}, which no version of Tieline has")
    engine, place = engine_of(url), url.render_as_string(hide_password=True)
    try:
        with engine.begin() as conn:
            _own(conn, place)
            if state_of(conn, schema) is not State.EMPTY:
                raise BackupRefused(f"{place} holds tables already, which stay as they are; name an empty database")
            if stored == schema.head:
                create(conn, schema)
            else:
                migrating_from(stored, schema).upgrade(conn, schema.migrations, stored)
            for one in tables:
                _load_table(conn, one, folder)
            _number_on(conn, tables, schema.metadata.tables)
            aside = (0, 0, 0) if keep_open else put_aside(conn, others, at)
            before_commit()
        return aside
    except (DBAPIError, psycopg.Error) as error:
        raise BackupRefused(f"{place} cannot be filled: {reason_of(error)}; nothing was changed") from error
    finally:
        engine.dispose()


def _own(conn: Connection, place: str) -> None:
    if not conn.execute(text(f"SELECT pg_try_advisory_xact_lock({OWNER_KEY})")).scalar_one():
        raise DatabaseHeld(f"{place} is in use by another process; stop that one first", pid=None)


def _load_table(conn: Connection, table: DumpedTable, folder: Path) -> None:
    statement = f"COPY {quoted(table.name)} ({', '.join(map(quoted, table.columns))}) FROM STDIN"
    with (folder / name_of(table.name)).open("rb") as file, cursor_of(conn) as cursor, cursor.copy(statement) as copied:
        for piece in iter(lambda: file.read(PIECE), b""):
            copied.write(piece)


def _number_on(conn: Connection, tables: tuple[DumpedTable, ...], known: Mapping[str, Table]) -> None:
    """Let new numbers begin after those given; `MARGIN` later where buttons of old messages name them."""
    for one in tables:
        numbered = _numbered(conn, one.name, one.columns)
        if numbered is None:
            continue
        column, sequence = numbered
        last = one.last
        if last is None:  # of an archive that was made when only `id` counted as such a column
            greatest = f"SELECT max({quoted(column)}) FROM {quoted(one.name)}"  # noqa: S608 - matched by _NAME
            last = conn.execute(text(greatest)).scalar_one() or 0
        table = known.get(one.name)
        named = table is not None and bool(table.dialect_options["sqlite"]["autoincrement"])
        if (last := last + (MARGIN if named else 0)) > 0:
            conn.execute(text("SELECT setval(:sequence, :last)"), {"sequence": sequence, "last": last})


def engine_of(url: URL) -> Engine:
    """An engine without a pool, which waits for the server only so long."""
    options = {"connect_timeout": CONNECT_WITHIN_S, "client_encoding": "UTF8"}
    return create_engine(url, poolclass=NullPool, connect_args=options, hide_parameters=True)


def cursor_of(conn: Connection) -> Any:
    """A cursor of the driver, which alone knows COPY."""
    return conn.connection.driver_connection.cursor()  # type: ignore[union-attr]


def reason_of(error: Exception) -> str:
    """The server's own words."""
    return str(error.orig if isinstance(error, DBAPIError) else error).strip() or type(error).__name__


def quoted(name: str) -> str:
    """The name as an identifier of SQL."""
    return '"' + name.replace('"', '""') + '"'
