"""A connection that drops, goes silent or carries nonsense is made anew, and nothing of it stops the account."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp
import anyio
import pytest
from aiohttp import WSMsgType, web

from agent.core.backoff import Backoff
from agent.core.clock import SystemClock
from gateway.channels.adapter import AdapterContext, State
from gateway.channels.errors import ChannelFatal, ChannelRejected
from gateway.channels.kit.health import HealthMonitor
from gateway.channels.kit.websocket import LARGEST_FRAME, Connection, Frame, WebSocketEvents
from gateway.testing.harness import eventually, running
from gateway.testing.platform_double import PlatformDouble

SECRET = "ticket-123"
SOON = Backoff(first_s=0.01, longest_s=0.05)

Script = Callable[["Sockets", web.WebSocketResponse], Awaitable[None]]


class Sockets(PlatformDouble):
    """A platform that greets; each connection runs the next script, the last one again and again."""

    def __init__(self, *scripts: Script) -> None:
        super().__init__()
        self.scripts = list(scripts)
        self.connections = 0
        self.heard: list[dict[str, Any]] = []
        self.closed_with: list[int | None] = []
        self.transport: asyncio.Transport | None = None

    def routes(self) -> Iterable[web.AbstractRouteDef]:
        return [web.get(f"/{SECRET}", self.get_socket)]

    async def get_socket(self, request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse(autoping=False, max_msg_size=0)
        await socket.prepare(request)
        assert isinstance(request.transport, asyncio.Transport)
        self.transport = request.transport
        script = self.scripts[min(self.connections, len(self.scripts) - 1)]
        self.connections += 1
        with suppress(ConnectionError, asyncio.CancelledError):
            await script(self, socket)
        return socket


async def stays(sockets: Sockets, socket: web.WebSocketResponse) -> None:
    """Answer probes, keep what is said, until the client closes."""
    while True:
        message = await socket.receive()
        if message.type is WSMsgType.PING:
            await socket.pong(message.data)
        elif message.type is WSMsgType.TEXT:
            sockets.heard.append(json.loads(message.data))
        else:
            sockets.closed_with.append(socket.close_code)
            return


async def greets(sockets: Sockets, socket: web.WebSocketResponse) -> None:
    await socket.send_json({"hello": sockets.connections})
    await stays(sockets, socket)


def says(*frames: str | bytes) -> Script:
    async def script(sockets: Sockets, socket: web.WebSocketResponse) -> None:
        await socket.send_json({"hello": sockets.connections})
        for frame in frames:
            await (socket.send_str(frame) if isinstance(frame, str) else socket.send_bytes(frame))
        await stays(sockets, socket)

    return script


async def drops(sockets: Sockets, socket: web.WebSocketResponse) -> None:
    await socket.send_json({"hello": sockets.connections})
    assert sockets.transport is not None
    sockets.transport.abort()


async def half_closes(sockets: Sockets, socket: web.WebSocketResponse) -> None:
    """The bytes end without a word of the protocol."""
    await socket.send_json({"hello": sockets.connections})
    assert sockets.transport is not None
    sockets.transport.write_eof()
    await asyncio.Event().wait()


async def writes_nonsense(sockets: Sockets, socket: web.WebSocketResponse) -> None:
    await socket.send_json({"hello": sockets.connections})
    assert sockets.transport is not None
    sockets.transport.write(b"\xff\xff no frame of any kind")
    await asyncio.Event().wait()


async def is_deaf(sockets: Sockets, socket: web.WebSocketResponse) -> None:
    """Open for ever, and nothing answers."""
    await socket.send_json({"hello": sockets.connections})
    await asyncio.Event().wait()


async def never_greets(sockets: Sockets, socket: web.WebSocketResponse) -> None:
    await stays(sockets, socket)


def closes(code: int) -> Script:
    async def script(sockets: Sockets, socket: web.WebSocketResponse) -> None:
        await socket.send_json({"hello": sockets.connections})
        await socket.close(code=code)

    return script


class Account:
    """An adapter, as far as its events go."""

    def __init__(self, home: Path, url: str, **options: Any) -> None:
        context = AdapterContext(clock=SystemClock(), home=home, known_places=no_places)
        self.health = HealthMonitor(context.clock, "Sockets")
        self.taken: list[Frame] = []
        self.details: list[str] = []
        self.missed = 0
        self.resumes = False
        self._session: aiohttp.ClientSession | None = None
        self._url = url
        given: dict[str, Any] = {"backoff": SOON, "ping_every_s": 0.05, "take": self.take} | options
        self.events = WebSocketEvents(
            context, self.health, logging.getLogger("tieline.test"), platform="Sockets", session=self.session,
            address=self.address, greet=self.greet, missed=self.on_missed, **given,
        )  # fmt: skip

    def session(self) -> aiohttp.ClientSession:
        self._session = self._session or aiohttp.ClientSession()
        return self._session

    async def address(self) -> str:
        self.details.append(self.health.health().detail)
        return f"{self._url}/{SECRET}"

    async def greet(self, connection: Connection) -> bool:
        await connection.send({"token": "t"})
        return int((await connection.receive())["hello"]) > 1 and self.resumes

    def on_missed(self) -> None:
        self.missed += 1

    async def take(self, frame: Frame) -> None:
        self.taken.append(frame)

    async def aclose(self) -> None:
        if self._session is not None:
            await self._session.close()


async def no_places(channel_type: str) -> tuple[()]:
    return ()


@asynccontextmanager
async def listening(home: Path, *scripts: Script, **options: Any) -> AsyncIterator[tuple[Sockets, Account]]:
    sockets = Sockets(*scripts)
    async with sockets.served():
        account = Account(home, sockets.url, **options)
        async with running(account.events.run):
            yield sockets, account
        await account.aclose()


async def test_frames_come_in_order_behind_the_greeting(tmp_path: Path) -> None:
    async with listening(tmp_path, says('{"n": 1}', '{"n": 2}')) as (sockets, account):
        await eventually(lambda: len(account.taken) == 2)
        assert account.taken == [{"n": 1}, {"n": 2}]
        assert account.health.health().state is State.CONNECTED
        await eventually(lambda: sockets.heard == [{"token": "t"}])
        assert account.missed == 1
    await eventually(lambda: len(sockets.closed_with) == 1)  # told, not cut
    assert sockets.closed_with == [1000]


@pytest.mark.parametrize(
    ("breaks", "detail"),
    [
        pytest.param(drops, "the connection to Sockets ended", id="the connection drops"),
        pytest.param(half_closes, "the connection to Sockets ended", id="half of it closes"),
        pytest.param(
            writes_nonsense, "the connection to Sockets ended (WebSocketError)", id="bytes that are no frames"
        ),
        pytest.param(closes(1001), "the connection to Sockets ended (code 1001)", id="the platform closes it"),
        pytest.param(is_deaf, "Sockets has not answered for 0 s", id="it is open and silent"),
        pytest.param(says('"' + "x" * LARGEST_FRAME + '"'), "(WebSocketError)", id="a frame is too large"),
    ],
)
async def test_what_breaks_is_made_anew_with_what_was_missed(tmp_path: Path, breaks: Script, detail: str) -> None:
    async with listening(tmp_path, breaks, says('{"n": 2}')) as (_, account):
        await eventually(lambda: account.taken == [{"n": 2}])
        assert account.missed == 2
        assert detail in account.details[1]
        assert account.health.health().hears


async def test_what_cannot_be_read_is_left_out(tmp_path: Path) -> None:
    nonsense = ("no JSON", "[1, 2]", b"\x00\x01", "[" * 200_000, '{"n": 1}')
    async with listening(tmp_path, says(*nonsense)) as (sockets, account):
        await eventually(lambda: account.taken == [{"n": 1}])
        assert sockets.connections == 1


async def test_a_frame_on_which_the_adapter_fails_is_left_out(tmp_path: Path) -> None:
    taken = []

    async def take(frame: Frame) -> None:
        if frame["n"] == 1:
            raise ChannelRejected("not for us")
        taken.append(frame["number"] if frame["n"] == 2 else frame["n"])

    async with listening(tmp_path, says('{"n": 1}', '{"n": 2}', '{"n": 3}'), take=take) as (sockets, _):
        await eventually(lambda: taken == [3])
        assert sockets.connections == 1


async def test_nothing_was_missed_where_the_platform_goes_on(tmp_path: Path) -> None:
    async with listening(tmp_path, drops, greets) as (sockets, account):
        account.resumes = True
        await eventually(lambda: sockets.connections == 2 and account.health.health().hears)
        assert account.missed == 1


async def test_an_idle_connection_that_answers_is_kept(tmp_path: Path) -> None:
    async with listening(tmp_path, greets) as (sockets, account):
        await eventually(lambda: account.health.health().hears)
        first = account.health.health().last_event_at
        for _ in range(6):  # more probes than a silent one would get
            before = account.health.health().last_event_at
            await eventually(lambda before=before: account.health.health().last_event_at != before)  # type: ignore[misc]
        assert sockets.connections == 1
        assert account.health.health().last_event_at != first


async def test_the_platforms_own_probe_is_sent(tmp_path: Path) -> None:
    async with listening(tmp_path, greets, probe=lambda: {"op": "beat"}) as (sockets, _):
        await eventually(lambda: {"op": "beat"} in sockets.heard)


async def test_one_that_does_not_greet_is_made_anew(tmp_path: Path) -> None:
    async with listening(tmp_path, never_greets, greets, open_within_s=0.1) as (_, account):
        await eventually(lambda: account.health.health().hears)
        assert account.details[1] == "Sockets did not greet within 0.1 s"
        assert account.missed == 1


async def test_while_frames_are_not_taken_the_account_does_not_hear(tmp_path: Path) -> None:
    go_on, taken = anyio.Event(), []

    async def take(frame: Frame) -> None:
        await go_on.wait()
        taken.append(frame)

    async with listening(tmp_path, says('{"n": 1}'), take=take) as (sockets, account):
        await eventually(lambda: "not taken in" in account.health.health().detail)
        assert not account.health.health().hears
        go_on.set()
        await eventually(lambda: account.health.health().hears)
        assert (taken, sockets.connections) == ([{"n": 1}], 1)


@pytest.mark.parametrize("script", [closes(4004), greets], ids=["by a code", "at the handshake"])
async def test_a_refused_login_ends_the_account(tmp_path: Path, script: Script) -> None:
    sockets = Sockets(script)
    if script is greets:
        sockets.fail("GET", f"/{SECRET}", "gone", status=401)
    async with sockets.served():
        account = Account(tmp_path, sockets.url, refusals={401: "make a new token", 4004: "make a new token"})
        with pytest.raises(ChannelFatal, match="make a new token"):
            await account.events.run()
        await account.aclose()


async def test_a_platform_that_asks_to_wait_is_waited_for(tmp_path: Path) -> None:
    sockets = Sockets(greets)
    sockets.fail("GET", f"/{SECRET}", "busy", after_s=1.0)
    async with sockets.served():
        account = Account(tmp_path, sockets.url)
        began = anyio.current_time()
        async with running(account.events.run):
            await eventually(lambda: account.health.health().hears)
        assert anyio.current_time() - began >= 1.0
        assert account.details[1] == "Sockets refused the socket: HTTP 429"
        await account.aclose()


async def test_no_detail_holds_the_address(tmp_path: Path) -> None:
    async with listening(tmp_path, greets) as (sockets, _):
        nowhere = sockets.url
    account = Account(tmp_path, nowhere)
    async with running(account.events.run):
        await eventually(lambda: len(account.details) > 1)
    await account.aclose()
    assert account.details[1].startswith("no socket to Sockets")
    assert SECRET not in account.details[1]
