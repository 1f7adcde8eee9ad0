"""Outlets: one process at a time sends to a conversation, and the next one finds what it left."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import anyio
import pytest
from sqlalchemy import Connection, delete, insert, select, text

from agent.core.ids import ConversationId
from agent.inbox import Incoming
from agent.storage import outbox_rows
from agent.storage.database import PROCESS
from agent.storage.payloads import encode_incoming
from agent.storage.postgres import PostgresDatabase
from agent.storage.process_tables import conversation_outlet, process
from agent.storage.tables import inbox, outbox
from gateway.channels.document import Plain
from gateway.channels.keys import ConversationKey
from gateway.channels.outbound import Outbound
from gateway.cluster.outlets import ClusterOutlets
from gateway.delivery.ephemeral.messages import Shown, encode
from gateway.delivery.settings import Settings
from tests.fakes.channel import FakeChannel
from tests.fakes.clock import FakeClock
from tests.fakes.running import running
from tests.fakes.waiting import until
from tests.gateway.cluster.process import other_process
from tests.gateway.delivery.world import World, key

CHAT = ConversationId("telegram:77")


async def holder(database: PostgresDatabase, conversation: str = CHAT) -> str | None:
    of = select(conversation_outlet.c.process).where(conversation_outlet.c.conv == conversation)
    found: str | None = await database.read(lambda conn: conn.execute(of).scalar())
    return found


async def given_to(database: PostgresDatabase, process: str, conversation: str = CHAT) -> None:
    row = {"conv": conversation, "process": process}
    await database.write(lambda conn: conn.execute(insert(conversation_outlet), row))


def outlets_of(
    database: PostgresDatabase, *, has: Sequence[ConversationId] = (), delivers: bool = True
) -> ClusterOutlets:
    return ClusterOutlets(database, lambda conversation: conversation in has, delivers=delivers)


@pytest.mark.requirement("G-161")
async def test_one_process_at_a_time_has_the_outlet(joined: PostgresDatabase, postgres_url: str) -> None:
    outlets = outlets_of(joined)
    async with other_process(postgres_url, "delivery") as other:
        assert await other.asked("take_outlet", CHAT) == []
        assert await outlets.take(CHAT) is None
        assert not outlets.holds(CHAT)
        await outlets.give_back(CHAT)
        assert await holder(joined) == other.id, "only who has it gives it back"
        await other.asked("rest", CHAT)
        assert await outlets.take(CHAT) == ()
        assert outlets.holds(CHAT)
        assert await outlets.take(CHAT) == (), "it is ours already"
        assert await other.asked("take_outlet", CHAT) is None


@pytest.mark.requirement("G-161")
async def test_the_next_one_clears_what_a_dead_one_left_on_the_screen(joined: PostgresDatabase) -> None:
    await joined.write(partial(outbox_rows.note, conversation=CHAT, kind="preview", ref="p1", at=0))
    await given_to(joined, "other")
    outlets = outlets_of(joined)
    assert await outlets.take(CHAT) is None
    await joined.write(lambda conn: conn.execute(delete(process).where(process.c.id == "other")))
    left = await outlets.take(CHAT)
    assert left is not None
    assert [(row.kind, row.ref) for row in left] == [("preview", "p1")]


@pytest.mark.requirement("G-161")
async def test_a_worker_keeps_the_outlet_of_a_conversation_that_it_has(joined: PostgresDatabase) -> None:
    had, idle = [CHAT], list[ConversationId]()
    outlets = outlets_of(joined, has=had, delivers=False)
    outlets.when_idle = idle.append
    await outlets.take(CHAT)
    await outlets.rest(CHAT)
    assert (await holder(joined), idle) == (PROCESS, [CHAT])
    had.clear()
    assert not outlets.serves(CHAT), "it is no process that delivers"
    await outlets.rest(CHAT)
    assert await holder(joined) is None
    assert outlets_of(joined).serves(CHAT)


@pytest.mark.requirement("G-161")
async def test_an_outlet_that_is_being_given_back_is_taken_afterwards(joined: PostgresDatabase) -> None:
    outlets = outlets_of(joined)
    for _ in range(20):
        await outlets.take(CHAT)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(outlets.give_back, CHAT)
            tasks.start_soon(outlets.take, CHAT)
        assert outlets.holds(CHAT)
        assert await holder(joined) == PROCESS, "else another would send at the same time"


@pytest.mark.requirement("G-161")
async def test_what_is_due_where_nobody_sends_is_found(joined: PostgresDatabase) -> None:
    def due(conversation: str, **more: object) -> dict[str, object]:
        row = {"part": 0, "dedup": conversation, "payload": "{}", "status": "new", "created_at": 0, "not_before": None}
        return {**row, "conv": conversation, **more}

    rows = [
        due("telegram:1"),
        due("telegram:2", status="sending"),
        due("telegram:3", not_before=9_000_000_000_000_000),
        due("telegram:4", status="sent"),
        due(CHAT),
    ]
    await joined.write(lambda conn: conn.execute(insert(outbox), rows))
    await given_to(joined, "other")
    found: list[ConversationId] = []
    with anyio.move_on_after(0.5):
        await outlets_of(joined).keep_looking(found.append)
    assert sorted(found) == ["telegram:1", "telegram:2"]


@asynccontextmanager
async def delivering(world: World) -> AsyncIterator[None]:
    """This process sends what is due, and looks for it."""

    async def look() -> None:
        assert isinstance(world.outlets, ClusterOutlets)
        await world.outlets.keep_looking(lambda conversation: world.delivery.wake(ConversationKey.parse(conversation)))

    async with world.process(), running(look):
        yield


@pytest.mark.requirement("G-161")
async def test_what_is_due_is_sent_in_order_where_no_other_sends(
    joined: PostgresDatabase, clock: FakeClock, tmp_path: Path
) -> None:
    world = World(joined, clock, tmp_path, outlets=outlets_of(joined))
    await world.commit("one", "two", name="1")
    await world.commit("not ours", name="2")
    await given_to(joined, "other", str(key("2")))
    async with delivering(world):
        await world.until(lambda: world.screen("1").texts == ["one", "two"])
        await world.commit("three", name="1")
        await world.until(lambda: world.screen("1").texts == ["one", "two", "three"])
        world.delivery.wake(key("2"))
        await world.still()
        assert world.screen("2").texts == []

        async def is_free() -> bool:
            return await holder(joined, str(key("1"))) is None

        await until(is_free)


@pytest.mark.requirement("G-161")
async def test_the_next_one_finishes_what_a_dead_one_was_sending(
    joined: PostgresDatabase, clock: FakeClock, tmp_path: Path
) -> None:
    place = ConversationId(str(key()))
    world = World(joined, clock, tmp_path, outlets=outlets_of(joined))
    left = await FakeChannel(key(), screen=world.screen()).send(Outbound(document=(Plain("growing…"),)))
    ref = encode(Shown(left, of=1))  # of the first of these rows
    await joined.write(partial(outbox_rows.note, conversation=place, kind="preview", ref=ref, at=0))
    await world.commit("the whole answer", "and one more")
    await given_to(joined, "other", place)
    await world.take()
    async with delivering(world):
        world.delivery.wake(key())
        await world.still()
        assert world.screen().texts == ["growing…"], "another process sends there"
        await joined.write(lambda conn: conn.execute(delete(process).where(process.c.id == "other")))
        world.delivery.wake(key())
        await world.until(lambda: world.screen().texts == ["the whole answer", "and one more"])
        await world.until_forgotten()


@pytest.mark.requirement("G-161")
async def test_an_outlet_that_could_not_be_given_back_is_still_served(joined: PostgresDatabase) -> None:
    had = [CHAT]
    outlets = outlets_of(joined, has=had, delivers=False)
    await outlets.take(CHAT)
    had.clear()
    await joined.write(lambda conn: conn.execute(text("alter table conversation_outlet rename to elsewhere")))
    assert not await outlets.give_back(CHAT)
    assert (outlets.holds(CHAT), outlets.serves(CHAT)) == (True, True), "nobody else may send there"
    await joined.write(lambda conn: conn.execute(text("alter table elsewhere rename to conversation_outlet")))
    assert await outlets.give_back(CHAT)
    assert (outlets.holds(CHAT), outlets.serves(CHAT), await holder(joined)) == (False, False, None)


@pytest.mark.requirement("G-161")
async def test_the_next_one_takes_back_the_reaction_of_a_dead_one_whose_turn_was_over(
    joined: PostgresDatabase, clock: FakeClock, tmp_path: Path
) -> None:
    """No turn begins any more that would take it back."""
    place = str(key())
    world = World(joined, clock, tmp_path, settings=Settings(), outlets=outlets_of(joined))
    message = encode_incoming(Incoming(text="hello", received_at=clock.now(), message_ref="m1"))

    def die(conn: Connection) -> None:
        row = {"conv": place, "kind": "message", "dedup": "m1", "payload": message, "status": "done", "created_at": 0}
        id = conn.execute(insert(inbox).values(row).returning(inbox.c.id)).scalar_one()
        say = {"conv": place, "inbox_id": id, "part": 0, "dedup": "a", "created_at": 0}
        conn.execute(insert(outbox).values({**say, "payload": '{"text": "hello, too", "kind": "answer"}'}))

    await joined.write(die)
    world.screen().reactions["m1"] = {"👀"}
    async with delivering(world):
        await world.until(lambda: world.screen().texts == ["hello, too"])
        await world.until(lambda: world.screen().reactions == {"m1": set()})
