"""A queue of jobs for each place: in order within one, many places at once."""

import logging
from collections import deque
from collections.abc import Awaitable, Callable

import anyio
from anyio.abc import TaskGroup

log = logging.getLogger("tieline.discord")

Job = Callable[[], Awaitable[None]]


class KeyedQueue:
    """Jobs of a lane run one after another; one that breaks is left behind.

    `close_gate` lets them queue up without running.
    """

    def __init__(self, group: TaskGroup, limit: int) -> None:
        self._group = group
        self._limit = limit
        self._queues: dict[str, deque[Job]] = {}
        self._queued = 0
        self._gate = anyio.Event()
        self._gate.set()

    def waiting(self, queue: str) -> bool:
        return queue in self._queues

    def close_gate(self) -> None:
        if self._gate.is_set():
            self._gate = anyio.Event()

    def open_gate(self) -> None:
        self._gate.set()

    def put(self, queue: str, job: Job, *, first: bool = False) -> bool:
        """Queue a job; False when all lanes together are full and it was not taken."""
        if self._queued >= self._limit:
            return False
        jobs = self._queues.get(queue)
        if jobs is None:
            jobs = self._queues[queue] = deque()
            self._group.start_soon(self._drain, queue, jobs)
        if first:
            jobs.appendleft(job)
        else:
            jobs.append(job)
        self._queued += 1
        return True

    async def _drain(self, queue: str, jobs: deque[Job]) -> None:
        while jobs:
            await self._gate.wait()
            job = jobs.popleft()
            self._queued -= 1
            try:
                await job()
            except Exception:  # the channel loop: one event must not stop the lane of its place, nor the account
                log.exception("an event of Discord could not be handled and is lost", extra={"channel_id": queue})
        del self._queues[queue]
