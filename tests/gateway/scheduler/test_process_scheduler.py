"""APScheduler's jobs wake the periodic loops of the process; our own clock decides what is due."""

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from functools import partial

import anyio
import pytest

from agent.core.clock import Clock, SystemClock
from agent.storage.database import Database
from gateway.running.accounts.accounts import Loops
from gateway.scheduler.process_scheduler import ProcessScheduler
from gateway.scheduler.runner import READ_EVERY_S
from gateway.storage.tables import schedule
from gateway.telemetry.logging import set_up
from gateway.telemetry.trouble import Troubles
from tests.fakes.clock import FakeClock
from tests.fakes.running import running
from tests.fakes.waiting import until
from tests.gateway.scheduler.test_runner import Room, in_
from tests.gateway.world import SkippingClock, World

HOUR_S = 3600.0


class HeldClock(FakeClock):
    """The real time, in which no sleeper wakes up: what goes on was woken by a job.

    `ahead` is added to the time, `later_s` to the seconds that a stopwatch shows.
    """

    def __init__(self) -> None:
        super().__init__()
        self.ahead = timedelta()
        self.later_s = 0.0

    def now(self) -> datetime:
        return SystemClock().now() + self.ahead

    def monotonic(self) -> float:
        return SystemClock().monotonic() + self.later_s


class HeldSkippingClock(SkippingClock):
    """The scheduler of a whole gateway, in which waits of a second and more do not end."""

    async def sleep(self, seconds: float) -> None:
        if seconds >= 1.0:
            await anyio.sleep_forever()
        await super().sleep(seconds)


@asynccontextmanager
async def started(clock: Clock, *, late_s: float = 0.0) -> AsyncIterator[ProcessScheduler]:
    scheduler = ProcessScheduler(clock, late_s=late_s)
    scheduler.start()
    try:
        yield scheduler
    finally:
        scheduler.stop()


@asynccontextmanager
async def runner_at_work(database: Database, clock: HeldClock, *, look_every_s: float) -> AsyncIterator[Room]:
    async with started(clock) as scheduler:
        room = Room(database, clock, scheduler, look_every_s)
        async with running(room.runner.run):
            yield room


