"""The four doubles on loopback, each with its control door, for tests that run the whole program."""

import os
import socket
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from itertools import count
from typing import Any

import aiohttp
import anyio
from aiohttp import web

from tests.doubles.discord_api import DiscordDouble
from tests.doubles.llm_api import LlmDouble
from tests.doubles.slack_api import SlackDouble
from tests.doubles.telegram_api import TelegramDouble
from tests.fakes.waiting import PATIENCE_S

TELEGRAM_TOKEN = "123456:TEST-token"
SLACK_BOT_TOKEN, SLACK_APP_TOKEN, SLACK_SECRET = "xoxb-double-1", "xapp-double-1", "double-signing-secret"
DISCORD_TOKEN = "discord-double-token"


FIRST_PORT, PORTS = 10_000, 20_000  # below those that a system gives away by itself, so that nobody else takes one
_numbers = count(os.getpid() * 131)  # processes that test side by side begin far from each other


def free_port() -> int:
    """A port of this machine that nobody has, and that nobody is given who asks for any."""
    for number in _numbers:
        port = FIRST_PORT + number % PORTS
        with socket.socket() as sock:
            try:
                sock.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise AssertionError("the numbers never end")


class Control:
    """The control door of one double (tests/doubles: `/_control/…`)."""

    def __init__(self, port: int, client: aiohttp.ClientSession, double: Any) -> None:
        self.port = port
        self.double = double  # the object itself, for those who measure
        self._client = client

    async def get(self, what: str, **query: str) -> Any:
        async with self._client.get(f"http://127.0.0.1:{self.port}/_control/{what}", params=query) as answer:
            answer.raise_for_status()
            return await answer.json()

    async def post(self, what: str, body: Any = None, **query: str) -> Any:
        url = f"http://127.0.0.1:{self.port}/_control/{what}"
        async with self._client.post(url, json=body if body is not None else {}, params=query) as answer:
            if answer.status >= 400:
                raise AssertionError(f"{url}: {answer.status} {await answer.text()}")
            return await answer.json()

    async def fetch(self, url: str) -> bytes:
        """Anything else the double serves, by its whole address."""
        async with self._client.get(url) as answer:
            answer.raise_for_status()
            return await answer.read()


@dataclass(frozen=True, slots=True)
class Doubles:
    telegram: Control
    slack: Control
    discord: Control
    llm: Control


@asynccontextmanager
async def all_doubles(*more: str) -> AsyncIterator[Doubles]:
    """All four, running in this process; they listen at `more` addresses of this machine too."""
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(aiohttp.ClientSession())

        async def serve(double: Any) -> Control:
            runner = web.AppRunner(double.app(), shutdown_timeout=0.1)
            await runner.setup()
            stack.push_async_callback(runner.cleanup)
            port = free_port()
            for address in ("127.0.0.1", *more):
                await web.TCPSite(runner, address, port).start()
            return Control(port, client, double)

        yield Doubles(
            telegram=await serve(TelegramDouble([TELEGRAM_TOKEN])),
            slack=await serve(SlackDouble(SLACK_SECRET, SLACK_BOT_TOKEN, SLACK_APP_TOKEN)),
            discord=await serve(DiscordDouble(DISCORD_TOKEN)),
            llm=await serve(LlmDouble()),
        )


async def until(found: Callable[[], Any], *, seconds: float = PATIENCE_S, what: str = "it") -> Any:
    """Poll an awaitable-returning callable until it gives something true; fail with the last value seen."""
    end = time.monotonic() + seconds
    while True:
        value = await found()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"{what} did not happen within {seconds} s; last seen: {value!r}")
        await anyio.sleep(0.03)
