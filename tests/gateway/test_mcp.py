"""MCP servers in a whole conversation: what the model is shown of many tools, and pictures that they give."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fakes.waiting import until
from tests.gateway.world import World, calling

FAKE = str(Path(__file__).parents[1] / "fakes" / "mcp_server.py")


def server(*args: str) -> str:
    given = json.dumps([FAKE, *args])
    return f'[[mcp.servers]]\nname = "fake"\ncommand = "{sys.executable}"\nargs = {given}\napproval = "never"\n'


async def connected(world: World) -> None:
    await until(lambda: world.house.servers.all[0].is_connected, longest_s=120)


def tools_of(world: World) -> list[str]:
    return [tool["function"]["name"] for tool in world.llm.bodies[-1]["tools"]]


@pytest.mark.slow  # a server is started
@pytest.mark.requirement("W-32", "W-33", "W-34")
async def test_of_many_tools_the_fitting_and_the_used_ones_are_shown_beside_the_houses_own(
    world_of: Callable[..., World],
) -> None:
    """Sixty tools of 900 bytes are above a tenth of the window; they once left none to be shown."""
    async with world_of(config=server("many")).process() as world:
        await connected(world)
        world.script(*calling("use it", "mcp__fake__tool41"))
        await world.answered("please echo and make a picture")
        shown = tools_of(world)
        lent = [name for name in shown if name.startswith("mcp__")]
        assert len(lent) == 15
        assert {"mcp__fake__echo", "mcp__fake__picture"} <= set(lent)
        assert {"read", "calculate", "tool_search"} <= set(shown)
        await world.answered("use it", "Done: use it")
        await world.asks("/new", "A new conversation")
        await world.answered("something else altogether")
        assert "mcp__fake__tool41" in tools_of(world), "what the conversation has used comes first where nothing fits"


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
