"""Reasons not to use slack-bolt's Socket Mode handler (docs/decisions/0025-own-socket-mode-connection.md).

When one of these fails with a new slack-bolt or slack-sdk, look at the decision again.
"""

import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from slack_bolt.adapter.socket_mode.aiohttp import AsyncSocketModeHandler
from slack_bolt.async_app import AsyncApp
from slack_bolt.authorization import AuthorizeResult
from slack_sdk.web.async_client import AsyncWebClient

from gateway.channels.adapter import State
from gateway.testing.harness import eventually
from tests.adapters.slack.world import World, running, workspace

FAST_S = 0.05


async def authorize(enterprise_id: str | None, team_id: str | None) -> AuthorizeResult:
    return AuthorizeResult(enterprise_id=enterprise_id, team_id=team_id)


@asynccontextmanager
async def bolt(world: World, store: Callable[[str], Awaitable[None]]) -> AsyncIterator[AsyncSocketModeHandler]:
    """The library's own way: its app, its handler, its client; an event is acknowledged when its listener has ended."""
    client = AsyncWebClient(base_url=f"{world.base}/api/")
    app = AsyncApp(name="peer", process_before_response=True, authorize=authorize, client=client)

    @app.event(re.compile(""))
    async def take(event: dict[str, Any]) -> None:
        await store(event["text"])

    handler = AsyncSocketModeHandler(app, "xapp-test", ping_interval=FAST_S)
    async with anyio.create_task_group() as group:
        group.start_soon(handler.connect_async)
        try:
            yield handler
        finally:
            await handler.close_async()  # type: ignore[no-untyped-call]
            group.cancel_scope.cancel()


async def outlive_a_ticket(world: World) -> None:
    """Slack refuses connections for longer than the address lives that it gave for one."""
    world.double.settings["refused_links"] = 1_000
    await eventually(lambda: world.double.settings["refused_links"] != 1_000)
    world.double.tickets.clear()
    world.double.settings["refused_links"] = 0


async def test_its_handler_would_acknowledge_after_storing() -> None:
    gate, stored = anyio.Event(), list[str]()

    async def store(text: str) -> None:
        await gate.wait()
        stored.append(text)

    async with workspace() as world, bolt(world, store):
        await eventually(lambda: len(world.double.sockets) == 1)
        (delivery,) = world.double.make_request({"text": "hello"})
        await eventually(lambda: len(world.double.pending) == 1)
        assert not delivery.done()
        gate.set()
        assert (await delivery)["acked"]
        assert stored == ["hello"]


async def test_its_client_is_deaf_for_ever_after_an_outage_that_outlives_a_ticket(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def store(text: str) -> None: ...

    async with workspace() as world, bolt(world, store):
        await outlive_a_ticket(world)
        await eventually(lambda: caplog.text.count("Failed to connect (error: 403") >= 10)
        assert len(world.calls("apps.connections.open")) == 1, "it asks for no other address"
        assert not world.double.sockets
    assert "ticket=" in caplog.text, "what lets anybody take a share of the events is in the log"


async def test_ours_asks_for_another_address(tmp_path: Path) -> None:
    async with workspace() as world, running(world, tmp_path, ready=False) as adapter:
        await outlive_a_ticket(world)
        await eventually(lambda: adapter.health().state is State.CONNECTED)
        assert len(world.calls("apps.connections.open")) > 1
        await world.write("hello")
        assert [said.text for said in world.said()] == ["hello"]
