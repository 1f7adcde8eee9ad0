"""A gateway whose doors for other programs are served on loopback, and the real client library of OpenAI."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import openai
import pytest

from gateway.config.sections import WebSettings
from gateway.web.server import WebServer
from tests.fakes.running import running
from tests.gateway.conftest import world_of
from tests.gateway.world import World

__all__ = ["world_of"]


class Caller:
    """Another program, with a key of its own."""

    def __init__(self, world: World, url: str) -> None:
        self.world = world
        self.url = url
        self.operations = {**world.services.operations.table(), **world.services.doors.operations}

    async def key(self, name: str = "crm", *scopes: str, places: tuple[str, ...] = ("*",), **more: Any) -> str:
        """A new key, as `tieline key create` makes it."""
        given = {"name": name, "scopes": list(scopes or ("chat",)), "places": list(places), **more}
        return str((await self.operations["keys.create"](given))["key"])

    def client(self, key: str, **more: Any) -> openai.AsyncOpenAI:
        """OpenAI's own client library, which knows no more than the address and the key."""
        return openai.AsyncOpenAI(base_url=f"{self.url}/v1", api_key=key, **{"max_retries": 0, **more})

    async def post(self, path: str, key: str = "", body: Any = None, **headers: str) -> httpx2.Response:
        """A request as any program sends it; `headers` are written with `_` for `-`."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if key:
            sent["authorization"] = f"Bearer {key}"
        content = {"content": body} if isinstance(body, bytes) else {"json": body}
        async with httpx2.AsyncClient(timeout=60) as client:
            return await client.post(f"{self.url}{path}", headers=sent, **content)


@asynccontextmanager
async def serving(world: World) -> AsyncIterator[Caller]:
    """The doors of a process that runs."""
    server = WebServer(WebSettings(port=0), home=world.home, clock=world.clock)
    server.bind()
    async with running(server.run):
        for mount in world.services.doors.mounts:
            server.mount_door(mount, large=mount.path in world.services.doors.large)
        server.watch(lambda: ())
        yield Caller(world, f"http://127.0.0.1:{server.port}")


@pytest.fixture
async def caller(world_of: Any) -> AsyncIterator[Caller]:
    """Another program at a gateway that runs."""
    async with world_of(accounts=("telegram", "api")).process() as world, serving(world) as there:
        yield there
