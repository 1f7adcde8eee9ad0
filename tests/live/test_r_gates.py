"""Gates and time limits of a call in the running gateway."""

import sys
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from agent.core.events import ApprovalRequired, PermissionDenied
from agent.core.ids import ConversationId
from agent.tools.files.paths import workspace_of
from tests.fakes.waiting import until
from tests.gateway.world import ANN, World, calling
from tests.live.test_r_turns import call, of, steps

WorldOf = Callable[..., World]
SERVER = Path(__file__).parents[1] / "fakes" / "mcp_server.py"
MCP = f'[[mcp.servers]]\nname = "fake"\ncommand = "{sys.executable}"\nargs = ["{SERVER}"]\n'
SHELL = '[tools.shell]\nmode = "open"\n'


def last_result(world: World) -> str:
    return str(world.llm.bodies[-1]["messages"][-1]["content"])


async def allow(world: World, count: int) -> str:
    """Wait for the question of that number and say yes; the tool that it was about."""
    await until(lambda: len(of(world, ApprovalRequired)) >= count)
    asked = of(world, ApprovalRequired)[count - 1]
    yes = f"a:{asked.correlation}:y"
    await until(lambda: any(yes in shown.actions for shown in world.screen().shown))
    await world.press(yes, id=f"p{count}")
    return str(asked.tool_name)


async def tries(world: World, words: str, tool: str, **given: object) -> bool:
    """Whether a person had to allow the call before it ran; its result is the newest."""
    before = len(of(world, ApprovalRequired))
    world.script(*calling(words, tool, **given))
    await world.say(words)
    await until(lambda: len(of(world, ApprovalRequired)) > before or f"Done: {words}" in world.texts())
    asked = len(of(world, ApprovalRequired)) > before
    if asked:
        assert await allow(world, before + 1) == tool
    await world.shows(f"Done: {words}")
    await world.settled()
    return asked


@pytest.mark.requirement("R-26", "R-27", "Z-03", "Z-14")
async def test_who_is_asked_follows_from_the_tools_risk_and_from_a_commands_words(world_of: WorldOf) -> None:
    async with world_of(config=SHELL + MCP).process() as world:
        await until(lambda: world.services.servers.all[0].is_connected)
        assert not await tries(world, "one", "calculate", expression="6*7"), "what only looks"
        assert await tries(world, "two", "write", path="a.txt", content="x"), "what changes something"
        assert not await tries(world, "three", "shell", command="ls"), "a command by its words, not by its tool"
        assert "a.txt" in last_result(world)
        assert await tries(world, "four", "shell", command="ls; ls"), "several commands"
        assert await tries(world, "five", "shell", command="touch b.txt"), "what is not known to look"
        assert not of(world, PermissionDenied)
        assert not await tries(world, "six", "shell", command="rm -rf /"), "never: so nobody is asked"
        assert "never runs here" in last_result(world)
        assert len(of(world, PermissionDenied)) == 1
        assert await tries(world, "seven", "mcp__fake__environment"), "what nobody has rated"


@pytest.mark.requirement("B-40")
async def test_the_time_of_a_run_stands_still_while_a_person_decides(world_of: WorldOf) -> None:
    async with world_of(config="[agent]\nexecution_timeout_ms = 4000\n").process() as world:
        world.script(*calling("note it", "write", path="a.txt", content="x"))
        await world.say("note it")
        await until(lambda: len(of(world, ApprovalRequired)) == 1)
        await anyio.sleep(4.5)  # longer than the run may take
        await allow(world, 1)
        await world.shows("Done: note it")


@pytest.mark.requirement("R-29", "W-51", "R-26")
@pytest.mark.parametrize("gates", ["", "auto_approve = true", "force = true"], ids=["asked", "unattended", "forced"])
async def test_who_answers_for_people(world_of: WorldOf, gates: str) -> None:
    config = f'{SHELL}[approvals]\ndeny = ["glob"]\n{gates}\n'
    async with world_of(config=config).process() as world:
        assert await tries(world, "one", "write", path="a.txt", content="x") is (not gates), "shipped: a person is"
        assert not await tries(world, "two", "shell", command="mkfs.nothing none")
        assert ("never runs here" in last_result(world)) is ("force" not in gates), "only who forces it runs that"
        blocks = {"blocks": [call("glob", pattern="*") | {"unoffered": True}]}
        world.script(*steps(blocks, {"text": "There."}))
        await world.answered("three", "There.")
        assert "glob was denied" in last_result(world), "also where every gate is open"


@pytest.mark.requirement("R-30")
async def test_where_a_path_leads_is_looked_at_after_the_yes(world: World) -> None:
    folder = workspace_of(world.home, ConversationId(f"telegram:{ANN}"))
    (folder / "notes").mkdir(parents=True)
    world.script(*calling("keep it", "write", path="notes/a.txt", content="x"))
    await world.say("keep it")
    await until(lambda: bool(of(world, ApprovalRequired)))
    (folder / "notes").rmdir()
    outside = world.home / "outside"
    outside.mkdir()
    (folder / "notes").symlink_to(outside)
    await allow(world, 1)
    await world.shows("Done: keep it")
    assert not list(outside.iterdir()), "what was a folder at the question leads out now"
    assert last_result(world) != "x"
    (folder / "notes").unlink()
    assert await tries(world, "again", "write", path="./notes/../b.txt", content="y")
    assert (folder / "b.txt").read_text() == "y", "it runs with the path that it comes to"


@pytest.mark.requirement("B-31", "W-46", "W-47", "W-48")
async def test_each_kind_of_tool_has_its_own_time(world_of: WorldOf) -> None:
    made = world_of()
    kept = made.settings().timeouts
    assert (kept.tool_mcp, kept.tool_info, kept.tool_edit, kept.tool_exec) == (120, 30, 30, 600)
    made.config = (
        "[timeouts]\ntool_mcp = 0.5\ntool_info = 0.00001\ntool_edit = 0.00002\n[approvals]\nauto_approve = true\n"
        f"{SHELL}{MCP}"
    )
    async with made.process() as world:
        await until(lambda: world.services.servers.all[0].is_connected)
        for words, tool, given, stopped in (
            ("one", "mcp__fake__slow", {"file": str(made.home / "pid")}, "0.5 s"),
            ("two", "grep", {"pattern": "x"}, "1e-05 s"),
            ("three", "remember", {"fact": "Ann likes tea."}, "2e-05 s"),
        ):
            for number in range(5):  # a quick tool may be done before so short a time is looked at
                if not await tries(world, f"{words} {number}", tool, **given):
                    break
            assert f"{tool} was stopped after {stopped}" in last_result(world)
        assert not await tries(world, "four", "shell", command="sleep 0.6; echo late"), "commands have their own"
        assert "late" in last_result(world)
