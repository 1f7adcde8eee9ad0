"""Missing facts are put back into a summary, and repeated look-ups teach the next one: whole turns as shipped."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from sqlalchemy import select

from agent.built_ins import CommandResult
from agent.compaction.guidelines import read
from agent.core.events import CompactComplete, LookedUpAgain, SummaryProbed
from agent.core.tools import ToolContext, ToolSpec
from agent.inbox import Work
from agent.memory.erasure import forget
from agent.memory.rows import Target
from agent.operations import Operations
from agent.providers.provider import Usage
from agent.run.settings import Settings
from agent.storage.database import Database
from agent.storage.tables import guideline
from tests.agent.world import ANN, KEY, World
from tests.fakes.provider import SUMMARY, Script, ScriptedProvider, calls, says

WINDOW = 32_000
QUESTIONS = "<questions>\nWhich seat? => seat 12F\nWhat was made up? => seat 99Z\n</questions>"
FOUND = says("found", usage=Usage())
LOOKUP = ToolSpec(name="lookup", description="Looks something up.", schema={"type": "object"}, risk="safe", core=True)


@dataclass(frozen=True)
class Looking:
    """A tool that finds a long page about what it is asked."""

    spec: ToolSpec = LOOKUP
    size: int = 700

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> str:
        return f"{arguments.get('q')}: booking 4WQ150, seat 12F. " + f"{self.spec.name} line\n" * self.size


TOOLS = (Looking(), Looking(spec=replace(LOOKUP, name="browse")))


def provider(**more: Any) -> ScriptedProvider:
    notes = [says("NO_REPLY", usage=Usage()) for _ in range(9)]
    return ScriptedProvider(context_window=WINDOW, otherwise=says("ok", usage=Usage()), notes=notes, **more)


def world_of(database: Database, home: Path, model: ScriptedProvider, *, small: bool = False) -> World:
    tools = tuple(replace(tool, size=10) for tool in TOOLS) if small else TOOLS
    return World(database, home, model, settings=Settings(), tools=tools)


@asynccontextmanager
async def background(world: World) -> AsyncIterator[None]:
    async with anyio.create_task_group() as group:
        group.start_soon(world.background.run)
        await anyio.wait_all_tasks_blocked()
        yield
        group.cancel_scope.cancel()


def quiet(script: Script) -> Script:
    """The same without a report of what was used: the script's is made up, and the estimate would follow it."""
    return replace(script, chunks=tuple(chunk for chunk in script.chunks if not isinstance(chunk, Usage)))


async def look(world: World, model: ScriptedProvider, tool: str, about: str) -> None:
    model.scripts = [quiet(calls(tool, {"q": about}, id=f"call_{len(model.requests)}")), FOUND]
    await world.say(f"look up {about}")


async def talk(world: World) -> None:
    """Long words of people, until they are summarised."""
    for number in range(30):
        await world.say(f"{number}: " + "word " * 1_200)
        await anyio.wait_all_tasks_blocked()  # for what is asked in the background, where somebody runs that
        if {"compact_complete", "mid_compact_layer2_ran"} & set(world.names()):
            return
    raise AssertionError("nothing was summarised")


async def recall(world: World, model: ScriptedProvider, query: str) -> None:
    found = quiet(calls("tool_search", {"tool_name": "recall_transcript"}, id="call_s"))
    model.scripts = [found, quiet(calls("recall_transcript", {"query": query}, id="call_r")), FOUND]
    await world.say("and what was it again?")


def newest(model: ScriptedProvider) -> str:
    return "\n".join(message.content for message in model.requests[-1].messages)


async def test_what_a_summary_lacks_is_put_back_in_the_same_question(sqlite_database: Database, tmp_path: Path) -> None:
    model = provider(aside=says(f"{QUESTIONS}<summary>\n{SUMMARY}\n</summary>"))
    world = world_of(sqlite_database, tmp_path, model, small=True)
    await look(world, model, "lookup", "my booking")
    await look(world, model, "browse", "4WQ150")
    await talk(world)
    probed = [event for event in world.events if isinstance(event, SummaryProbed)]
    assert [(one.asked, one.answered, one.put_back) for one in probed] == [(2, 0, 2)], "what nobody said is not asked"
    (asked,) = model.asides
    assert "my booking" in asked.messages[0].content, "all of it fits: nothing is left out"
    sent = newest(model)
    assert SUMMARY in sent
    assert "- Which seat? seat 12F" in sent
    assert "- browse, q: 4WQ150" in sent
    assert "99Z" not in sent
    seen = await world.agent.operations.window.context()
    assert (seen.asked, seen.answered, seen.put_back) == (2, 0, 2)


