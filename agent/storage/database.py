"""The unit of work: stores are synchronous functions over a `Connection`, a `Database` runs them."""

import asyncio
import logging
import secrets
import sqlite3
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from hashlib import blake2b
from typing import Any, Generic, Literal, Protocol, TypeVar

import anyio
from sqlalchemy import Connection, bindparam, select, text
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError, SQLAlchemyError
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception, stop_after_attempt, wait_exponential

from agent.core.clock import Clock
from agent.core.errors import Fenced
from agent.core.ids import ConversationId
from agent.storage.errors import DatabaseDamaged, StorageError, StorageTrouble
from agent.storage.statements import CompiledStatement
from agent.storage.tables import conversation as conversation_table

T = TypeVar("T")
TROUBLE = StorageError, SQLAlchemyError, OSError, TimeoutError  # all that a database raises by itself
Dialect = Literal["sqlite", "postgresql"]
PROCESS = secrets.token_hex(6)  # the name of this process in the database, for as long as it lives
APPLICATION = f"tieline-{PROCESS}"  # of each of its connections, so that others can end those of one that is frozen


class Database(Protocol):
    """Where everything durable goes.

    `write` runs `work` in one transaction of its own and returns what it returned once that is on disk; if `work`
    raises, nothing of it stays and the others committed with it are untouched. The caller's cancellation never tears a
    write: it is done or not done when `write` ends. `read` sees what was committed before it began.
    """

    dialect: Dialect

    async def write(self, work: Callable[[Connection], T]) -> T: ...
    async def read(self, work: Callable[[Connection], T]) -> T: ...
    async def aclose(self) -> None: ...


class OwnedDatabase(Database, Protocol):
    """One that was opened by this process and belongs to it alone."""

    async def keep(self) -> None:
        """Stay the owner, until cancelled. Raises DatabaseHeld when another process has become it."""


# Jobs: synchronous work that a thread does for an asynchronous caller.


class Job(Generic[T]):
    """One caller's work and, later, its result or error."""

    __slots__ = ("_finished", "_loop", "error", "result", "work")

    def __init__(self, work: Callable[[Connection], T]) -> None:
        self.work = work
        self.result: T | None = None
        self.error: BaseException | None = None
        self._loop = asyncio.get_running_loop()
        self._finished = asyncio.Event()

    def run(self, transaction: AbstractContextManager[Connection]) -> None:
        """Do it in there, with the connection that it gives; an exception of either is kept in `error`."""
        try:
            with transaction as conn:
                self.result = self.work(conn)
        except BaseException as error:  # noqa: BLE001 - it belongs to the caller, who raises it
            self.error = error

    async def outcome(self, *, may_leave: bool) -> T:
        """Wait for the end, whoever cancels meanwhile: a write is done or not done, never unknown.

        `may_leave`: it is a read, and a cancelled caller need not wait for it.
        """
        if may_leave:
            await self._finished.wait()
        else:
            await self._end()
        if self.error is not None:
            try:
                raise self.error
            finally:
                self.error = None  # the error's traceback holds this frame: no cycle
        return self.result  # type: ignore[return-value] # T may itself be None

    async def _end(self) -> None:
        try:
            await self._finished.wait()  # nearly always to its end: a scope around it would cost as much again
            return
        except asyncio.CancelledError as error:
            cancelled = error
        with anyio.CancelScope(shield=True):
            while not self._finished.is_set():
                try:
                    await self._finished.wait()
                except asyncio.CancelledError as error:  # a platform library's bare Task.cancel() passes the shield
                    cancelled = error
        raise cancelled

    def finish(self) -> None:
        """Wake the caller; call it in the caller's loop."""
        self._finished.set()

    @staticmethod
    def hand_over(jobs: "Iterable[Job[object]]") -> None:
        """Wake the callers; called in the thread, once for a whole batch."""
        by_loop: dict[asyncio.AbstractEventLoop, list[Job[object]]] = {}
        for job in jobs:
            by_loop.setdefault(job._loop, []).append(job)
        for loop, its_jobs in by_loop.items():
            try:
                loop.call_soon_threadsafe(_wake, its_jobs)
            except RuntimeError:  # the loop is closed, nobody waits any more
                continue


def _wake(jobs: list[Job[object]]) -> None:
    for job in jobs:
        job.finish()


# Retries after disk and server trouble; the watcher of the gateway is told (B-48).

RETRIES = 3
FIRST_WAIT_S = 0.1
_CANDIDATES = (DBAPIError, TimeoutError, OSError)
_SQLITE_TROUBLE = frozenset(
    {"FULL", "IOERR", "BUSY", "LOCKED", "CANTOPEN", "READONLY", "NOMEM", "PROTOCOL", "INTERRUPT"}
)
_log = logging.getLogger("tieline.storage")


