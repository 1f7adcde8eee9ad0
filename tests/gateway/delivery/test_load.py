"""A busy process leaves out what may be left out, and nothing else."""

from pathlib import Path

import pytest

from agent.storage.database import Database
from gateway.delivery.settings import Settings
from tests.fakes.channel import DEFAULT
from tests.fakes.clock import FakeClock
from tests.gateway.delivery.world import World, audience, key


@pytest.fixture
def world(sqlite_database: Database, clock: FakeClock, tmp_path: Path) -> World:
    return World(sqlite_database, clock, tmp_path, DEFAULT, settings=Settings())


async def test_while_it_is_busy_replies_go_out_and_signs_of_life_and_previews_do_not(world: World) -> None:
    world.is_busy = True
    async with world.process() as delivery:
        voice = delivery.outbox_for(key())
        voice.begin(audience())
        voice.preview("The cat")
        voice.status("looking")
        await world.pass_time(3)
        screen = world.screen()
        assert (screen.texts, screen.reactions, screen.made("typing")) == ([], {}, [])
        await world.commit("The cat sat.")
        delivery.wake(key())
        await world.until(lambda: screen.texts == ["The cat sat."])


async def test_what_was_held_back_is_shown_when_there_is_time_again(world: World) -> None:
    world.is_busy = True
    async with world.process() as delivery:
        voice = delivery.outbox_for(key())
        voice.begin(audience())
        voice.preview("The cat")
        await world.pass_time(3)
        world.is_busy = False
        await world.pass_time(2)
        assert world.screen().texts == ["The cat"]
        assert world.screen().made("typing")


async def test_a_machine_that_is_always_busy_still_shows_something_now_and_then(world: World) -> None:
    world.is_busy = True
    async with world.process() as delivery:
        voice = delivery.outbox_for(key())
        voice.begin(audience())
        voice.preview("The cat")
        await world.pass_time(4)
        assert world.screen().texts == []
        await world.pass_time(2)
        assert world.screen().texts == ["The cat"]
        voice.preview(" sat")
        await world.pass_time(4)
        assert world.screen().texts == ["The cat"], "the next one waits as long"
        await world.pass_time(2)
        assert world.screen().texts == ["The cat sat"]


async def test_a_machine_that_is_always_busy_still_types_and_acknowledges(world: World) -> None:
    world.is_busy = True
    async with world.process() as delivery:
        voice = delivery.outbox_for(key())
        voice.begin(audience())
        await world.pass_time(4)
        assert not world.screen().made("typing")
        await world.pass_time(10)
        assert world.screen().made("typing")
        assert world.screen().reactions == {"m1": {"👀"}}
        assert len(world.screen().made("typing")) <= 3, "seldom"
