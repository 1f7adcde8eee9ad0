"""One Socket Mode connection, from its hello to its end; envelopes are acknowledged only when told to.

Own code over the library's client because that one acknowledges nothing in order, hides its reconnects, keeps trying a
used-up address and runs tasks nobody owns. (docs.slack.dev, "Using Socket Mode")
"""

import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from enum import StrEnum
from typing import Any

import aiohttp
import anyio
from aiohttp import WSMsgType

from adapters.slack.api import RECONNECTING, SlackApi
from adapters.slack.intake import ACKNOWLEDGE_WITHIN_S, Arrival, Intake
from adapters.slack.settings import SlackSettings
from agent.core.backoff import Retries
from gateway.channels.adapter import AdapterContext
from gateway.channels.errors import ChannelBusy, ChannelError, ChannelFatal, GatewayUnavailable
from gateway.channels.kit.health import HealthMonitor
from gateway.channels.kit.keyed_queue import KeyedQueue

log = logging.getLogger("tieline.slack")

Envelope = Mapping[str, Any]

HELLO_S = 15.0
DEAF_AFTER_PROBES = 3
STUCK_AFTER_PROBES = 18
CLOSE_S = 3.0
DRAIN_S = 2.0


class Ending(StrEnum):
    REFRESH = "refresh"  # Slack asked for a new connection
    CLOSED = "closed"
    DEAF = "deaf"  # open, but nothing answers
    STUCK = "what Slack sends is not taken in here"


