"""A loop that breaks is told, waits longer each time, and runs again; its end ends nothing else."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import anyio
import pytest

from agent.storage.errors import DatabaseDamaged, StorageTrouble
from gateway.running.accounts.accounts import WELL_AFTER_S, Loops
from gateway.telemetry.trouble import Troubles
from tests.fakes.clock import FakeClock
from tests.fakes.running import running
from tests.fakes.waiting import until


class Room:
    """A loop that raises the next of `errors` each time it is run, and goes on when there is none left."""

    def __init__(self, clock: FakeClock, *errors: Exception) -> None:
        self.clock, self.errors = clock, list(errors)
        self.runs: list[float] = []
        self.told: list[tuple[str, dict[str, object]]] = []
        self.troubles = Troubles(clock)
        self.loops = Loops(clock, self.troubles, lambda key, values: self.told.append((key, values)))

    async def loop(self) -> None:
        self.runs.append(self.clock.monotonic())
        if self.errors:
            raise self.errors.pop(0)
        await anyio.sleep_forever()

    @asynccontextmanager
    async def kept(self, run: Callable[[], Awaitable[None]] | None = None) -> AsyncIterator[None]:
        async def keep() -> None:
            await self.loops.keep("skills", run or self.loop)

        async with running(keep):
            yield

    async def until_it_ran(self, times: int) -> None:
        """Time passes, a second after the other, while somebody waits for it."""
        while len(self.runs) < times:
            await until(lambda: self.clock.sleepers > 0 or len(self.runs) >= times)
            self.clock.advance(1.0)
            await anyio.wait_all_tasks_blocked()

    @property
    def open(self) -> list[tuple[str, str, bool]]:
        return [(trouble.subject, trouble.text, trouble.blocking) for trouble in self.troubles.open]


async def test_one_that_breaks_is_told_and_runs_again_later_each_time(clock: FakeClock) -> None:
    room = Room(clock, *[KeyError("somebody's words")] * 9)
    async with room.kept():
        await room.until_it_ran(10)
    waits = [after - before for before, after in zip(room.runs, room.runs[1:], strict=False)]
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    assert room.open == [("skills", "broke: KeyError", False)], "chats go on, so the process stays ready"
    assert room.told[0] == ("owner_loop", {"part": "skills", "defect": "KeyError"})


async def test_it_is_well_again_when_it_runs(clock: FakeClock) -> None:
    room = Room(clock, ValueError("x"))
    async with room.kept():
        await room.until_it_ran(2)
        await until(lambda: clock.sleepers > 0)
        assert room.open
        clock.advance(WELL_AFTER_S)
        await until(lambda: not room.open)


@pytest.mark.parametrize("error", [StorageTrouble("database or disk is full"), DatabaseDamaged("x.db is damaged")])
async def test_the_storage_s_trouble_is_told_by_the_storage(clock: FakeClock, error: Exception) -> None:
    room = Room(clock, error)
    async with room.kept():
        await room.until_it_ran(2)
        assert (room.open, room.told) == ([], [])


async def test_an_error_of_a_group_is_named_by_what_it_is(clock: FakeClock) -> None:
    async def grouped() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(anyio.sleep_forever)
            raise OSError("gone")

    room = Room(clock)
    async with room.kept(grouped):
        await until(lambda: bool(room.open))
        assert room.open == [("skills", "broke: OSError", False)]


@pytest.mark.parametrize("errors", [0, 1], ids=["at once", "after it broke"])
async def test_one_that_ends_has_ended_and_cancellation_passes(clock: FakeClock, errors: int) -> None:
    room = Room(clock, *[ValueError("x")] * errors)

    async def short() -> None:
        if room.errors:
            await room.loop()

    async with anyio.create_task_group() as group:
        group.start_soon(room.loops.keep, "skills", short)
        if errors:
            await until(lambda: clock.sleepers > 0)
            clock.advance(1.0)
    assert room.open == []

    async with anyio.create_task_group() as group:
        group.start_soon(room.loops.keep, "skills", anyio.sleep_forever)
        await anyio.wait_all_tasks_blocked()
        group.cancel_scope.cancel()
    assert room.open == []
