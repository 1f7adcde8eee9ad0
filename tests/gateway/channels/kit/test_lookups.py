"""Answers beside an event: asked once, kept for a while, never waited for long, and never older than they may be."""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest

from gateway.channels.errors import ChannelBusy, ChannelError, ChannelRejected, ChannelUnsure
from gateway.channels.kit.keyed_queue import KeyedQueue
from gateway.channels.kit.lookups import AGAIN_S, KEEP_S, REFUSED_S, STALE_S, Lookups
from tests.fakes.clock import FakeClock

log = logging.getLogger("tieline.test")
BRIEFLY_S = 0.05  # for answers that do not come
PATIENCE_S = 60.0  # for those that do


class Platform:
    """Answers `answer`, or raises `trouble`; while the gate is closed not at all."""

    def __init__(self) -> None:
        self.answer = "old"
        self.trouble: Exception | None = None
        self.gate: anyio.Event | None = None
        self.asked = 0

    async def ask(self, key: str) -> str:
        self.asked += 1
        if self.gate is not None:
            await self.gate.wait()
        if self.trouble is not None:
            raise self.trouble
        return f"{key}: {self.answer}"


@asynccontextmanager
async def asking(*, patience_s: float = PATIENCE_S) -> AsyncIterator[tuple[Platform, FakeClock, Lookups[str]]]:
    platform, clock = Platform(), FakeClock()
    queue = KeyedQueue(clock, log)
    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            await group.start(queue.run)
            yield platform, clock, Lookups(platform.ask, clock, log, beside=queue.beside, patience_s=patience_s)
            group.cancel_scope.cancel()


@pytest.mark.requirement("G-44")
async def test_it_is_asked_once_by_key_and_anew_when_its_time_is_over() -> None:
    async with asking() as (platform, clock, lookups):
        assert [await lookups.get("a"), await lookups.get("a"), await lookups.get("b")] == ["a: old"] * 2 + ["b: old"]
        assert platform.asked == 2
        platform.answer = "new"
        clock.advance(KEEP_S - 1)
        assert await lookups.get("a") == "a: old"
        clock.advance(1)
        assert await lookups.get("a") == "a: new"


async def test_a_change_that_is_told_counts_at_once() -> None:
    async with asking() as (platform, _, lookups):
        await lookups.get("a")
        platform.answer = "new"
        lookups.forget("a")
        assert await lookups.get("a") == "a: new"


@pytest.mark.requirement("G-44")
@pytest.mark.parametrize(
    ("trouble", "again_s"),
    [
        pytest.param(ChannelUnsure("no answer"), AGAIN_S, id="no answer"),
        pytest.param(ChannelBusy("wait", after_s=1.0), AGAIN_S, id="busy for a moment"),
        pytest.param(ChannelBusy("wait", after_s=400.0), 400.0, id="busy for long"),
        pytest.param(ValueError("odd"), AGAIN_S, id="an answer that cannot be read"),
        pytest.param(ChannelRejected("no"), REFUSED_S, id="refused"),
        pytest.param(KeyError("a defect"), REFUSED_S, id="a defect of the adapter"),
    ],
)
async def test_after_a_failure_it_waits_before_it_asks_again(trouble: Exception, again_s: float) -> None:
    async with asking() as (platform, clock, lookups):
        platform.trouble = trouble
        assert await lookups.get("a") is None
        clock.advance(again_s - 0.5)
        assert await lookups.get("a") is None
        assert platform.asked == 1
        platform.trouble = None
        clock.advance(0.5)
        assert await lookups.get("a") == "a: old"


@pytest.mark.requirement("G-44")
async def test_the_last_answer_counts_for_half_an_hour_at_most_while_no_new_one_comes() -> None:
    async with asking() as (platform, clock, lookups):
        await lookups.get("a")
        platform.trouble = ChannelError("down")
        clock.advance(STALE_S - 1)
        assert await lookups.get("a") == "a: old"
        clock.advance(1)
        assert await lookups.get("a") is None


async def test_a_slow_answer_is_waited_for_once_and_counts_when_it_comes() -> None:
    async with asking(patience_s=BRIEFLY_S) as (platform, _, lookups):
        platform.gate = anyio.Event()
        assert await lookups.get("a") is None
        with anyio.fail_after(60), anyio.CancelScope() as scope:
            scope.deadline = anyio.current_time() + BRIEFLY_S / 2  # less than its patience: it does not wait again
            assert await lookups.get("a") is None
        assert not scope.cancelled_caught
        assert platform.asked == 1
        platform.gate.set()
        await anyio.wait_all_tasks_blocked()
        assert await lookups.get("a") == "a: old"
        assert platform.asked == 1


async def test_an_answer_from_before_a_change_does_not_count() -> None:
    async with asking(patience_s=BRIEFLY_S) as (platform, _, lookups):
        gate = platform.gate = anyio.Event()
        assert await lookups.get("a") is None
        lookups.forget("a")
        gate.set()
        await anyio.wait_all_tasks_blocked()
        platform.answer = "new"
        assert await lookups.get("a") == "a: new"
        assert platform.asked == 2