class SocketLink:
    """A connection that said hello. `connections` is how many the app has open, this one included."""

    def __init__(
        self,
        socket: aiohttp.ClientWebSocketResponse,
        adapter_context: AdapterContext,
        *,
        ping_every_s: float,
        idle_refresh_s: float,
    ) -> None:
        self.connections = 1
        self._socket = socket
        self._clock = adapter_context.clock
        self._ping_every_s = ping_every_s
        self._idle_refresh_s = idle_refresh_s
        self._last_sign = self._last_envelope = self._clock.monotonic()
        self._reading = False
        self._handling_since: float | None = None
        self._unacknowledged: set[str] = set()
        self._drained: anyio.Event | None = None

    async def hello(self) -> None:
        """Raises ConnectionError or TimeoutError when it does not come."""
        with anyio.fail_after(HELLO_S):
            while True:
                frame = await self._receive()
                if frame is None:
                    raise ConnectionError("Slack closed the socket before its hello")
                if frame.get("type") == "hello":
                    self.connections = int(frame.get("num_connections") or 1)
                    return

    async def listen(self, handle: Callable[[Envelope], Awaitable[None]], sign_of_life: Callable[[], None]) -> Ending:
        """Give every envelope to `handle`, in order, until the connection ends; it may wait to slow Slack down.

        One that it is given for too long ends the connection, unacknowledged.
        """
        ending = Ending.STUCK  # unless the reader itself comes to an end
        async with anyio.create_task_group() as group:
            group.start_soon(self._probe, sign_of_life, group.cancel_scope)
            while (frame := await self._receive()) is not None:
                sign_of_life()
                if frame.get("type") == "disconnect":
                    log.info("slack asks for a new connection", extra={"reason": str(frame.get("reason"))})
                    ending = Ending.REFRESH
                    break
                if frame.get("envelope_id"):
                    self._unacknowledged.add(str(frame["envelope_id"]))
                    self._reading, self._handling_since = False, self._clock.monotonic()
                    await handle(frame)
                    # The wait was ours, not the socket's.
                    self._last_sign = self._last_envelope = self._clock.monotonic()
                    self._handling_since = None
            else:
                ending = Ending.DEAF if self._deaf() else Ending.REFRESH if self._idle() else Ending.CLOSED
            group.cancel_scope.cancel()
        return ending

    async def drained(self) -> None:
        """Wait a little for the acknowledgements that are still due; what gets none is sent again."""
        if self._unacknowledged and not self._socket.closed:
            self._drained = anyio.Event()
            with anyio.move_on_after(DRAIN_S):
                await self._drained.wait()

    async def acknowledge(self, envelope_id: str) -> None:
        """Tell Slack that it is stored, once. On a closed socket nothing happens: Slack sends it again."""
        if self.has_acknowledged(envelope_id):
            return
        try:
            if not self._socket.closed:
                await self._socket.send_str(json.dumps({"envelope_id": envelope_id}))
        except (ConnectionError, aiohttp.ClientError, RuntimeError):
            log.info("an acknowledgement came too late for its socket", extra={"envelope": envelope_id})
        self._unacknowledged.discard(envelope_id)
        if not self._unacknowledged and self._drained is not None:
            self._drained.set()

    def has_acknowledged(self, envelope_id: str) -> bool:
        return envelope_id not in self._unacknowledged

    async def _receive(self) -> Envelope | None:
        """The next JSON frame; None at the end."""
        while True:
            self._reading = True
            try:
                message = await self._socket.receive()
            except (ConnectionError, aiohttp.ClientError, RuntimeError):
                return None
            if message.type in (WSMsgType.CLOSE, WSMsgType.CLOSING, WSMsgType.CLOSED, WSMsgType.ERROR):
                return None
            self._last_sign = self._clock.monotonic()
            if message.type is WSMsgType.PING:
                await self._pong(message.data)
            elif message.type is WSMsgType.TEXT:
                try:
                    frame = json.loads(message.data)
                except ValueError:
                    log.warning("slack sent a frame that is no JSON")
                    continue
                if isinstance(frame, dict):
                    return frame

    async def _pong(self, payload: bytes) -> None:
        try:
            await self._socket.pong(payload)
        except (ConnectionError, aiohttp.ClientError, RuntimeError):
            return  # the next receive tells

    async def _probe(self, sign_of_life: Callable[[], None], listening: anyio.CancelScope) -> None:
        """Ping an idle socket; close it when nothing has come back for three times. A half-open one looks healthy, and
        so does one whose reader waits for ever to hand over what it has read.
        """
        heard = self._last_sign
        while True:
            await self._clock.sleep(self._ping_every_s)
            if self._stuck():
                log.error("what slack sends is not taken in; connecting anew as soon as it can be")
                listening.cancel()
                return
            if self._reading and (self._deaf() or self._idle()):
                log.warning("the slack socket is open but silent; connecting anew")
                with anyio.move_on_after(CLOSE_S, shield=True):
                    await self._socket.close()
                return
            if self._last_sign != heard:
                heard = self._last_sign
                sign_of_life()
            try:
                await self._socket.ping(b"tieline")
            except (ConnectionError, aiohttp.ClientError, RuntimeError):
                return  # the reader notices the end by itself

    def _idle(self) -> bool:
        """Slack can lose a subscription while it still answers pings; only a new connection makes sure."""
        return self._clock.monotonic() - self._last_envelope > self._idle_refresh_s

    def _stuck(self) -> bool:
        since = self._handling_since
        return since is not None and self._clock.monotonic() - since > self._ping_every_s * STUCK_AFTER_PROBES

    def _deaf(self) -> bool:
        return self._clock.monotonic() - self._last_sign > self._ping_every_s * DEAF_AFTER_PROBES


@asynccontextmanager
async def connected(
    session: aiohttp.ClientSession,
    url: str,
    adapter_context: AdapterContext,
    *,
    proxy: str | None,
    ping_every_s: float,
    idle_refresh_s: float,
) -> AsyncIterator[SocketLink]:
    """A socket that has said hello, closed at the end. Raises ConnectionError in words of our own, and TimeoutError."""
    try:
        with anyio.fail_after(HELLO_S):
            # No automatic pongs and heartbeats: the probe wants to see every sign of life itself.
            socket = await session.ws_connect(url, autoping=False, proxy=proxy, max_msg_size=16 * 1024 * 1024)
    except aiohttp.ClientResponseError as error:
        # Neither the library's words nor its error go on: both hold the address, and the address holds the ticket.
        raise ConnectionError(f"Slack refused the socket: HTTP {error.status}") from None
    except (aiohttp.ClientError, OSError) as error:
        raise ConnectionError(f"no socket to Slack: {type(error).__name__}") from None
    try:
        link = SocketLink(socket, adapter_context, ping_every_s=ping_every_s, idle_refresh_s=idle_refresh_s)
        await link.hello()
        yield link
    finally:
        with anyio.move_on_after(CLOSE_S, shield=True):
            await socket.close()


