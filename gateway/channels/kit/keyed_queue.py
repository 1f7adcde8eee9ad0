"""Work in order for each place, many places at once, with a bound on what waits."""

import logging
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import anyio
from anyio.abc import TaskGroup, TaskStatus

from agent.core.backoff import Backoff, Retries
from agent.core.clock import Clock
from gateway.channels.errors import GatewayUnavailable

Job = Callable[[], Awaitable[object]]

STORING = Backoff(first_s=0.5, longest_s=5.0, jitter=0.5)  # between two tries of a job that keeps its place
JOB_S = 600.0  # for one event with its files, or one catch-up reading: what hangs must not keep its place for ever


class KeyedQueue:
    """Jobs of one key run one after another; `at_once` of all keys run at the same time.

    A job that `holds` its place is done again while the gateway cannot do its part (GatewayUnavailable), and nothing
    behind it begins: else what is stored behind it would hide it from the next catch-up. A job that fails in another
    way is logged and left behind.

    At most `limit` jobs wait or run. May be run again; what was not done when a run ended is left undone.
    """

    def __init__(
        self, clock: Clock, log: logging.Logger, *, limit: int = 1000, at_once: int = 64, job_s: float = JOB_S
    ) -> None:
        self._clock = clock
        self._log = log
        self._room = anyio.Semaphore(limit, fast_acquire=True)
        self._slots = anyio.Semaphore(at_once, fast_acquire=True)
        self._job_s = job_s
        self._queues: dict[str, deque[tuple[Job, bool]]] = {}
        self._group: TaskGroup | None = None

    @property
    def is_running(self) -> bool:
        return self._group is not None

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Do what is put, until cancelled."""
        try:
            async with anyio.create_task_group() as group:
                self._group = group
                task_status.started()
                await anyio.sleep_forever()
        finally:
            self._group = None
            for _ in range(sum(map(len, self._queues.values()))):
                self._room.release()  # jobs that did not begin; those that did have given back theirs
            self._queues.clear()

    # -- putting

    async def put(self, key: str, job: Job, *, holds: bool = False) -> None:
        """Queue a job behind the key's others; waits while the queue is full, which holds the caller back.

        Raises RuntimeError while `run` is not under way.
        """
        await self._room.acquire()
        try:
            self._queue(key, job, holds=holds)
        except RuntimeError:
            self._room.release()
            raise

    def put_nowait(self, key: str, job: Job, *, holds: bool = False) -> bool:
        """The same without waiting: False when the queue is full and the job was not taken."""
        try:
            self._room.acquire_nowait()
        except anyio.WouldBlock:
            return False
        try:
            self._queue(key, job, holds=holds)
        except RuntimeError:
            self._room.release()
            raise
        return True

    def beside(self, job: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Do something that keeps no place. Raises RuntimeError while `run` is not under way."""
        self._running_group().start_soon(job)

    async def room(self) -> None:
        """Wait until something could be put."""
        async with self._room:
            pass

    # -- working

    def _running_group(self) -> TaskGroup:
        if self._group is None:
            raise RuntimeError("the adapter is not running")
        return self._group

    def _queue(self, key: str, job: Job, *, holds: bool) -> None:
        group = self._running_group()
        queue = self._queues.get(key)
        if queue is None:
            queue = self._queues[key] = deque()
            group.start_soon(self._work, key, queue)
        queue.append((job, holds))

    async def _work(self, key: str, queue: deque[tuple[Job, bool]]) -> None:
        while queue:
            job, holds = queue.popleft()
            try:
                retries = Retries(STORING)
                while not await self._is_done(key, job) and holds:
                    await self._clock.sleep(retries.failed())
            finally:
                self._room.release()
        del self._queues[key]

    async def _is_done(self, key: str, job: Job) -> bool:
        """One try; False when the gateway has to be asked again."""
        try:
            async with self._slots:
                with anyio.fail_after(self._job_s):
                    await job()
        except GatewayUnavailable as trouble:
            self._log.warning("what came from the platform is not stored: %s", trouble, extra={"place": key})
            return False
        except Exception:  # noqa: BLE001 - the channel seam: one event must not stop those behind it
            self._log.exception("an event could not be handled and is left out", extra={"place": key})
        return True
