"""A channel through which nothing leaves that the guard would hold: the only kind that delivery speaks to."""

from collections.abc import Callable
from dataclasses import replace

from gateway.channels.channel import Channel, Interactions, Streams
from gateway.channels.document import Document
from gateway.channels.keys import ConversationKey, UserId
from gateway.channels.outbound import Outbound, SentRef
from gateway.delivery.egress import Guard


class GuardedChannel:
    """The channel itself, but for its words."""

    def __init__(self, channel: Channel, guard: Guard) -> None:
        guard = guard.on(channel.capabilities)
        self._channel = channel
        self._guard = guard
        self.key = channel.key
        self.capabilities = channel.capabilities
        self.streams: Streams | None = _Streams(channel.streams, guard) if channel.streams is not None else None
        self.presence = channel.presence
        self.files = channel.files
        self.history = channel.history
        spoken = channel.interactions
        self.interactions: Interactions | None = _Interactions(spoken, guard) if spoken is not None else None

    async def send(self, message: Outbound) -> SentRef:
        return await self._channel.send(_safe(message, self._guard))

    async def edit(self, sent: SentRef, message: Outbound) -> None:
        await self._channel.edit(sent, _safe(message, self._guard))

    async def delete(self, sent: SentRef) -> None:
        await self._channel.delete(sent)

    async def whisper(self, message: Outbound, to: UserId | None) -> SentRef | None:
        return await self._channel.whisper(_safe(message, self._guard), to)


class _Streams:
    def __init__(self, streams: Streams, guard: Guard) -> None:
        self._streams = streams
        self._guard = guard

    async def open(self, document: Document, *, reply_to: str | None, to: UserId | None) -> SentRef:
        return await self._streams.open(self._guard.document(document), reply_to=reply_to, to=to)

    async def update(self, sent: SentRef, document: Document) -> None:
        await self._streams.update(sent, self._guard.document(document))

    async def finish(self, sent: SentRef, message: Outbound) -> SentRef:
        return await self._streams.finish(sent, _safe(message, self._guard))

    async def drop(self, sent: SentRef) -> None:
        await self._streams.drop(sent)


class _Interactions:
    def __init__(self, interactions: Interactions, guard: Guard) -> None:
        self._interactions = interactions
        self._guard = guard

    async def acknowledge(self, interaction: str, text: str = "", *, visible: bool = False) -> None:
        await self._interactions.acknowledge(interaction, self._guard.text(text), visible=visible)


def guarded(
    channel_for: Callable[[ConversationKey], Channel | None], guard: Guard
) -> Callable[[ConversationKey], Channel | None]:
    """The same look-up, of channels that are guarded."""

    def look(key: ConversationKey) -> Channel | None:
        channel = channel_for(key)
        return GuardedChannel(channel, guard) if channel is not None else None

    return look


def _safe(message: Outbound, guard: Guard) -> Outbound:
    buttons = tuple(tuple(replace(button, label=guard.text(button.label)) for button in row) for row in message.buttons)
    return replace(message, document=guard.document(message.document), buttons=buttons)
