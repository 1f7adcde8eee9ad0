"""Opens the database that an address names: finds or makes it, owns it, brings its tables up to date.

Everything that can be wrong here is raised as DatabaseUnusable, in words for the operator, with the fix.
"""

import logging
import os
import sqlite3
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass
from enum import Enum
from functools import partial
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import cast

import anyio
from sqlalchemy import URL, Connection, MetaData, inspect, make_url, text
from sqlalchemy.exc import ArgumentError, DBAPIError

from agent.core.failpoints import failpoint
from agent.core.phrases import needs_extra
from agent.storage.backup import copy_file
from agent.storage.database import OwnedDatabase
from agent.storage.errors import DatabaseUnusable, SchemaTooNew, SchemaTooOld
from agent.storage.sqlite import OwnerLock, SqliteDatabase, damage_in, emptied, sqlite_engine

# Schema: the tables that must exist, and the state of a database. Imports no migration tool.

_REVISION_TABLE = text(
    "create table alembic_version (version_num varchar(32) not null,"
    " constraint alembic_version_pkc primary key (version_num))"
)
_STAMP = text("insert into alembic_version (version_num) values (:head)")
_REVISION = text("select version_num from alembic_version")


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """`head` is the newest revision in the directory `migrations`; `metadata` is what that revision makes.

    `squashed` are revisions that the migrations no longer begin at; `last_to_know_all` names the commit whose program
    still does.
    """

    head: str
    migrations: Path
    metadata: MetaData
    squashed: frozenset[str] = frozenset()
    last_to_know_all: str = ""


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
    """The state of a database: what must be done before it can be used."""
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


_log = logging.getLogger("tieline.storage")
_KNOWN = "known forms: sqlite:///tieline.db (below TIELINE_HOME), sqlite:////full/path.db, postgresql://user@host/name"


async def open_database(url: str, home: Path, *, schema: Schema) -> OwnedDatabase:
    """The database, with its tables at the schema's head; this process owns it until `aclose`.

    A SQLite file is copied to `<directory>/backups` before it is migrated. Raises DatabaseUnusable.
    """
    target = target_of(url, home)
    if isinstance(target, Path):
        return await anyio.to_thread.run_sync(_open_sqlite, target, schema)
    return await _open_postgres(target, schema)


def target_of(url: str, home: Path) -> Path | URL:
    """The target of the address: a file (relative to `home`), or a PostgreSQL server. Raises DatabaseUnusable."""
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        raise DatabaseUnusable(f"database.url is no address of a database; {_KNOWN}") from None
    match parsed.drivername.partition("+")[0]:
        case "sqlite":
            if parsed.host:
                raise DatabaseUnusable(f"{url!r} has two slashes where three are needed; {_KNOWN}")
            if not parsed.database or parsed.database == ":memory:":
                raise DatabaseUnusable(f"a database in memory keeps nothing; {_KNOWN}")
            return (home.expanduser() / parsed.database).resolve()
        case "postgresql" | "postgres":
            if missing := needs_extra("database.url: PostgreSQL", "postgresql", module="psycopg"):
                raise DatabaseUnusable(missing)
            return parsed.set(drivername="postgresql+psycopg")
        case other:
            raise DatabaseUnusable(f"database.url names {other!r}, which is not supported; {_KNOWN}")


def _open_sqlite(path: Path, schema: Schema) -> SqliteDatabase:
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise DatabaseUnusable(f"cannot make the directory {path.parent}: {error.strerror}") from error
    lock = OwnerLock.take(path.with_name(f"{path.name}.lock"))
    with ExitStack() as undone:
        undone.callback(lock.release)
        try:
            if (lost := emptied(path)) is not None:
                raise lost
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
            _bring_up_to_date(path, schema)
            database = SqliteDatabase(path, lock)
        except (DBAPIError, sqlite3.Error, OSError) as error:
            raise (damage_in(path, error) or DatabaseUnusable(_sqlite_fix(path, error))) from error
        undone.pop_all()
    return database