class RetryingDatabase:
    """A `Database` that repeats what failed by no fault of the work: 3 times, then it raises StorageTrouble.

    `on_trouble` is told the reason when a piece of work was given up, and None when one succeeds again. A commit whose
    answer was lost with a connection is repeated as well: work must be safe to repeat (unique keys, epochs).
    """

    def __init__(
        self,
        database: Database,
        *,
        clock: Clock,
        on_trouble: Callable[[str | None], None],
        on_damage: Callable[[str], None] | None = None,
    ) -> None:
        """`on_damage` is told of damage each time that work meets it; nothing tells that it is over."""
        self.dialect = database.dialect
        self.inner = database
        self._clock = clock
        self._on_trouble = on_trouble
        self._on_damage = on_damage
        self._troubled = False

    async def write(self, work: Callable[[Connection], T]) -> T:
        return await self._steady(self.inner.write, work)

    async def read(self, work: Callable[[Connection], T]) -> T:
        return await self._steady(self.inner.read, work)

    async def aclose(self) -> None:
        await self.inner.aclose()

    async def _steady(
        self, do: Callable[[Callable[[Connection], T]], Awaitable[T]], work: Callable[[Connection], T]
    ) -> T:
        try:
            result = await do(work)
        except DatabaseDamaged as error:
            if self._on_damage is not None:
                self._on_damage(str(error))
            raise
        except _CANDIDATES as error:
            if not is_trouble(error):
                raise
            result = await self._again(do, work, error)
        if self._troubled:
            self._troubled = False
            self._on_trouble(None)
        return result

    async def _again(
        self, do: Callable[[Callable[[Connection], T]], Awaitable[T]], work: Callable[[Connection], T], first: Exception
    ) -> T:
        _report(first, 1)
        await self._clock.sleep(FIRST_WAIT_S)
        retrying = AsyncRetrying(
            retry=retry_if_exception(is_trouble),
            stop=stop_after_attempt(RETRIES),
            wait=wait_exponential(multiplier=2 * FIRST_WAIT_S, max=1.0),
            sleep=self._clock.sleep,
            before_sleep=_before_sleep,
            reraise=True,
        )
        try:
            return await retrying(do, work)
        except _CANDIDATES as error:
            if not is_trouble(error):
                raise
            reason = _reason(error)
            self._troubled = True
            self._on_trouble(reason)
            raise StorageTrouble(f"the database failed {RETRIES + 1} times: {reason}") from error


def is_trouble(error: BaseException) -> bool:
    """Did disk, server or connection fail, rather than the work itself?"""
    if isinstance(error, DBAPIError):
        if isinstance(error.orig, sqlite3.Error):
            name = getattr(error.orig, "sqlite_errorname", "SQLITE_")  # errors of the Python module itself have none
            return name.split("_")[1] in _SQLITE_TROUBLE
        return error.connection_invalidated or isinstance(error, OperationalError | InterfaceError)
    return isinstance(error, TimeoutError | OSError)


def _reason(error: BaseException) -> str:
    """The driver's own words, without statement or values."""
    return str(error.orig if isinstance(error, DBAPIError) else error) or type(error).__name__


def _report(error: BaseException, failures: int) -> None:
    _log.warning("the database failed (%d of %d): %s", failures, RETRIES + 1, _reason(error))


def _before_sleep(state: RetryCallState) -> None:
    error = state.outcome.exception() if state.outcome else None
    if error is not None:
        _report(error, state.attempt_number + 1)


# Fence: refuses writes for a conversation that another owner has taken.

# The lock keeps a new owner from claiming between this check and our commit; SQLite has one writer and needs none.
_EPOCH = CompiledStatement(
    select(conversation_table.c.epoch)
    .where(conversation_table.c.key == bindparam("conversation"))
    .with_for_update(read=True)
)

# Each writer's lock is a share of the row; in the order of the keys no two who wait like this wait for each other.
_HELD = (
    select(conversation_table.c.key)
    .where(conversation_table.c.key.in_(bindparam("conversations", expanding=True)))
    .order_by(conversation_table.c.key)
    .with_for_update(key_share=True)
)


def check_epoch(conn: Connection, conversation: ConversationId, epoch: int) -> None:
    """Raises Fenced unless `epoch` is the conversation's present one. Call it first in every write of a turn."""
    current = _EPOCH.scalar(conn, {"conversation": conversation})
    if current != epoch:
        raise Fenced(f"{conversation}: epoch {epoch} is over, {current} holds")


def wait_for_writers(conn: Connection, conversations: Sequence[ConversationId]) -> None:
    """Return when nothing that passed `check_epoch` there is still uncommitted."""
    conn.execute(_HELD, {"conversations": list(conversations)}).all()


# Attempts: work inside a transaction that may fail alone.


@contextmanager
def attempted(conn: Connection) -> Iterator[None]:
    """If this raises, what was done inside is taken back and the rest of the transaction stays.

    On SQLite what a statement did stays unless it is the one that failed: there no statement ends the others.
    """
    if conn.dialect.name == "sqlite":
        yield
        return
    driver: Any = conn.connection.dbapi_connection  # by hand: `begin_nested` takes five times as long
    driver.execute("SAVEPOINT attempt")
    with ExitStack() as undone:
        undone.callback(driver.execute, "ROLLBACK TO SAVEPOINT attempt")
        yield
        undone.pop_all()
    driver.execute("RELEASE SAVEPOINT attempt")


# Locks by name, for what processes on one PostgreSQL must not do at once. SQLite has one writer and needs none.

# One after another in the order given: no two that wait like this wait for each other.
_NAMED = text("select pg_advisory_xact_lock(k) from unnest(cast(:keys as bigint[])) as k")


def wait_for_names(conn: Connection, names: Iterable[str]) -> None:
    """Return when no other transaction holds one of the names; this one holds them until it ends."""
    if conn.dialect.name != "sqlite":
        keys = sorted({int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), signed=True) for name in names})
        conn.execute(_NAMED, {"keys": keys}).all()
