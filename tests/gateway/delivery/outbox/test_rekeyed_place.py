"""A place gets another key while a row is on its way: the row arrives once, and what is behind it in order."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from agent.core.ids import ConversationId
from agent.storage.conversation_rows import ensure
from agent.storage.database import Database
from gateway.channels.errors import ChannelBusy
from gateway.delivery.outbox.delivery import Delivery
from gateway.storage.rekey import rekey
from tests.fakes.clock import FakeClock
from tests.gateway.delivery.world import World, key

OLD, NEW = (ConversationId(str(key(name))) for name in ("1", "2"))


@pytest.fixture
def world(sqlite_database: Database, clock: FakeClock, tmp_path: Path) -> World:
    return World(sqlite_database, clock, tmp_path)


async def move(world: World) -> None:
    await world.database.write(lambda conn: rekey(conn, OLD, NEW))
    world.delivery.wake(key("2"))


@asynccontextmanager
async def moved_while_sending(world: World) -> AsyncIterator[Delivery]:
    """The move is over while the platform has not answered yet; it does at the end."""
    await world.database.write(lambda conn: ensure(conn, OLD, 1))
    answers = world.screen("1").hold("send")
    async with world.process() as delivery:
        await world.commit("the reply", "and more")
        await world.still()
        await move(world)
        await world.pass_time(5)
        yield delivery
        answers.set()
        await world.until_idle()


async def test_what_is_on_its_way_when_its_place_moves_is_not_sent_again(world: World) -> None:
    async with moved_while_sending(world):
        assert world.screen("2").texts == []
    assert (world.screen("1").texts, world.screen("2").texts) == (["the reply"], ["and more"])
    assert await world.statuses() == ["sent", "sent"]


async def test_nor_by_a_worker_that_the_new_place_had_already(world: World) -> None:
    await world.database.write(lambda conn: ensure(conn, OLD, 1))
    screens = world.screen("1"), world.screen("2")
    answers = [screen.hold("send") for screen in screens]
    async with world.process():
        await world.commit("the reply")
        await world.commit("hello", name="2")
        await world.still()
        await move(world)
        answers[1].set()
        await world.pass_time(5)
        assert screens[1].texts == ["hello"]
        answers[0].set()
        await world.until_idle()
    assert [screen.texts for screen in screens] == [["the reply"], ["hello"]]


async def test_what_surely_did_not_arrive_is_sent_to_the_new_place_without_a_flag(world: World) -> None:
    world.screen("1").fail("send", ChannelBusy("the group moved", after_s=0.1))
    async with moved_while_sending(world):
        pass
    assert (world.screen("1").texts, world.screen("2").texts) == ([], ["the reply", "and more"])


async def test_a_row_that_nobody_carries_any_more_is_taken_for_cut_off(world: World) -> None:
    await world.database.write(lambda conn: ensure(conn, OLD, 1))
    world.screen("1").hold("send")
    async with world.process():
        await world.commit("killed")
        await world.still()
    await move(world)
    async with world.process():
        await world.until_idle()
    (text,) = world.screen("2").texts
    assert "repeat" in text
