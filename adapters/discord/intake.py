"""Events of the gateway into the queues of their places, and from there, parsed, to the gateway."""

import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from functools import partial

import anyio
from anyio.abc import TaskGroup, TaskStatus

from adapters.discord import parse
from adapters.discord.account import Bot
from adapters.discord.commands import suggested
from adapters.discord.history import FACTS, DiscordHistory
from adapters.discord.limits import ANSWER_WITHIN_S, moment_of
from adapters.discord.parse import Handle, Payload, Where
from adapters.discord.places import Places
from adapters.discord.render import render
from gateway.channels.adapter import AdapterContext, Admit, Place
from gateway.channels.document import Plain
from gateway.channels.errors import ChannelBusy, ChannelError, GatewayUnavailable
from gateway.channels.inbound import Inbound, MessageReceived, Outcome, Receipt
from gateway.channels.kit.catch_up import CatchUp
from gateway.channels.kit.keyed_queue import Job, KeyedQueue

log = logging.getLogger("tieline.discord")

QUEUED = 10_000  # events waiting in all places; what comes on top is read from the history later
SUGGESTED_AT_ONCE = 32  # lists of words for people who type; whoever comes on top types on without
AT_ONCE = 64  # places that are worked on at the same time
PAUSES_S = (0.5, 2.0, 5.0)  # between attempts to store something
LOCATE_WAITS_S = (1.0, 3.0)


