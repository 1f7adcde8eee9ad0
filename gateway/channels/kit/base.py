"""The parts of an adapter that are the same on each platform with an HTTP interface and events: subclass, fill in."""

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any

import anyio
from starlette.routing import BaseRoute

from agent.core.cancellation import first_error
from gateway.channels.adapter import AdapterContext, Admit, ChannelSettings, Diagnosis, Health
from gateway.channels.channel import Capabilities, Channel, Files, History, Interactions, Presence, Streams
from gateway.channels.errors import ChannelError, ChannelFatal, ChannelRejected, GatewayUnavailable
from gateway.channels.inbound import Inbound, MessageReceived, Receipt
from gateway.channels.keys import ConversationKey, UserId
from gateway.channels.kit.catch_up import CatchUp, Facts
from gateway.channels.kit.health import HealthMonitor
from gateway.channels.kit.http_api import HttpApi
from gateway.channels.kit.keyed_queue import KeyedQueue
from gateway.channels.outbound import CommandSpec, Outbound, SentRef

Json = Mapping[str, Any]

NO_FACTS = Facts()  # of catch-up


class ChannelBase(ABC):
    """One place; what a platform lacks is None, and a subclass sets what it has."""

    streams: Streams | None = None  # answers grow by edits
    presence: Presence | None = None
    files: Files | None = None
    history: History | None = None
    interactions: Interactions | None = None
    capabilities: Capabilities

    def __init__(self, key: ConversationKey) -> None:
        self.key = key

    @abstractmethod
    async def send(self, message: Outbound) -> SentRef: ...

    @abstractmethod
    async def edit(self, sent: SentRef, message: Outbound) -> None: ...

    @abstractmethod
    async def delete(self, sent: SentRef) -> None: ...

    async def send_ephemeral(self, message: Outbound, to: UserId | None) -> SentRef | None:
        """Send a message that the caller takes away again; override it where the platform shows to one person alone."""
        return await self.send(replace(message, silent=True))


class AdapterBase(ABC):
    """One account: its queues, catch-up, health, diagnosis and errors. Its constructor opens nothing.

    `queue_of` names what an event is worked on in order with, such as its room. `facts` are those of catch-up.
    """

    routes: Sequence[BaseRoute] = ()

    def __init__(
        self,
        settings: ChannelSettings,
        context: AdapterContext,
        api: HttpApi,
        log: logging.Logger,
        *,
        queue_of: Callable[[Json], str],
        facts: Facts = NO_FACTS,
        deaf_after_s: float | None = None,
    ) -> None:
        self.channel_type = settings.channel_type
        self.clock = context.clock
        self.health_monitor = HealthMonitor(context.clock, api.platform, deaf_after_s=deaf_after_s)
        self.queue = KeyedQueue(context.clock, log)
        self.catch_up = CatchUp(
            context,
            self.queue,
            log,
            channel_type=self.channel_type,
            history=lambda channel_id: self.channel(channel_id).history,
            deliver=self.deliver,
            facts=facts,
        )
        self._api = api
        self._log = log
        self._queue_of = queue_of
        self._admit: Admit | None = None

    # -- to be filled in

    @abstractmethod
    def channel(self, channel_id: str) -> Channel: ...

    @abstractmethod
    async def sign_in(self) -> str:
        """Ask the platform who the bot is, and give the name. Raises the errors of a channel."""

    @abstractmethod
    async def listen(self) -> None:
        """Give each event to `hear` until cancelled; `WebSocketEvents.run` does. Raises ChannelFatal."""

    @abstractmethod
    def parsed(self, event: Json, received_at: datetime) -> Inbound | None:
        """The event as the gateway's value; None for the bot's own words and for what is of no interest. Raises
        KeyError, TypeError or ValueError for what cannot be read."""

    async def completed(self, event: Json) -> Json:
        """The event with what the platform must be asked for before it is `parsed`, such as a name: override it.

        Raises the errors of a channel. After ChannelRejected the event is parsed as it came; after another one it is
        asked again, and nothing of its place overtakes it. Keep the answers in a `BoundedMap`.
        """
        return event

    # -- an adapter's methods

    async def run(self, admit: Admit) -> None:
        self._admit = admit
        try:
            with first_error():
                async with anyio.create_task_group() as group:
                    await group.start(self.queue.run)
                    group.start_soon(self.catch_up.run)
                    await self.listen()
        except ChannelFatal as error:
            self.health_monitor.failed(str(error))
            raise

    def health(self) -> Health:
        return self.health_monitor.health()

    async def publish(self, commands: Sequence[CommandSpec]) -> None:  # noqa: B027 - a platform may have no menu
        """No menu: commands are typed. Override it where the platform has one."""

    async def diagnose(self) -> Sequence[Diagnosis]:
        """Whether the platform lets the bot in; override it to look at more."""
        try:
            name = await self.sign_in()
        except ChannelFatal as error:
            finding = f"{self._api.platform} refuses the login"
            return [Diagnosis(subject=self.channel_type, level="error", finding=finding, fix=str(error))]
        except ChannelError as error:
            fix = "look whether the server runs, and whether the address in the settings is right"
            return [Diagnosis(subject=self.channel_type, level="warning", finding=str(error), fix=fix)]
        return [Diagnosis(subject=self.channel_type, level="ok", finding=f"signed in as {name}")]

    async def aclose(self) -> None:
        await self._api.aclose()

    # -- what comes in

    async def hear(self, event: Json) -> None:
        """Put an event behind the others of its place. Waits while the queue is full, and holds the platform back."""
        await self.queue.put(self._queue_of(event), partial(self._take, event, self.clock.now()), holds=True)

    async def deliver(self, inbound: Inbound) -> Receipt:
        assert self._admit is not None
        return await self._admit(inbound)

    async def messages(self, rows: Iterable[Json]) -> Sequence[MessageReceived]:
        """Rows of a history as people's messages. One that cannot be read is left out: it would be so each time.

        Raises the errors of a channel that `completed` raises, but ChannelRejected.
        """
        found = []
        for row in rows:
            event = await self._completed(row)
            try:
                inbound = self.parsed(event, self.clock.now())
            except (KeyError, TypeError, ValueError):
                self._log.exception("a message of the history cannot be read and is left out")
                continue
            if isinstance(inbound, MessageReceived):
                found.append(replace(inbound, from_history=True))
        return found

    async def _take(self, event: Json, received_at: datetime) -> None:
        """A job of the place. While the gateway cannot store it, it is done again and nothing overtakes it."""
        try:
            event = await self._completed(event)
        except ChannelError as error:
            raise GatewayUnavailable(str(error)) from error
        inbound = self.parsed(event, received_at)
        if isinstance(inbound, MessageReceived):
            await self.catch_up.take(inbound)
        elif inbound is not None:
            await self.deliver(inbound)

    async def _completed(self, event: Json) -> Json:
        try:
            return await self.completed(event)
        except ChannelRejected as error:
            self._log.warning("an event is taken as it came: %s", error)
            return event
