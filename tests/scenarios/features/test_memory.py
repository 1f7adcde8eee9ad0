"""Whole turns with a memory: what the background makes of them, and that its trouble stays its own."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from sqlalchemy import Connection, func, select, text

from agent.compaction.settings import MemorySettings
from agent.core.errors import ProviderRefused
from agent.core.events import MemorySearched
from agent.memory.graph import parsed
from agent.memory.settings import GraphSettings, RecallSettings, SemanticSettings
from agent.memory.vectors import NoVectors, Vectors
from agent.run.settings import Settings
from agent.storage.database import Database
from agent.storage.tables import memory_vector, relation, skill_outcomes
from tests.agent.world import World
from tests.fakes.embedding import FakeEmbedder
from tests.fakes.provider import ScriptedProvider, calls, fails, says
from tests.fakes.tools import FakeTool
from tests.fakes.waiting import until

GRAPH = (
    '{"subject": "Ida", "relation": "sister of", "object": "Ann", "confidence": 0.9, "message": 1}\n'
    "nonsense\n"
    '{"subject": "Ida", "relation": "lives in", "object": "Oslo", "confidence": 0.8, "message": 2, "single": true}'
)


class MemoryWorld(World):
    """With vectors of a fake embedder, and the graph on if wanted."""

    def __init__(
        self, database: Database, home: Path, *providers: ScriptedProvider, graph: bool = False, **more: Any
    ) -> None:
        self.embedder = FakeEmbedder(same={"vessel": "boat"})
        memory = MemorySettings(
            graph=GraphSettings(enabled=graph, every=2),
            recall=RecallSettings(timeout_s=60),
            semantic=SemanticSettings(engine="auto"),
        )
        super().__init__(database, home, *providers, settings=Settings(memory=memory), **more)

        async def embedder() -> FakeEmbedder:
            return self.embedder

        self.memory.vectors = Vectors(database, embedder)

    async def rows_in(self, table: object) -> int:
        statement = select(func.count()).select_from(table)  # type: ignore[arg-type]
        return int(await self.database.read(lambda conn: conn.execute(statement).scalar_one()))


@asynccontextmanager
async def background(world: World) -> AsyncIterator[None]:
    async with anyio.create_task_group() as group:
        group.start_soon(world.background.run)
        yield
        group.cancel_scope.cancel()


async def new_session(world: World) -> None:
    """The next message begins another session, in another process."""
    await world.database.write(lambda conn: conn.execute(text("UPDATE conversation SET session_id = NULL")))
    await world.restart()


def block(provider: ScriptedProvider) -> str:
    """The recalled block of the newest request."""
    return provider.requests[-1].reminder.partition("<reminder>")[0]


async def test_what_was_said_is_found_by_meaning_in_another_session(database: Database, tmp_path: Path) -> None:
    provider = ScriptedProvider()
    world = MemoryWorld(database, tmp_path, provider)
    async with background(world):
        await world.say("The boat lies in Bergen since spring.")

        async def has_vector() -> bool:
            return await world.rows_in(memory_vector) > 0

        await until(has_vector)
        world.agent.operations.new_session()
        await new_session(world)
        await world.say("In which town is that vessel moored these days?")
    assert "The boat lies in Bergen" in block(provider)
    assert block(provider).index("<memory>") == 0


async def test_the_graph_is_read_in_the_background_and_shown(database: Database, tmp_path: Path) -> None:
    provider = ScriptedProvider(aside=says(GRAPH))
    world = MemoryWorld(database, tmp_path, provider, graph=True)
    async with background(world):
        await world.say("My sister Ida came to visit.")
        await world.say("She is moving to Oslo next month.")

        async def has_edges() -> bool:
            return await world.rows_in(relation) == 2

        await until(has_edges)
        await world.say("Who was the sister of Ida again?")
    assert "Ida sister of Ann" in block(provider)
    assert "[graph facts]" in block(provider)
    assert len(provider.asides) == 1, "one reading for several messages"
    await world.ledger.flush()
    assert {"graph"} < {row.purpose for row in await world.usage_rows()}


@pytest.mark.requirement("W-11")
async def test_nothing_is_recalled_while_the_operator_has_it_off(sqlite_database: Database, tmp_path: Path) -> None:
    provider = ScriptedProvider()
    world = MemoryWorld(sqlite_database, tmp_path, provider)
    on = world.settings
    await world.say("The boat lies in Bergen since spring.")
    recalled = []
    for settings in (Settings(memory=MemorySettings(recall=RecallSettings(enabled=False))), on):
        world.settings = settings
        await new_session(world)
        await world.say("Where does the boat lie since spring?")
        recalled.append("The boat lies in Bergen" in block(provider))
    assert recalled == [False, True]


@pytest.mark.requirement("Z-11")
async def test_fixed_order_of_what_is_recalled(sqlite_database: Database, tmp_path: Path) -> None:
    code = "Noted: the heron loader is\n```python\ndef load_heron(): ...\n```\nfine."
    provider = ScriptedProvider(scripts=[says(code)], aside=says(GRAPH))
    world = MemoryWorld(sqlite_database, tmp_path, provider, graph=True)
    async with background(world):
        await world.say("How does the friend of the heron loader, load_heron, work?")
        await world.say("My sister Ida lives in Oslo and likes the heron loader.")

        async def has_edges() -> bool:
            return await world.rows_in(relation) == 2

        await until(has_edges)
    await new_session(world)
    await world.say("Who is the sister of Ida, and what was the heron loader load_heron of my friend?")
    shown = block(provider)
    assert re.findall(r"(?m)^\[(.+)\]$", shown) == ["semantic recall", "code context", "graph facts"]
    assert "def load_heron()" in shown.partition("[code context]")[2].partition("[graph facts]")[0]
    assert "Ida sister of Ann" in shown.partition("[graph facts]")[2]


@pytest.mark.requirement("Z-138")
async def test_a_turn_that_finds_nothing_by_words_and_meaning_notes_it(
    sqlite_database: Database, tmp_path: Path
) -> None:
    world = MemoryWorld(sqlite_database, tmp_path, ScriptedProvider())
    await world.say("The boat lies in Bergen since spring.")
    await new_session(world)
    await world.say("Hello.")  # only a session's first words look for facts, too
    missing, known = "petrels nest near cliffs", "that boat near Bergen"
    await world.say(missing)
    await world.say(known)
    found = [(event.strategy, event.results > 0) for event in world.events if isinstance(event, MemorySearched)]
    assert found[-2:] == [("hybrid", False), ("hybrid", True)]
    await world.memory.misses.flush()
    misses = select(skill_outcomes.c.query).where(skill_outcomes.c.strategy == "hybrid")
    queries = await world.database.read(lambda conn: conn.execute(misses).scalars().all())
    assert missing in queries
    assert known not in queries, "what was found is no miss"


@pytest.mark.requirement("Z-15")
async def test_an_answer_after_a_tool_call_is_remembered_with_the_words_it_answers(
    database: Database, tmp_path: Path
) -> None:
    provider = ScriptedProvider(scripts=[calls("echo", {"text": "hall"}), says("The heron loader is in hall seven.")])
    world = MemoryWorld(database, tmp_path, provider, tools=(FakeTool(),))
    assert await world.say("Please look for the heron loader.") == ["The heron loader is in hall seven."]
    await new_session(world)
    await world.say("In which hall is the heron loader?")
    assert "Ann: Please look for the heron loader." in block(provider)
    assert "you: The heron loader is in hall seven." in block(provider)


@pytest.mark.requirement("Z-15")
async def test_what_was_said_in_a_turn_that_failed_is_kept(sqlite_database: Database, tmp_path: Path) -> None:
    provider = ScriptedProvider(scripts=[fails(ProviderRefused("bad key"))])
    world = MemoryWorld(sqlite_database, tmp_path, provider)
    (told,) = await world.say("The boat lies in Bergen since spring.")
    assert "refused the request" in told
    await world.say("Hello again.")
    assert [message.content for message in provider.requests[-1].messages] == [
        "The boat lies in Bergen since spring.",
        "Hello again.",
    ]
    await new_session(world)
    await world.say("Where does the boat lie since spring?")
    assert "The boat lies in Bergen" in block(provider)


@pytest.mark.parametrize("broken", ["memory_vector", "relation", "embedder", "model"])
async def test_with_vectors_or_graph_failing_turns_go_on(
    database: Database, tmp_path: Path, broken: str, caplog: pytest.LogCaptureFixture
) -> None:
    provider = ScriptedProvider(aside=fails(NoVectors("no model")))
    world = MemoryWorld(database, tmp_path, provider, graph=True)
    if broken == "embedder":
        world.embedder.error = NoVectors("the model is gone")
    elif broken != "model":

        def ruin(conn: Connection) -> None:
            conn.execute(text(f"DROP TABLE {broken}"))

        await database.write(ruin)
    async with background(world):
        said = [await world.say(f"My sister Ida sails a boat, part {n}, who is her friend?") for n in range(3)]
        assert said == [["ok"]] * 3
        await world.memory.misses.flush()
        if broken != "model":
            assert await world.rows_in(skill_outcomes) > 0
        await until(lambda: broken == "embedder" or "wait" in caplog.text)
    assert not any("wait" in text for texts in said for text in texts)


async def test_a_slow_memory_is_left_behind(sqlite_database: Database, tmp_path: Path) -> None:
    provider = ScriptedProvider()
    world = MemoryWorld(sqlite_database, tmp_path, provider)
    world.settings = Settings(
        memory=MemorySettings(recall=RecallSettings(timeout_s=0.05), semantic=SemanticSettings(timeout_s=5))
    )

    async def never() -> FakeEmbedder:
        await anyio.sleep_forever()
        return world.embedder

    world.memory.vectors = Vectors(sqlite_database, never)
    await world.restart()
    assert await world.say("where does the boat lie these days?") == ["ok"]
    assert block(provider) == ""


def test_what_a_model_says_of_relations_is_believed_with_care() -> None:
    found = list(parsed(GRAPH + '\n{"subject": "a", "relation": "b", "object": "c", "message": 9}\n[1]\nnull', 2))
    assert [(one.subject, one.word, one.object, one.single) for one in found] == [
        ("Ida", "sister of", "Ann", False),
        ("Ida", "lives in", "Oslo", True),
    ]
    line = '{"subject": "Ida", "relation": "knows", "object": "P%d", "confidence": 7}'
    many = list(parsed("\n".join(line % n for n in range(40)), 1))
    assert len(many) == 20
    assert many[0].confidence == 1.0
    beyond = line.replace("P%d", "Pia").replace("7}", '7, "message": 1e999}')
    assert [one.object for one in parsed(f"{beyond}\n{line % 1}", 1)] == ["P1"], "a number beyond all is no message's"
    odd = list(parsed(line % 1 + "\r\n" + line.replace("Ida", "I\u2028da") % 2, 1))
    assert [one.subject for one in odd] == ["Ida", "I da"], "a sign that ends a line elsewhere ends none of JSON"
