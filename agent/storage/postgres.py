"""PostgreSQL through psycopg 3: the same stores, run by threads with a connection each. Loaded only when configured.

Threads and not psycopg's asynchronous connections: these take three times the CPU for each statement.
"""

import asyncio
import logging
import os
import queue
import socket
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import anyio
import psycopg
from sqlalchemy import URL, Connection, Engine, NullPool, create_engine, text
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from agent.storage.database import APPLICATION, Dialect, Job
from agent.storage.errors import DatabaseHeld

T = TypeVar("T")
_log = logging.getLogger("tieline.storage")

CONNECTIONS = 6
PREPARED = 400  # statements that a connection keeps ready; a turn alone makes some eighty different ones
LONGEST_S = 60.0  # a transaction of ours that takes longer hangs
LONGEST_MIGRATION_S = 3600.0
GRACE_S = 5.0  # for a hanging one to end as it is told, before its connection is cut
OWN_EVERY_S = 5.0  # how often the owner makes sure that it is one
OWNER_KEY = 0x7469656C  # "tiel": the advisory lock of gateways, which share it, and of who must be alone
MIGRATING_KEY = 0x7469656D  # of the one that brings the tables up to date

# Without these a connection whose server vanished is noticed after hours.
CONNECT = {
    "connect_timeout": 10,
    "keepalives": 1,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 11_000,  # as long for what was sent and not acknowledged, which keep-alives leave out
}


class PostgresDatabase:
    """A `Database` over several connections. Made by `agent.storage.connect`, which has migrated it."""

    dialect: Dialect = "postgresql"

    def __init__(self, url: URL, *, longest_s: float = LONGEST_S, grace_s: float = GRACE_S) -> None:
        connect = {**CONNECT, "application_name": APPLICATION}
        self.url = url
        self._engine = create_engine(url, poolclass=NullPool, connect_args=connect, hide_parameters=True)
        self._sessions: list[_Session] = []
        self._free: list[_Session] = []  # the one used last comes first: its statements are prepared
        self._waiting: deque[_Task] = deque()
        self._breaks = _Breaks()
        self._longest_s = longest_s
        self._grace_s = grace_s
        self._closed = False
        self._owner: _Session | None = None
        self._shares = False

    async def own(self, *, shared: bool = False) -> None:
        """Become the owner, for as long as this connection lives: see `keep`. Raises DatabaseHeld.

        `shared`: beside other gateways, but with nobody who must be alone.
        """
        self._shares = shared
        self._owner = _Session(self._engine, _Breaks(), self._grace_s)
        with ExitStack() as undone:
            undone.callback(self._disown)
            holder = await self._by_owner(partial(_take_ownership, shared=shared), LONGEST_S)
            if holder is not None:
                raise DatabaseHeld(
                    f"the database {self.url.database} is in use by {holder}; stop that one first", pid=None
                )
            undone.pop_all()

    def _disown(self) -> None:
        owner, self._owner = self._owner, None
        if owner is not None:
            owner.cut()

    async def keep(self) -> None:
        """Own it anew when the connection broke, which lets another process start. Raises DatabaseHeld if one has.

        In between two may run: epochs keep their writes apart, and so no turn is stored twice (docs/reliability.md).
        """
        while True:
            await anyio.sleep(OWN_EVERY_S)
            try:
                await self._by_owner(lambda conn: conn.execute(text("select 1")), OWN_EVERY_S)
            except (DBAPIError, TimeoutError, OSError) as error:
                _log.warning("the connection that owns the database broke: %s", type(error).__name__)
                await self._own_anew()

    async def _by_owner(self, work: Callable[[Connection], T], within_s: float | None) -> T:
        """Let the owner's connection do it. Raises TimeoutError."""
        assert self._owner is not None
        job = Job(work)
        self._owner.give(_Task(job, reading=False, longest_s=None))
        with anyio.fail_after(within_s):
            return await job.outcome(may_leave=True)

    async def _own_anew(self) -> None:
        self._disown()
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
        await self._by_owner(lambda conn: conn.execute(text(f"select pg_advisory_lock({MIGRATING_KEY})")), None)
        try:
            yield
        finally:
            unlock = text(f"select pg_advisory_unlock({MIGRATING_KEY})")
            with anyio.CancelScope(shield=True), suppress(DBAPIError, OSError, TimeoutError):
                await self._by_owner(lambda conn: conn.execute(unlock), LONGEST_S)

    async def write(self, work: Callable[[Connection], T]) -> T:
        return await self._do(work, reading=False, longest_s=self._longest_s)

    async def migrate(self, work: Callable[[Connection], T]) -> T:
        """A write that may take long."""
        return await self._do(work, reading=False, longest_s=LONGEST_MIGRATION_S)

    async def read(self, work: Callable[[Connection], T]) -> T:
        return await self._do(work, reading=True, longest_s=self._longest_s)

    async def _do(self, work: Callable[[Connection], T], *, reading: bool, longest_s: float) -> T:
        await anyio.lowlevel.checkpoint_if_cancelled()
        if self._closed:
            raise RuntimeError("the database is closed")
        job = Job(work)
        task = _Task(job, reading, longest_s)
        if self._free:
            self._free.pop().give(task)
        elif len(self._sessions) < CONNECTIONS:
            self._sessions.append(_Session(self._engine, self._breaks, self._grace_s, self._next))
            self._sessions[-1].give(task)
        else:
            self._waiting.append(task)
        return await job.outcome(may_leave=reading)

    def _next(self, session: "_Session") -> None:
        """Give it more to do, or keep it for later."""
        if self._waiting:
            session.give(self._waiting.popleft())
        elif self._closed:
            session.end()
        else:
            self._free.append(session)

    async def aclose(self) -> None:
        """Do what was given so far, and close every connection. May be called twice."""
        self._closed = True
        while self._free:
            self._free.pop().end()
        sessions = [*self._sessions, *([self._owner] if self._owner is not None else [])]
        self._disown()
        with anyio.CancelScope(shield=True):
            for session in sessions:
                await session.ended()


