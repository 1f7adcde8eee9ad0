"""Work in order per place, many places at once, with a bound on what waits."""

import logging
from collections import deque
from collections.abc import Awaitable, Callable

import anyio
from anyio.abc import TaskGroup, TaskStatus

log = logging.getLogger("tieline.slack")

Job = Callable[[], Awaitable[None]]

JOB_S = 600.0  # for one event with its files, or one catch-up reading: what hangs must not keep its place for ever


class Lanes:
    """A lane per place. `put` waits while `limit` jobs are under way, which holds the socket's reader back.

    May be run again; what was not done when a run ended is left undone.
    """

    def __init__(self, *, limit: int = 1000, at_once: int = 64, job_s: float = JOB_S) -> None:
        self._room = anyio.Semaphore(limit)
        self._hands = anyio.Semaphore(at_once)
        self._job_s = job_s
        self._lanes: dict[str, deque[Job]] = {}
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
            for _ in range(sum(map(len, self._lanes.values()))):
                self._room.release()  # jobs that did not begin; those that did have given back theirs
            self._lanes.clear()

    async def room(self) -> None:
        """Wait until something could be put."""
        async with self._room:
            pass

    async def put(self, place: str, job: Job) -> None:
        """Queue a job behind the place's others. Raises RuntimeError while `run` is not under way."""
        await self._room.acquire()
        if self._group is None:
            self._room.release()
            raise RuntimeError("the Slack adapter is not running")
        lane = self._lanes.get(place)
        if lane is not None:
            lane.append(job)
            return
        self._lanes[place] = deque([job])
        self._group.start_soon(self._work, place)

    async def _work(self, place: str) -> None:
        lane = self._lanes[place]
        while lane:
            job = lane.popleft()
            try:
                async with self._hands:
                    with anyio.fail_after(self._job_s):
                        await job()
            except Exception:
                # The channel loop's seam: one event that cannot be handled must not stop the ones behind it. It was
                # not acknowledged, so Slack sends it again.
                log.exception("an event from Slack could not be handled", extra={"place": place})
            finally:
                self._room.release()
        self._lanes.pop(place, None)
