"""PostgreSQL through psycopg 3: the same stores, run inside an asynchronous connection. Loaded only when configured."""

import logging
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import TypeVar

import anyio
from sqlalchemy import URL, Connection, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from agent.storage.database import Dialect
from agent.storage.errors import DatabaseHeld

T = TypeVar("T")
_log = logging.getLogger("tieline.storage")

POOL = 10
LONGEST_S = 60.0  # a transaction of ours that takes longer hangs
LONGEST_MIGRATION_S = 3600.0
OWN_EVERY_S = 5.0  # how often the owner makes sure that it is one
OWNER_KEY = 0x7469656C  # "tiel": the advisory lock of gateways, which share it, and of who must be alone
MIGRATING_KEY = 0x7469656D  # of the one that brings the tables up to date
PROCESS = secrets.token_hex(6)  # the name of this process in the database, for as long as it lives
APPLICATION = f"tieline-{PROCESS}"  # of each of its connections, so that others can end those of one that is frozen

# Without these a connection whose server vanished is noticed after hours.
CONNECT = {
    "connect_timeout": 10,
    "keepalives": 1,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
}


class PostgresDatabase:
    """A `Database` over a pool. Made by `agent.storage.connect`, which has migrated it."""

    dialect: Dialect = "postgresql"

    def __init__(self, url: URL) -> None:
        connect = {**CONNECT, "application_name": APPLICATION}
        self.url = url
        self._engine: AsyncEngine = create_async_engine(
            url, pool_size=POOL, max_overflow=0, pool_timeout=30, connect_args=connect, hide_parameters=True
        )
        # One snapshot for the whole read, as SQLite gives it.
        self._reading = self._engine.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
        self._owner: AsyncConnection | None = None
        self._shares = False

    async def own(self, *, shared: bool = False) -> None:
        """Become the owner, for as long as this connection lives: see `keep`. Raises DatabaseHeld.

        `shared`: beside other gateways, but with nobody who must be alone.
        """
        self._shares = shared
        with anyio.fail_after(LONGEST_S, shield=True):
            connection = await self._engine.connect()
            self._owner = await connection.execution_options(isolation_level="AUTOCOMMIT")
            kind = "_shared" if shared else ""
            if (await self._owner.execute(text(f"select pg_try_advisory_lock{kind}({OWNER_KEY})"))).scalar_one():
                return
            holder = await self._owner.execute(
                text(
                    "select a.application_name, a.pid from pg_locks l join pg_stat_activity a using (pid)"
                    " where l.locktype = 'advisory' and l.granted and l.objid = :key"
                    " and l.database = (select oid from pg_database where datname = current_database())"
                ),
                {"key": OWNER_KEY},
            )
            row = holder.first()
        who = f"{row.application_name} (server process {row.pid})" if row else "another process"
        raise DatabaseHeld(
            f"the database {self._engine.url.database} is in use by {who}; stop that one first", pid=None
        )

    async def keep(self) -> None:
        """Own it anew when the connection broke, which lets another process start. Raises DatabaseHeld if one has.

        In between two may run: epochs keep their writes apart, and so no turn is stored twice (docs/reliability.md).
        """
        while True:
            await anyio.sleep(OWN_EVERY_S)
            try:
                assert self._owner is not None
                with anyio.fail_after(OWN_EVERY_S):
                    await self._owner.execute(text("select 1"))
            except (DBAPIError, TimeoutError, OSError) as error:
                _log.warning("the connection that owns the database broke: %s", type(error).__name__)
                await self._own_anew()

    async def _own_anew(self) -> None:
        lost, self._owner = self._owner, None
        if lost is not None:
            with anyio.move_on_after(OWN_EVERY_S), suppress(DBAPIError, OSError):
                await lost.invalidate()
        while True:
            try:
                await self.own(shared=self._shares)
            except (DBAPIError, TimeoutError, OSError):
                await anyio.sleep(1.0)  # the server is not back yet
            else:
                _log.warning("the database is owned again")
                return

    @asynccontextmanager
    async def migrating(self) -> AsyncIterator[None]:
        """Inside, no other process brings the tables up to date."""
        assert self._owner is not None
        await self._owner.execute(text(f"select pg_advisory_lock({MIGRATING_KEY})"))
        try:
            yield
        finally:
            with anyio.CancelScope(shield=True), suppress(DBAPIError, OSError):
                await self._owner.execute(text(f"select pg_advisory_unlock({MIGRATING_KEY})"))

    async def write(self, work: Callable[[Connection], T]) -> T:
        return await self._write(work, LONGEST_S)

    async def migrate(self, work: Callable[[Connection], T]) -> T:
        """A write that may take long."""
        return await self._write(work, LONGEST_MIGRATION_S)

    async def read(self, work: Callable[[Connection], T]) -> T:
        await anyio.lowlevel.checkpoint_if_cancelled()
        with anyio.fail_after(LONGEST_S, shield=True):
            async with self._reading.connect() as connection:
                return await connection.run_sync(work)

    async def _write(self, work: Callable[[Connection], T], longest_s: float) -> T:
        await anyio.lowlevel.checkpoint_if_cancelled()
        with anyio.fail_after(longest_s, shield=True):
            async with self._engine.begin() as connection:
                return await connection.run_sync(work)

    async def aclose(self) -> None:
        """Close every connection. May be called twice."""
        with anyio.CancelScope(shield=True):
            if self._owner is not None:
                await self._owner.close()
                self._owner = None
            await self._engine.dispose()
