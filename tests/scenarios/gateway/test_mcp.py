"""MCP servers in a whole conversation: what the model is shown of many tools, and pictures that they give."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fakes.waiting import until
from tests.gateway.world import World, calling

FAKE = str(Path(__file__).parents[2] / "fakes" / "mcp_server.py")


def server(*args: str) -> str:
    given = json.dumps([FAKE, *args])
    return f'[[mcp.servers]]\nname = "fake"\ncommand = "{sys.executable}"\nargs = {given}\napproval = "never"\n'


async def connected(world: World) -> None:
    await until(lambda: world.services.servers.all[0].is_connected, longest_s=120)


def tools_of(world: World) -> list[str]:
    return [tool["function"]["name"] for tool in world.llm.bodies[-1]["tools"]]


@pytest.mark.requirement("W-32", "W-33", "W-34")
async def test_of_many_tools_the_fitting_and_the_used_ones_are_shown_beside_the_houses_own(
    world_of: Callable[..., World],
) -> None:
    """Sixty tools of 900 bytes are above a tenth of the window; they once left none to be shown."""
    async with world_of(config=server("many")).process() as world:
        await connected(world)
        world.script(*calling("use it", "mcp__fake__tool41"))
        await world.answered("please echo and make a picture, then ask tool57")
        shown = tools_of(world)
        lent = [name for name in shown if name.startswith("mcp__")]
        assert len(lent) == 15
        assert {"mcp__fake__echo", "mcp__fake__picture", "mcp__fake__tool57"} <= set(lent)
        assert {"read", "calculate", "tool_search"} <= set(shown)
        await world.answered("use it", "Done: use it")
        await world.asks("/new", "A new conversation")
        await world.answered("something else altogether")
        assert "mcp__fake__tool41" in tools_of(world), "what the conversation has used comes first where nothing fits"


@pytest.mark.requirement("W-33", "W-34")
async def test_without_curation_all_that_a_server_lends_is_shown(world_of: Callable[..., World]) -> None:
    """The window has room for all of them; with curation as shipped it is shown fifteen of the same."""
    for config, most in (("[mcp]\ntop_k = 0\n", None), ("", 15)):
        async with world_of(config=config + server("many"), window=1_000_000).process() as world:
            await connected(world)
            await world.answered("please echo and make a picture")
            shown = tools_of(world)
            lent = {name for name in shown if name.startswith("mcp__")}
            known = {tool.spec.name for tool in world.services.servers.all[0].tools}
            assert {"read", "calculate"} <= set(shown), "those of the gateway always are"
            if most is None:
                assert lent == known
            else:
                assert len(lent) == most < len(known)
                assert {"mcp__fake__echo", "mcp__fake__picture"} <= lent, "those that fit the words"


@pytest.mark.slow  # a server is started
async def test_a_picture_reaches_the_model_and_the_workspace(world_of: Callable[..., World]) -> None:
    async with world_of(config=server()).process() as world:
        await connected(world)
        world.script(*calling("a picture", "mcp__fake__picture"))
        await world.answered("a picture", "Done: a picture")
        wire = json.dumps(world.llm.bodies[-1]["messages"])
        assert "data:image/png;base64,iVBORw0KGgo=" in wire
        assert "it is kept as /workspace/from-tools/" in wire
        (kept,) = world.home.glob("workspaces/*/from-tools/*.png")
        assert kept.read_bytes() == b"\x89PNG\r\n\x1a\n"
        (world.home / "files").mkdir(exist_ok=True)
        (world.home / "files" / "other.png").write_bytes(b"of another conversation")
        kept.unlink()
        kept.symlink_to(world.home / "files" / "other.png")
        await world.answered("and now")
        assert "data:image" not in json.dumps(world.llm.bodies[-1]["messages"]), "no link is followed"


@pytest.mark.slow  # a server is started
async def test_one_that_stays_away_is_told_everywhere_and_to_the_owner_once(
    world_of: Callable[..., World], caplog: pytest.LogCaptureFixture
) -> None:
    away, here = Path(FAKE).with_name("no_such_server.py"), FAKE
    lost = world_of(config=server().replace(here, str(away)))
    async with lost.process() as world:
        one = world.services.servers.all[0]
        await until(lambda: "has said last" in one.trouble, longest_s=120)
        assert any("MCP server fake is not connected" in line.getMessage() for line in caplog.records)
        assert "fake: not connected" in await world.asks("/mcp")
        assert "no_such_server" in await world.asks("/status", "• fake: not connected")
        assert "fake" not in await world.asks("/status", person="78", chat="78"), "no admin"
        assert not [text for text in world.texts() if "its tools cannot be used" in text], "it may be back at once"
        world.clock.ahead_s += 150
        one.reconnect()
        told = await world.shows("The MCP server fake is not connected, and its tools cannot be used")
        assert "no_such_server" in told
        one.reconnect()
        await until(lambda: world.troubles.open[0].times > 3, longest_s=120)
    async with lost.process() as world:  # who was told is not told again after a restart, but that it is over
        world.clock.ahead_s += 150
        one = world.services.servers.all[0]
        await until(lambda: bool(world.troubles.open) and world.troubles.open[0].times > 2, longest_s=120)
        await world.settled()
        assert len([text for text in world.texts() if "its tools cannot be used" in text]) == 1
    lost.config = lost.config.replace(str(away), here)
    async with lost.process() as world:
        await world.shows("The MCP server fake is connected again.")
        assert not world.troubles.open


@pytest.mark.requirement("Z-103")
async def test_output_of_a_servers_tool_is_shortened_where_the_tool_is_listed(world_of: Callable[..., World]) -> None:
    taco = "[tools.taco]\nenabled = true\nthreshold = 50\ntarget_tokens = 20\n"
    listed = 'compressible_tools = ["mcp__fake__echo"]\n'
    long = "Row after row of figures. " * 40
    for config, is_short in ((taco, False), (taco + listed, True)):
        async with world_of(config=server() + config).process() as world:
            await connected(world)
            rule = {"match": {"contains": "Tool output:"}, "reply": {"text": "forty rows of figures"}}
            world.script(rule, *calling("fetch it", "mcp__fake__echo", text=long))
            await world.answered("fetch it", "Done: fetch it")
            (told,) = [one for one in world.llm.bodies[-1]["messages"] if one["role"] == "tool"]
            assert ("forty rows of figures" in str(told)) == is_short, told
            assert (long[:200] in str(told)) != is_short


@pytest.mark.requirement("W-45")
async def test_a_command_has_the_time_that_the_model_and_the_person_are_told(world_of: Callable[..., World]) -> None:
    async with world_of(config='[tools.shell]\nmode = "open"\n').process() as world:
        world.script(*calling("tidy up", "shell", command="rm -f no-such-file"))
        await world.say("tidy up")
        assert "590 s at most" in await world.shows("rm -f no-such-file")
        (shell,) = [one["function"] for one in world.llm.bodies[-1]["tools"] if one["function"]["name"] == "shell"]
        told = shell["parameters"]["properties"]["timeout_s"]
        assert "590 as shipped" in str(told)
        assert "600" not in str(told)
