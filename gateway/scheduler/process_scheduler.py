"""APScheduler's scheduler of this process: its jobs wake periodic loops, which ask our own clock what is due.

The jobs are kept in memory and only set an event. The work itself runs in the task groups of its owners, and what has
to outlive the process is in the tables (docs/decisions/0024-apscheduler-wakes-our-loops.md).
"""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta

import anyio
from apscheduler.jobstores.base import JobLookupError
from apscheduler.schedulers.asyncio import AsyncIOScheduler

from agent.core.clock import Clock, SystemClock

EARLY_S = 0.25  # a job may come so early by our clock: the scheduler counts by the machine's
LATE_S = 1.0  # a loop that no job has woken by then wakes up by itself

_machine = SystemClock()  # the scheduler takes its time from nowhere else


class PeriodicWakeEvent:
    """Wakes one loop: by an interval job, by a date job for a moment in between, or because somebody calls `set`."""

    def __init__(self, name: str, every_s: float, first_s: float, clock: Clock, scheduler: "ProcessScheduler") -> None:
        self._name = name
        self._every_s = every_s
        self._early_s = min(EARLY_S, every_s / 4)
        self._clock = clock
        self._scheduler = scheduler
        self._due_at = clock.monotonic() + first_s
        self._moment: datetime | None = None
        self._is_set = False
        self._woken = anyio.Event()

    def set(self) -> None:
        """Wake the loop now, or as soon as it waits."""
        self._is_set = True
        self._woken.set()

    def set_at(self, moment: datetime) -> None:
        """Wake the loop at that moment of our clock too; a moment that was given before counts no more."""
        if moment != self._moment:
            self._moment = moment
            self._scheduler.put_date_job(self._name, self._at_moment, moment)

    async def wait(self) -> bool:
        """Return when the interval is over by our clock, or `set` was called; whether it was."""
        while not self._is_set and (left_s := self._due_at - self._clock.monotonic()) > self._early_s:
            if not await self._is_woken_within(left_s + self._scheduler.late_s):
                # The machine's clock was set back, and the job waits for the old time.
                self._scheduler.put_interval_job(self._name, self.tick, self._every_s)
        was_set, self._is_set = self._is_set, False
        now = self._clock.monotonic()
        if self._due_at - now <= self._early_s:
            following = self._due_at + self._every_s
            self._due_at = following if following > now else now + self._every_s
        return was_set

    async def tick(self) -> None:
        """The interval job: the loop asks our clock whether it is time."""
        self._woken.set()

    async def _at_moment(self) -> None:
        self._moment = None
        self.set()

    async def _is_woken_within(self, seconds: float) -> bool:
        woken = self._woken = anyio.Event()
        async with anyio.create_task_group() as group:

            async def give_up() -> None:
                await self._clock.sleep(seconds)
                group.cancel_scope.cancel()

            group.start_soon(give_up)
            await woken.wait()
            group.cancel_scope.cancel()
        return woken.is_set()


class ProcessScheduler:
    """One for the process. Loops take their wake events from it, before it is started too."""

    def __init__(self, clock: Clock, *, late_s: float = LATE_S) -> None:
        self.late_s = late_s
        self._clock = clock
        # What was missed while the machine slept, or the event loop stood still, is one job, however late.
        self._scheduler = AsyncIOScheduler(timezone=UTC, job_defaults={"coalesce": True, "misfire_grace_time": None})

    def start(self) -> None:
        """Begin to run jobs, on the running event loop."""
        self._scheduler.start()

    def stop(self) -> None:
        """Run no job any more; fine where it was not started."""
        if self._scheduler.running:
            self._scheduler.shutdown(wait=False)

    @contextmanager
    def wake_event(self, name: str, *, every_s: float, first_s: float | None = None) -> Iterator[PeriodicWakeEvent]:
        """The wake event of the loop of that name, as long as the block lasts."""
        first_s = every_s if first_s is None else first_s
        event = PeriodicWakeEvent(name, every_s, first_s, self._clock, self)
        self.put_interval_job(name, event.tick, every_s, first_s)
        try:
            yield event
        finally:
            for job in (name, _date_job(name)):
                with suppress(JobLookupError):
                    self._scheduler.remove_job(job)

    async def repeat(
        self, name: str, work: Callable[[], Awaitable[object]], *, every_s: float, first_s: float | None = None
    ) -> None:
        """Do the work each time that the interval is over, until cancelled. Raises what the work raises."""
        with self.wake_event(name, every_s=every_s, first_s=first_s) as event:
            while True:
                await event.wait()
                await work()

    def put_interval_job(
        self, name: str, tick: Callable[[], Awaitable[None]], every_s: float, first_s: float | None = None
    ) -> None:
        """Let the job run from now on; it takes the place of one with that name."""
        first = _machine.now() + timedelta(seconds=every_s if first_s is None else first_s)
        self._scheduler.add_job(tick, "interval", seconds=every_s, start_date=first, id=name, replace_existing=True)

    def put_date_job(self, name: str, wake: Callable[[], Awaitable[None]], moment: datetime) -> None:
        """Let the job run once at that moment of our clock; it takes the place of the one with that name."""
        at = _machine.now() + (moment - self._clock.now())
        self._scheduler.add_job(wake, "date", run_date=at, id=_date_job(name), replace_existing=True)


def _date_job(name: str) -> str:
    return f"{name}, date"
