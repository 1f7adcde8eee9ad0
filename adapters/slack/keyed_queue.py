"""Work in order per place, many places at once, with a bound on what waits."""

import logging
import random
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import anyio
from anyio.abc import TaskGroup, TaskStatus

from adapters.slack.api import delay_s
from agent.core.clock import Clock
from gateway.channels.errors import GatewayUnavailable

log = logging.getLogger("tieline.slack")

Job = Callable[[], Awaitable[object]]

MOST_PAUSE_S = 5.0  # between two tries of a job that keeps its place
JOB_S = 600.0  # for one event with its files, or one catch-up reading: what hangs must not keep its place for ever


class KeyedQueue:
    """A lane per place. `put` waits while `limit` jobs are under way, which holds the socket's reader back.

    A job that `holds` its place is done again while the gateway cannot do its part (GatewayUnavailable),
    and nothing behind it begins: else what is stored behind it would hide it from the next catch-up.

    May be run again; what was not done when a run ended is left undone.
    """

    def __init__(self, clock: Clock, *, limit: int = 1000, at_once: int = 64, job_s: float = JOB_S) -> None:
        self._clock = clock
        self._room = anyio.Semaphore(limit)
        self._hands = anyio.Semaphore(at_once)
        self._job_s = job_s
        self._queues: dict[str, deque[tuple[Job, bool]]] = {}
        self._group: TaskGroup | None = None

    @property
    def open(self) -> bool:
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

    async def room(self) -> None:
        """Wait until something could be put."""
        async with self._room:
            pass

    async def put(self, place: str, job: Job, *, holds: bool = False) -> None:
        """Queue a job behind the place's others. Raises RuntimeError while `run` is not under way."""
        await self._room.acquire()
        if self._group is None:
            self._room.release()
            raise RuntimeError("the Slack adapter is not running")
        queue = self._queues.get(place)
        if queue is not None:
            queue.append((job, holds))
            return
        self._queues[place] = deque([(job, holds)])
        self._group.start_soon(self._work, place)

    def beside(self, job: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Do something that keeps no place. Raises RuntimeError while `run` is not under way."""
        if self._group is None:
            raise RuntimeError("the Slack adapter is not running")
        self._group.start_soon(job)

    async def _work(self, place: str) -> None:
        queue = self._queues[place]
        while queue:
            job, holds = queue.popleft()
            try:
                attempt = 0
                while not await self._done(place, job) and holds:
                    jitter = random.random()  # noqa: S311 - spreads retries, hides nothing
                    await self._clock.sleep(min(delay_s(attempt, jitter), MOST_PAUSE_S))
                    attempt += 1
            finally:
                self._room.release()
        self._queues.pop(place, None)

    async def _done(self, place: str, job: Job) -> bool:
        """One try; False when the gateway has to be asked again."""
        try:
            async with self._hands:
                with anyio.fail_after(self._job_s):
                    await job()
        except GatewayUnavailable as trouble:
            log.warning("an event from Slack is not stored: %s", trouble, extra={"place": place})
            return False
        except Exception:
            # The channel loop's seam: one event that cannot be handled must not stop the ones behind it. It was not
            # acknowledged, so Slack sends it again.
            log.exception("an event from Slack could not be handled", extra={"place": place})
        return True
