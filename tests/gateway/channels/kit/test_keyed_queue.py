"""Order in one place, freedom between places, a bound over all; what cannot be stored is tried again."""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import anyio
import pytest

from agent.core.clock import Clock, SystemClock
from gateway.channels.errors import GatewayUnavailable
from gateway.channels.kit.keyed_queue import STORING, Job, KeyedQueue
from tests.fakes.clock import FakeClock
from tests.fakes.waiting import until

log = logging.getLogger("tieline.test")


@asynccontextmanager
async def working(
    clock: Clock | None = None, *, limit: int = 100, at_once: int = 64, job_s: float = 60.0
) -> AsyncIterator[KeyedQueue]:
    queue = KeyedQueue(clock or SystemClock(), log, limit=limit, at_once=at_once, job_s=job_s)
    async with running(queue):
        yield queue


@asynccontextmanager
async def running(queue: KeyedQueue) -> AsyncIterator[None]:
    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            await group.start(queue.run)
            yield
            group.cancel_scope.cancel()


class Done:
    """Jobs that write down that they were done."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def job(self, name: str, *, after: anyio.Event | None = None) -> Job:
        async def run() -> None:
            if after is not None:
                await after.wait()
            self.names.append(name)

        return run


async def never() -> None:
    await anyio.sleep_forever()


async def test_a_place_is_worked_on_in_order_and_holds_up_no_other() -> None:
    done, go_on = Done(), anyio.Event()
    async with working() as queue:
        await queue.put("a", done.job("a1", after=go_on))
        assert queue.put_nowait("a", done.job("a2"))
        assert queue.put_nowait("b", done.job("b1"))
        await anyio.wait_all_tasks_blocked()
        assert done.names == ["b1"]
        go_on.set()
        await anyio.wait_all_tasks_blocked()
        assert done.names == ["b1", "a1", "a2"]


async def test_a_job_that_breaks_is_left_behind(caplog: pytest.LogCaptureFixture) -> None:
    done = Done()

    async def breaks() -> None:
        raise KeyError("author")

    async with working() as queue:
        for job in (breaks, done.job("one"), breaks, done.job("two")):
            await queue.put("a", job, holds=True)
        await until(lambda: done.names == ["one", "two"])
    assert "could not be handled" in caplog.text


async def test_a_full_queue_takes_nothing_that_could_not_be_done() -> None:
    done, go_on = Done(), anyio.Event()
    async with working(limit=3) as queue:
        assert queue.put_nowait("a", done.job("0", after=go_on))
        assert all(queue.put_nowait("a", done.job(name)) for name in ("1", "2"))
        assert not queue.put_nowait("a", done.job("3"))
        go_on.set()
        await until(lambda: done.names == ["0", "1", "2"])
        assert queue.put_nowait("a", done.job("3"))
        await until(lambda: done.names[-1] == "3")


async def test_a_job_that_holds_its_place_is_done_again_before_the_ones_behind_it() -> None:
    clock, done, failures = FakeClock(), Done(), ["broken"] * 3

    async def store(name: str) -> None:
        if failures:
            raise GatewayUnavailable(failures.pop())
        done.names.append(name)

    def waits(left: int) -> bool:
        return len(failures) == left and clock.sleepers == 1

    async with working(clock, limit=3, at_once=1) as queue:
        await queue.put("a", partial(store, "one"), holds=True)
        await queue.put("a", partial(store, "two"), holds=True)
        for left in (2, 1, 0):
            await until(partial(waits, left))
            assert not done.names
            clock.advance(STORING.longest_s)
        await until(lambda: done.names == ["one", "two"])
        for name in ("three", "four", "five", "six"):  # each has given back its room
            await queue.put("a", partial(store, name), holds=True)
        await until(lambda: len(done.names) == 6)


async def test_a_place_that_waits_for_the_storage_holds_up_no_other() -> None:
    clock, done = FakeClock(), Done()

    async def fails() -> None:
        raise GatewayUnavailable("disk full")

    async with working(clock, at_once=1) as queue:
        await queue.put("a", fails, holds=True)
        await until(lambda: clock.sleepers == 1)
        await queue.put("b", done.job("elsewhere"))
        await until(lambda: done.names == ["elsewhere"])


async def test_a_job_that_holds_no_place_is_tried_once() -> None:
    clock, done = FakeClock(), Done()

    async def fails() -> None:
        done.names.append("tried")
        raise GatewayUnavailable("disk full")

    async with working(clock) as queue:
        await queue.put("a", fails)
        await queue.put("a", done.job("behind it"))
        await until(lambda: len(done.names) == 2)
        assert (done.names, clock.sleepers) == (["tried", "behind it"], 0)


async def test_what_waits_is_bounded() -> None:
    put: list[int] = []
    async with working(limit=2) as queue, anyio.create_task_group() as group:

        async def fill() -> None:
            for number in range(5):
                await queue.put("a", never)
                put.append(number)

        group.start_soon(fill)
        await anyio.wait_all_tasks_blocked()
        assert put == [0, 1]
        group.cancel_scope.cancel()


async def test_no_more_places_than_agreed_are_worked_on_at_once() -> None:
    done, go_on = Done(), anyio.Event()
    async with working(at_once=1) as queue:
        await queue.put("a", done.job("a", after=go_on))
        await queue.put("b", done.job("b"))
        await anyio.wait_all_tasks_blocked()
        assert done.names == []
        go_on.set()
        await until(lambda: done.names == ["a", "b"])


async def test_a_queue_that_is_run_again_has_all_its_room() -> None:
    queue = KeyedQueue(SystemClock(), log, limit=4, at_once=2)
    for life in range(3):
        async with running(queue):
            with anyio.fail_after(5):
                for number in range(4):
                    await queue.put(f"place {number % 3}", never)
            if life:
                await anyio.wait_all_tasks_blocked()  # else not even the first of them has begun
        assert not queue.is_running


async def test_a_queue_that_is_not_run_takes_nothing_and_keeps_its_room() -> None:
    queue, done = KeyedQueue(SystemClock(), log, limit=1), Done()
    with pytest.raises(RuntimeError, match="not running"):
        queue.put_nowait("a", done.job("too early"))
    with pytest.raises(RuntimeError, match="not running"):
        await queue.put("a", done.job("too early"))
    async with running(queue):
        assert queue.put_nowait("a", done.job("in time"))
        await until(lambda: done.names == ["in time"])


async def test_a_job_that_hangs_gives_its_place_back() -> None:
    done = Done()
    async with working(limit=1, job_s=0.05) as queue:
        await queue.put("a", never)
        with anyio.fail_after(5):
            await queue.put("a", done.job("behind it"))
        await until(lambda: done.names == ["behind it"])
