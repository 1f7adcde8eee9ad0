"""Long output of tools, shortened by a model before it enters the conversation."""

from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from agent.compaction.question import Question
from agent.compaction.settings import TacoSettings
from agent.core.errors import ProviderBusy
from agent.core.events import ToolOutputCompressed
from agent.core.messages import TacoCompressed, Thinking, ToolResult
from agent.core.tools import Category
from agent.run.settings import Settings, ToolSettings
from agent.storage.database import Database
from agent.tools.output_files import Outputs
from agent.tools.taco import SYSTEM, compressed, is_eligible
from tests.agent.world import KEY, World
from tests.fakes.provider import Script, ScriptedProvider, calls, calls_all, fails, says, thinks
from tests.fakes.tools import FakeTool, named
from tests.scenarios.tools.test_tool_turns import results

ON = TacoSettings(enabled=True)
OUTPUT = "\n".join(f"row {number}: value {number * 7}" for number in range(1_200))  # some 6,600 tokens by bytes
SHORT = "rows 0 to 1199, value 7 each; exit code 0"


@pytest.mark.requirement("Z-99", "Z-103", "Z-104", "Z-105", "Z-107")
@pytest.mark.parametrize(
    ("tokens", "tool", "category", "settings", "confirmed", "eligible"),
    [
        pytest.param(2001, "shell", "exec", ON, False, True, id="above the threshold"),
        pytest.param(2000, "shell", "exec", ON, False, False, id="at the threshold"),
        pytest.param(2001, "shell", "exec", TacoSettings(), False, False, id="off by default"),
        pytest.param(2001, "web_scrape", "info", ON, False, True, id="a page"),
        pytest.param(2001, "read", "info", ON, False, True, id="a file"),
        pytest.param(2001, "query", "info", ON, False, False, id="not among the compressible tools"),
        pytest.param(2001, "query", "info", replace(ON, compressible_tools=("query",)), False, True, id="made so"),
        pytest.param(2001, "shell", "mcp", ON, False, False, id="a server's tool, whatever its name"),
        pytest.param(2001, "mcp__s__q", "mcp", ON, False, False, id="a server's tool that is not listed"),
        pytest.param(
            2001, "mcp__s__q", "mcp", replace(ON, compressible_tools=("mcp__s__q",)), False, True, id="one that is"
        ),
        pytest.param(2001, "shell", "exec", ON, True, False, id="a person allowed this very call"),
    ],
)
def test_what_may_be_shortened(
    tokens: int, tool: str, category: Category, settings: TacoSettings, confirmed: bool, eligible: bool
) -> None:
    assert is_eligible(tokens, tool, category, settings, confirmed=confirmed, is_error=False) is eligible


def test_an_error_is_never_shortened() -> None:
    assert not is_eligible(9_999, "shell", "exec", ON, confirmed=False, is_error=True)


def test_a_target_above_the_threshold_is_refused() -> None:
    with pytest.raises(ValueError, match="target_tokens is 2000"):
        TacoSettings(threshold=2000, target_tokens=2000)


@pytest.mark.requirement("Z-98", "Z-100", "Z-101", "Z-102", "Z-109", "Z-144")
async def test_the_shorter_output_takes_the_place_of_the_raw_one_which_is_kept(
    sqlite_database: Database, tmp_path: Path
) -> None:
    world, provider = world_with(sqlite_database, tmp_path, calls("shell", {"text": OUTPUT}), answer=says(SHORT))
    assert await world.say("run it") == ["Done."]
    [asked] = provider.asides
    assert asked.system.stable == SYSTEM.format(target_tokens=500)
    assert asked.messages[0].content == f"Tool output:\n{OUTPUT}"
    [result] = results(provider.requests[1])
    assert result.content.startswith(SHORT)
    assert result.taco == TacoCompressed(
        tool_name="shell", original_tokens=tokens(OUTPUT), compressed_tokens=tokens(result.content)
    )
    [event] = [event for event in world.events if isinstance(event, ToolOutputCompressed)]
    assert event.raw_output in result.content, "the model is told where the rest is"
    assert await Outputs(tmp_path).read(KEY, event.raw_output) == OUTPUT
    assert [result] == [part for one in await world.transcript() for part in one.message.tool_results], "stored so"


