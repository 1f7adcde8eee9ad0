"""A thread that does synchronous work for asynchronous callers, in the order in which they came.

Its queue needs no bound of its own: each caller waits for its job, so it is never longer than the callers are many.
"""

import asyncio
import queue
import threading
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

import anyio
from sqlalchemy import Connection

T = TypeVar("T")


class Job(Generic[T]):
    """One caller's work and, later, its result or error."""

    __slots__ = ("_finished", "_loop", "error", "result", "work")

    def __init__(self, work: Callable[[Connection], T]) -> None:
        self.work = work
        self.result: T | None = None
        self.error: BaseException | None = None
        self._loop = asyncio.get_running_loop()
        self._finished = asyncio.Event()

    def run(self, conn: Connection) -> None:
        """Do it; an exception is kept in `error`."""
        try:
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

    def wake(self) -> None:
        self._finished.set()


def _wake(jobs: list[Job[object]]) -> None:
    for job in jobs:
        job.wake()


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
