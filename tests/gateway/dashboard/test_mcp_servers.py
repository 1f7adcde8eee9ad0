"""MCP servers on the dashboard: state, offers, what is left out, and changes at runtime."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fakes.waiting import until
from tests.gateway.dashboard.conftest import Browsing, browsing
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
        assert "http://127.0.0.1" in page
        assert "not connected" in page
        assert "s3cret" not in page
        one = await owner.page("/mcp/near")
        assert "mcp__near__echo" in one
        assert "Gives back its text." in one
        assert "mcp__near__slow" not in one
        assert "<strong>slow</strong>" in one
        assert "the configuration does not want it" in one
        assert "s3cret" not in one + await owner.page("/mcp/far")
        assert await owner.act("/mcp-server/reconnect/near") == "near is being connected anew."
        refused = await owner.post("/mcp-server/remove/near")
        assert refused.json()["error"].startswith("Near stands in the configuration.")
        assert (await owner.post("/mcp-server/remove/nobody")).status_code == 404


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
    assert done == [("mcp.add", "far", "127.0.0.1"), ("mcp.remove", "far", "")]


async def test_what_a_server_calls_its_tools_is_no_markup(owner: Browsing) -> None:
    await owner.act("/mcp-server/add", name="far", address="http://127.0.0.1:9/mcp")
    server = owner.world.services.servers.named("far")
    assert server is not None
    server.trouble = "<script>alert(1)</script>"
    for path in ("/mcp", "/mcp/far"):
        assert "<script>alert" not in await owner.page(path)
