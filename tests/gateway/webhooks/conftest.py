"""A gateway on loopback to which other services send their webhooks."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import httpx2
import pytest

from tests.gateway.api.conftest import serving
from tests.gateway.conftest import world_of
from tests.gateway.webhooks.senders import raw
from tests.gateway.world import World

__all__ = ["world_of"]


class Sender:
    """Another service."""

    def __init__(self, world: World, client: httpx2.AsyncClient) -> None:
        self.world = world
        self._client = client

    async def post(self, name: str, payload: Any, sign: Callable[..., dict[str, str]], **how: Any) -> httpx2.Response:
        """The payload, signed as it says."""
        body = raw(payload)
        return await self.send(name, body, sign(body, **how))

    async def send(self, name: str, body: bytes, headers: dict[str, str], method: str = "POST") -> httpx2.Response:
        """A request with just these headers."""
        return await self._client.request(method, f"/api/hooks/{name}", content=body, headers=headers)


Opened = Callable[..., AbstractAsyncContextManager[Sender]]


@pytest.fixture
def sender_of(world_of: Any) -> Opened:
    """Opens a gateway with these sections in its configuration."""

    @asynccontextmanager
    async def open(*sections: str, **options: Any) -> AsyncIterator[Sender]:
        async with world_of(config="\n".join(sections), **options).process() as world, serving(world) as there:
            limits = httpx2.Limits(max_connections=50)
            async with httpx2.AsyncClient(base_url=there.url, timeout=60, limits=limits) as client:
                yield Sender(world, client)

    return open
