"""The prefix of a conversation's requests is still: it changes on named events only."""

from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from agent.core.events import CacheBreakDetected, DecisionCompleted
from agent.core.tools import Category, ToolContext, ToolSpec
from agent.providers.anthropic.requests import Encoder
from agent.providers.openai.requests import Dialect
from agent.providers.openai.requests import Encoder as OpenAIEncoder
from agent.providers.provider import Usage
from agent.storage.database import Database
from agent.turn.requests import cache_tier_for
from tests.agent.world import World
from tests.fakes.provider import ScriptedProvider, calls, says
from tests.fakes.tools import FakeTool, named


class Fat:
    """A tool whose definition takes a thousand tokens."""

    def __init__(self, name: str, category: Category = "edit") -> None:
        self.spec = ToolSpec(
            name=name,
            description="x" * 4000,
            schema={"type": "object", "properties": {}},
            risk="safe",
            category=category,
        )

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> str:
        return f"{self.spec.name} ran"


def prefixes(world: World) -> list[str]:
    return [event.prefix for event in world.events if isinstance(event, DecisionCompleted)]


@pytest.mark.requirement("R-03")
async def test_status_reminders_and_switch_and_back_leave_it_alone(database: Database, tmp_path: Path) -> None:
    first, second = ScriptedProvider(), ScriptedProvider(name="b")
    world = World(database, tmp_path, first, second)
    await world.say("one")
    (still,) = set(prefixes(world))
    assert still
    world.clock.advance(90_000)  # another day in the reminder
    await world.agent.operations.status()
    world.outbox.status("Working…")
    await world.say("two", display="Ann B.")
    assert set(prefixes(world)) == {still}
    world.agent.operations.switch_provider("b")
    await world.say("three")
    assert prefixes(world)[-1] != still, "another model"
    world.agent.operations.switch_provider("scripted")
    await world.say("four")
    assert prefixes(world)[-1] == still
    await world.restart()
    await world.say("five")
    assert prefixes(world)[-1] == still, "also in another process"
    assert len({request.system.stable for request in (*first.requests, *second.requests)}) == 1


@pytest.mark.requirement("R-03")
async def test_a_tool_that_its_server_describes_anew_is_sent_as_it_is_now(
    sqlite_database: Database, tmp_path: Path
) -> None:
    world = World(sqlite_database, tmp_path, provider := ScriptedProvider())
    toolbox = world.agent.tool.executor.toolbox
    for description in ("Gives back its text.", "Gives back its text in capitals."):
        toolbox.lend("server", (FakeTool(spec=named("echo", description=description)),))
        for text in ("one", "two"):
            await world.say(text)
        before, after = (request.tools for request in provider.requests[-2:])
        assert before is after, "the same until it changes"
        assert [spec.description for spec in after.specs if spec.name == "echo"] == [description]


async def test_what_was_sent_is_the_beginning_of_what_is_sent_next(database: Database, tmp_path: Path) -> None:
    world = World(database, tmp_path, provider := ScriptedProvider())
    for text in ("one", "two", "three"):
        await world.say(text)
    encoder = OpenAIEncoder("openai")
    bodies = [encoder.body(request, model="m", dialect=Dialect()) for request in provider.requests]
    for before, after in pairwise(bodies):
        # All but the newest message: its reminder is left behind as it becomes history.
        assert after.startswith(before[: before.rindex(b'{"role":"user"')])


async def test_memory_changes_the_notes_a_definition_the_system_prompt(database: Database, tmp_path: Path) -> None:
    world = World(database, tmp_path, provider := ScriptedProvider())
    await world.say("one")
    before = provider.requests[-1].system
    world.agent.instruction.notes.path.parent.mkdir(parents=True, exist_ok=True)
    world.agent.instruction.notes.path.write_text("Ann likes plovers.")
    await world.say("two")
    assert provider.requests[-1].system.stable == before.stable, "what is cached longest is not touched"
    assert prefixes(world)[0] != prefixes(world)[1]


@pytest.mark.requirement("R-02", "R-03", "R-04")
async def test_fifty_fat_tools_are_named_loaded_one_by_one_and_then_stay(database: Database, tmp_path: Path) -> None:
    provider = ScriptedProvider(context_window=200_000)
    tools = tuple(Fat(f"fat_{number:02}") for number in range(50))
    world = World(database, tmp_path, provider, tools=tools)
    await world.say("hi")
    await world.say("again")
    shown = [request.tools for request in provider.requests]
    own = ["ask_user", "calculate", "current_time", "remember", "schedule_deferred", "tool_search"]
    assert [spec.name for spec in shown[0].specs] == own
    assert "fat_07" in shown[0].specs[-1].description
    assert shown[0] is shown[1], "the same bytes until something changes"

    provider.scripts = [calls("tool_search", {"tool_name": "fat_07"}), calls("fat_07"), says("done")]
    assert await world.say("use it") == ["done"]
    names = [[spec.name for spec in request.tools.specs] for request in provider.requests[2:]]
    assert "fat_07" not in names[0]
    assert "fat_07" in names[1], "from the next step on"
    assert "fat_07 ran" in provider.requests[-1].messages[-1].content
    assert "fat_07" not in next(
        spec.description for spec in provider.requests[-1].tools.specs if spec.name == "tool_search"
    )

    provider.scripts = [calls("tool_search", {"tool_name": "fat_99"}), says("no such tool")]
    await world.say("and another")
    assert "there is no tool 'fat_99'; did you mean fat_" in provider.requests[-1].messages[-1].content
    await world.restart()
    await world.say("after a restart")
    assert "fat_07" in [spec.name for spec in provider.requests[-1].tools.specs], "for the whole session"