@pytest.mark.requirement("Z-101")
async def test_the_model_is_told_the_size_that_is_configured(sqlite_database: Database, tmp_path: Path) -> None:
    world, provider = world_with(
        sqlite_database,
        tmp_path,
        calls("shell", {"text": OUTPUT}),
        answer=says(SHORT),
        settings=replace(ON, target_tokens=120),
    )
    await world.say("run it")
    assert "Write less than 120 tokens" in provider.asides[0].system.stable


@pytest.mark.requirement("Z-98")
async def test_each_long_output_of_a_turn_is_shortened(sqlite_database: Database, tmp_path: Path) -> None:
    both = calls_all([("shell", {"text": OUTPUT}, "call_1"), ("shell", {"text": f"{OUTPUT}\nmore"}, "call_2")])
    world, provider = world_with(sqlite_database, tmp_path, both, answer=says(SHORT))
    provider.scripts.insert(1, calls("shell", {"text": f"{OUTPUT}\neven more"}, id="call_3"))
    assert await world.say("run them") == ["Done."]
    asked = [results(request) for request in provider.requests[1:]]
    assert [len(each) for each in asked] == [2, 3]
    assert all(result.content.startswith(SHORT) for each in asked for result in each)
    assert len(provider.asides) == 3


@pytest.mark.requirement("Z-104")
@pytest.mark.parametrize("settings", [TacoSettings(), TacoSettings(provider="scripted", threshold=600)])
async def test_what_else_is_set_of_it_does_not_switch_it_on(
    sqlite_database: Database, tmp_path: Path, settings: TacoSettings
) -> None:
    world, provider = world_with(
        sqlite_database, tmp_path, calls("shell", {"text": OUTPUT}), answer=says(SHORT), settings=settings
    )
    await world.say("run it")
    assert provider.asides == []
    assert [result.content for result in results(provider.requests[1])] == [OUTPUT]


@pytest.mark.requirement("Z-106")
@pytest.mark.parametrize(
    "answer",
    [pytest.param(fails(ProviderBusy("no")), id="an error"), pytest.param(says(OUTPUT + "!"), id="no shorter")],
)
async def test_the_raw_output_is_used_when_nothing_shorter_is_to_be_had(
    sqlite_database: Database, tmp_path: Path, answer: Script
) -> None:
    world, provider = world_with(sqlite_database, tmp_path, calls("shell", {"text": OUTPUT}), answer=answer)
    await world.say("run it")
    assert results(provider.requests[1]) == [ToolResult(tool_use_id="call_1", content=OUTPUT)]


@pytest.mark.requirement("Z-106")
async def test_the_raw_output_is_used_when_the_model_takes_too_long() -> None:
    """The time of a question to a model is up while its provider is silent: that is a TimeoutError."""

    async def ask(question: Question) -> str:
        with anyio.fail_after(0.01):
            await anyio.sleep_forever()
        return SHORT

    assert await compressed(OUTPUT, ON, ask) is None


@pytest.mark.requirement("Z-108")
async def test_nothing_but_the_output_is_touched(sqlite_database: Database, tmp_path: Path) -> None:
    thought = "long thinking " * 2_000
    script = thinks(thought, "signed", calls("shell", {"text": OUTPUT}))
    world, provider = world_with(sqlite_database, tmp_path, script, answer=says(SHORT))
    await world.say("run it")
    assert len(provider.asides) == 1, "one call for the one output"
    first = provider.requests[1].messages[1].parts[0]
    assert isinstance(first, Thinking)
    assert (first.thinking, first.signature) == (thought, "signed")
    assert provider.requests[1].system.stable == provider.requests[0].system.stable


def world_with(
    database: Database, home: Path, first: Script, *, answer: Script, settings: TacoSettings = ON
) -> tuple[World, ScriptedProvider]:
    provider = ScriptedProvider(scripts=[first, says("Done.")], aside=answer)
    tool = FakeTool(spec=named("shell", category="exec"))
    given = Settings(tools=ToolSettings(taco=settings))
    return World(database, home, provider, tools=(tool,), settings=given), provider


def tokens(text: str) -> int:
    return -(-len(text) // 4)
