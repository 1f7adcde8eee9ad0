"""Typing and the acknowledging reaction: there while a turn runs, never stuck."""

from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from agent.core.ids import ConversationId
from agent.storage import inbox_rows
from agent.storage.database import Database
from gateway.channels.errors import ChannelBusy, ChannelRejected
from gateway.delivery.settings import Settings
from tests.fakes.agents import admit
from tests.fakes.channel import DEFAULT
from tests.fakes.clock import FakeClock
from tests.gateway.delivery.world import World, audience, key


@pytest.fixture
def world(sqlite_database: Database, clock: FakeClock, tmp_path: Path) -> World:
    return World(sqlite_database, clock, tmp_path, settings=Settings())


def typed(world: World) -> int:
    return len(world.screen().made("typing"))


async def test_typing_is_repeated_at_the_platform_s_pace_and_ends_with_the_turn(world: World) -> None:
    async with world.process() as delivery:
        voice = delivery.outbox_for(key())
        voice.begin(audience())
        await world.pass_time(0.5)
        assert typed(world) == 1
        await world.pass_time(20)
        assert typed(world) == 6
        await voice.end()
        await world.pass_time(30)
        assert typed(world) == 6


async def test_turns_that_end_at_once_show_no_sign_of_life_and_leave_one_sleeper_for_all(world: World) -> None:
    async with world.process() as delivery:
        voices = [delivery.outbox_for(key(str(number))) for number in range(5)]
        for voice in voices:
            voice.begin(audience())
            voice.preview("words")
        await anyio.wait_all_tasks_blocked()
        assert world.clock.sleepers == 2, "one waits for when typing is due, one for the first frames of previews"
        for voice in voices:
            await voice.end()
        await world.pass_time(1)
        assert typed(world) == 0
        assert world.clock.sleepers == 0


async def test_a_turn_that_never_ends_stops_typing_after_ten_minutes(world: World) -> None:
    async with world.process() as delivery:
        voice = delivery.outbox_for(key())
        voice.begin(audience())
        await world.pass_time(601, step_s=1)
        count = typed(world)
        assert count > 100
        await world.pass_time(300, step_s=1)
        assert typed(world) == count
        assert world.clock.sleepers == 0


async def test_while_a_person_is_waited_for_nobody_seems_to_be_at_work(world: World) -> None:
    async with world.process() as delivery:
        voice = delivery.outbox_for(key())
        voice.begin(audience())
        await world.pass_time(0.5)
        with voice.awaiting():
            before = typed(world)
            await world.pass_time(60, step_s=1)
            assert typed(world) == before
        await world.pass_time(5)
        assert typed(world) > before, "it goes on"
        await voice.end()


async def test_a_new_turn_ends_the_signs_of_the_old_one(world: World) -> None:
    async with world.process() as delivery:
        voice = delivery.outbox_for(key())
        voice.begin(audience(message="m1"))
        await world.pass_time(1)
        voice.begin(audience(message="m2"))
        await world.pass_time(1)
        assert world.screen().reactions == {"m1": set(), "m2": {"👀"}}
        await voice.end()
        await world.still()
        assert world.screen().reactions == {"m1": set(), "m2": set()}


async def test_a_quick_answer_shows_neither(world: World) -> None:
    async with world.process() as delivery:
        voice = delivery.outbox_for(key())
        voice.begin(audience())
        await world.still()
        await voice.end()
        await world.pass_time(5)
    assert world.screen().calls == []


async def test_a_kill_in_the_middle_still_takes_the_reaction_back_when_it_can(world: World) -> None:
    async with world.process() as delivery:
        voice = delivery.outbox_for(key())
        voice.begin(audience())
        await world.pass_time(1)
        assert world.screen().reactions == {"m1": {"👀"}}
    assert world.screen().reactions == {"m1": set()}


async def test_a_reaction_that_the_platform_will_not_take_back_at_once_goes_later(world: World) -> None:
    """Discord lets a bot change one reaction in a quarter of a second."""
    async with world.process() as delivery:
        voice = delivery.outbox_for(key())
        voice.begin(audience())
        await world.pass_time(1)
        assert world.screen().reactions == {"m1": {"👀"}}
        world.screen().fail("react", ChannelBusy("the bucket is spent", after_s=0.25), times=2)
        await voice.end()
        await world.pass_time(0.2)
        assert world.screen().reactions == {"m1": {"👀"}}, "not before the platform's time"
        await world.pass_time(1)
        assert world.screen().reactions == {"m1": set()}
        assert len(world.screen().made("react")) == 2
        assert world.clock.sleepers == 0


async def test_the_reaction_can_be_switched_off(sqlite_database: Database, clock: FakeClock, tmp_path: Path) -> None:
    world = World(sqlite_database, clock, tmp_path, settings=Settings(acknowledge=""))
    async with world.process() as delivery:
        voice = delivery.outbox_for(key())
        voice.begin(audience())
        await world.pass_time(3)
        await voice.end()
    assert world.screen().made("react") == []


async def test_a_platform_without_either_is_left_alone(
    sqlite_database: Database, clock: FakeClock, tmp_path: Path
) -> None:
    world = World(sqlite_database, clock, tmp_path, replace(DEFAULT, typing=False, reactions=False))
    async with world.process() as delivery:
        voice = delivery.outbox_for(key())
        voice.begin(audience())
        await world.pass_time(3)
        await voice.end()
    assert world.screen().calls == []


@pytest.mark.requirement("G-09")
async def test_a_busy_platform_is_not_typed_at(world: World) -> None:
    world.screen().fail("typing", ChannelBusy("flood", after_s=30.0))
    world.screen().fail("react", ChannelRejected("reactions are off here"))
    async with world.process() as delivery:
        voice = delivery.outbox_for(key())
        voice.begin(audience())
        await world.pass_time(25)
        assert typed(world) == 0
        await world.pass_time(10)
        assert typed(world) >= 1
        await voice.end()


@pytest.mark.requirement("G-08")
async def test_the_reaction_of_a_process_that_died_is_taken_back(world: World) -> None:
    admitted = await admit(world.database, str(key()), "hi", ref="m1")
    (row,) = await world.database.write(lambda conn: inbox_rows.due(conn, ConversationId(str(key())), now=1))
    assert row.id == admitted.id
    await world.database.write(lambda conn: inbox_rows.begin(conn, row, row.incoming))
    world.screen().reactions["m1"].add("👀")
    world.screen().fail("react", ChannelBusy("not signed in yet", after_s=1.0))
    async with world.process():
        await world.until(lambda: not world.screen().reactions["m1"])
