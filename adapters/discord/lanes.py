"""One place in order, many places at once: a queue of jobs for each channel that has any."""

import logging
from collections import deque
from collections.abc import Awaitable, Callable

import anyio
from anyio.abc import TaskGroup

log = logging.getLogger("tieline.discord")

Job = Callable[[], Awaitable[None]]


class Lanes:
    """Jobs of a lane run one after another; one that breaks is left behind.

    `close_gate` lets them queue up without running.
    """

    def __init__(self, group: TaskGroup, limit: int) -> None:
        self._group = group
        self._limit = limit
        self._lanes: dict[str, deque[Job]] = {}
        self._queued = 0
        self._gate = anyio.Event()
        self._gate.set()

    def waiting(self, lane: str) -> bool:
        return lane in self._lanes

    def close_gate(self) -> None:
        if self._gate.is_set():
            self._gate = anyio.Event()

    def open_gate(self) -> None:
        self._gate.set()

    def put(self, lane: str, job: Job, *, first: bool = False) -> bool:
        """Queue a job; False when all lanes together are full and it was not taken."""
        if self._queued >= self._limit:
            return False
        jobs = self._lanes.get(lane)
        if jobs is None:
            jobs = self._lanes[lane] = deque()
            self._group.start_soon(self._drain, lane, jobs)
        if first:
            jobs.appendleft(job)
        else:
            jobs.append(job)
        self._queued += 1
        return True

    async def _drain(self, lane: str, jobs: deque[Job]) -> None:
        while jobs:
            await self._gate.wait()
            job = jobs.popleft()
            self._queued -= 1
            try:
                await job()
            except Exception:  # the channel loop: one event must not stop the lane of its place, nor the account
                log.exception("an event of Discord could not be handled and is lost", extra={"channel_id": lane})
        del self._lanes[lane]
