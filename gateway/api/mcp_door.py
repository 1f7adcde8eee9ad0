"""The way to the server for other agents: it is loaded when the first of them comes."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

import anyio
from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from agent.storage.errors import StorageError
from gateway.api.entrance import Entrance, told
from gateway.api.keys import Refused
from gateway.api.places import Places
from gateway.api.reading import Reading
from gateway.api.turns import Turns


class McpDoor:
    """An ASGI application. `run` must run while it is served."""

    def __init__(self, entrance: Entrance, places: Places, turns: Turns, reading: Reading, version: str) -> None:
        self._entrance = entrance
        self._make: Callable[[Any], Any] = lambda module: module.McpServer(
            module.Doors(places, turns, reading), version
        )
        self._wanted = anyio.Event()
        self._ready = anyio.Event()
        self._server: Any = None

    async def run(self) -> None:
        """Serve from the first request on, until cancelled."""
        await self._wanted.wait()
        module = await anyio.to_thread.run_sync(import_module, "gateway.api.mcp_server")
        self._server = self._make(module)
        async with self._server.manager.run():
            self._ready.set()
            await anyio.sleep_forever()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            key = await self._entrance.key_of(Request(scope, receive), None)
        except (Refused, StorageError) as error:
            await told(error)(scope, receive, send)
            return
        self._wanted.set()
        await self._ready.wait()
        scope.setdefault("state", {})["tieline_key"] = key
        await self._server.manager.handle_request(scope, receive, send)