class Intake:
    """`hear` is called by the connection for each event and never waits."""

    def __init__(
        self, bot: Bot, places: Places, adapter_context: AdapterContext, admit: Admit, group: TaskGroup
    ) -> None:
        self._bot = bot
        self._places = places
        self._adapter_context = adapter_context
        self._admit = admit
        self._group = group
        self._starting: set[str] = set()  # guilds that READY announced and that are still to come
        self._suggesting = 0
        self.queues = KeyedQueue(bot.clock, log, limit=QUEUED, at_once=AT_ONCE)
        self.catch_up = CatchUp(
            adapter_context,
            self.queues,
            log,
            channel_type=bot.settings.channel_type,
            history=lambda channel_id: DiscordHistory(bot, channel_id, places.locate),
            deliver=admit,
            gone=self._place_gone,
            facts=FACTS,
        )

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Take in what is heard from when this has started, until cancelled."""
        async with anyio.create_task_group() as group:
            await group.start(self.queues.run)
            task_status.started()
            await self.catch_up.run()

    def hear(self, name: str, event: Payload) -> None:
        match name:
            case "MESSAGE_CREATE" | "MESSAGE_UPDATE":
                self._on_message(name, event)
            case "MESSAGE_DELETE":
                self._on_deletion(event, (str(event["id"]),))
            case "MESSAGE_DELETE_BULK":
                self._on_deletion(event, [str(number) for number in event["ids"]])
            case "INTERACTION_CREATE":
                self._on_interaction(event)
            case "CHANNEL_DELETE" | "THREAD_DELETE":
                self._on_channel_gone(event)
            case "GUILD_DELETE":
                self._on_guild_gone(event)
            case "GUILD_CREATE":
                self._on_guild(event)
            case _:
                self._places.forget_roles(str(event.get("guild_id") or event.get("id")))

    def expect_guilds(self, guild_ids: set[str]) -> None:
        """Note the servers that a new session brings; every other one is a server the bot was just brought to."""
        self._starting |= guild_ids

    # -- events, in the order they came

    def _put(self, channel_id: str, job: Job, message_id: str | None = None, *, holds: bool = False) -> bool:
        """False when it is lost."""
        if self.queues.put_nowait(channel_id, job, holds=holds):
            return True
        if message_id is not None:
            self.catch_up.owe(channel_id, moment_of(message_id))
            return True
        log.error("too much is waiting to be stored; an event of Discord is lost", extra={"channel_id": channel_id})
        return False

    def _on_message(self, name: str, event: Payload) -> None:
        channel_id, message_id = str(event["channel_id"]), str(event["id"])
        author = event.get("author")
        if author is None or str(author["id"]) == self._bot.rest.user_id:
            if author is not None and name == "MESSAGE_CREATE":
                self._bot.own.note(channel_id, message_id, str(event.get("nonce") or ""))
            return
        at = self._bot.clock.now()
        if name == "MESSAGE_CREATE":
            self._put(channel_id, partial(self._message, event, at), message_id, holds=True)
        else:
            self._put(channel_id, partial(self._edit, event, at), holds=True)

    def _on_deletion(self, event: Payload, message_ids: Sequence[str]) -> None:
        theirs = [number for number in message_ids if number not in self._bot.own]
        if theirs:
            self._put(str(event["channel_id"]), partial(self._deletion, event, theirs), holds=True)

    def _on_interaction(self, event: Payload) -> None:
        if event.get("type") == parse.AUTOCOMPLETE and "channel_id" in event:
            self._group.start_soon(self._suggest, event)
            return
        if event.get("type") not in (parse.COMMAND, parse.COMPONENT) or "channel_id" not in event:
            return
        kind = "slash" if event["type"] == parse.COMMAND else "button"
        handle = Handle(kind, str(event["id"]), str(event["token"]))  # type: ignore[arg-type]
        channel_id = str(event["channel_id"])
        if self._bot.answers.open(handle, channel_id, parse.person_of(event)):
            self._group.start_soon(self._bot.answers.keep_waiting, handle)
        inbound = self._acted(event, handle)
        if inbound is None:
            self._group.start_soon(self._bot.answers.close, handle)
        elif not self._put(channel_id, partial(self._interaction, inbound, handle)):
            self._group.start_soon(self._regret, inbound, handle)

    def _acted(self, event: Payload, handle: Handle) -> Inbound | None:
        where = self._places.of_interaction(event)
        read = parse.command if handle.kind == "slash" else parse.press
        return read(event, where, self._bot.identity, received_at=self._bot.clock.now())

    def _on_channel_gone(self, event: Payload) -> None:
        channel_id = str(event["id"])
        guild_id = str(event.get("guild_id") or "")
        where = self._places.cached(channel_id) or parse.where_of_channel(event, me=self._bot.rest.user_id)
        threads = self._places.threads_of(channel_id, guild_id) if guild_id else set()
        self._put(channel_id, partial(self._membership, where, within=threads, present=False), holds=True)

    def _on_guild_gone(self, event: Payload) -> None:
        guild_id = str(event["id"])
        self._places.forget_roles(guild_id)
        if event.get("unavailable"):
            self._starting.add(guild_id)  # an outage; it comes back by itself
            return
        where = Where(channel_id=guild_id, place=guild_id, guild_id=guild_id)
        within = self._places.in_guild(guild_id)
        self._put(guild_id, partial(self._membership, where, within=within, present=False), holds=True)

    def _on_guild(self, event: Payload) -> None:
        guild_id = str(event["id"])
        self._places.forget_roles(guild_id)
        if guild_id in self._starting:
            self._starting.discard(guild_id)
            return
        where = Where(channel_id=guild_id, place=guild_id, guild_id=guild_id, title=str(event.get("name") or ""))
        within = self._places.in_guild(guild_id)
        self._put(guild_id, partial(self._membership, where, within=within, present=True), holds=True)

    # -- jobs of a place; those that hold it are told no history again, so they are tried until they are stored

    async def _message(self, event: Payload, at: datetime) -> None:
        try:
            where = await self._where(event)
            said = parse.said(event, where, self._bot.identity, received_at=at) if where else None
            if said is not None:
                await self.catch_up.take(said)
        except anyio.get_cancelled_exc_class():  # it took too long
            self.catch_up.owe(str(event["channel_id"]), moment_of(str(event["id"])))
            raise

    async def _edit(self, event: Payload, at: datetime) -> None:
        where = await self._where(event)
        edited = parse.edited(event, where, self._bot.identity, received_at=at) if where else None
        if edited is not None:
            await self._admit(edited)

    async def _deletion(self, event: Payload, message_ids: list[str]) -> None:
        where = await self._where(event)
        while where and message_ids:
            now = self._bot.clock.now()
            await self._admit(parse.deleted(message_ids[0], where, self._bot.identity, received_at=now))
            message_ids.pop(0)  # another try goes on with the next one

    async def _interaction(self, inbound: Inbound, handle: Handle) -> None:
        """Stored first, then acknowledged; `keep_waiting` sees to it that Discord does not give up meanwhile."""
        with suppress(GatewayUnavailable):  # an interaction does not wait for long: it is tried all the same
            await self.catch_up.before(inbound.key.channel_id, inbound.key.channel_id)
        receipt = await self._store(inbound)
        if receipt is None:
            where = {"conversation": str(inbound.key)}
            log.error("a %s could not be stored and is lost: Discord tells it only once", handle.kind, extra=where)
            await self._regret(inbound, handle)
        elif receipt.outcome in (Outcome.ACCEPTED, Outcome.DUPLICATE):
            await self._bot.answers.accepted(handle)
        else:
            await self._bot.answers.close(handle)

    async def _regret(self, inbound: Inbound, handle: Handle) -> None:
        """A press looks done at once: that it was not must be said."""
        words = self._adapter_context.not_taken(inbound)
        if words:
            await self._bot.answers.regret(handle, render((Plain(words),)))
        else:
            await self._bot.answers.close(handle)

    async def _suggest(self, event: Payload) -> None:
        """At once and beside everything else: it is of use for three seconds, and changes nothing."""
        handle = Handle("slash", str(event["id"]), str(event["token"]))
        written = self._acted(event, handle)
        if not isinstance(written, MessageReceived) or self._suggesting >= SUGGESTED_AT_ONCE:
            return
        self._suggesting += 1
        try:
            with anyio.move_on_after(ANSWER_WITHIN_S):
                lines = await self._adapter_context.suggest(written)
                await self._bot.answers.offer(handle, suggested(lines, str(event["data"]["name"])))
        finally:
            self._suggesting -= 1

    async def _membership(self, where: Where, *, within: set[str], present: bool) -> None:
        """Tell that the bot came or left: for the place itself and for the known conversations within it."""
        also = tuple(place.key for place in await self._known() if place.key.channel_id in within) if within else ()
        for key in also:
            self._places.forget(key.channel_id)
        now = self._bot.clock.now()
        membership = parse.membership(where, self._bot.identity, present=present, received_at=now)
        await self._admit(replace(membership, also=also))

    async def _place_gone(self, channel_id: str) -> None:
        where = Where(channel_id=channel_id, place=channel_id)
        now = self._bot.clock.now()
        await self._store(parse.membership(where, self._bot.identity, present=False, received_at=now))

    # -- to the gateway

    async def _store(self, inbound: Inbound) -> Receipt | None:
        """None when it could not be stored after all attempts."""
        for pause_s in (*PAUSES_S, None):
            try:
                return await self._admit(inbound)
            except GatewayUnavailable as error:
                where = {"conversation": str(inbound.key)}
                log.warning("what came from Discord is given again: %s", error, extra=where)
            if pause_s is not None:
                await self._bot.clock.sleep(pause_s)
        return None

    async def _where(self, event: Payload) -> Where | None:
        for wait_s in (*LOCATE_WAITS_S, None):
            try:
                return await self._places.of_event(event)
            except ChannelBusy:
                if wait_s is not None:
                    await self._bot.clock.sleep(wait_s)
            except ChannelError as error:
                log.info("an event of a channel that is closed to us: %s", error)
                return None
        # Better a conversation without its server's name than a lost message.
        channel_id, guild_id = str(event["channel_id"]), event.get("guild_id")
        return Where(channel_id=channel_id, place=channel_id, guild_id=str(guild_id) if guild_id else None)

    async def _known(self) -> Sequence[Place]:
        return await self._adapter_context.known_places(self._bot.settings.channel_type)