def _bring_up_to_date(path: Path, schema: Schema) -> None:
    # Rebuilding a table with foreign keys on would delete what refers to it.
    engine = sqlite_engine(path, foreign_keys=False)
    with engine.connect() as conn:
        mode = conn.exec_driver_sql("PRAGMA journal_mode").scalar_one()
        if mode != "wal":
            raise DatabaseUnusable(f"the file system of {path} cannot hold a database in use; choose a local disk")
        stored = revision(conn)
        state = state_of(conn, schema)
        conn.rollback()
        if state is State.OTHER:
            migrating = migrating_from(stored, schema)
            (path.parent / "backups").mkdir(exist_ok=True, mode=0o700)
            copy = _free_name(path.parent / "backups" / f"{path.stem}-{stored}.db")
            copy_file(path, copy)
            _log.info("copied the database to %s before its migration from %s to %s", copy, stored, schema.head)
            with conn.begin():
                _migrate(conn, migrating, schema)
                _check_foreign_keys(conn)
        elif state is not State.CURRENT:
            with conn.begin():
                _start_or_refuse(conn, schema, state, str(path))


def _check_foreign_keys(conn: Connection) -> None:
    broken = conn.exec_driver_sql("PRAGMA foreign_key_check").all()
    if broken:
        raise DatabaseUnusable(f"the migration would leave {len(broken)} rows without what they refer to; nothing done")


def _sqlite_fix(path: Path, error: Exception) -> str:
    reason = str(error.orig) if isinstance(error, DBAPIError) else str(error)
    if "full" in reason:
        return f"no room for {path} ({reason}); free some space on that disk"
    return f"cannot open {path} ({reason}); make it and its directory writable for this user"


async def _open_postgres(url: URL, schema: Schema) -> OwnedDatabase:
    postgres = await anyio.to_thread.run_sync(import_module, "agent.storage.postgres")
    database = postgres.PostgresDatabase(url)
    place = url.render_as_string(hide_password=True)
    async with AsyncExitStack() as undone:
        undone.push_async_callback(database.aclose)
        try:
            await database.own()
            stored = await database.read(revision)
            state = await database.read(partial(state_of, schema=schema))
            if state is State.OTHER:
                migrating = await anyio.to_thread.run_sync(migrating_from, stored, schema)
                _log.info("migrating %s from %s to %s", place, stored, schema.head)
                await database.migrate(partial(_migrate, migrating=migrating, schema=schema))
            elif state is not State.CURRENT:
                await database.migrate(partial(_start_or_refuse, schema=schema, state=state, place=place))
        except (DBAPIError, OSError, TimeoutError) as error:
            reason = str(error.orig if isinstance(error, DBAPIError) else error).strip() or "no answer"
            raise DatabaseUnusable(f"cannot use {place}: {reason}; check that it runs and lets this user in") from error
        undone.pop_all()
    return cast(OwnedDatabase, database)


def _start_or_refuse(conn: Connection, schema: Schema, state: State, place: str) -> None:
    if state is State.FOREIGN:
        raise DatabaseUnusable(f"{place} holds tables that are not Tieline's; name an empty database")
    create(conn, schema)


def migrating_from(stored: str | None, schema: Schema) -> ModuleType:
    """The migration module, once it is sure that it knows the stored revision. Raises SchemaTooNew or SchemaTooOld."""
    migrating = import_module("agent.storage.migrate")
    if stored in schema.squashed:
        raise SchemaTooOld(
            f"the database is of an older Tieline (revision {stored}), which this version does not upgrade by itself; "
            f"start it once with the program of commit {schema.last_to_know_all}, which does, and then with this one"
        )
    if stored not in migrating.known_revisions(schema.migrations):
        raise SchemaTooNew(
            f"the database was written by a newer Tieline (revision {stored}, this one knows {schema.head}); "
            "install that version again, or go back to the backup it made before its migration"
        )
    return migrating


def _migrate(conn: Connection, migrating: ModuleType, schema: Schema) -> None:
    migrating.upgrade(conn, schema.migrations)
    failpoint("migration.within")


def _free_name(path: Path) -> Path:
    number, free = 1, path
    while free.exists():
        number += 1
        free = path.with_stem(f"{path.stem}-{number}")
    return free
