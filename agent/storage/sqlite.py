"""The embedded database: one thread writes, two read, nobody else may (ENGINE.md "Store").

Callers that write at the same time share one commit and so one fsync. A lone write is committed at once: nothing waits
for company. WAL with synchronous=FULL: what was acknowledged survives a power cut.
"""

import sqlite3
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any, TypeVar
from urllib.parse import quote

import anyio
from sqlalchemy import Connection, Engine, NullPool, create_engine
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from agent.storage.database import Dialect
from agent.storage.errors import DatabaseDamaged
from agent.storage.lock import OwnerLock
from agent.storage.serial_executor import Job, SerialExecutor

T = TypeVar("T")

GROUP_WINDOW_S = 0.005  # a commit gathers callers for no longer than this
GROUP_MOST = 256
READERS = 2  # a long export must not hold up the conversations

_DAMAGE = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})

_PRAGMAS = (
    "PRAGMA foreign_keys = ON",
    "PRAGMA busy_timeout = 5000",
    "PRAGMA temp_store = MEMORY",
    "PRAGMA cache_size = -8000",
)
_WRITER_PRAGMAS = (
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",
    "PRAGMA fullfsync = ON",  # macOS: else its fsync stops at the drive's cache
    "PRAGMA journal_size_limit = 67108864",
)


def sqlite_engine(path: Path, *, read_only: bool = False, foreign_keys: bool = True) -> Engine:
    """An engine without a pool; each connection is for one thread at a time. Transactions are begun explicitly."""
    uri = f"file:{quote(str(path))}?mode={'ro' if read_only else 'rwc'}"

    def connect() -> sqlite3.Connection:
        connection = sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False)
        for pragma in _PRAGMAS if read_only else (*_PRAGMAS, *_WRITER_PRAGMAS):
            connection.execute(pragma).fetchall()
        if not foreign_keys:
            connection.execute("PRAGMA foreign_keys = OFF")
        return connection

    def begin(connection: Any) -> None:
        connection.execute("BEGIN" if read_only else "BEGIN IMMEDIATE")

    engine = create_engine("sqlite://", creator=connect, poolclass=NullPool, hide_parameters=True)
    # The dialect's hook and not an event: one listener would cost every statement of the engine 8 µs.
    engine.dialect.do_begin = begin  # type: ignore[assignment,method-assign]
    return engine


def damage_in(path: Path, error: Exception) -> DatabaseDamaged | None:
    """The error to raise where the driver tells of damage to `path`; None for any other error of the driver."""
    cause = error.orig if isinstance(error, DBAPIError) else error
    code = getattr(cause, "sqlite_errorcode", 0)  # errors of the Python module itself have none
    return damaged(path, str(cause)) if code & 0xFF in _DAMAGE else None  # the higher bits tell where


def damaged(path: Path, reason: str) -> DatabaseDamaged:
    """The error in words for the operator, with the fix."""
    return DatabaseDamaged(
        f"{path} is damaged or no SQLite database ({reason}); "
        "put a backup in its place with `tieline restore FILE`, or name another file"
    )


def _driver(conn: Connection) -> sqlite3.Connection:
    raw: Any = conn.connection.dbapi_connection
    assert isinstance(raw, sqlite3.Connection)
    return raw


class SqliteDatabase:
    """A `Database` over one file. Made by `agent.storage.opening`, which has migrated it and holds its lock."""

    dialect: Dialect = "sqlite"

    def __init__(self, path: Path, lock: OwnerLock) -> None:
        """Opens the connections: blocking, call it in a thread. The file must exist and be in WAL mode."""
        self.path = path
        self._lock = lock
        self._writer = SerialExecutor("tieline-writer")
        self._readers = SerialExecutor("tieline-reader")
        writing = sqlite_engine(path).connect()
        reading = sqlite_engine(path, read_only=True)
        connections = [reading.connect() for _ in range(READERS)]
        self._writer.start(partial(self._serve_writes, writing))
        for connection in connections:
            self._readers.start(partial(self._serve_reads, connection))

    async def write(self, work: Callable[[Connection], T]) -> T:
        """Raises what `work` raised, and DatabaseDamaged."""
        try:
            return await self._writer.do(work)
        except DBAPIError as error:
            self._refuse_damage(error)
            raise

    async def read(self, work: Callable[[Connection], T]) -> T:
        """Raises what `work` raised, and DatabaseDamaged."""
        try:
            return await self._readers.do(work, may_leave=True)  # so that a slow one keeps nobody past their deadline
        except DBAPIError as error:
            self._refuse_damage(error)
            raise

    def _refuse_damage(self, error: DBAPIError) -> None:
        """Raises DatabaseDamaged where that is what the driver says."""
        if (damage := damage_in(self.path, error)) is not None:
            raise damage from error

    async def keep(self) -> None:
        """The kernel keeps the lock for us as long as we live."""
        await anyio.sleep_forever()

    async def aclose(self) -> None:
        """Finish what was given, fold the log into the file, free the lock. May be called twice."""
        await self._readers.aclose()
        await self._writer.aclose()
        self._lock.release()

    def _serve_reads(self, conn: Connection) -> None:
        while (job := self._readers.take()) is not None:
            job.run(conn)
            conn.rollback()
            Job.hand_over([job])
        conn.close()

    def _serve_writes(self, conn: Connection) -> None:
        while (job := self._writer.take()) is not None:
            batch = _Batch(conn)
            ends = monotonic() + GROUP_WINDOW_S
            while job is not None:
                batch.add(job)
                enough = len(batch.jobs) >= GROUP_MOST or monotonic() >= ends
                job = None if enough else self._writer.take_waiting()
            batch.commit()
            Job.hand_over(batch.jobs)
        with suppress(sqlite3.Error):  # a disk that has failed must not keep us from ending
            _driver(conn).execute("PRAGMA optimize")
        conn.close()


class _Batch:
    """One transaction that several callers share, each behind a savepoint of its own."""

    def __init__(self, conn: Connection) -> None:
        self.jobs: list[Job[object]] = []
        self._conn = conn
        self._written: list[Job[object]] = []  # succeeded so far, waiting for the commit

    def add(self, job: Job[object]) -> None:
        self.jobs.append(job)
        raw = _driver(self._conn)
        # The first that writes needs no savepoint: to roll back the whole transaction takes nothing from others. Nor
        # can it have one while no transaction is begun: the savepoint would begin one that SQLAlchemy does not know of.
        guarded = raw.in_transaction
        if guarded:
            raw.execute("SAVEPOINT caller")  # by hand: 3 µs where `begin_nested` takes 160
        job.run(self._conn)
        if job.error is None:
            if guarded:
                raw.execute("RELEASE caller")
            self._written.append(job)
        elif not guarded:
            self._conn.rollback()
        elif raw.in_transaction:
            raw.execute("ROLLBACK TO caller")
            raw.execute("RELEASE caller")
        else:
            # Disk full, I/O error: SQLite itself has taken the whole transaction back.
            self._lose(job.error)

    def commit(self) -> None:
        if self._written:
            try:
                self._conn.commit()
            except SQLAlchemyError as error:  # it belongs to the callers
                self._lose(error)

    def _lose(self, error: BaseException) -> None:
        """Nothing of the transaction is left: say so to everybody who was in it."""
        for job in self._written:
            job.error = error
        self._written = []
        self._conn.rollback()
