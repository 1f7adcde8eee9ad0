"""Ephemeral messages: shown so that they can be removed, whatever becomes of the request.

Where the platform remembers keys it is noted by its key before it is sent, so no crash and no lost answer leaves it
without a note. Elsewhere its name is all there is: nobody waits long for it, but a late answer is heard.
"""

import logging
import secrets
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import anyio
from sqlalchemy import Connection

from agent.core.clock import Clock
from agent.core.failpoints import failpoint
from agent.core.ids import ConversationId
from agent.core.phrases import Phrases
from agent.storage import outbox_rows
from agent.storage.database import Database
from agent.storage.errors import StorageTrouble
from agent.storage.outbox_rows import EphemeralKind, EphemeralRow
from agent.storage.timestamps import to_timestamp
from gateway.channels.channel import Channel
from gateway.channels.document import Plain
from gateway.channels.errors import ChannelError, ChannelRejected, ChannelUnsure
from gateway.channels.keys import ConversationKey
from gateway.channels.outbound import Outbound, SentRef
from gateway.delivery.sleep import InterruptibleSleep

# References of shown messages, as the `ephemeral` table keeps them. Pure.

By = Literal["message", "stream", "key"]


@dataclass(frozen=True, slots=True)
class Shown:
    """Something on the screen that must not stay, and how it got there: as a message, or as a native stream.

    By "key" it is somewhere, or nowhere, or still on its way: where the platform remembers keys it is noted before it
    is shown, and asked for by its key while nobody knows its name. `of` is the work (its inbox id) that a preview grows
    for.
    """

    sent: SentRef
    by: By = "message"
    of: int | None = None
    key: str = ""


def unnamed(key: str, of: int | None = None) -> Shown:
    """A reference for a message that is about to be shown, or may have been."""
    return Shown(SentRef(""), "key", of, key)


def has_keys(channel: Channel, message: Outbound) -> bool:
    """Whether such a message can be found by its key; answers to slash commands and buttons keep none."""
    return channel.history is not None and message.interaction is None


def encode(shown: Shown) -> str:
    of = "" if shown.of is None else shown.of
    if shown.by == "key":
        return f"key|{of}||{shown.key}"
    return f"{shown.by}|{of}|{shown.sent.kind}|{shown.sent.id}"


def notes(shown: Shown) -> tuple[str, ...]:
    """All that it may be noted by: its name, and the key it had before anybody knew that."""
    if shown.by == "key" or not shown.key:
        return (encode(shown),)
    return encode(shown), encode(unnamed(shown.key, shown.of))


def decode(text: str) -> Shown:
    """Raises ValueError for anything but an encoded one."""
    match text.split("|", 3):
        case ["key", of, "", key]:
            return unnamed(key, int(of) if of else None)
        case ["message" | "stream" as by, of, kind, message_id]:
            return Shown(SentRef(message_id, kind), by, int(of) if of else None)
        case _:
            raise ValueError(f"not the reference of something shown: {text!r}")


# Removal: how an ephemeral message is found and removed, and how often that is tried.

CALL_DEADLINE_S = 10.0
# Somebody may hold a request for longer than we wait and then carry it out: what is not to be found was perhaps only
# looked for too soon. That is believed after so long.
LATE_S = 60.0
PAUSES_S = (0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 300.0, 1800.0)  # an account may take a while to sign in


def previews_to_keep(channel: Channel, left_over: Sequence[EphemeralRow]) -> list[Shown]:
    """Previews that a waiting reply can still take the place of; oldest first."""
    shown = [decode(row.ref) for row in left_over if row.kind == "preview"]
    return [preview for preview in shown if preview.by != "stream" and channel.capabilities.edits]


async def persistently(attempt: Callable[[], Awaitable[bool]], clock: Clock) -> None:
    """Try until it says that it is done, later each time; at last no more."""
    for pause_s in PAUSES_S:
        if await attempt():
            return
        await clock.sleep(pause_s)
    await attempt()


async def take_away(channel: Channel, shown: Shown) -> bool:
    """Remove something by the way it came; False when it is not to be found. Raises ChannelError."""
    if shown.by == "stream" and channel.streams is not None:
        await channel.streams.drop(shown.sent)
        return True
    sent = await located(channel, shown)
    if sent is not None:
        await channel.delete(sent)
    return sent is not None