@pytest.mark.requirement("R-04")
async def test_below_the_share_every_tool_is_shown(sqlite_database: Database, tmp_path: Path) -> None:
    provider = ScriptedProvider(context_window=200_000)
    lent = tuple(Fat(f"fat_{number:02}", "mcp") for number in range(15))
    world = World(sqlite_database, tmp_path, provider, tools=lent)
    await world.say("hi")
    names = {spec.name for spec in provider.requests[0].tools.specs}
    assert names >= {tool.spec.name for tool in world.tools if isinstance(tool, Fat)}
    world.write_persona("default", "---\nname: Test\ntools: [current_time, recall, forget]\n---\n\nYou are a test.\n")
    await world.say("hi")
    names = {spec.name for spec in provider.requests[1].tools.specs}
    assert names == {"current_time", "recall", "forget"}, "few of the house's own are not worth a search"


@pytest.mark.requirement("R-02")
async def test_another_list_in_the_definition_shows_other_tools(sqlite_database: Database, tmp_path: Path) -> None:
    world = World(sqlite_database, tmp_path, provider := ScriptedProvider())
    await world.say("one")
    world.write_persona("default", "---\nname: Test\ntools: [calculate]\n---\n\nYou are a test agent.\n")
    await world.say("two")
    shown = [[spec.name for spec in request.tools.specs] for request in provider.requests]
    assert {"calculate", "current_time"} < set(shown[0])
    assert shown[1] == ["calculate"]
    assert prefixes(world)[0] != prefixes(world)[1]


@pytest.mark.requirement("R-11")
async def test_another_description_of_a_tool_is_another_prefix(sqlite_database: Database, tmp_path: Path) -> None:
    world = World(sqlite_database, tmp_path, provider := ScriptedProvider())
    toolbox = world.agent.tool.executor.toolbox
    for description in ("Finds a page.", "Finds a page.", "Finds a page or a file."):
        toolbox.lend("mcp:wiki", (FakeTool(spec=named("mcp__wiki__find", description=description)),))
        await world.say("hi")
    assert len({request.system.stable for request in provider.requests}) == 1, "nothing else has changed"
    before, same, other = prefixes(world)
    assert (same == before, other == before) == (True, False)


@pytest.mark.requirement("R-11")
async def test_a_broken_cache_is_an_event_with_its_cause(sqlite_database: Database, tmp_path: Path) -> None:
    cached = Usage(prompt=10, output=5, cache_read=50_000)
    provider = ScriptedProvider(otherwise=says("ok", usage=cached))
    world = World(sqlite_database, tmp_path, provider)
    await world.say("one")
    world.write_persona("default", "---\nname: Test\n---\n\nYou are somebody else.\n")
    provider.otherwise = says("ok", usage=Usage(prompt=50_000, output=5))
    await world.say("two")
    (broken,) = [event for event in world.events if isinstance(event, CacheBreakDetected)]
    assert (broken.causes, broken.tokens_before, broken.tokens_after) == (("system",), 50_000, 0)


@pytest.mark.requirement("R-11")
async def test_another_model_of_the_provider_has_a_cache_of_its_own(sqlite_database: Database, tmp_path: Path) -> None:
    """As after a change of the configuration: what the model before had read is no break, and no operator is told."""
    provider = ScriptedProvider(otherwise=says("ok", usage=Usage(prompt=10, output=5, cache_read=50_000)))
    world = World(sqlite_database, tmp_path, provider)
    await world.say("one")
    provider.model = "scripted-2"
    provider.otherwise = says("ok", usage=Usage(prompt=50_000, output=5))
    await world.say("two")
    provider.model = "scripted-1"
    await world.say("three")
    first, second, third = prefixes(world)
    assert first != second
    assert first == third
    assert not [event for event in world.events if isinstance(event, CacheBreakDetected)]


@pytest.mark.requirement("W-36", "W-37")
async def test_an_hour_of_caching_is_asked_for_from_1024_tokens_on(sqlite_database: Database, tmp_path: Path) -> None:
    assert (cache_tier_for(1023), cache_tier_for(1024)) == ("none", "1h")
    agent_md = "---\nname: Test\ntools: [calculate]\n---\n\nYou are a test agent.\n"
    world = World(sqlite_database, tmp_path, provider := ScriptedProvider(), agent_md=agent_md)
    await world.say("hi")
    await world.say("word " * 3000)
    short, long = provider.requests
    assert (short.cache_tier, long.cache_tier) == ("none", "1h")
    body = Encoder("anthropic").body(long, model="m", max_tokens=100, tier=long.cache_tier)
    assert b'"cache_control":{"type":"ephemeral","ttl":"1h"}' in body
    assert b"cache" not in OpenAIEncoder("openai").body(long, model="m", dialect=Dialect())


@pytest.mark.requirement("W-38")
async def test_the_shape_of_a_request_is_stamped_on_it(sqlite_database: Database, tmp_path: Path) -> None:
    provider = ScriptedProvider(otherwise=says("ok", usage=Usage()))
    world = World(sqlite_database, tmp_path, provider)
    await world.say("hi")
    await world.say("{" + "x" * 30_000)
    assert [request.routing_hint for request in provider.requests] == ["cheap:simple", "premium:large_context"]