# Keeps one Socket Mode connection open: closes the old one first, backs off, catches up after each.

STEADY_S = 10.0  # a connection that lived so long was a good one: the back-off starts over


class Listening:
    """The way in for an account with an app token."""

    def __init__(
        self,
        settings: SlackSettings,
        adapter_context: AdapterContext,
        *,
        api: SlackApi,
        queues: KeyedQueue,
        health_monitor: HealthMonitor,
        intake: Intake,
    ) -> None:
        self._settings = settings
        self._adapter_context = adapter_context
        self._clock = adapter_context.clock
        self._api = api
        self._queues = queues
        self._health_monitor = health_monitor
        self._intake = intake

    async def run(self) -> None:
        """Until cancelled. Raises ChannelFatal when Slack refuses the app token."""
        retries = Retries(RECONNECTING)
        while True:
            began, ending, why, wait_s = self._clock.monotonic(), Ending.CLOSED, "the connection ended", 0.0
            try:
                ending = await self._one_connection()
            except ChannelFatal:
                raise
            except ChannelBusy as busy:
                why, wait_s = str(busy), busy.after_s
            except (ChannelError, ConnectionError) as error:
                why = str(error)
            except (aiohttp.ClientError, OSError) as error:  # a deadline is one of them
                why = type(error).__name__
            steady = self._clock.monotonic() - began > STEADY_S
            self._health_monitor.trouble(f"{why} ({ending})" if why else str(ending))
            if steady:
                retries.succeeded()
            if ending is Ending.REFRESH and steady:
                continue
            pause_s = retries.failed(asked_s=wait_s)
            extra = {"why": why, "ending": str(ending), "attempt": retries.failures}
            log.info("slack socket: connecting anew", extra=extra)
            if ending is Ending.STUCK:  # until then the account does not hear, and its health says so
                await self._queues.room()
            await self._clock.sleep(pause_s)

    async def _one_connection(self) -> Ending:
        token = self._settings.app_token
        assert token is not None
        answer = await self._api.call("apps.connections.open", token=token.get_secret_value())
        async with connected(
            self._api.session,
            str(answer["url"]),
            self._adapter_context,
            proxy=self._api.proxy,
            ping_every_s=self._settings.ping_every_s,
            idle_refresh_s=self._settings.idle_refresh_s,
        ) as link:
            self._health_monitor.connected(_detail(link.connections))
            if link.connections > 1:
                # Slack deals events out among all sockets of an app, also to one that nobody reads any more.
                log.warning(_detail(link.connections))
            self._intake.catch_up.begin()

            async def handle(envelope: Envelope) -> None:
                await self._handle(link, envelope)

            ending = await link.listen(handle, self._health_monitor.heard)
            await link.drained()
            return ending

    async def _handle(self, link: SocketLink, envelope: Envelope) -> None:
        arrival = Arrival(
            kind=str(envelope.get("type")), payload=envelope.get("payload") or {}, received_at=self._clock.now()
        )

        number = str(envelope["envelope_id"])
        self._intake.twins.note(arrival)

        async def job() -> None:
            try:
                await self._intake.ingest(arrival)
            except GatewayUnavailable:
                if link.has_acknowledged(number):
                    await self._intake.regret(arrival)
                raise
            await link.acknowledge(number)

        async def in_time() -> None:
            await anyio.sleep(ACKNOWLEDGE_WITHIN_S)
            await link.acknowledge(number)

        if not arrival.is_ordered:
            self._queues.beside(in_time)
        await self._queues.put(arrival.queue, job, holds=arrival.is_ordered)


def _detail(connections: int) -> str:
    if connections <= 1:
        return ""
    return f"{connections} sockets are open for this Slack app: another process takes a share of the events"
