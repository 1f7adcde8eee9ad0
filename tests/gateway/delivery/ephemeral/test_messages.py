"""The message that follows longer work: one, changed in place, with its buttons; gone when the work is over."""

from dataclasses import replace
from pathlib import Path

import pytest

from agent.core.outbox import Button
from agent.storage.database import Database
from tests.fakes.channel import DEFAULT
from tests.fakes.clock import FakeClock
from tests.gateway.delivery.world import World, audience, key

STOP = ((Button(label="Stop", action="c:/goal pause 1"),),)


@pytest.fixture
def world(sqlite_database: Database, clock: FakeClock, tmp_path: Path) -> World:
    return World(sqlite_database, clock, tmp_path, replace(DEFAULT, typing=False, reactions=False))


async def test_it_changes_in_place_over_turns_and_outlives_the_voice(world: World) -> None:
    async with world.process() as delivery:
        voice = delivery.outbox_for(key())
        voice.live("turn 1", STOP)
        await world.until(lambda: world.screen().texts == ["turn 1"])
        assert world.screen().shown[0].actions == ("c:/goal pause 1",)
        voice.begin(audience())
        voice.status("working")
        await world.until(lambda: world.screen().texts == ["turn 1", "working"])
        await voice.end()
        await world.until(lambda: world.screen().texts == ["turn 1"])
        del voice  # the agent went to sleep
        await world.pass_time(120)
        delivery.outbox_for(key()).live("turn 2", STOP)
        await world.until(lambda: world.screen().texts == ["turn 2"])
        delivery.show_live(key(), "")
        await world.until(lambda: world.screen().texts == [])
        await world.still()
    assert await world.notes() == 0


async def test_what_a_dead_process_left_is_taken_away(world: World) -> None:
    async with world.process() as delivery:
        delivery.outbox_for(key()).live("turn 1", STOP)
        await world.until(lambda: world.screen().texts == ["turn 1"])
        await world.still()
        world.screen().fail("delete", OSError("killed here"))
    async with world.process():
        await world.until(lambda: world.screen().texts == [])


async def test_where_nothing_can_be_changed_nothing_is_shown(
    sqlite_database: Database, clock: FakeClock, tmp_path: Path
) -> None:
    world = World(sqlite_database, clock, tmp_path, replace(DEFAULT, edits=False))
    async with world.process() as delivery:
        delivery.outbox_for(key()).live("turn 1", STOP)
        await world.pass_time(5)
        assert world.screen().texts == []