class Counted:
    """Work that counts how often it was done, and may fail the first times."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.times = 0

    async def work(self) -> None:
        self.times += 1
        if self.errors:
            raise self.errors.pop(0)


@pytest.mark.requirement("G-14")
async def test_a_due_reminder_fires_through_the_date_job(sqlite_database: Database) -> None:
    clock = HeldClock()
    async with runner_at_work(sqlite_database, clock, look_every_s=HOUR_S) as room:
        await room.set(in_(clock, milliseconds=600), "later")
        await room.set(in_(clock, milliseconds=300), "sooner")

        async def both() -> bool:
            return await room.said() == ["⏰ sooner", "⏰ later"]

        await until(both)


async def test_a_clock_that_was_set_forward_is_noticed_through_the_interval_job(sqlite_database: Database) -> None:
    clock = HeldClock()
    async with runner_at_work(sqlite_database, clock, look_every_s=0.3) as room:
        await room.set(in_(clock, hours=1))
        await room.set(in_(clock, milliseconds=100))
        await until(lambda: room.outcomes == ["fired"] and clock.sleepers == 1)  # it waits again
        clock.ahead = timedelta(hours=1)
        await until(lambda: room.outcomes == ["fired", "fired"])


async def test_the_table_is_left_alone_until_a_moment_comes_and_read_now_and_then(sqlite_database: Database) -> None:
    """Another process may have changed it."""
    clock = HeldClock()
    async with runner_at_work(sqlite_database, clock, look_every_s=0.05) as room:
        await room.set(in_(clock, hours=1))
        await until(lambda: clock.sleepers == 1)
        await sqlite_database.write(lambda conn: conn.execute(schedule.update().values(due_at=0, next_at=0)))
        beside = Counted()
        assert room.scheduler is not None
        async with running(partial(room.scheduler.repeat, "beside", beside.work, every_s=0.05)):
            await until(lambda: beside.times > 3)
        assert room.outcomes == []
        clock.later_s = READ_EVERY_S
        await until(lambda: bool(room.outcomes))


@pytest.mark.requirement("G-14")
async def test_a_reminder_of_the_whole_gateway_fires_through_the_jobs(world_of: Callable[..., World]) -> None:
    world = world_of()
    world.clock = HeldSkippingClock()
    async with world.process():
        await world.asks("/remind in 2 sec tea", "I will remind")
        await world.shows("⏰ tea")


@pytest.mark.requirement("G-14")
async def test_a_job_only_wakes_and_our_clock_decides(clock: FakeClock) -> None:
    mine, machines = Counted(), Counted()
    async with (
        started(SystemClock()) as theirs,
        started(clock) as scheduler,
        running(
            partial(scheduler.repeat, "mine", mine.work, every_s=0.05),
            partial(theirs.repeat, "machine's", machines.work, every_s=0.05),
        ),
    ):
        await until(lambda: machines.times == 5)
        assert mine.times == 0, "no time has passed on its clock"
        clock.advance(0.05)
        await until(lambda: mine.times == 1)


async def test_an_hour_of_our_clock_needs_no_hour_of_the_machine_s(clock: FakeClock) -> None:
    counted = Counted()
    async with started(clock) as scheduler, running(partial(scheduler.repeat, "it", counted.work, every_s=HOUR_S)):
        for hour in (1, 2):
            await until(lambda: clock.sleepers == 1)
            clock.advance(HOUR_S)
            await until(lambda hour=hour: counted.times == hour and clock.sleepers == 1)


async def test_a_loop_whose_job_does_not_come_wakes_by_itself() -> None:
    """The machine's clock was set back by an hour: so long no job comes. A scheduler that runs no jobs is like it."""
    clock, counted = SystemClock(), Counted()
    scheduler = ProcessScheduler(clock, late_s=0.1)
    async with running(partial(scheduler.repeat, "it", counted.work, every_s=0.1)):
        await until(lambda: counted.times == 3)


async def test_work_that_breaks_is_told_and_done_again(clock: FakeClock) -> None:
    counted, told = Counted(ValueError("broken")), []
    troubles = Troubles(clock)
    loops = Loops(clock, troubles, lambda key, values: told.append((key, values["part"], values["defect"])))
    async with started(SystemClock()) as scheduler:
        job = partial(scheduler.repeat, "it", counted.work, every_s=0.05)
        async with running(partial(loops.keep, "it", job)):
            await until(lambda: told == [("owner_loop", "it", "ValueError")])
            await until(lambda: clock.sleepers == 1)
            clock.advance(1.0)
            await until(lambda: counted.times == 4)
    assert [trouble.subject for trouble in troubles.open] == ["it"], "it has not run long enough to be well again"


async def test_nobody_is_woken_once_the_scheduler_was_stopped() -> None:
    stopped, going = Counted(), Counted()
    async with (
        started(SystemClock(), late_s=HOUR_S) as scheduler,
        started(SystemClock()) as other,
        running(
            partial(scheduler.repeat, "it", stopped.work, every_s=0.05),
            partial(other.repeat, "it", going.work, every_s=0.05),
        ),
    ):
        await until(lambda: stopped.times == 2)
        scheduler.stop()
        done, before = stopped.times, going.times
        await until(lambda: going.times == before + 5)
        assert stopped.times == done


async def test_the_scheduler_writes_no_line_for_each_job(caplog: pytest.LogCaptureFixture) -> None:
    set_up(level="INFO", format="json", redact=str)
    counted = Counted()
    caplog.set_level(logging.INFO)
    async with (
        started(SystemClock()) as scheduler,
        running(partial(scheduler.repeat, "it", counted.work, every_s=0.05)),
    ):
        await until(lambda: counted.times == 3)
    assert [record for record in caplog.records if record.name.startswith("apscheduler")] == []
