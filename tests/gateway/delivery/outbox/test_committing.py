"""A turn's commit takes its own first row along: sent at once, never by two, and looked for when the commit failed."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, select

from agent.core.ids import ConversationId
from agent.core.outbox import OutgoingMessage
from agent.storage import outbox_rows
from agent.storage.database import Database
from agent.storage.tables import outbox
from gateway.delivery.outbox.delivery import Delivery
from tests.fakes.clock import FakeClock
from tests.fakes.waiting import until
from tests.gateway.delivery.world import World, key


@pytest.fixture
def world(sqlite_database: Database, clock: FakeClock, tmp_path: Path) -> World:
    return World(sqlite_database, clock, tmp_path)


def row(conn: Connection, text: str) -> None:
    say = OutgoingMessage(text=text, kind="reply")
    outbox_rows.add(conn, conversation=ConversationId(str(key())), inbox_id=None, part=0, dedup=text, say=say, at=1)


def _keep_and_take(conn: Connection, text: str, take: Callable[[Any], None]) -> None:
    row(conn, text)
    take(conn)


async def turn(world: World, delivery: Delivery, *texts: str, fails: bool = False) -> list[str]:
    """A turn that says this; gives the rows' states as its own commit has left them."""

    def work(conn: Connection, take_first: Callable[[Any], None]) -> list[str]:
        for text in texts:
            row(conn, text)
        take_first(conn)
        if fails:
            raise OSError("the disk is gone")
        return list(conn.execute(select(outbox.c.status).order_by(outbox.c.id)).scalars())

    with delivery.outbox_for(key()).committing() as take_first:
        return await world.database.write(lambda conn: work(conn, take_first))


async def test_the_first_row_is_marked_by_the_commit_that_writes_it(world: World) -> None:
    async with world.process() as delivery:
        assert await turn(world, delivery, "one", "two") == ["sending", "new"]
        await world.until_idle()
    assert world.screen().texts == ["one", "two"]
    assert await world.statuses() == ["sent", "sent"]


async def test_what_waits_goes_first(world: World) -> None:
    await world.database.write(lambda conn: row(conn, "older"))
    async with world.process() as delivery:
        await turn(world, delivery, "newer")
        await world.until_idle()
    assert world.screen().texts == ["older", "newer"]


async def test_beside_a_worker_nothing_is_taken_twice(world: World) -> None:
    async with world.process() as delivery:
        await turn(world, delivery, "one")
        assert (await turn(world, delivery, "two"))[-1] == "new"
        await world.until_idle()
        await turn(world, delivery, "three")
        await world.until_idle()
    assert world.screen().texts == ["one", "two", "three"]


async def test_a_commit_that_fails_sends_nothing_and_leaves_the_way_free(world: World) -> None:
    async with world.process() as delivery:
        with pytest.raises(OSError, match="the disk is gone"):
            await turn(world, delivery, "never", fails=True)
        await world.until_idle()
        await turn(world, delivery, "after")
        await world.until_idle()
    assert world.screen().texts == ["after"]


async def test_a_process_that_ends_after_the_commit_sends_it_the_next_time(world: World) -> None:
    async with world.process() as delivery:
        world.absent.add(key())
        assert await turn(world, delivery, "one") == ["new"]  # nobody is there to take it
        await world.until_idle()
    world.absent.clear()
    async with world.process():
        await world.until_idle()
    assert world.screen().texts == ["one"]


async def test_what_is_committed_while_its_account_closes_waits_for_the_account(world: World) -> None:
    async with world.process() as delivery:
        with delivery.outbox_for(key()).committing() as take_first:
            world.absent.add(key())
            delivery.account_closed(key().channel_type)
            await world.database.write(partial(_keep_and_take, text="one", take=take_first))
        await until(lambda: not delivery.is_delivering(key()))
        assert world.screen().texts == [], "the channel is of no use any more"
        world.absent.clear()
        delivery.look_again()
        await until(lambda: world.screen().texts == ["one"])
        await until(lambda: not delivery.is_delivering(key()))
    assert await world.statuses() == ["sent"]
