"""A platform's events over a WebSocket with JSON frames: one connection at a time, made anew as often as it ends.

An adapter says where to connect, how to sign in, and what to do with a frame. No message of ours holds an address, for
many platforms put a ticket into it.
"""

import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import aiohttp
import anyio
from aiohttp import WSMsgType

from agent.core.backoff import Backoff, Retries
from agent.core.clock import Clock
from gateway.channels.adapter import AdapterContext, wait_asked_s
from gateway.channels.errors import ChannelBusy, ChannelError, ChannelFatal
from gateway.channels.kit.health import HealthMonitor
from gateway.channels.kit.http import AFTER_S

Frame = Mapping[str, Any]

RECONNECTING = Backoff(first_s=1.0, longest_s=60.0, jitter=0.5)
LARGEST_FRAME = 4 * 1024 * 1024  # bytes
OPEN_WITHIN_S = 20.0  # the handshake and the greeting together
SEND_WITHIN_S = 20.0
CLOSE_WITHIN_S = 3.0
STEADY_S = 10.0  # a connection that lived so long was a good one: the back-off starts over
DEAF_AFTER_PROBES = 3
ENDED = frozenset({WSMsgType.CLOSE, WSMsgType.CLOSING, WSMsgType.CLOSED})
BROKEN = (ConnectionError, aiohttp.ClientError, RuntimeError)  # RuntimeError: written to after the close


class Connection:
    """One open WebSocket. What cannot be read is logged and left out; the end is a ChannelError."""

    def __init__(
        self, socket: aiohttp.ClientWebSocketResponse, clock: Clock, log: logging.Logger, platform: str
    ) -> None:
        self.heard_at = clock.monotonic()
        self._socket = socket
        self._clock = clock
        self._log = log
        self._platform = platform

    async def send(self, frame: Frame) -> None:
        """Write one frame. Raises ChannelBusy when the connection has ended."""
        try:
            with anyio.fail_after(SEND_WITHIN_S):
                await self._socket.send_str(json.dumps(frame))
        except (TimeoutError, *BROKEN) as error:
            raise self._ended(type(error).__name__) from None

    async def receive(self) -> Frame:
        """The next frame. Raises ChannelBusy when the connection has ended."""
        while True:
            try:
                message = await self._socket.receive()
            except BROKEN as error:
                raise self._ended(type(error).__name__) from None
            if message.type is WSMsgType.ERROR:
                raise self._ended(type(message.data).__name__)  # its words may quote what was sent
            if message.type in ENDED:
                raise self._ended(f"code {self._socket.close_code}")
            self.heard_at = self._clock.monotonic()
            if message.type is WSMsgType.PING:
                await self._control(self._socket.pong, message.data)
            elif message.type is WSMsgType.TEXT:
                try:
                    frame = json.loads(message.data)
                except (ValueError, RecursionError):
                    frame = None
                if isinstance(frame, dict):
                    return frame
                self._log.warning("a frame is no JSON object and is left out", extra={"platform": self._platform})

    async def ping(self) -> None:
        """Ask for a sign of life. Raises ChannelBusy when the connection has ended."""
        await self._control(self._socket.ping, b"tieline")

    @property
    def close_code(self) -> int | None:
        return self._socket.close_code

    async def _control(self, send: Callable[[bytes], Awaitable[None]], payload: bytes) -> None:
        try:
            with anyio.fail_after(SEND_WITHIN_S):
                await send(payload)
        except (TimeoutError, *BROKEN) as error:
            raise self._ended(type(error).__name__) from None

    def _ended(self, why: str) -> ChannelBusy:
        return ChannelBusy(f"the connection to {self._platform} ended ({why})", after_s=0.0)


