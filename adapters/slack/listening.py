"""Keeps one Socket Mode connection open: closes the old one first, backs off, catches up after each."""

import logging
import random

import aiohttp
import anyio

from adapters.slack.api import SlackApi
from adapters.slack.arrival import Arrival
from adapters.slack.catch_up import CatchUp
from adapters.slack.health_monitor import HealthMonitor
from adapters.slack.keyed_queue import KeyedQueue
from adapters.slack.limits import delay_s
from adapters.slack.settings import SlackSettings
from adapters.slack.socket_mode import Ending, Envelope, SocketLink, connected
from adapters.slack.webhook import ACKNOWLEDGE_WITHIN_S
from gateway.channels.adapter import AdapterContext, State
from gateway.channels.errors import ChannelBusy, ChannelError, ChannelFatal, GatewayUnavailable

log = logging.getLogger("tieline.slack")

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
        catch_up: CatchUp,
    ) -> None:
        self._settings = settings
        self._adapter_context = adapter_context
        self._clock = adapter_context.clock
        self._api = api
        self._queues = queues
        self._health_monitor = health_monitor
        self._catch_up = catch_up

    async def run(self) -> None:
        """Until cancelled. Raises ChannelFatal when Slack refuses the app token."""
        attempt = 0
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
            self._health_monitor.turn(State.RECONNECTING, f"{why} ({ending})" if why else str(ending))
            attempt = 0 if steady else attempt + 1
            if ending is Ending.REFRESH and steady:
                continue
            log.info("slack socket: connecting anew", extra={"why": why, "ending": str(ending), "attempt": attempt})
            if ending is Ending.STUCK:  # until then the account does not hear, and its health says so
                await self._queues.room()
            jitter = random.random()  # noqa: S311 - spreads reconnects, hides nothing
            await self._clock.sleep(max(wait_s, delay_s(max(attempt - 1, 0), jitter)))

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
            self._health_monitor.turn(State.CONNECTED, _detail(link.connections))
            self._health_monitor.sign()
            if link.connections > 1:
                # Slack deals events out among all sockets of an app, also to one that nobody reads any more.
                log.warning(_detail(link.connections))
            await self._catch_up.begin()

            async def handle(envelope: Envelope) -> None:
                await self._handle(link, envelope)

            ending = await link.listen(handle, self._health_monitor.sign)
            await link.drained()
            return ending

    async def _handle(self, link: SocketLink, envelope: Envelope) -> None:
        arrival = Arrival(
            kind=str(envelope.get("type")), payload=envelope.get("payload") or {}, received_at=self._clock.now()
        )

        number = str(envelope["envelope_id"])
        self._catch_up.note(arrival)

        async def job() -> None:
            try:
                await self._catch_up.ingest(arrival)
            except GatewayUnavailable:
                if link.has_acknowledged(number):
                    await self._catch_up.regret(arrival)
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
