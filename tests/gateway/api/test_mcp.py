"""The server for other agents, by the client of the MCP library."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client

from tests.gateway.api.conftest import Caller


@asynccontextmanager
async def connected(caller: Caller, key: str) -> AsyncIterator[Client]:
    """The client of the library, with the key."""
    headers = {"authorization": f"Bearer {key}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60) as http,
        Client(streamable_http_client(f"{caller.url}/api/mcp", http_client=http)) as client,
    ):
        yield client


async def used(client: Client, name: str, **given: Any) -> tuple[str, bool]:
    """Text of the result, and whether it is an error."""
    result = await client.call_tool(name, given)
    [content] = result.content
    return str(getattr(content, "text", "")), bool(result.is_error)


@pytest.mark.requirement("G-122")
async def test_other_agents_send_ask_search_and_see_schedules(caller: Caller) -> None:
    await caller.world.asks("the kettle stands in the cellar")
    await caller.world.asks("/remind every day at 9:00 water the plants")
    await caller.world.asks("the kettle is mine", person="78")
    key = await caller.key("agent", "send", "ask", "search", "schedules", places=("telegram:77",))
    async with connected(caller, key) as client:
        tools = [tool.name for tool in (await client.list_tools()).tools]
        assert tools == ["send", "ask", "search_conversations", "schedules"]
        assert await used(client, "send", place="telegram:77", text="hello from an agent") == ("sent", False)
        assert "hello from an agent" in caller.world.texts()
        told, is_error = await used(client, "ask", place="telegram:77", text="what is new?")
        assert ("what is new?" in told, is_error) == (True, False)
        assert "what is new?" in await caller.world.shows("what is new?")
        found, _ = await used(client, "search_conversations", words="kettle")
        assert "kettle stands in the cellar" in found
        assert "mine" not in found, "the key does not reach that chat"
        planned, _ = await used(client, "schedules", place="telegram:77")
        assert "water the plants" in planned


@pytest.mark.requirement("G-122")
async def test_an_agent_has_the_tools_and_places_of_its_key_alone(caller: Caller) -> None:
    await caller.world.asks("/remind every day at 9:00 water the plants", person="78")
    said = list(caller.world.screen("78").shown)
    key = await caller.key("agent", "search", "send", "schedules", places=("telegram:77",))
    wrong = (
        ("ask", {"place": "telegram:77", "text": "x"}, "no tool 'ask'"),
        ("send", {"place": "telegram:78", "text": "x"}, "does not reach"),
        ("send", {"place": "telegram:77"}, "text: is missing"),
        ("send", {"place": "telegram:77", "text": "x", "more": "y"}, "more: is not known"),
        ("send", {"place": "nowhere", "text": "x"}, "no place"),
        ("search_conversations", {"words": "x", "place": "telegram:78"}, "does not reach"),
        ("search_conversations", {"words": " "}, "is empty"),
        ("schedules", {"place": "telegram:78"}, "does not reach"),
    )
    async with connected(caller, key) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == [
            "send",
            "search_conversations",
            "schedules",
        ]
        for name, given, told in wrong:
            text, is_error = await used(client, name, **given)
            assert is_error, (name, given)
            assert told in text, (name, given, text)
    assert caller.world.screen("78").shown == said
    assert not caller.world.llm.calls


@pytest.mark.requirement("G-122")
async def test_an_agent_without_a_key_that_holds_is_refused(caller: Caller) -> None:
    key = await caller.key("agent", "send")
    await caller.operations["keys.revoke"]({"name": "agent"})
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    for given in ("", "sk-tieline-x", key):
        answer = await caller.post("/api/mcp", given, body, accept="application/json, text/event-stream")
        assert answer.status_code == 401, given
        assert answer.headers["www-authenticate"] == "Bearer"


async def test_the_same_call_of_an_agent_is_carried_out_once(caller: Caller) -> None:
    key = await caller.key("agent", "send")
    async with connected(caller, key) as client:
        for _ in range(2):
            given = {"place": "telegram:77", "text": "once", "idempotency_key": "k"}
            assert await used(client, "send", **given) == ("sent", False)
    assert caller.world.texts().count("once") == 1


async def test_search_finds_what_is_within_a_place_and_not_what_only_begins_alike(caller: Caller) -> None:
    await caller.world.asks("otters in the group", person="77", chat="-1005")
    await caller.world.asks("otters in a topic", person="77", chat="-1005:9")
    for place, found in {"telegram:-1005": True, "telegram:-100": False}.items():
        key = await caller.key(f"agent-{int(found)}", "search", places=(place,))
        async with connected(caller, key) as client:
            text, _ = await used(client, "search_conversations", words="otters in")
            assert ("otters in a topic" in text) is found
            assert ("otters in the group" in text) is found
