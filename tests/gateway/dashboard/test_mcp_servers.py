"""MCP servers on the dashboard: state, offers, what is left out, and changes at runtime."""

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from agent.core.ids import ConversationId
from agent.tools.mcp.settings import ServerSettings
from agent.tools.mcp.states import ServerState
from gateway.dashboard.program.mcp_servers import state_at, transport_of
from gateway.running.mcp.added_servers import SETTING
from gateway.storage import settings_rows
from tests.fakes.waiting import until
from tests.gateway.dashboard.conftest import Browsing, browsing
from tests.gateway.dashboard.test_settings import Form
from tests.gateway.world import World

FAKE = str(Path(__file__).parents[2] / "fakes" / "mcp_server.py")
CONFIG = f"""
[[mcp.servers]]
name = "near"
command = "{sys.executable}"
args = ["{FAKE}", "--token=s3cret-argument"]
blocked = ["slow"]
[mcp.servers.env]
TOKEN = "s3cret-value"
[[mcp.servers]]
name = "far"
url = "http://me:s3cret-login@127.0.0.1:9/path?key=s3cret-key"
"""


@pytest.mark.requirement("G-75")
async def test_servers_show_what_they_offer_and_no_secret(world_of: Callable[..., World]) -> None:
    config = CONFIG.replace(', "--token=s3cret-argument"', "")
    async with world_of(config=config).process() as world, browsing(world) as owner:
        near = world.services.servers.named("near")
        assert near is not None
        await until(
            lambda: near.is_connected and bool(near.catalogue.prompts or near.catalogue.resources), longest_s=120
        )
        page = await owner.page("/mcp")
        assert "program python" in page
        assert "http://127.0.0.1:9/path ·" in page, "the port and the path as well"
        assert "not connected" in page
        assert "s3cret" not in page
        one = await owner.page("/mcp/near")
        assert "mcp__near__echo" in one
        assert "Gives back its text." in one
        assert "mcp__near__slow" not in one
        assert "<strong>slow</strong>" in one
        assert "the configuration does not want it" in one
        assert "s3cret" not in one + await owner.page("/mcp/far")
        assert "Log in" not in one + await owner.page("/mcp/far"), "neither has asked for one"
        assert await owner.act("/mcp-server/reconnect/near") == f"near is connected: {len(near.tools)} tools."
        told = await owner.act("/mcp-server/reconnect/far")
        assert told.startswith("far is not connected: ")
        assert told.endswith("It is tried again by itself.")
        refused = await owner.post("/mcp-server/remove/near")
        assert refused.json()["error"].startswith("Near stands in the configuration.")
        assert (await owner.post("/mcp-server/remove/nobody")).status_code == 404


@pytest.mark.requirement("G-75")
@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://mcp.example.org/v1/mcp", "https://mcp.example.org/v1/mcp"),
        ("http://[::1]:8931/mcp", "http://[::1]:8931/mcp"),
        ("https://me:s3cret@mcp.example.org:8443/mcp?key=s3cret#s3cret", "https://mcp.example.org:8443/mcp"),
        ("https://mcp.example.org/s/c2VjcmV0LXRva2VuLTAwMQ/mcp", "https://mcp.example.org/s/…/mcp"),
    ],
)
def test_an_address_is_shown_whole_but_for_its_secrets(url: str, shown: str) -> None:
    assert transport_of(ServerSettings(name="far", url=url)) == shown


@pytest.mark.requirement("G-171")
def test_a_server_that_one_of_several_workers_cannot_reach_is_shown_as_lost() -> None:
    there = ServerState(name="near", is_connected=True, since=None, trouble="", wants_login=False)
    away = replace(there, is_connected=False, trouble="it is down")
    assert state_at("near", {"near": (there, away, there)}) == (away, "at 1 of 3 workers")
    assert state_at("near", {"near": (there, there)}) == (there, "")
    nobody, at = state_at("near", {})
    assert (nobody.is_connected, at) == (False, "")
    assert "no process of the role worker" in nobody.trouble


@pytest.mark.requirement("G-75")
async def test_one_is_added_and_removed_at_runtime(owner: Browsing) -> None:
    servers = owner.world.services.servers
    assert "No MCP server is configured." in await owner.page("/mcp")
    refused = await owner.post("/mcp-server/add", name="far", address="https://x.example/?key=s3cret")
    assert refused.json() == {"error": "An address with a key in it belongs into the configuration."}
    wrong = await owner.post("/mcp-server/add", name="<script>", address="https://x.example")
    assert wrong.status_code == 409
    assert "far is added" in await owner.act("/mcp-server/add", name="far", address="http://127.0.0.1:9/mcp")
    assert servers.named("far") is not None
    assert "added at runtime" in await owner.page("/mcp")
    assert await owner.act("/mcp-server/remove/far") == "far is removed."
    assert servers.all == ()
    done = [(one.action, one.subject, one.detail) for one in await owner.actions()]
    assert done == [("mcp.add", "far", "127.0.0.1:9"), ("mcp.remove", "far", "")]


@pytest.mark.requirement("G-75")
async def test_one_that_this_version_does_not_take_any_more_is_told_of_and_removed(
    world_of: Callable[..., World],
) -> None:
    world = world_of()
    async with world.process():
        url = "ftp://127.0.0.1/mcp"  # as an earlier version may have taken it
        await world.database.write(lambda conn: settings_rows.put(conn, ConversationId("mcp:far"), SETTING, url, at=1))
    async with world.process(), browsing(world) as owner:
        page = await owner.page("/mcp")
        assert "<strong>far</strong>" in page
        assert "This version does not take it any more." in page
        assert await owner.act("/mcp-server/remove/far") == "far is removed."
        assert "far" not in await owner.page("/mcp")


async def test_what_a_server_calls_its_tools_is_no_markup(owner: Browsing) -> None:
    await owner.act("/mcp-server/add", name="far", address="http://127.0.0.1:9/mcp")
    server = owner.world.services.servers.named("far")
    assert server is not None
    server.trouble = "<script>alert(1)</script>"
    for path in ("/mcp", "/mcp/far"):
        assert "<script>alert" not in await owner.page(path)


async def test_one_that_is_taken_out_of_the_file_is_told_as_going(world_of: Callable[..., World]) -> None:
    far = '[[mcp.servers]]\nname = "far"\nurl = "http://127.0.0.1:9/mcp"\n'
    async with world_of(config=far).process() as world, browsing(world) as owner:
        server = world.services.servers.named("far")
        assert server is not None
        await until(lambda: "not answered yet" not in server.trouble)
        assert 'href="/mcp/far">mcp far</a>' in await owner.page("/")
        for path in ("/mcp", "/mcp/far"):
            assert 'href="/settings/mcp.servers/0">Settings' in await owner.page(path)
        path = "/settings/mcp.servers/0"
        asked = Form(await owner.page(path)).with_("removal")
        shown = await owner.post(f"{path}/save", **asked)
        assert 'class="button danger" name="step" value="save-removal"' in shown.text
        await owner.act(f"{path}/save", **{**Form(shown.text).values, "step": "save-removal"})
        for path in ("/mcp", "/mcp/far"):
            page = await owner.page(path)
            assert "removed from the configuration; goes with the next start" in page
            assert 'href="/settings/mcp.servers/' not in page
            assert "[[mcp.servers]] entry" not in page
        overview = await owner.page("/")
        assert "mcp far" not in overview
        assert "All is well" in overview
