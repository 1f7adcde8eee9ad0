"""A channel through which nothing leaves that the guard would hold: the only kind that delivery speaks to.

It notices what each call tells of the account's login: a preview or a sign of life may meet a refusal long before
anything that must arrive does.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from gateway.channels.channel import Channel, Interactions, Presence, Streams
from gateway.channels.document import Document
from gateway.channels.errors import ChannelFatal
from gateway.channels.keys import ConversationKey, UserId
from gateway.channels.outbound import Outbound, SentRef
from gateway.delivery.egress import Guard

NoteLogin = Callable[[ConversationKey, bool], None]  # the platform took the account's login there, or refused it


@dataclass(frozen=True, slots=True)
class _Watch:
    key: ConversationKey
    guard: Guard
    note_login: NoteLogin

    @contextmanager
    def call(self, *, proves: bool = False) -> Iterator[None]:
        """A call to the platform is made inside; `proves`: it cannot go well without one that is taken."""
        try:
            yield
        except ChannelFatal:
            self.note_login(self.key, False)
            raise
        if proves:
            self.note_login(self.key, True)


class GuardedChannel:
    """The channel itself, but for its words."""

    def __init__(self, channel: Channel, guard: Guard, note_login: NoteLogin = lambda key, accepted: None) -> None:
        guard = guard.on(channel.capabilities)
        self._channel = channel
        self._guard = guard
        self._watch = watch = _Watch(channel.key, guard, note_login)
        self.key = channel.key
        self.capabilities = channel.capabilities
        self.streams: Streams | None = _Streams(channel.streams, watch) if channel.streams is not None else None
        self.presence: Presence | None = _Presence(channel.presence, watch) if channel.presence is not None else None
        self.files = channel.files
        self.history = channel.history
        spoken = channel.interactions
        self.interactions: Interactions | None = _Interactions(spoken, guard) if spoken is not None else None

    async def send(self, message: Outbound) -> SentRef:
        with self._watch.call(proves=True):
            return await self._channel.send(_safe(message, self._guard))

    async def edit(self, sent: SentRef, message: Outbound) -> None:
        with self._watch.call():
            await self._channel.edit(sent, _safe(message, self._guard))

    async def delete(self, sent: SentRef) -> None:
        with self._watch.call():
            await self._channel.delete(sent)

    async def send_ephemeral(self, message: Outbound, to: UserId | None) -> SentRef | None:
        with self._watch.call(proves=True):
            return await self._channel.send_ephemeral(_safe(message, self._guard), to)


class _Streams:
    def __init__(self, streams: Streams, watch: _Watch) -> None:
        self._streams = streams
        self._watch = watch

    async def open(self, document: Document, *, reply_to: str | None, to: UserId | None) -> SentRef:
        with self._watch.call(proves=True):
            return await self._streams.open(self._watch.guard.document(document), reply_to=reply_to, to=to)

    async def update(self, sent: SentRef, document: Document) -> None:
        with self._watch.call():
            await self._streams.update(sent, self._watch.guard.document(document))

    async def finish(self, sent: SentRef, message: Outbound) -> SentRef:
        with self._watch.call(proves=True):
            return await self._streams.finish(sent, _safe(message, self._watch.guard))

    async def drop(self, sent: SentRef) -> None:
        with self._watch.call():
            await self._streams.drop(sent)


class _Presence:
    def __init__(self, presence: Presence, watch: _Watch) -> None:
        self._presence = presence
        self._watch = watch

    async def typing(self, status: str = "") -> None:
        with self._watch.call():
            await self._presence.typing(status)

    async def react(self, message_id: str, emoji: str, *, on: bool = True) -> None:
        with self._watch.call():
            await self._presence.react(message_id, emoji, on=on)


class _Interactions:
    def __init__(self, interactions: Interactions, guard: Guard) -> None:
        self._interactions = interactions
        self._guard = guard

    async def acknowledge(self, interaction: str, text: str = "", *, visible: bool = False) -> None:
        await self._interactions.acknowledge(interaction, self._guard.text(text), visible=visible)


def guarded(
    channel_for: Callable[[ConversationKey], Channel | None], guard: Guard, note_login: NoteLogin
) -> Callable[[ConversationKey], Channel | None]:
    """The same look-up, of channels that are guarded."""

    def look(key: ConversationKey) -> Channel | None:
        channel = channel_for(key)
        return GuardedChannel(channel, guard, note_login) if channel is not None else None

    return look


def _safe(message: Outbound, guard: Guard) -> Outbound:
    buttons = tuple(tuple(replace(button, label=guard.text(button.label)) for button in row) for row in message.buttons)
    return replace(message, document=guard.document(message.document), buttons=buttons)