class WebSocketEvents:
    """An account's way in. `health` is told all that happens to the connection.

    `session` gives the client session, `address` the URL of the next connection. `greet` signs in on it before anything
    else is read: it raises ChannelFatal when the login is refused, and gives True where the platform goes on behind
    what it sent last, so that nothing was missed. Otherwise `missed` is called: `CatchUp.begin`. `take` gets every
    further frame in order and may wait, which holds the platform back; a frame on which it fails is logged and left
    out. `refusals` says for a status of the handshake, or a code with which the platform closes, that the login is
    refused, in words that tell what to do.

    An idle connection is probed every `ping_every_s`, with the frame of `probe` where the platform wants one of its
    own; without an answer to three of them it is made anew.
    """

    def __init__(
        self,
        context: AdapterContext,
        health: HealthMonitor,
        log: logging.Logger,
        *,
        platform: str,
        session: Callable[[], aiohttp.ClientSession],
        address: Callable[[], Awaitable[str]],
        greet: Callable[[Connection], Awaitable[bool]],
        missed: Callable[[], None],
        take: Callable[[Frame], Awaitable[None]],
        refusals: Mapping[int, str] | None = None,
        headers: Mapping[str, str] | None = None,
        probe: Callable[[], Frame] | None = None,
        ping_every_s: float = 20.0,
        open_within_s: float = OPEN_WITHIN_S,
        backoff: Backoff = RECONNECTING,
    ) -> None:
        self._context = context
        self._clock = context.clock
        self._health = health
        self._log = log
        self._platform = platform
        self._session = session
        self._address = address
        self._greet = greet
        self._missed = missed
        self._take = take
        self._refusals = refusals or {}
        self._headers = headers
        self._probe = probe
        self._ping_every_s = ping_every_s
        self._open_within_s = open_within_s
        self._backoff = backoff
        self._taking_since: float | None = None

    async def run(self) -> None:
        """Hear the platform until cancelled. Raises ChannelFatal when the login is refused."""
        retries = Retries(self._backoff)
        while True:
            began, asked_s = self._clock.monotonic(), 0.0
            try:
                why = await self._one_connection()
            except ChannelFatal:
                raise
            except ChannelError as error:
                why, asked_s = str(error), error.after_s if isinstance(error, ChannelBusy) else 0.0
            if self._clock.monotonic() - began > STEADY_S:
                retries.succeeded()
            self._health.trouble(why)
            wait_s = retries.failed(asked_s=asked_s)
            self._log.info("connecting anew: %s", why, extra={"attempt": retries.failures, "wait_s": round(wait_s, 1)})
            await self._clock.sleep(wait_s)

    async def _one_connection(self) -> str:
        """The reason for its end, where no error tells it."""
        socket: aiohttp.ClientWebSocketResponse | None = None
        connection: Connection | None = None
        try:
            with anyio.fail_after(self._open_within_s):
                socket = await self._opened(await self._address())
                connection = Connection(socket, self._clock, self._log, self._platform)
                went_on = await self._greet(connection)
            self._health.connected()
            if not went_on:
                self._missed()
            return await self._listen(connection)
        except TimeoutError:
            why = f"{self._platform} did not greet within {self._open_within_s:g} s"
            raise ChannelBusy(why, after_s=0.0) from None
        except ChannelBusy:
            if connection is not None and (words := self._refusals.get(connection.close_code or 0)):
                raise ChannelFatal(words) from None
            raise
        finally:
            if socket is not None:
                with anyio.move_on_after(CLOSE_WITHIN_S, shield=True):
                    await socket.close()

    async def _opened(self, url: str) -> aiohttp.ClientWebSocketResponse:
        try:
            # No automatic pongs and heartbeats: the probe wants to see every sign of life itself.
            return await self._session().ws_connect(
                url,
                headers=self._headers,
                proxy=self._context.proxy,
                autoping=False,
                max_msg_size=LARGEST_FRAME,
                timeout=aiohttp.ClientWSTimeout(ws_close=CLOSE_WITHIN_S),
            )
        except aiohttp.ClientResponseError as error:
            if words := self._refusals.get(error.status):
                raise ChannelFatal(words) from None
            after_s = wait_asked_s(error.headers or {}, AFTER_S)
            raise ChannelBusy(f"{self._platform} refused the socket: HTTP {error.status}", after_s=after_s) from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise ChannelBusy(f"no socket to {self._platform} ({type(error).__name__})", after_s=0.0) from None

    async def _listen(self, connection: Connection) -> str:
        ended: ChannelBusy | None = None
        async with anyio.create_task_group() as group:
            group.start_soon(self._watch, connection, group.cancel_scope)
            try:
                while True:
                    frame = await connection.receive()
                    self._health.heard()
                    await self._taken(frame)
                    connection.heard_at = self._clock.monotonic()  # the wait was ours, not the platform's
            except ChannelBusy as error:  # not out of the group, which would wrap it
                ended = error
            group.cancel_scope.cancel()
        if ended is not None:
            raise ended
        return f"{self._platform} has not answered for {self._clock.monotonic() - connection.heard_at:.0f} s"

    async def _taken(self, frame: Frame) -> None:
        self._taking_since = self._clock.monotonic()
        try:
            await self._take(frame)
        except ChannelError as error:
            self._log.warning("a frame is left out: %s", error)
        except Exception:  # noqa: BLE001 - the channel seam: one frame must not stop those behind it
            self._log.exception("a frame could not be handled and is left out")
        finally:
            self._taking_since = None

    async def _watch(self, connection: Connection, listening: anyio.CancelScope) -> None:
        """Probe the connection; end it when nothing comes back. One that is half open looks healthy."""
        seen = connection.heard_at
        while True:
            await self._clock.sleep(self._ping_every_s)
            now, since = self._clock.monotonic(), self._taking_since
            longest_s = self._ping_every_s * DEAF_AFTER_PROBES
            if since is not None:  # nobody reads now, so silence tells nothing
                if now - since > longest_s:
                    self._health.trouble("what the platform sends is not taken in here")
                continue
            if now - connection.heard_at > longest_s:
                listening.cancel()
                return
            if connection.heard_at != seen:
                seen = connection.heard_at
                self._health.connected()
            try:
                await (connection.ping() if self._probe is None else connection.send(self._probe()))
            except ChannelBusy:
                return  # the reader notices the end by itself
