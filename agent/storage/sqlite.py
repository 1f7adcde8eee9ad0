"""The embedded database: one thread writes, two read, nobody else may (docs/decisions/0005-one-writing-thread.md).

Callers that write at the same time share one commit and so one fsync. A lone write is committed at once: nothing waits
for company. WAL with synchronous=FULL: what was acknowledged survives a power cut.
"""

import errno
import fcntl
import os
import queue
import sqlite3
import threading
from collections.abc import Callable
from contextlib import nullcontext, suppress
from functools import partial
from operator import methodcaller
from pathlib import Path
from time import monotonic
from typing import Any, TypeVar
from urllib.parse import quote

import anyio
from sqlalchemy import Connection, Engine, NullPool, create_engine, func, select, text, update
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from agent.storage.database import Dialect, Job
from agent.storage.errors import DatabaseDamaged, DatabaseHeld, DatabaseUnusable
from agent.storage.tables import memory_erasure

T = TypeVar("T")

# Serial executor: a thread that does synchronous work for asynchronous callers, in the order in which it came.


class SerialExecutor:
    """Threads that share one queue. Each runs `serve`, which gets jobs from `take` until that returns None."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._queue: queue.SimpleQueue[Job[object] | None] = queue.SimpleQueue()
        self._closed = False
        self._threads: list[threading.Thread] = []

    def start(self, serve: Callable[[], None]) -> None:
        """Add a thread. A daemon: a process that ends must not hang on it, and what is committed is safe anyway."""
        self._threads.append(threading.Thread(target=serve, name=self._name, daemon=True))
        self._threads[-1].start()

    async def do(self, work: Callable[[Connection], T], *, may_leave: bool = False) -> T:
        """Give it to a thread and wait. Raises what `work` raised. Who `may_leave` need not wait when cancelled."""
        await anyio.lowlevel.checkpoint_if_cancelled()
        if self._closed:
            raise RuntimeError(f"{self._name} is closed")
        job = Job(work)
        self._queue.put(job)  # type: ignore[arg-type] # the queue holds jobs of any T
        return await job.outcome(may_leave=may_leave)

    def take(self) -> Job[object] | None:
        """The next job, waiting for it; None: the lane was closed and all that was given is taken."""
        job = self._queue.get()
        if job is None:
            self._queue.put(None)  # for the other threads
        return job

    def take_waiting(self) -> Job[object] | None:
        """The next job if one waits already."""
        try:
            job = self._queue.get_nowait()
        except queue.Empty:
            return None
        if job is None:
            self._queue.put(None)
        return job

    async def aclose(self) -> None:
        """Do what was given so far, then end. May be called twice."""
        if not self._closed:
            self._closed = True
            self._queue.put(None)
        with anyio.CancelScope(shield=True):
            for thread in self._threads:
                await anyio.to_thread.run_sync(thread.join)


# Owner lock of a database file while a process lives. The kernel frees it on any death.


class OwnerLock:
    """A locked file that holds its owner's process id."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor: int | None = descriptor

    @classmethod
    def take(cls, path: Path) -> "OwnerLock":
        """Lock it. Raises DatabaseHeld while another has it, DatabaseUnusable when the file system cannot lock."""
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise DatabaseUnusable(f"cannot write {path}: {error.strerror}; make its directory writable") from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            owner = os.pread(descriptor, 32, 0).strip()
            os.close(descriptor)
            if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                raise DatabaseUnusable(f"cannot lock {path}: {error.strerror}; put it on a local disk") from error
            pid = int(owner) if owner.isdigit() else None
            raise DatabaseHeld(
                f"{path.with_suffix('')} is in use by process {pid or '(unknown)'}; stop that one first, "
                "or give this one its own TIELINE_HOME",
                pid=pid,
            ) from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, str(os.getpid()).encode(), 0)
        return cls(descriptor)

    def release(self) -> None:
        """May be called twice. The file stays: removing it would let two owners lock two files of one name."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


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
    "PRAGMA secure_delete = ON",  # removed rows are overwritten; only some builds of SQLite do so unasked
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

    engine = create_engine("sqlite://", creator=connect, poolclass=NullPool, hide_parameters=True)
    # The dialect's hook and not an event: one listener would cost every statement of the engine 8 µs.
    engine.dialect.do_begin = methodcaller("execute", "BEGIN" if read_only else "BEGIN IMMEDIATE")  # type: ignore[assignment,method-assign]
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


def emptied(path: Path) -> DatabaseDamaged | None:
    """The error where the file has lost everything: it is empty, and what lies beside it shows that it was not.

    A start that was killed before it made the tables leaves an empty file, too, and nothing else.
    """
    log = path.with_name(f"{path.name}-wal")
    if not path.is_file() or path.stat().st_size or (log.is_file() and log.stat().st_size):
        return None
    made = ("backups/*.db", "workspaces/*", "files/*")  # by a gateway that had a database
    if not any(next(path.parent.glob(pattern), None) for pattern in made):
        return None
    return damaged(path, "the file is empty")


def _driver(conn: Connection) -> sqlite3.Connection:
    raw: Any = conn.connection.dbapi_connection
    assert isinstance(raw, sqlite3.Connection)
    return raw


class SqliteDatabase:
    """A `Database` over one file. Made by `agent.storage.connect`, which has migrated it and holds its lock."""

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
        within = nullcontext(conn)
        while (job := self._readers.take()) is not None:
            job.run(within)
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
        self._within = nullcontext(conn)
        self._written: list[Job[object]] = []  # succeeded so far, waiting for the commit

    def add(self, job: Job[object]) -> None:
        self.jobs.append(job)
        raw = _driver(self._conn)
        # The first that writes needs no savepoint: to roll back the whole transaction takes nothing from others. Nor
        # can it have one while no transaction is begun: the savepoint would begin one that SQLAlchemy does not know of.
        guarded = raw.in_transaction
        if guarded:
            raw.execute("SAVEPOINT caller")  # by hand: 3 µs where `begin_nested` takes 160
        job.run(self._within)
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


# Vacuum: full-text indexes, free pages and the log keep deleted bytes until then.

LARGE = 256_000_000  # bytes of a file that takes seconds to rebuild, in which nobody writes
NOT_BEFORE_US = 24 * 3600 * 1_000_000  # since the last time, for a large one
MERGED = 200  # pages of a full-text index in one transaction
INDEXES = ("memory_fts", "passage_fts")


def is_due(conn: Connection, *, at: int, large: int = LARGE) -> bool:
    """Whether something was erased since the last time. A file of `large` bytes or more is rebuilt once a day."""
    waiting = select(memory_erasure.c.id).where(memory_erasure.c.cleaned_at.is_(None)).limit(1)
    if conn.execute(waiting).first() is None:
        return False
    last = conn.execute(select(func.max(memory_erasure.c.cleaned_at))).scalar_one()
    return last is None or at - last >= NOT_BEFORE_US or _size(conn) < large


def merge(conn: Connection, *, first: bool) -> bool:
    """Some of the work that leaves nothing of removed rows in the full-text indexes; whether it is done.

    `first` begins it: all pieces of an index are to become one (SQLite, FTS5: "merge" with a negative number).
    """
    if conn.dialect.name != "sqlite":
        return True
    raw: Any = conn.connection.driver_connection
    done = not first
    for index in INDEXES:
        before, pages = raw.total_changes, -MERGED if first else MERGED
        conn.execute(text(f"INSERT INTO {index}({index}, rank) VALUES ('merge', {pages})"))  # noqa: S608 - our own
        done = done and raw.total_changes - before < 2  # the command itself may count as one
    return done


def _size(conn: Connection) -> int:
    if conn.dialect.name != "sqlite":
        return 0
    pages, each = (conn.execute(text(f"PRAGMA {name}")).scalar_one() for name in ("page_count", "page_size"))
    return int(pages * each)


def clean(conn: Connection) -> bool:
    """Rebuild the file, alone in the writing thread; False when others share the transaction: ask again.

    Takes as long as it takes to copy the file. Nobody writes meanwhile.
    """
    if conn.dialect.name != "sqlite":
        return True
    raw: Any = conn.connection.driver_connection
    if raw.in_transaction:
        return False
    raw.execute("VACUUM")
    raw.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    return True


def empty_log(conn: Connection) -> bool:
    """Empty the write-ahead log, in which removed rows stand until others are written over them; False: ask again."""
    if conn.dialect.name != "sqlite":
        return True
    raw: Any = conn.connection.driver_connection
    if raw.in_transaction:
        return False
    raw.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()  # leaves it to the next time where somebody reads it
    return True


def note_cleaned(conn: Connection, *, at: int) -> None:
    """It was done."""
    conn.execute(update(memory_erasure).where(memory_erasure.c.cleaned_at.is_(None)).values(cleaned_at=at))