def _take_ownership(conn: Connection, *, shared: bool) -> str | None:
    """None where it is ours, else who has it."""
    kind = "_shared" if shared else ""
    if conn.execute(text(f"select pg_try_advisory_lock{kind}({OWNER_KEY})")).scalar_one():
        return None
    holder = conn.execute(
        text(
            "select a.application_name, a.pid from pg_locks l join pg_stat_activity a using (pid)"
            " where l.locktype = 'advisory' and l.granted and l.objid = :key"
            " and l.database = (select oid from pg_database where datname = current_database())"
        ),
        {"key": OWNER_KEY},
    ).first()
    return f"{holder.application_name} (server process {holder.pid})" if holder else "another process"


@dataclass(slots=True)
class _Breaks:
    """How often a connection of the database broke: the others were to the same server, and are made anew."""

    count: int = 0


@dataclass(frozen=True, slots=True)
class _Task:
    """A job, and how to do it."""

    job: Job[Any]
    reading: bool
    longest_s: float | None  # None: whoever waits sees to it


class _Session:
    """A thread with a connection, which is made when there is something to do."""

    def __init__(
        self,
        engine: Engine,
        breaks: _Breaks,
        grace_s: float,
        is_free: "Callable[[_Session], None]" = lambda _: None,
    ) -> None:
        """`is_free` is called in the loop after each task."""
        self._engine = engine
        self._breaks = breaks
        self._grace_s = grace_s
        self._is_free = is_free
        self._loop = asyncio.get_running_loop()
        self._tasks: queue.SimpleQueue[_Task | None] = queue.SimpleQueue()
        self._present: _Task | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._conn: Connection | None = None
        self._driver: psycopg.Connection | None = None
        self._made_after = 0  # that many breaks
        self._reads = False
        # A daemon: a process that ends must not hang on it, and what is committed is safe anyway.
        self._thread = threading.Thread(target=self._serve, name="tieline-database", daemon=True)
        self._thread.start()

    # --- in the loop ---

    def give(self, task: _Task) -> None:
        """Let the thread do it next."""
        if task.longest_s is not None:
            self._timer = self._loop.call_later(task.longest_s, self._interrupt, task)
        self._tasks.put(task)

    def end(self) -> None:
        """Let the thread end after what it was given."""
        self._tasks.put(None)

    def cut(self) -> None:
        """End it now: what it does is rolled back."""
        self.end()
        if self._present is not None:
            self._shut()

    async def ended(self) -> None:
        await anyio.to_thread.run_sync(self._thread.join)

    def _interrupt(self, task: _Task) -> None:
        threading.Thread(target=self._cancel, args=(task,), daemon=True).start()

    def _over(self, task: _Task) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        task.job.finish()
        self._is_free(self)

    # --- in the thread ---

    def _serve(self) -> None:
        while (task := self._tasks.get()) is not None:
            self._present = task
            task.job.run(self._transaction(reading=task.reading))
            self._present = None
            with suppress(RuntimeError):  # the loop is closed, nobody waits any more
                self._loop.call_soon_threadsafe(self._over, task)
            del task  # and what its work holds
        self._disconnect()

    @contextmanager
    def _transaction(self, *, reading: bool) -> Iterator[Connection]:
        try:
            conn = self._connected(reading=reading)
            with conn.begin():
                yield conn
        finally:
            if self._driver is not None and self._driver.closed:
                self._breaks.count += 1
                self._disconnect()

    def _connected(self, *, reading: bool) -> Connection:
        if self._conn is None or self._made_after != self._breaks.count:
            self._disconnect()
            self._made_after = self._breaks.count
            self._conn = self._engine.connect()
            self._driver = self._conn.connection.driver_connection
            assert self._driver is not None
            self._driver.prepared_max = PREPARED
            self._reads = False
        if reading is not self._reads:
            assert self._driver is not None
            # One snapshot for the whole read, as SQLite gives it.
            self._driver.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ if reading else None
            self._driver.read_only = reading or None
            self._reads = reading
        return self._conn

    def _disconnect(self) -> None:
        conn, self._conn, self._driver = self._conn, None, None
        if conn is not None:
            with suppress(SQLAlchemyError, psycopg.Error, OSError):
                conn.invalidate()
                conn.close()

    # --- in any thread ---

    def _cancel(self, task: _Task) -> None:
        """End what hangs: by a word to the server, then by its connection."""
        driver = self._driver
        if driver is not None and self._present is task:
            with suppress(psycopg.Error, OSError):
                driver.cancel_safe(timeout=self._grace_s)
            time.sleep(self._grace_s)
        if self._present is task:
            self._shut()

    def _shut(self) -> None:
        driver = self._driver
        with suppress(psycopg.Error, OSError):
            if driver is not None:
                with socket.socket(fileno=os.dup(driver.fileno())) as connection:
                    connection.shutdown(socket.SHUT_RDWR)
