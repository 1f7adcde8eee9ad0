"""Facts that are erased in another chat during a turn do not come back with that turn."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path

import anyio
import pytest
from sqlalchemy import NullPool, create_engine, insert, make_url, select

from agent.compaction.settings import MemorySettings
from agent.core.ids import ConversationId
from agent.core.messages import Message, TextPart
from agent.memory.erasure import forget, preview
from agent.memory.records import Forgotten, audience_of_person
from agent.memory.rows import Erased, Target
from agent.providers.provider import Chunk, Request
from agent.run.settings import Settings
from agent.sessions import window_store
from agent.sessions.window_store import WindowChanges
from agent.storage.database import Database, check_epoch
from agent.storage.tables import cleared_result, conversation, guideline, message, passage
from gateway.storage.repair import open_database
from tests.agent.world import ANN, KEY, World
from tests.fakes.clock import FakeClock
from tests.fakes.provider import ScriptedProvider, calls, says
from tests.scenarios.context.test_compaction import REACTIVE, Lookup

SECRET = "secretword"
ELSEWHERE = ConversationId("web:1")


@dataclass(kw_only=True)
class Interrupted(ScriptedProvider):
    """While it answers its request number `at`, something else happens."""

    at: int = 0
    meanwhile: Callable[[], Awaitable[object]] | None = None

    async def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        if self.meanwhile is not None and len(self.requests) + 1 == self.at:
            happens, self.meanwhile = self.meanwhile, None
            await happens()
        async for chunk in super().stream(request):
            yield chunk


def target(world: World) -> Target:
    """Ann's words, wherever she said them, asked for in another chat of hers."""
    return Target(scope=world.memory.scope(ELSEWHERE, "direct", ANN), words=SECRET)


async def forgotten(world: World, home: Path) -> Erased:
    return await forget(world.memory, target(world), home=home, folders=lambda _: (), clock=world.clock)


async def left(world: World) -> list[str]:
    """Everything of transcript and index that holds the words."""
    columns = (message.c.parts, message.c.deferred, passage.c.text, cleared_result.c.text, guideline.c.body)
    found = await world.database.read(lambda conn: [one for c in columns for one in conn.execute(select(c)).scalars()])
    return [one for one in found if one is not None and SECRET in one]


def looking(database: Database, home: Path) -> tuple[World, Interrupted]:
    """Old results are cleared by the microcompact of the fourth look; that waits for the end of its turn."""
    model = Interrupted(context_window=8_000)
    world = World(database, home, model, settings=Settings(memory=MemorySettings(compression=REACTIVE)),
                  tools=(Lookup(f"the {SECRET} is plover. " * 20),))  # fmt: skip
    return world, model


@pytest.mark.parametrize("whole", [True, False], ids=["when the forgetting has ended", "while it goes on"])
async def test_what_was_cleared_is_not_written_back(sqlite_database: Database, tmp_path: Path, whole: bool) -> None:
    world, model = looking(sqlite_database, tmp_path)
    model.at = 8

    async def ends() -> None:
        assert world.agent.message.compaction.window.unwritten.any, "something waits to be written"
        if whole:
            assert (await forgotten(world, tmp_path)).messages
        else:
            going_on.__enter__()

    model.meanwhile = ends
    going_on = world.memory.forgotten.going_on([KEY])
    for number in range(4):
        model.scripts += [calls("lookup", {}, id=f"c{number}"), says("fine")]
        await world.say(f"look number {number}")
    assert model.meanwhile is None
    assert not await world.database.read(lambda conn: conn.execute(select(cleared_result.c.text)).all())
    assert not world.agent.message.loaded, "the next turn reads what the store has"
    if whole:
        assert await left(world) == []
        await world.say("and on")
        assert SECRET not in str([one.content for one in model.requests[-1].messages])
    else:
        going_on.__exit__(None, None, None)


async def test_what_was_on_its_way_into_the_database_is_waited_for(postgres_url: str, tmp_path: Path) -> None:
    """PostgreSQL has more than one writer: one may have been allowed to write before, and commit after."""
    database = await open_database(postgres_url, tmp_path)
    world = World(database, tmp_path, ScriptedProvider())
    await world.say("nothing of note")
    session, done = await world.session(), anyio.Event()
    epoch = await database.read(lambda conn: conn.execute(select(conversation.c.epoch)).scalar_one())
    summary = Message(role="user", parts=(TextPart(text=f"what was: the {SECRET} is plover"),))
    engine = create_engine(make_url(postgres_url).set(drivername="postgresql+psycopg"), poolclass=NullPool)
    with engine.connect() as late:
        check_epoch(late, KEY, epoch)
        window_store.write(late, session, KEY, WindowChanges(inserted=((summary, 0),)), at=1)

        async def forgets() -> None:
            await forgotten(world, tmp_path)
            done.set()

        async with anyio.create_task_group() as group:
            group.start_soon(forgets)
            await anyio.sleep(0.5)  # it waits for the lock of the other transaction
            assert not done.is_set()
            late.commit()
    assert await left(world) == []
    await database.aclose()


async def test_what_leaves_a_window_is_found_as_the_store_has_it(sqlite_database: Database, tmp_path: Path) -> None:
    world = World(sqlite_database, tmp_path, ScriptedProvider())
    await world.say("nothing of note")
    session, stored = await world.session(), (await world.transcript())[0].message
    read_before = replace(stored, parts=(TextPart(text=f"the {SECRET} is plover"),))
    changes = WindowChanges(hidden=(read_before,))
    await world.database.write(lambda conn: window_store.write(conn, session, KEY, changes, at=1))
    assert await left(world) == []
    found = await world.database.read(lambda conn: conn.execute(select(passage.c.text)).scalars().all())
    assert any("nothing of note" in text for text in found)


async def test_what_was_made_of_a_clean_message_goes_too(sqlite_database: Database, tmp_path: Path) -> None:
    world = World(sqlite_database, tmp_path, ScriptedProvider())
    await world.say("nothing of note")
    session = await world.session()
    row = {"session_id": session, "conv": KEY, "message_id": 1, "number": 7, "text": f"the {SECRET} is plover"}
    await world.database.write(lambda conn: conn.execute(insert(passage).values(**row)))
    assert (await preview(world.memory, target(world))).messages == 1
    await forgotten(world, tmp_path)
    assert await left(world) == []
    assert (await preview(world.memory, target(world))).messages == 0


def test_words_that_are_being_forgotten_may_not_be_written_back() -> None:
    told = Forgotten(FakeClock().monotonic)
    assert told.may_write(KEY, 0)
    with told.going_on([KEY]):
        assert not told.may_write(KEY, 0)
        assert told.may_write(ELSEWHERE, 0)
        with told.going_on([KEY, ELSEWHERE]):  # two people at once
            pass
        assert not told.may_write(KEY, 0)
        told.tell(audience_of_person(ANN), [KEY])
    assert not told.may_write(KEY, 0), "it was read before"
    assert told.may_write(KEY, 1)
