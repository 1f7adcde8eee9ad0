"""Opens the database that an address names: finds or makes it, owns it, brings its tables up to date.

Everything that can be wrong here is raised as DatabaseUnusable, in words for the operator, with the fix.
"""

import logging
import os
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass
from enum import Enum
from functools import partial
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, cast

import anyio
from sqlalchemy import URL, Connection, MetaData, inspect, make_url, text
from sqlalchemy.exc import ArgumentError, DataError, DBAPIError, IntegrityError, ProgrammingError

from agent.core.failpoints import failpoint
from agent.core.phrases import needs_extra
from agent.storage.copies.sqlite import copy_file
from agent.storage.database import Database, OwnedDatabase
from agent.storage.errors import BackupRefused, DatabaseUnusable, SchemaTooNew, SchemaTooOld
from agent.storage.sqlite import OwnerLock, SqliteDatabase, damage_in, emptied, sqlite_engine

if TYPE_CHECKING:  # loaded only when configured
    from agent.storage.postgres import PostgresDatabase

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
    still does. `former_tables` are those that older revisions have and the head has not.
    """

    head: str
    migrations: Path
    metadata: MetaData
    squashed: frozenset[str] = frozenset()
    last_to_know_all: str = ""
    former_tables: frozenset[str] = frozenset()


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
    make_tables(conn, schema)
    stamp(conn, schema)


def make_tables(conn: Connection, schema: Schema) -> None:
    """Make the tables alone; without `stamp` no gateway takes the database for one of ours."""
    schema.metadata.create_all(conn)
    # Of two indexes that promise as much, SQLite takes the one made last: it should be that of the few rows still open.
    for table in schema.metadata.sorted_tables:
        for index in table.indexes:
            if "where" in index.info:
                index.drop(conn)
                index.create(conn)


def stamp(conn: Connection, schema: Schema) -> None:
    """Let the database, whose tables are at the head, say so."""
    conn.execute(_REVISION_TABLE)
    conn.execute(_STAMP, {"head": schema.head})


_log = logging.getLogger("tieline.storage")
BackUp = Callable[[Database, str], Awaitable[Path]]  # keeps a database of that revision in a file, and gives the file
NAME = "tieline"  # of a backup of PostgreSQL
ENDINGS = (".db", ".tar", ".tar.encrypted")
TRANSFER = "database_transfer"  # the table of notes in a database that `agent.storage.copies.transfer` fills
BACKUPS = "backups"  # the folder of copies, beside a SQLite file and in a data directory
_KNOWN = "known forms: sqlite:///tieline.db (below TIELINE_HOME), sqlite:////full/path.db, postgresql://user@host/name"


async def open_database(
    url: str, home: Path, *, schema: Schema, back_up: BackUp | None = None, shared: bool = False
) -> OwnedDatabase:
    """The database, with its tables at the schema's head; this process owns it until `aclose`.

    `shared`: a PostgreSQL database may be open in other processes that say so.

    Before it is migrated, a SQLite file is copied to `<directory>/backups`, and `back_up` is asked for a copy of a
    PostgreSQL database. Without the copy nothing is migrated. Raises DatabaseUnusable.
    """
    target = target_of(url, home)
    if isinstance(target, Path):
        return await anyio.to_thread.run_sync(_open_sqlite, target, schema)
    return await _open_postgres(target, home, schema, back_up, shared=shared)


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
            bring_up_to_date(path, schema)
            database = SqliteDatabase(path, lock)
        except (DBAPIError, sqlite3.Error, OSError) as error:
            raise (damage_in(path, error) or DatabaseUnusable(_sqlite_fix(path, error))) from error
        undone.pop_all()
    return database


def bring_up_to_date(path: Path, schema: Schema, *, copied: bool = True) -> None:
    """Make or migrate the tables of a SQLite file that nobody else uses. Blocking. Raises DatabaseUnusable.

    `copied` False: the file is a copy itself, and none is made of it.
    """
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
            migrating = _migrating(stored, schema, path, path.parent)
            copy = _copied(path, str(stored), schema) if copied else None
            with conn.begin():
                _migrate(conn, migrating, schema, copy)
        elif state is not State.CURRENT:
            with conn.begin():
                _start_or_refuse(conn, schema, state, str(path))


def _copied(path: Path, stored: str, schema: Schema) -> Path:
    folder = path.parent / BACKUPS
    try:
        folder.mkdir(exist_ok=True, mode=0o700)
        copy = free_name(folder, f"{path.stem}-{stored}", ".db")
        copy_file(path, copy)
    except (BackupRefused, OSError) as error:
        raise _not_without_a_copy(error, folder, stored, schema) from error
    _log.info("copied the database to %s before its migration from %s to %s", copy, stored, schema.head)
    return copy


def _not_without_a_copy(error: Exception, folder: Path, stored: str | None, schema: Schema) -> DatabaseUnusable:
    return DatabaseUnusable(
        f"the database is of revision {stored} and was not migrated to {schema.head}, since it cannot be backed up "
        f"first: {error}; make {folder} writable, free some room there, or let it be a link to a folder on another disk"
    )


def _check_foreign_keys(conn: Connection) -> None:
    broken = conn.exec_driver_sql("PRAGMA foreign_key_check").all()
    if broken:
        raise DatabaseUnusable(f"the migration would leave {len(broken)} rows without what they refer to; nothing done")


def _sqlite_fix(path: Path, error: Exception) -> str:
    reason = str(error.orig) if isinstance(error, DBAPIError) else str(error)
    if "full" in reason:
        return f"no room for {path} ({reason}); free some space on that disk"
    return f"cannot open {path} ({reason}); make it and its directory writable for this user"


async def _open_postgres(
    url: URL, home: Path, schema: Schema, back_up: BackUp | None, *, shared: bool
) -> OwnedDatabase:
    postgres = await anyio.to_thread.run_sync(import_module, "agent.storage.postgres")
    database = postgres.PostgresDatabase(url)
    place = url.render_as_string(hide_password=True)
    async with AsyncExitStack() as undone:
        undone.push_async_callback(database.aclose)
        try:
            await database.own(shared=shared)
            async with database.migrating():
                await _up_to_date(database, url, home, schema, back_up, place)
        except (DBAPIError, OSError, TimeoutError) as error:
            reason = str(error.orig if isinstance(error, DBAPIError) else error).strip() or "no answer"
            raise DatabaseUnusable(f"cannot use {place}: {reason}; check that it runs and lets this user in") from error
        undone.pop_all()
    return cast(OwnedDatabase, database)


async def _up_to_date(
    database: "PostgresDatabase", url: URL, home: Path, schema: Schema, back_up: BackUp | None, place: str
) -> None:
    stored = await database.read(revision)
    state = await database.read(partial(state_of, schema=schema))
    if state is State.OTHER:
        migrating = await anyio.to_thread.run_sync(_migrating, stored, schema, url, home)
        copy = await _backed_up(database, home, str(stored), schema, back_up)
        _log.info("migrating %s from %s to %s", place, stored, schema.head)
        await database.migrate(partial(_migrate, migrating=migrating, schema=schema, copy=copy))
    elif state is not State.CURRENT:
        await database.migrate(partial(_start_or_refuse, schema=schema, state=state, place=place))


async def _backed_up(database: Database, home: Path, stored: str, schema: Schema, back_up: BackUp | None) -> Path:
    _log.info("the database is of revision %s: it is backed up now, and then migrated to %s", stored, schema.head)
    try:
        if back_up is None:
            raise BackupRefused("whoever opened it makes no backup")
        copy = await back_up(database, stored)
    except (BackupRefused, OSError) as error:
        raise _not_without_a_copy(error, home / BACKUPS, stored, schema) from error
    _log.info("backed the database up to %s before its migration from %s to %s", copy, stored, schema.head)
    return copy


def _start_or_refuse(conn: Connection, schema: Schema, state: State, place: str) -> None:
    if state is State.FOREIGN and inspect(conn).has_table(TRANSFER):
        raise DatabaseUnusable(
            f"{place} does not hold all of the former database yet: give `tieline migrate` with the same --to again, "
            "which goes on where it was interrupted"
        )
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
            f"the database was written by a newer Tieline (revision {stored}, this one knows {schema.head})"
        )
    return migrating


def _migrating(stored: str | None, schema: Schema, target: Path | URL, home: Path) -> ModuleType:
    """The same, with the way back in the refusal."""
    try:
        return migrating_from(stored, schema)
    except SchemaTooNew as error:
        raise SchemaTooNew(f"{error}; {way_back(target, home, schema)}") from None


def way_back(target: Path | URL, home: Path, schema: Schema) -> str:
    """The way out where a newer version has migrated the database, with the copy that it made of our tables."""
    folder = (target.parent if isinstance(target, Path) else home) / BACKUPS
    stem = f"{target.stem if isinstance(target, Path) else NAME}-{schema.head}"
    copies = [path for path in folder.glob("*") if _is_copy(path.name, stem)]
    newest = max(copies, key=lambda path: path.stat().st_mtime, default=None)
    first = "" if isinstance(target, Path) else "name an empty database in [database] url and "
    again = f"install that version again; or, without what was said since, {first}"
    if newest is None:
        return f"{again}`tieline restore FILE` with an older backup; copies are in {folder}"
    return f"{again}`tieline restore {newest}`"


def _is_copy(name: str, stem: str) -> bool:
    """Whether `free_name` could have given it that name."""
    ending = next((one for one in ENDINGS if name.endswith(one)), None)
    first, _, number = name.removesuffix(ending or "").rpartition("-")
    return ending is not None and (name == stem + ending or (first == stem and number.isdecimal()))


def _migrate(conn: Connection, migrating: ModuleType, schema: Schema, copy: Path | None) -> None:
    with ExitStack() as undone:
        if copy is not None:
            # All is taken back, and starts that a supervisor repeats would fill the disk with copies of one database.
            undone.callback(copy.unlink, missing_ok=True)
        try:
            migrating.upgrade(conn, schema.migrations)
        except DBAPIError as error:
            if not _is_of_the_statement(error):
                raise
            raise DatabaseUnusable(
                f"the migration to {schema.head} fails, and nothing of it was kept: {error.orig}; start the version "
                "before again, and report this"
            ) from error
        if conn.dialect.name == "sqlite":
            _check_foreign_keys(conn)
        undone.pop_all()
    failpoint("migration.within")


def _is_of_the_statement(error: DBAPIError) -> bool:
    """Whether the database refused what it was told, and is itself well."""
    code = getattr(error.orig, "sqlite_errorcode", None)
    if code is not None:
        return code & 0xFF in (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CONSTRAINT)
    return isinstance(error, ProgrammingError | IntegrityError | DataError)


def free_name(folder: Path, stem: str, ending: str) -> Path:
    """A file of that name that is not there yet: where it is, one with a number behind the stem."""
    number, free = 1, folder / f"{stem}{ending}"
    while free.exists():
        number += 1
        free = folder / f"{stem}-{number}{ending}"
    return free
