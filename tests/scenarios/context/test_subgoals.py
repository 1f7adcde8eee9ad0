"""Subgoals through whole turns: asked about in the background, shown by a look at the agent, written to the dumps."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from agent.compaction.dumps import Form
from agent.compaction.goal_watch import EVERY
from agent.compaction.settings import (
    AgentCompressionSettings,
    CompressionSettings,
    Level,
    MemorySettings,
    MicrocompactSettings,
    StrategyName,
    SubgoalSettings,
)
from agent.providers.provider import Usage
from agent.run.settings import AgentSettings, ContextSettings, Settings
from agent.storage.database import Database
from tests.agent.world import World
from tests.fakes.provider import SUMMARY, ScriptedProvider, calls, says
from tests.fakes.tools import FakeTool
from tests.fakes.waiting import until

TEA = "CURRENT: make tea\nCOMPLETED: NONE"


def settings(strategy: StrategyName = "subgoal_mig", *, enabled: bool = True, level: Level = "safe") -> Settings:
    return Settings(
        agent=AgentSettings(compression=AgentCompressionSettings(subgoal_config=SubgoalSettings(enabled=enabled))),
        context=ContextSettings(compaction=level, microcompact=MicrocompactSettings(min_pressure=0.9)),
        memory=MemorySettings(
            compression=CompressionSettings(pruning_strategy=strategy), prune_protect_tokens=100, tool_call_cutoff=99
        ),
    )


def world_of(database: Database, home: Path, provider: ScriptedProvider, chosen: Settings) -> World:
    return World(database, home, provider, settings=chosen, tools=(FakeTool(),))


@asynccontextmanager
async def background(world: World) -> AsyncIterator[None]:
    async with anyio.create_task_group() as group:
        group.start_soon(world.background.run)
        await anyio.wait_all_tasks_blocked()
        yield
        group.cancel_scope.cancel()


@pytest.mark.requirement("H-01", "H-31", "H-36", "Z-45", "Z-57", "Z-58")
@pytest.mark.parametrize("strategy", ["subgoal", "subgoal_mig"])
async def test_a_subgoal_is_asked_about_after_the_turn_and_shown(
    sqlite_database: Database, tmp_path: Path, strategy: StrategyName
) -> None:
    gate = anyio.Event()
    provider = ScriptedProvider(context_window=8_000, otherwise=says("ok", usage=Usage()), aside=says(TEA, gate=gate))
    world = world_of(sqlite_database, tmp_path, provider, settings(strategy))
    async with background(world):
        assert await world.say("tea, please " * 600) == ["ok"]
        await until(lambda: len(provider.asides) == 1)
        assert await world.say("and milk") == ["ok"], "a slow answer delays no turn"
        assert (await world.agent.operations.status()).active_subgoal == ""
        gate.set()
        await anyio.wait_all_tasks_blocked()
        await world.say("and sugar")
        seen = await world.agent.operations.status()
        assert (seen.strategy, seen.subgoals, seen.active_subgoal) == (strategy, 1, "make tea")
    asked = provider.asides[0].messages[0].content
    assert asked.startswith("<messages>\nuser: tea, please")


@pytest.mark.requirement("H-36")
@pytest.mark.parametrize("strategy", ["subgoal", "subgoal_mig"])
async def test_the_status_counts_a_completed_subgoal_too(
    sqlite_database: Database, tmp_path: Path, strategy: StrategyName
) -> None:
    provider = ScriptedProvider(context_window=8_000, otherwise=says("ok", usage=Usage()), aside=says(TEA))
    world = world_of(sqlite_database, tmp_path, provider, settings(strategy))
    async with background(world):
        await world.say("tea, please " * 600)
        await anyio.wait_all_tasks_blocked()
        provider.aside = says("CURRENT: fetch milk\nCOMPLETED: make tea")
        for number in range(EVERY):
            await world.say(f"and milk, {number}")
            await anyio.wait_all_tasks_blocked()
        await world.say("and sugar")
        seen = await world.agent.operations.status()
    assert (seen.strategy, seen.subgoals, seen.active_subgoal) == (strategy, 2, "fetch milk")


@pytest.mark.requirement("H-07")
async def test_a_subgoal_that_was_named_since_the_last_turn_outlives_a_compaction_by_command(
    sqlite_database: Database, tmp_path: Path
) -> None:
    provider = ScriptedProvider(context_window=8_000, otherwise=says("ok", usage=Usage()), aside=says(TEA))
    world = world_of(sqlite_database, tmp_path, provider, settings("subgoal"))
    gate = anyio.Event()
    async with background(world):
        await world.say("hello there")
        await world.say("tea, please " * 600)
        await anyio.wait_all_tasks_blocked()
        provider.aside = says("CURRENT: fetch milk\nCOMPLETED: make tea", gate=gate)
        for number in range(EVERY):
            await world.say(f"and milk, {number}")
        await until(lambda: len(provider.asides) == 2)
        provider.aside = says(f"<summary>\n{SUMMARY}\n</summary>")
        gate.set()
        await anyio.wait_all_tasks_blocked()
        await world.agent.operations.window.compact()
    kept = "\n".join(message.content for message in world.agent.message.compaction.window.messages)
    assert "tea, please" not in kept, "what was completed is in the summary"
    assert "and milk, 0" in kept, "what is being done stands there word for word"


async def test_the_task_goal_is_asked_about_after_the_turn_and_shown(sqlite_database: Database, tmp_path: Path) -> None:
    gate = anyio.Event()
    goal = says("Find a tea for\nthe guests.", gate=gate)
    provider = ScriptedProvider(context_window=8_000, otherwise=says("ok", usage=Usage()), aside=goal)
    world = world_of(sqlite_database, tmp_path, provider, settings("task_aware"))
    async with background(world):
        assert await world.say("tea, please " * 900) == ["ok"]
        await until(lambda: len(provider.asides) == 1)
        assert await world.say("and milk") == ["ok"], "a slow answer delays no turn"
        assert (await world.agent.operations.status()).task_goal == ""
        gate.set()
        await anyio.wait_all_tasks_blocked()
        assert (await world.agent.operations.status()).task_goal == "Find a tea for the guests."
        await world.say("and sugar")
    assert provider.asides[0].messages[0].content.startswith("<messages>\nuser: tea, please")


async def test_as_shipped_a_subgoal_that_nobody_has_named_yet_holds_no_result_back(
    sqlite_database: Database, tmp_path: Path
) -> None:
    """A chat that was nearly empty gets long results in one turn: nobody was asked what it is about."""
    scripts = [calls("echo", {"text": f"{number} " + "row " * 3_000}, id=f"c{number}") for number in range(8)]
    provider = ScriptedProvider(context_window=32_000, scripts=[*scripts, says("looked", usage=Usage())])
    world = world_of(sqlite_database, tmp_path, provider, Settings())
    await world.say("look at all of it")
    window = world.agent.message.compaction.window
    active = world.agent.message.compaction.watch.subgoals.active_subgoal()
    assert active is not None
    assert active.description == ""
    assert active.end >= len(window) - 1
    shown = [window[position].is_cleared for position in window.results]
    assert shown[0]
    assert not shown[-1]
    assert provider.asides == []


@pytest.mark.requirement("H-10", "H-39")
@pytest.mark.parametrize(
    "chosen",
    [settings("reactive"), settings("subgoal_mig", enabled=False), settings("subgoal_mig", level="off")],
    ids=["another strategy", "switched off", "compaction is off"],
)
async def test_nothing_is_asked_when_it_is_off(sqlite_database: Database, tmp_path: Path, chosen: Settings) -> None:
    provider = ScriptedProvider(context_window=8_000, otherwise=says("ok", usage=Usage()))
    world = world_of(sqlite_database, tmp_path, provider, chosen)
    async with background(world):
        await world.say("tea, please " * 600)
        await world.say("and milk")
        await anyio.wait_all_tasks_blocked()
    assert provider.asides == []
    assert (await world.agent.operations.status()).active_subgoal == ""


@pytest.mark.requirement("Z-56", "H-04", "H-19", "H-35")
@pytest.mark.parametrize("form", ["json", "raw"])
@pytest.mark.parametrize("strategy", ["subgoal", "subgoal_mig"])
async def test_each_pruning_leaves_the_registry_and_the_scores_in_the_dump(
    sqlite_database: Database, tmp_path: Path, strategy: StrategyName, form: Form
) -> None:
    scripts = []
    for number in range(5):
        scripts += [calls("echo", {"text": "row " * 500}, id=f"c{number}"), says("looked", usage=Usage())]
    provider = ScriptedProvider(context_window=4_000, scripts=scripts, aside=says(TEA))
    world = world_of(sqlite_database, tmp_path, provider, settings(strategy))
    world.agent.context.dumps.start(tmp_path / "dumps")
    world.agent.context.dumps.form = form
    async with background(world):
        for number in range(5):
            await world.say(f"look {number}")
            await anyio.wait_all_tasks_blocked()  # what is asked aside is answered
    files = sorted((tmp_path / "dumps").iterdir())
    names = [path.name.split("-", 1)[1] for path in files]
    assert names.count("subgoal-registry.txt") >= names.count("pruning-scores.txt") > 0
    newest = {name: path.read_text() for name, path in zip(names, files, strict=True)}
    assert newest["pruning-scores.txt"].startswith(f"{strategy}\n"), "a subgoal is known, so it is this one that judges"
    assert re.search(r"active \[\d+, \d+\) make tea", newest["subgoal-registry.txt"])
