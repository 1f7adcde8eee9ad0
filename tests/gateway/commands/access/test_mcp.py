"""MCP servers from a chat: added, seen, connected anew, removed; by whom, and what never shows: /mcp."""

import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from agent.core.ids import ConversationId
from gateway.running.mcp.added_servers import SETTING
from gateway.storage import settings_rows
from tests.fakes.waiting import until
from tests.gateway.world import BOB, GROUP, World

FAKE = str(Path(__file__).parents[3] / "fakes" / "mcp_server.py")


@pytest.fixture
def address() -> Iterator[str]:
    """Of a server over HTTP."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with subprocess.Popen([sys.executable, FAKE, str(port)], stderr=subprocess.DEVNULL) as process:
        yield f"http://127.0.0.1:{port}/mcp"
        process.kill()


@pytest.mark.slow  # two starts of house and server
async def test_one_is_added_used_through_a_restart_and_removed(world_of: Callable[..., World], address: str) -> None:
    unstarted = world_of()

    def connected() -> bool:
        return any(one.is_connected for one in unstarted.services.servers.all)

    async with unstarted.process() as world:
        assert await world.asks("/mcp") == "No MCP server is configured."
        assert await world.asks("/mcp reconnect far") == "No MCP server is configured."
        assert "far is added" in await world.asks(f"/mcp add far {address}")
        assert "there is a server FAR already" in await world.asks(f"/mcp add FAR {address}")
        await until(connected, longest_s=120)
    async with unstarted.process() as world:
        await until(connected, longest_s=120)
        assert await world.asks("/mcp list") == "far: connected, 10 tools"
        assert "- mcp__far__echo (asks first): Gives back its text." in await world.asks("/mcp tools far")
        assert "connected anew" in await world.asks("/mcp reconnect far")
        await until(connected, longest_s=120)
        assert "far is removed" in await world.asks("/mcp remove far")
        assert await world.asks("/mcp tools") == "No MCP server is configured."
        await world.answered("hello", "hello")
        assert "mcp__far" not in str(world.llm.bodies[-1]["tools"])
    async with unstarted.process() as world:
        assert world.services.servers.all == ()


WRONG = {
    "add far": "Admins of the bot: /mcp add NAME",
    "add far ftp://x.example": "must begin with http://",
    "add f__r https://x.example": "letters, digits and hyphens",
    "add far https://x.example/?key=s3cret": "belongs into the configuration",
    "add far https://me:s3cret@x.example": "belongs into the configuration",
    "remove set": "set stands in the configuration",
    "reconnect fat": "There is no MCP server fat; there is: set.",
}


@pytest.mark.requirement("G-28")
async def test_what_cannot_be_is_said_and_no_secret_with_it(world_of: Callable[..., World]) -> None:
    config = '[[mcp.servers]]\nname = "set"\nurl = "http://127.0.0.1:9/?key=k3y-in-the-file"\n'
    async with world_of(config=config).process() as world:
        for words, answer in WRONG.items():
            assert "s3cret" not in await world.asks(f"/mcp {words}", answer), words
        await until(lambda: world.services.servers.all[0].trouble != "it has not answered yet", longest_s=120)
        assert "k3y" not in await world.asks("/mcp"), "nor does the trouble tell the address"


async def test_admins_read_where_a_server_is_with_its_port_and_without_its_keys(world_of: Callable[..., World]) -> None:
    config = '[[mcp.servers]]\nname = "set"\nurl = "http://me:s3cret@127.0.0.1:9/k3y/mcp?key=k3y"\n'
    async with world_of(config=config).process() as world:
        for words in ("set", "tools set"):
            said = await world.asks(f"/mcp {words}", "set (127.0.0.1:9): ")
            assert "s3cret" not in said
            assert "k3y" not in said
        assert "127.0.0.1" not in await world.asks("/mcp set", "set: not connected", person=BOB, chat=BOB)


async def test_the_advice_about_an_unreachable_one_names_what_there_is(world_of: Callable[..., World]) -> None:
    """One added in a chat has no entry, and only a program that is started has a log."""
    config = (
        '[[mcp.servers]]\nname = "set"\nurl = "http://127.0.0.1:9/mcp"\n'
        '[[mcp.servers]]\nname = "started"\ncommand = "/no/such/program"\n'
    )
    async with world_of(config=config).process() as world:
        await world.asks("/mcp add far http://127.0.0.1:9/mcp")
        await until(lambda: len(world.troubles.open) == 3, longest_s=120)
        fixes = {one.subject: one.fix for one in world.troubles.open}
        assert "/mcp remove far" in fixes["far"]
        assert "/mcp add far" in fixes["far"]
        assert "[[mcp.servers]]" not in fixes["far"]
        assert "[[mcp.servers]]" in fixes["set"]
        assert "mcp-started.log" in fixes["started"]
        assert [name for name, fix in fixes.items() if "logs/" in fix] == ["started"]


async def test_one_that_cannot_be_taken_up_is_told_and_can_be_removed(world_of: Callable[..., World]) -> None:
    """A row that another version wrote does not keep the gateway from starting."""
    unstarted = world_of()
    async with unstarted.process() as world:
        strange = partial(
            settings_rows.put, conversation=ConversationId("mcp:f__r"), key=SETTING, value="ftp://x", at=1
        )
        await world.database.write(strange)
    async with unstarted.process() as world:
        assert [(one.kind, one.subject) for one in world.troubles.open] == [("mcp", "f__r")]
        assert "/mcp remove f__r" in world.troubles.open[0].fix
        assert "f__r: was added here in a chat and is not taken any more" in await world.asks("/mcp")
        assert "f__r is removed" in await world.asks("/mcp remove f__r")
        assert world.troubles.open == ()
        assert await world.asks("/mcp") == "No MCP server is configured."
    async with unstarted.process() as world:
        assert world.troubles.open == ()


async def test_only_admins_of_the_whole_bot_change_them(world: World) -> None:
    for verb in ("add far https://x.example", "remove far", "reconnect far"):
        assert await world.asks(f"/mcp {verb}", "Only an admin of the whole bot may do that.", person=BOB, chat=BOB)
    assert await world.asks("/mcp", person=BOB, chat=GROUP) != "No MCP server is configured."
