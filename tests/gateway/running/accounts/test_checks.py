"""A try of an account before it is saved: with the gateway's own proxy, and without an error that ends the page."""

from collections.abc import Callable

import anyio
import pytest
from anyio.abc import SocketAttribute, SocketStream

from gateway.running.accounts.changes import AccountChanges
from tests.fakes.running import running
from tests.gateway.conftest import world_of
from tests.gateway.world import World
from tests.program.doubles import TELEGRAM_TOKEN

__all__ = ["world_of"]

ENTRY = {"type": "telegram", "token": TELEGRAM_TOKEN, "api_base_url": "http://telegram.invalid"}


@pytest.mark.requirement("G-82")
async def test_a_try_goes_through_the_proxy_of_the_network(world_of: Callable[..., World]) -> None:
    asked: list[bytes] = []

    async def refuse(stream: SocketStream) -> None:
        async with stream:
            asked.append(await stream.receive())
            await stream.send(b"HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    async with listener:
        proxy = f"http://127.0.0.1:{listener.extra(SocketAttribute.local_port)}"
        world = world_of(config=f'\n[network]\nproxy = "{proxy}"\n')
        async with running(lambda: listener.serve(refuse)), world.process():
            changes = AccountChanges(basics=world.services.basics, accounts=world.services.accounts)
            assert await changes.tried(ENTRY)
    assert asked
    assert b"http://telegram.invalid/" in asked[0]


@pytest.mark.requirement("G-82")
async def test_a_proxy_that_the_platform_cannot_use_is_told_as_a_mistake(world_of: Callable[..., World]) -> None:
    async with world_of(config='\n[network]\nproxy = "socks5://127.0.0.1:1"\n').process() as world:
        changes = AccountChanges(basics=world.services.basics, accounts=world.services.accounts)
        (said,) = await changes.tried(ENTRY)
        assert "Telegram cannot use the proxy" in said