async def test_a_summary_made_ahead_is_probed_too(sqlite_database: Database, tmp_path: Path) -> None:
    model = provider(aside=says(f"{QUESTIONS}<summary>\n{SUMMARY}\n</summary>"))
    world = world_of(sqlite_database, tmp_path, model, small=True)
    async with background(world):
        await look(world, model, "lookup", "my booking")
        await talk(world)
    assert "mid" in {event.stage for event in world.events if isinstance(event, SummaryProbed)}
    assert "- Which seat? seat 12F" in newest(model)


async def filled(world: World, model: ScriptedProvider) -> None:
    """So much was looked up that the oldest of it is no longer shown."""
    number = 0
    while not any(entry.is_cleared for entry in world.agent.message.compaction.window):
        number += 1
        assert number < 30
        await look(world, model, "lookup" if number % 2 else "browse", f"thing {number}")


@pytest.mark.parametrize("how", ["read again", "recalled"])
async def test_what_is_looked_up_again_teaches_the_next_compaction(
    database: Database, tmp_path: Path, how: str
) -> None:
    model = provider()
    world = world_of(database, tmp_path, model)
    await filled(world, model)
    assert world.agent.message.compaction.window[1].is_cleared or world.agent.message.compaction.window[2].is_cleared
    if how == "read again":
        await look(world, model, "lookup", "thing 1")
    else:
        await recall(world, model, "thing 1 lookup")
    (event,) = [event for event in world.events if isinstance(event, LookedUpAgain)]
    assert (event.tool, event.again) == ("lookup", how == "read again")
    await world.say("thanks")
    assert "lookup" in (await world.agent.operations.window.context()).missed
    await world.restart()
    await world.say("go on")
    assert (await world.agent.operations.window.context()).missed == ("lookup",), "another process knows it"

    await look(world, model, "lookup", "more")
    for number in range(12):
        await look(world, model, "browse", f"page {number}.")
    sent = newest(model)
    assert "more: booking" in sent, "what is of the kind that was missed is spared"
    assert "page 0.: booking" not in sent, "in place of newer results of another kind"
    await talk(world)
    assert any(isinstance(event, CompactComplete) for event in world.events)
    asked = next(one for one in model.asides if "<missed>" in one.messages[0].content)
    assert "- results of lookup: " in asked.messages[0].content
    assert "had to look up again" in asked.system.stable


async def test_people_who_clear_a_chat_are_not_quoted_to_the_next_summary(
    sqlite_database: Database, tmp_path: Path
) -> None:
    async def clear(work: Work, agent: Operations) -> CommandResult:
        await agent.clear()
        return CommandResult()

    model = provider()
    world = world_of(sqlite_database, tmp_path, model)
    await filled(world, model)
    await look(world, model, "lookup", "thing 1")
    await world.say("thanks")
    world.built_ins.commands["/clear"] = clear
    await world.say("/clear")
    for restarted in (False, True):
        if restarted:
            await world.restart()
        await world.say("hello")
        kept = world.agent.message.compaction.guidelines.kept
        assert [(one.tool, one.about) for one in kept] == [("lookup", "")]


async def test_what_is_forgotten_is_not_looked_for_either(database: Database, tmp_path: Path) -> None:
    model = provider()
    world = world_of(database, tmp_path, model)
    await filled(world, model)
    await recall(world, model, "plover thing 1 lookup")
    await world.say("thanks")
    scope = world.memory.scope(KEY, "direct", ANN)
    for words, rows in (("heron", 1), ("plover", 0)):
        target = Target(scope=scope, words=words)
        await forget(world.memory, target, home=tmp_path, folders=lambda _: (), clock=world.clock)
        assert len(await database.read(lambda conn: conn.execute(select(guideline)).all())) == rows
    await world.say("and on")
    assert world.agent.message.compaction.guidelines.kept == ()


async def test_a_conversation_keeps_one_row_of_it(sqlite_database: Database, tmp_path: Path) -> None:
    model = provider()
    world = world_of(sqlite_database, tmp_path, model)
    await filled(world, model)
    await look(world, model, "lookup", "thing 1")
    await world.say("thanks")
    rows = await sqlite_database.read(lambda conn: conn.execute(select(guideline)).all())
    assert [(row.conv, row.session_id) for row in rows] == [(KEY, await world.session())]
    assert read(rows[0].body).kept[0].about == "q=thing 1"
