"""Intake of a platform payload: parse, introduce, hand to `admit`; repeats are recognised cheaply."""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import anyio

from adapters.slack.account import Account, Address, completed
from adapters.slack.directory import Directory, UserGroups
from adapters.slack.history import FACTS, SlackHistory
from adapters.slack.parse import (
    GROUPS_CHANGED,
    UNINSTALLED,
    UNREADABLE,
    attachments_of,
    parse_event,
    parse_press,
    parse_slash,
    quoted_root,
)
from adapters.slack.settings import SlackSettings
from agent.core.bounded_map import BoundedMap
from gateway.channels.adapter import AdapterContext, Admit, Place
from gateway.channels.errors import ChannelError, GatewayUnavailable
from gateway.channels.inbound import Attachment, ButtonClicked, Inbound, Mention, MessageReceived, Outcome, Receipt
from gateway.channels.kit.catch_up import CatchUp
from gateway.channels.kit.keyed_queue import KeyedQueue

# A delivery from Slack, by socket or by HTTP: its time, and the line in which it waits. Pure.

Payload = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """One event, slash command or pressed button. `received_at` is when it came, however late its turn comes."""

    kind: str  # as the envelopes of Socket Mode name it
    payload: Payload
    received_at: datetime

    @property
    def is_ordered(self) -> bool:
        """Whether it keeps its place among what is written in its channel.

        Commands and buttons do not: Slack gives them 3 s, then tells the person that they failed, who does them again.
        """
        return self.kind == "events_api"

    @property
    def queue(self) -> str:
        """Where order has to be kept: the channel, and beside it the commands and buttons of the channel."""
        return self._channel if self.is_ordered else f"{self._channel}!"

    @property
    def _channel(self) -> str:
        match self.kind:
            case "events_api":
                event = self.payload.get("event") or {}
                channel = event.get("channel") or (event.get("item") or {}).get("channel")
            case "slash_commands":
                channel = self.payload.get("channel_id")
            case _:
                channel = (self.payload.get("channel") or {}).get("id")
        return str(channel or "")


log = logging.getLogger("tieline.slack")

MOST_RECENT = 4096
MOST_JOINED = 16384
MOST_TWINS = 1024
# A command or button is not sent again: a person whose answer came too late does it again, though it was done. So
# network time is left.
ACKNOWLEDGE_WITHIN_S = 2.0
BEGUN, BEGUN_FOR = "begun:", timedelta(days=90)  # threads of direct chats that the bot was asked in, and for how long
TWIN_S = 1.0  # for so long an `app_mention` waits for the message that it tells of
LOOK_UP_S = 5.0  # Slack sends the mention again meanwhile, which is known to be a repeat
MENTIONS_ALONE = 3  # after so many without a message the app is taken to have no events of channels' messages


class Twins:
    """Messages of channels that have come and wait for their turn, for the `app_mention` that tells of the same one.

    That has no files, and either may come first (slackapi/bolt-js #2056, slackapi/bolt-python #925).
    """

    def __init__(self) -> None:
        self._come: BoundedMap[tuple[str, str], Payload] = BoundedMap(MOST_TWINS)
        self._waiting: dict[tuple[str, str], anyio.Event] = {}
        self._alone = 0

    def note(self, arrival: Arrival) -> None:
        event = arrival.payload.get("event") if arrival.kind == "events_api" else None
        if not isinstance(event, Mapping) or event.get("type") != "message" or event.get("channel_type") == "im":
            return
        key = _of(event)
        self._alone = 0
        self._come[key] = event
        if waiting := self._waiting.get(key):
            waiting.set()

    async def of(self, mention: Payload) -> Payload | None:
        """The message that the mention tells of, as soon as it comes; None when it does not come in time."""
        key = _of(mention)
        if key not in self._come and self._alone < MENTIONS_ALONE:
            waiting = self._waiting[key] = anyio.Event()
            with anyio.move_on_after(TWIN_S):
                await waiting.wait()
            self._waiting.pop(key, None)
            if key not in self._come:
                self._alone += 1
        return self._come.get(key)


def _of(event: Payload) -> tuple[str, str]:
    return str(event.get("channel") or ""), str(event.get("ts") or "")