async def located(channel: Channel, shown: Shown) -> SentRef | None:
    """The platform's name for it; None when it has not arrived (yet). Raises ChannelError."""
    if shown.by != "key":
        return shown.sent
    return await channel.history.find(shown.key) if channel.history is not None else None


# Notes about ephemeral messages on the screen, so that a restart can remove them.


class Ephemera:
    """Writes and strikes the notes."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def note(self, key: ConversationKey, kind: EphemeralKind, shown: Shown) -> None:
        at = to_timestamp(self._clock.now())
        conversation, ref = ConversationId(str(key)), encode(shown)
        await self._database.write(
            lambda conn: outbox_rows.note(conn, conversation=conversation, kind=kind, ref=ref, at=at)
        )

    async def name(self, key: ConversationKey, kind: EphemeralKind, shown: Shown) -> None:
        """The platform has named what was noted by its key."""
        at = to_timestamp(self._clock.now())
        conversation, ref, before = ConversationId(str(key)), encode(shown), encode(unnamed(shown.key, shown.of))

        def rename(conn: Connection) -> None:
            outbox_rows.note(conn, conversation=conversation, kind=kind, ref=ref, at=at)
            outbox_rows.forget(conn, conversation=conversation, kind=kind, refs=(before,))

        await self._database.write(rename)

    async def forget(self, key: ConversationKey, kind: EphemeralKind, shown: Shown) -> None:
        conversation, refs = ConversationId(str(key)), notes(shown)
        await self._database.write(
            lambda conn: outbox_rows.forget(conn, conversation=conversation, kind=kind, refs=refs)
        )


log = logging.getLogger("tieline.delivery")

Send = Callable[[Outbound], Awaitable[SentRef | None]]
Spawn = Callable[[Callable[[], Awaitable[None]]], bool]
Discard = Callable[[ConversationKey, EphemeralKind, Shown], None]


class Showing:
    """`discard` sees to it that something noted is taken away, as often as it takes. `spawn` runs something beside the
    rest, or says that it cannot.
    """

    def __init__(self, ephemera: Ephemera, clock: Clock, spawn: Spawn, discard: Discard) -> None:
        self._ephemera = ephemera
        self._clock = clock
        self._spawn = spawn
        self.discard = discard
        self.forget = ephemera.forget

    async def show(
        self,
        channel: Channel,
        kind: EphemeralKind,
        message: Outbound,
        send: Send,
        *,
        by: By = "message",
        of: int | None = None,
    ) -> Shown | None:
        """Show and note it; None when it cannot be reached again and goes by itself.

        By "key": nobody knows whether it arrived, and it may arrive yet. Raises ChannelError and TimeoutError when it
        did not arrive, or when nothing more can be found out by us; the answer may still come, and then it goes.
        """
        if by == "message" and has_keys(channel, message):
            return await self._by_key(channel, kind, message, send, of)
        if message.interaction is not None:  # its answer is the one that the final takes the place of
            with anyio.fail_after(CALL_DEADLINE_S):
                sent = await send(message)
        else:
            sent = await self._in_time(channel, kind, message, send, by, of)
        self._pass(kind)
        if sent is None:
            return None
        shown = Shown(sent, by, of)
        try:
            await self._ephemera.note(channel.key, kind, shown)
        except StorageTrouble as error:  # this process knows of it; the next one will not
            log.warning("a %s is not noted: %s", kind, error, extra={"conversation": str(channel.key)})
        return shown

    async def _by_key(
        self, channel: Channel, kind: EphemeralKind, message: Outbound, send: Send, of: int | None
    ) -> Shown | None:
        place, hidden = channel.key, unnamed(f"{kind[0]}{secrets.token_hex(8)}", of)
        await self._ephemera.note(place, kind, hidden)
        try:
            with anyio.fail_after(CALL_DEADLINE_S):
                sent = await send(replace(message, key=hidden.key))
        except (ChannelUnsure, TimeoutError) as error:
            log.info("a %s may or may not have arrived: %s", kind, error, extra={"conversation": str(place)})
            return hidden
        except ChannelError:
            await self._ephemera.forget(place, kind, hidden)
            raise
        self._pass(kind)
        if sent is None:
            await self._ephemera.forget(place, kind, hidden)
            return None
        shown = replace(hidden, sent=sent, by="message")
        try:
            await self._ephemera.name(place, kind, shown)
        except StorageTrouble as error:
            log.info("a %s keeps its key for a name: %s", kind, error, extra={"conversation": str(place)})
        return shown

    async def _in_time(
        self, channel: Channel, kind: EphemeralKind, message: Outbound, send: Send, by: By, of: int | None
    ) -> SentRef | None:
        rest = InterruptibleSleep(self._clock)
        outcome: SentRef | Exception | None = TimeoutError("no answer in time")
        waits = True

        async def request() -> None:
            nonlocal outcome
            try:
                with anyio.fail_after(LATE_S):
                    outcome = await send(message)
            except (ChannelError, TimeoutError) as error:
                outcome = error
            except BaseException:
                outcome = ChannelUnsure("the adapter failed")
                raise
            finally:
                rest.end()
            if not waits and isinstance(outcome, SentRef):
                log.info("a %s arrived late and goes", kind, extra={"conversation": str(channel.key)})
                late = Shown(outcome, by, of)
                await self._ephemera.note(channel.key, kind, late)
                self.discard(channel.key, kind, late)

        if not self._spawn(request):  # nothing runs beside us, so nobody would hear a late answer
            with anyio.fail_after(CALL_DEADLINE_S):
                return await send(message)
        try:
            await rest.sleep(CALL_DEADLINE_S)
        finally:
            waits = False
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def _pass(self, kind: EphemeralKind) -> None:
        match kind:
            case "preview":
                failpoint("preview.shown")
            case "status":
                failpoint("status.shown")


# Tidying: removes what an earlier process left and what has become needless, as often as it takes.


class Tidying:
    """Jobs to be run beside everything else. `emoji` is the sign on a message that is being worked on, "" for none."""

    def __init__(
        self,
        channel_for: Callable[[ConversationKey], Channel | None],
        ephemera: Ephemera,
        clock: Clock,
        phrase: Phrases,
        emoji: Callable[[], str],
    ) -> None:
        self._channel_for = channel_for
        self._ephemera = ephemera
        self._clock = clock
        self._phrase = phrase
        self._emoji = emoji

    async def clear(
        self, key: ConversationKey, left_over: Sequence[EphemeralRow], keep: Sequence[Shown], language: str
    ) -> None:
        """Remove what an earlier process left on the screen, all but `keep`."""
        async with anyio.create_task_group() as tasks:
            for row in left_over:
                shown = decode(row.ref)
                if row.kind != "preview" or shown not in keep:
                    tasks.start_soon(self.remove, key, row.kind, shown, language)

    async def unreact(self, key: ConversationKey, message: str) -> None:
        """The sign that an earlier process was at work on the message; its answer may set it again."""

        async def attempt() -> bool:
            channel, emoji = self._channel_for(key), self._emoji()
            if channel is None:
                return False
            if channel.presence is None or not channel.capabilities.reactions or not emoji:
                return True
            try:
                with anyio.fail_after(CALL_DEADLINE_S):
                    await channel.presence.react(message, emoji, on=False)
            except ChannelRejected:
                pass  # there is none
            except (ChannelError, TimeoutError):
                return False
            return True

        await persistently(attempt, self._clock)

    async def remove(self, key: ConversationKey, kind: EphemeralKind, shown: Shown, language: str) -> None:
        """Take it away and strike its note; a question loses its buttons instead.

        What is not to be found by its key is looked for again: its request may still be carried out.
        """
        believed_at = self._clock.monotonic() + LATE_S

        async def attempt() -> bool:
            channel = self._channel_for(key)
            if channel is None:
                return False
            begun_at = self._clock.monotonic()
            try:
                with anyio.fail_after(CALL_DEADLINE_S):
                    found = await self._end(channel, kind, shown, language)
            except ChannelRejected:
                found = True  # gone already, or out of reach for good
            except (ChannelError, TimeoutError) as error:
                log.info("a %s is still there: %s", kind, error, extra={"conversation": str(key)})
                return False
            if not found and begun_at < believed_at:
                return False
            await self._ephemera.forget(key, kind, shown)
            return True

        await persistently(attempt, self._clock)

    async def _end(self, channel: Channel, kind: EphemeralKind, shown: Shown, language: str) -> bool:
        """False when it is not to be found."""
        if kind != "question" or not channel.capabilities.edits:
            return await take_away(channel, shown)
        if (sent := await located(channel, shown)) is not None:
            over = Outbound(document=(Plain(self._phrase("question_over", language)),))
            await channel.edit(sent, over)
        return sent is not None
