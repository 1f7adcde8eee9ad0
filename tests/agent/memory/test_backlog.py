"""Messages from before there was a memory are found too, by those who heard them."""

from pathlib import Path

import pytest
from sqlalchemy import insert, select, text

from agent.compaction.settings import MemorySettings
from agent.core.ids import PersonId
from agent.memory import index, rows
from agent.memory.backlog import BATCH, Backlog
from agent.memory.settings import RecallSettings
from agent.run.settings import Settings
from agent.storage.database import Database
from agent.storage.tables import memory, memory_backlog, message
from tests.agent.world import World
from tests.fakes.provider import ScriptedProvider, says

BEN = PersonId("telegram:78")
WITHOUT = Settings(memory=MemorySettings(recall=RecallSettings(enabled=False)))


async def kept(database: Database) -> list[tuple[str, str, str | None, str]]:
    found = select(memory.c.audience, memory.c.text, memory.c.person, memory.c.speaker).order_by(memory.c.message_id)
    return await database.read(lambda conn: [tuple(row) for row in conn.execute(found).all()])


async def wait_below(database: Database, below: int = 10**6) -> None:
    """As the migration of an older database leaves it."""
    await database.write(lambda conn: conn.execute(insert(memory_backlog), {"id": 1, "below": below}))


@pytest.mark.requirement("G-25")
async def test_older_messages_are_kept_where_they_were_said(database: Database, tmp_path: Path) -> None:
    provider = ScriptedProvider(scripts=[says(f"Noted, heron number {number}.") for number in range(1, 7)])
    world = World(database, tmp_path, provider, settings=WITHOUT)
    await world.say("The boat lies in Bergen since spring.")
    await world.say("The group meets at the Blue Heron.", chat_type="group", person=BEN, display="Ben")
    await world.say("A reminder of the boat is due.", kind="reminder")
    await world.say("[forgotten]")
    await world.say("What was taken back about the boat.")
    await database.write(lambda conn: conn.execute(text("UPDATE message SET user_visible = false WHERE inbox_id = 5")))
    await world.say("<sender>Ben (telegram:78)</sender> is what Ann wrote of the boat herself.")
    assert await kept(database) == []

    await wait_below(database)
    world.settings = Settings()
    backlog = Backlog(database, world.memory, world.clock)
    assert await database.write(backlog.keep_some) == 7
    direct, group = "person:telegram:77", "place:telegram:77"
    found = await kept(database)
    assert [(audience, person, speaker) for audience, _, person, speaker in found] == [
        (direct, "telegram:77", ""),
        (direct, None, ""),
        (group, "telegram:78", "Ben"),
        (group, None, ""),
        (direct, None, ""),
        (direct, "telegram:77", ""),
        (direct, None, ""),
    ]
    assert found[0][1] == "The boat lies in Bergen since spring."
    assert await database.write(backlog.keep_some) is None
    assert await kept(database) == found, "each once"
    scope = world.memory.scope(world.key, "direct", PersonId("telegram:77"))
    terms = world.memory.lexicon.terms("Bergen")
    hits = await database.read(lambda conn: index.search(conn, scope, terms, kinds=("said",), most=5, exact=True))
    assert [item.text for item in hits] == ["The boat lies in Bergen since spring."]


async def test_it_is_done_in_small_steps_and_once(sqlite_database: Database, tmp_path: Path) -> None:
    world = World(sqlite_database, tmp_path, ScriptedProvider(), settings=WITHOUT)
    await world.say("The boat lies in Bergen since spring.")
    session = await world.session()
    many = [
        {"session_id": session, "conv": world.key, "inbox_id": 1, "position": 10 + number, "role": "assistant",
         "parts": '[{"text":"The heron counts","kind":"text"}]', "created_at": number}
        for number in range(BATCH)
    ]  # fmt: skip
    await sqlite_database.write(lambda conn: conn.execute(insert(message), many))
    await wait_below(sqlite_database)
    backlog = Backlog(sqlite_database, world.memory, world.clock)
    await backlog.run()
    assert await kept(sqlite_database) == [], "not where nothing shall be kept"
    world.settings = Settings()
    assert await sqlite_database.write(backlog.keep_some) == BATCH
    assert await sqlite_database.write(backlog.keep_some) == 1
    await sqlite_database.write(lambda conn: rows.set_off(conn, world.key, off=True))
    await backlog.run()
    assert await sqlite_database.read(lambda conn: conn.execute(select(memory_backlog)).all()) == [], "never again"


async def test_where_people_switched_it_off_nothing_old_is_kept(sqlite_database: Database, tmp_path: Path) -> None:
    world = World(sqlite_database, tmp_path, ScriptedProvider(), settings=WITHOUT)
    await world.say("The boat lies in Bergen since spring.")
    await wait_below(sqlite_database)
    world.settings = Settings()
    await sqlite_database.write(lambda conn: rows.set_off(conn, world.key, off=True))
    assert await sqlite_database.write(Backlog(sqlite_database, world.memory, world.clock).keep_some) == 0
    assert await kept(sqlite_database) == []


async def test_trouble_leaves_the_rest_for_the_next_start(
    sqlite_database: Database, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    world = World(sqlite_database, tmp_path, ScriptedProvider(), settings=WITHOUT)
    await world.say("The boat lies in Bergen since spring.")
    await wait_below(sqlite_database)
    world.settings = Settings()
    await sqlite_database.write(lambda conn: conn.execute(text("DROP TABLE memory_fts")))
    await Backlog(sqlite_database, world.memory, world.clock).run()
    assert "waits for the next start" in caplog.text
    assert await sqlite_database.read(lambda conn: len(conn.execute(select(memory_backlog)).all())) == 1
