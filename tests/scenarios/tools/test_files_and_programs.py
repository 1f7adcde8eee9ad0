"""Whole turns with the tools that reach for files and programs, and with those that servers lend."""

from pathlib import Path

import pytest

from agent.core.messages import FilePart
from agent.core.tools import ToolSpec
from agent.providers.provider import Request
from agent.run.settings import Settings
from agent.storage.database import Database
from agent.tools.files.edit import read
from agent.tools.files.paths import move_workspace, workspace_of
from agent.tools.files.search import set_working_directory
from agent.tools.mcp.settings import McpSettings
from agent.tools.settings import FileSettings, ShellSettings
from agent.tools.shell.shell import Room, Shell
from tests.agent.world import KEY, World, offering
from tests.fakes.clock import FakeClock
from tests.fakes.provider import ScriptedProvider, calls, calls_all, says
from tests.fakes.tools import FakeTool, named

SHELL = Shell(Room("open"), FakeClock(), lambda: ShellSettings(mode="open"), FileSettings).shell_tool


def results(request: Request) -> list[str]:
    return [result.content for message in request.messages for result in message.tool_results]


@pytest.mark.requirement("Z-110", "Z-111", "Z-112", "Z-113", "Z-114", "Z-143")
async def test_another_working_directory_counts_from_the_next_turn_on(
    sqlite_database: Database, tmp_path: Path
) -> None:
    where = calls("shell", {"command": "pwd"}, id="3")
    moving = calls_all([("set_working_directory", {"path": "src"}, "1"), ("shell", {"command": "pwd"}, "2")])
    again = calls("shell", {"command": "pwd"}, id="4")
    provider = ScriptedProvider(scripts=[moving, says("ok"), where, says("ok"), again, says("ok")])
    world = World(
        sqlite_database,
        tmp_path,
        provider,
        tools=(set_working_directory, SHELL),
        agent_md=offering("set_working_directory", "shell"),
    )
    workspace = workspace_of(tmp_path, KEY)
    (workspace / "src").mkdir(parents=True)
    await world.say("go to src")
    assert results(provider.requests[1])[1].split("\n")[1] == str(workspace), "this turn keeps its own"
    await world.say("where?")
    assert results(provider.requests[3])[-1].split("\n")[1] == str(workspace / "src")
    await world.restart()
    await world.say("and now?")
    assert results(provider.requests[5])[-1].split("\n")[1] == str(workspace / "src"), "it is kept with the session"


async def test_a_file_that_a_person_sends_lies_in_the_workspace(sqlite_database: Database, tmp_path: Path) -> None:
    (tmp_path / "files" / "m1").mkdir(parents=True)
    (tmp_path / "files" / "m1" / "0-list.csv").write_text("cups,4\n")
    file = FilePart(path="files/m1/0-list.csv", mime_type="text/csv", name="list.csv", size=7)
    provider = ScriptedProvider(scripts=[calls("read", {"path": "received/1/0-list.csv"}), says("Four cups.")])
    world = World(sqlite_database, tmp_path, provider, tools=(read,))
    assert await world.say("how many?", files=(file,)) == ["Four cups."]
    assert "<files>/workspace/received/1/0-list.csv (" in provider.requests[0].messages[0].content
    assert "cups,4" in results(provider.requests[1])[0]


async def test_a_file_that_is_gone_is_no_reason_to_fail(sqlite_database: Database, tmp_path: Path) -> None:
    file = FilePart(path="files/m1/0-list.csv", mime_type="text/csv", name="list.csv", size=7)
    world = World(sqlite_database, tmp_path, ScriptedProvider())
    assert await world.say("how many?", files=(file,)) == ["ok"]


def test_a_workspace_follows_its_conversation(tmp_path: Path) -> None:
    old, new = KEY, type(KEY)("telegram:-1005")
    move_workspace(tmp_path, old, new)
    workspace_of(tmp_path, old).mkdir(parents=True)
    (workspace_of(tmp_path, old) / "a").touch()
    move_workspace(tmp_path, old, new)
    assert (workspace_of(tmp_path, new) / "a").exists()
    workspace_of(tmp_path, old).mkdir()
    (workspace_of(tmp_path, old) / "b").touch()
    with pytest.raises(OSError, match="not empty"):
        move_workspace(tmp_path, old, new)
    assert (workspace_of(tmp_path, old) / "b").exists(), "what is there already is not touched"


def lent(count: int) -> list[FakeTool]:
    def spec(number: int) -> ToolSpec:
        about = "Forecast of the weather." if number == 17 else "Does something."
        return named(f"mcp__s__tool{number:02}", description=about, category="mcp")

    return [FakeTool(spec=spec(number)) for number in range(count)]


@pytest.mark.requirement("R-03", "W-33", "W-34")
async def test_of_many_lent_tools_those_that_fit_are_shown(sqlite_database: Database, tmp_path: Path) -> None:
    # Loaded by name it would be shown for that reason alone.
    used = calls("mcp__s__tool19", {"text": "x"}, unoffered=True)
    provider = ScriptedProvider(scripts=[used])
    world = World(sqlite_database, tmp_path, provider, settings=Settings(mcp=McpSettings(top_k=3)))
    toolbox = world.agent.tool.executor.toolbox
    services = {spec.name for spec in toolbox.specs(toolbox.names) if spec.core}

    def shown(request: Request) -> list[str]:
        return [spec.name for spec in request.tools.specs if spec.category == "mcp"]

    toolbox.lend("s", lent(20))
    await world.say("what will the weather be?")
    first = shown(provider.requests[0])
    assert "mcp__s__tool17" in first
    assert len(first) == 3
    everything = {spec.name for spec in provider.requests[0].tools.specs}
    assert services - everything <= {"start_focus", "complete_focus", "ExitPlanMode", "load_skill", "read_chat"}, (
        "the house's core always is"
    )
    assert "tool_search" in everything, "the others can be looked for"
    await world.say("hello")
    assert set(first) < set(shown(provider.requests[2])), "what was shown stays …"
    assert "mcp__s__tool19" in shown(provider.requests[2]), "… and what was used lately comes to it"
    await world.say("and the weather?")
    assert provider.requests[3].tools is provider.requests[2].tools, "all that fits is shown: the same bytes"
    toolbox.lend("s", lent(19))
    await world.say("hello")
    assert len(shown(provider.requests[4])) == 3, "other tools: chosen anew"
    toolbox.lend("s", lent(2))
    await world.say("hello")
    assert len(shown(provider.requests[5])) == 2
    (search,) = [spec for spec in provider.requests[5].tools.specs if spec.name == "tool_search"]
    assert "mcp__" not in search.description


async def test_an_agent_may_name_all_tools_of_a_server(sqlite_database: Database, tmp_path: Path) -> None:
    provider = ScriptedProvider()
    md = "---\nname: Test\ntools: [calculate, 'mcp__s__*']\n---\n\nYou are a test agent.\n"
    world = World(sqlite_database, tmp_path, provider, agent_md=md)
    world.agent.tool.executor.toolbox.lend("s", lent(2))
    world.agent.tool.executor.toolbox.lend("t", [FakeTool(spec=named("mcp__t__other", category="mcp"))])
    await world.say("hi")
    names = {spec.name for spec in provider.requests[0].tools.specs}
    assert names == {"calculate", "mcp__s__tool00", "mcp__s__tool01"}