class Intake:
    """The knowledge of an account while it listens: its identity, its threads, what it has just handed over."""

    def __init__(
        self,
        settings: SlackSettings,
        adapter_context: AdapterContext,
        directory: Directory,
        user_groups: UserGroups,
        uninstalled: Callable[[], None],
        *,
        queues: KeyedQueue,
        history_of: Callable[[Address], SlackHistory],
        describe: Callable[[Attachment], Awaitable[Attachment]],
        look_up: Callable[[Address, str], Awaitable[Payload | None]],
        tell: Callable[[str, str], Awaitable[None]],
    ) -> None:
        """`describe` asks Slack about a file, `look_up` for a message; `tell` answers a command or button."""
        self._history_of = history_of
        self._adapter_context = adapter_context
        self.catch_up = CatchUp(
            replace(adapter_context, known_places=self._known_places),
            queues,
            log,
            channel_type=settings.channel_type,
            history=self._history,
            deliver=self.hand_over,
            facts=FACTS,
        )
        self.twins = Twins()
        self._describe = describe
        self._look_up = look_up
        self._tell = tell
        self._not_taken = adapter_context.not_taken
        self.account = Account(channel_type=settings.channel_type)
        self.commands: frozenset[str] = frozenset()
        self.joined: BoundedMap[str, None] = BoundedMap(MOST_JOINED)  # threads the bot takes part in
        self.admit: Admit | None = None
        self._settings = settings
        self._clock = adapter_context.clock
        self._directory = directory
        self._user_groups = user_groups
        self._uninstalled = uninstalled
        self._recent: BoundedMap[tuple[str, str], None] = BoundedMap(MOST_RECENT)
        self._begun = adapter_context.store(settings.channel_type)  # threads of direct chats

    def join(self, address: Address) -> None:
        """From now on words in this thread are meant for the bot without naming it."""
        if address.thread_ts is None or address.is_direct:
            return
        self.joined[str(address)] = None

    async def ingest(self, arrival: Arrival) -> None:
        """Store something live whose turn it is; what was written before it there goes first, if Slack has it now.

        Raises GatewayUnavailable when it, or what goes first, cannot be stored.
        """
        if arrival.is_ordered:
            await self.catch_up.before(arrival.queue)
        else:
            self.catch_up.overtaken()
        await self._take(arrival)

    async def _known_places(self, channel_type: str) -> Sequence[Place]:
        """Conversations that the gateway knows; in their threads the bot takes part."""
        places = await self._adapter_context.known_places(channel_type)
        for place in places:
            with suppress(ValueError):  # a workspace as a whole
                self.join(Address.parse(place.key.channel_id))
        return places

    def _history(self, channel_id: str) -> SlackHistory | None:
        try:
            return self._history_of(Address.parse(channel_id))
        except ValueError:
            return None  # a workspace as a whole

    async def _take(self, arrival: Arrival) -> None:
        """Returns when it is stored, or was nothing to store. Raises GatewayUnavailable."""
        kind, payload = arrival.kind, arrival.payload
        self.account = completed(self.account, payload)
        event_type = (payload.get("event") or {}).get("type") if kind == "events_api" else None
        if event_type in GROUPS_CHANGED:
            self._user_groups.forget()
        try:
            inbound = self._parsed(arrival)
            if (
                isinstance(inbound, MessageReceived)
                and kind == "events_api"
                and (inbound.place, inbound.message_id) in self._recent
            ):
                return
            inbound = await self._whole(inbound, arrival)
        except UNREADABLE:
            # It would fail the same way each time Slack repeats it.
            log.exception("an event from Slack could not be read and is left out", extra={"kind": kind})
            return
        if inbound is not None:
            await self.hand_over(inbound)
        if event_type in UNINSTALLED:
            self._uninstalled()

    async def hand_over(self, inbound: Inbound) -> Receipt | None:
        """Admit it, unless its twin or an earlier delivery was admitted a moment ago: then None."""
        if self.admit is None:
            raise RuntimeError("the Slack adapter is not running")
        seen = (inbound.place, inbound.message_id) if isinstance(inbound, MessageReceived) else None
        if seen is not None and seen in self._recent:
            return None
        begins = isinstance(inbound, MessageReceived) and await self._begins_in_thread(inbound)
        if isinstance(inbound, MessageReceived) and begins and inbound.quoted is None:
            inbound = await self._with_root(inbound)
        if self._settings.look_up_people:
            inbound = await self._directory.introduce(inbound, self.account.team)
        inbound = await self._user_groups.introduce(inbound)
        if isinstance(inbound, MessageReceived) and inbound.brings_files:
            inbound = await self._with_described_files(inbound)
        receipt = await self.admit(inbound)
        if seen is not None:
            self._recent[seen] = None
        if isinstance(inbound, MessageReceived) and receipt.outcome is Outcome.ACCEPTED:
            if inbound.mention is Mention.DIRECT:
                self.join(Address.parse(inbound.key.channel_id))
            if begins:
                await self._note_begun(inbound)
        return receipt

    async def regret(self, arrival: Arrival) -> None:
        """Say to the person alone that it could not be stored; Slack believes it done."""
        inbound = self._parsed(arrival)
        interaction = inbound.interaction if isinstance(inbound, MessageReceived | ButtonClicked) else None
        words = self._not_taken(inbound) if inbound is not None else ""
        if not interaction or not words:
            return
        try:
            await self._tell(interaction, words)
        except ChannelError as error:
            log.warning("a command is lost and its person does not know: %s", error)

    async def _whole(self, inbound: Inbound | None, arrival: Arrival) -> Inbound | None:
        """A mention with the files of the message that it tells of."""
        event = (arrival.payload.get("event") or {}) if arrival.kind == "events_api" else {}
        if event.get("type") != "app_mention" or not isinstance(inbound, MessageReceived) or inbound.brings_files:
            return inbound
        if event.get("edited"):
            return inbound
        twin = await self.twins.of(event)
        if twin is not None:
            payload = {**arrival.payload, "event": {**twin, "type": "message"}}
            return self._parsed(replace(arrival, payload=payload)) or inbound
        said = None
        try:
            with anyio.move_on_after(LOOK_UP_S):
                said = await self._look_up(Address.parse(inbound.key.channel_id), inbound.message_id)
        except ChannelError as error:
            log.info("a mention is taken without a look at its message: %s", error)
        return inbound if said is None else replace(inbound, attachments=attachments_of(said))

    async def _begins_in_thread(self, said: MessageReceived) -> bool:
        """The bot is asked in a thread of which it knows nothing: then the first message there may be what is meant."""
        address = Address.parse(said.key.channel_id)
        if address.thread_ts in (None, said.message_id) or said.interaction_id is not None:
            return False
        if not address.is_direct:
            return said.mention is not Mention.NONE and str(address) not in self.joined
        try:
            return await self._begun.get(f"{BEGUN}{address}") is None
        except GatewayUnavailable:
            return False  # and so nothing can be stored now

    async def _note_begun(self, said: MessageReceived) -> None:
        """Keep a thread of a direct chat as begun; those of channels are known by the bot's part in them."""
        address = Address.parse(said.key.channel_id)
        if address.is_direct:
            with suppress(GatewayUnavailable):  # then the next reply there quotes the first message once more
                await self._begun.put(f"{BEGUN}{address}", "", until=said.received_at + BEGUN_FOR)

    async def _with_root(self, said: MessageReceived) -> MessageReceived:
        """The same with the first message of its thread quoted, if Slack gives it in time."""
        address = Address.parse(said.key.channel_id)
        root = None
        try:
            with anyio.move_on_after(LOOK_UP_S):
                root = await self._look_up(address, str(address.thread_ts))
        except ChannelError as error:
            log.info("a reply is taken without the first message of its thread: %s", error)
        return said if root is None else replace(said, quoted=quoted_root(root, self.account))

    async def _with_described_files(self, said: MessageReceived) -> MessageReceived:
        attachments = tuple([await self._described(one) for one in said.attachments])
        quoted = said.quoted
        if quoted is not None:
            quoted = replace(quoted, attachments=tuple([await self._described(one) for one in quoted.attachments]))
        return replace(said, attachments=attachments, quoted=quoted)

    async def _described(self, attachment: Attachment) -> Attachment:
        try:
            return await self._describe(attachment)
        except ChannelError as error:
            log.info("a file is not described: %s", error, extra={"file": attachment.name})
            return attachment

    def _parsed(self, arrival: Arrival) -> Inbound | None:
        payload, at = arrival.payload, arrival.received_at
        match arrival.kind:
            case "events_api":
                return parse_event(
                    payload.get("event") or {},
                    self.account,
                    received_at=at,
                    joined=self.joined,
                    event_id=payload.get("event_id"),
                )
            case "slash_commands":
                return parse_slash(
                    payload,
                    self.account,
                    received_at=at,
                    umbrella=self._settings.slash_command,
                    commands=self.commands,
                )
            case "interactive":
                return parse_press(payload, self.account, received_at=at)
        return None
