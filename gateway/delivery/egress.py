"""The egress guard: secrets, mass mentions and tracking links do not leave the gateway.

Secrets are found in what people would read, across bold, links and invisible characters; of a growing answer, what may
be the beginning of one waits for the rest. It reads no files that are sent, and no pictures.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import assert_never
from urllib.parse import parse_qsl, urlencode, urlsplit

from agent.core.bounded_map import BoundedMap
from gateway.channels.channel import Capabilities, Channel, Interactions, Presence, Streams
from gateway.channels.document import (
    Block,
    Bold,
    Break,
    Code,
    CodeBlock,
    Document,
    Heading,
    Inline,
    Italic,
    Link,
    List,
    Paragraph,
    Plain,
    Quote,
    Rule,
    Strike,
    Table,
    Text,
)
from gateway.channels.errors import ChannelFatal
from gateway.channels.keys import ConversationKey, UserId
from gateway.channels.outbound import Outbound, SentRef
from gateway.delivery.rendering.splitting import parted, text_of
from gateway.phrases.catalogue import spelled

Found = tuple[int, int, str]  # from, to, and what stands there instead
JOINER = "\u2060"  # invisible; between "@" and the word, so that nobody is called

_MENTION = re.compile(r"@(?=(?:everyone|here|channel)\b)|<(?=!(?:channel|here|everyone|subteam\^))|<(?=@&\d)")
_INVISIBLE = re.compile("[\u00ad\u180e\u200b-\u200f\u2060-\u2064\ufeff\U000e0000-\U000e007f]")
_ADDRESS = re.compile(r"https?://[^\s<>\"']+")
_TRACKING = re.compile(
    r"(?:utm_[a-z_]+|fbclid|gclid|dclid|gbraid|wbraid|msclkid|yclid|twclid|ttclid|igshid|mc_[ce]id|_hsenc|_hsmi|vero_id|"
    r"oly_(?:anon|enc)_id|mkt_tok|s_cid|ref_src)\Z",
    re.IGNORECASE,
)
LEAST_HELD = 4  # characters: fewer tell nothing
KEPT_CHANNELS = 1000


@dataclass(frozen=True, slots=True)
class Guard:
    """`found` gives the secrets in a text, `begun` from where on its end may be the beginning of one.

    `prefix` and `dash` are how a command in our own words is written (`gateway.phrases.catalogue.spelled`).
    """

    found: Callable[[str], Iterable[Found]] = lambda text: ()
    begun: Callable[[str], int] = len
    prefix: str = "/"
    dash: str = "-"

    def on(self, capabilities: Capabilities) -> "Guard":
        """The guard of one channel, which writes commands as people type them there."""
        return replace(self, prefix=capabilities.command_prefix, dash=capabilities.command_dash)

    def growing(self, text: str) -> str:
        """The part of an unfinished text that may be shown."""
        return text[: self.begun(text)]

    def text(self, text: str) -> str:
        """The text as it may leave; usually the very same."""
        text = spelled(text, self.prefix, self.dash)
        if secrets := self._secrets(text):
            kept = zip((0, *(end for _, end, _ in secrets)), (*(start for start, _, _ in secrets), None), strict=True)
            instead = (*(instead for _, _, instead in secrets), "")
            text = "".join(text[start:end] + said for (start, end), said in zip(kept, instead, strict=True))
        if "@" in text or "<!" in text:
            text = _MENTION.sub(lambda match: match[0] + JOINER, text)
        return _ADDRESS.sub(lambda match: untracked(match[0]), text) if "://" in text else text

    def document(self, document: Document) -> Document:
        """The same, block by block."""
        return tuple(map(self._block, document))

    def _block(self, block: Block) -> Block:
        match block:
            case Plain(text):
                return Plain(self.text(text))
            case CodeBlock(code):
                return replace(block, code=self.text(code))
            case Paragraph(children) | Heading(_, children):
                return replace(block, children=self._inlines(children))
            case Quote(blocks):
                return Quote(self.document(blocks))
            case List(items):
                return replace(block, items=tuple(replace(item, blocks=self.document(item.blocks)) for item in items))
            case Table(header, rows):
                return replace(
                    block,
                    header=tuple(map(self._inlines, header)),
                    rows=tuple(tuple(map(self._inlines, row)) for row in rows),
                )
            case Rule():
                return block
            case _:
                assert_never(block)

    def _inlines(self, children: tuple[Inline, ...]) -> tuple[Inline, ...]:
        if secrets := self._secrets(text_of(children)):
            before, *others = parted(children, [cut for start, end, _ in secrets for cut in (start, end)])
            behind = zip(secrets, others[1::2], strict=True)  # between them stand the secrets themselves
            children = (*before, *(one for (_, _, instead), kept in behind for one in (Text(instead), *kept)))
        return tuple(map(self._inline, children))

    def _inline(self, inline: Inline) -> Inline:
        match inline:
            case Text(text):
                return replace(inline, text=self.text(text))
            case Code(text):
                return replace(inline, text=self.text(text))
            case Link(url, children):
                return Link(self.text(url), tuple(map(self._inline, children)))
            case Bold(children) | Italic(children) | Strike(children):
                return replace(inline, children=tuple(map(self._inline, children)))
            case Break():
                return inline
            case _:
                assert_never(inline)

    def _secrets(self, text: str) -> list[Found]:
        """The secrets in the text, in order; also those with invisible characters between their letters."""
        if not _INVISIBLE.search(text):
            return list(self.found(text))
        places = [at for at, letter in enumerate(text) if not _INVISIBLE.match(letter)]
        seen = "".join(text[at] for at in places)
        return [(places[start], places[end - 1] + 1, instead) for start, end, instead in self.found(seen)]


def untracked(address: str) -> str:
    """The address without what only tells who follows it; usually the very same text."""
    try:
        parts = urlsplit(address)
        given = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=True) if parts.query else []
    except ValueError:
        return address
    kept = [(name, value) for name, value in given if not _TRACKING.match(name)]
    return address if len(kept) == len(given) else parts._replace(query=urlencode(kept)).geturl()


# Guarded channel: the only kind that delivery speaks to. Nothing that the guard holds leaves through it.

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
        capabilities = channel.capabilities
        guard = guard.on(capabilities)
        self._channel = channel
        self._guard = guard
        self._watch = watch = _Watch(channel.key, guard, note_login)
        self.key = channel.key
        self.capabilities = capabilities
        self.streams: Streams | None = _Streams(channel.streams, watch) if channel.streams is not None else None
        self.presence: Presence | None = _Presence(channel.presence, watch) if channel.presence is not None else None
        self.files = channel.files
        self.history = channel.history
        spoken = channel.interactions
        self.interactions: Interactions | None = _Interactions(spoken, guard) if spoken is not None else None

    def stands_for(self, channel: Channel) -> bool:
        """Whether one made now of that channel would be the same."""
        return self._channel is channel and self.capabilities is channel.capabilities

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


@dataclass(frozen=True, slots=True)
class _Streams:
    streams: Streams
    watch: _Watch

    async def open(self, document: Document, *, reply_to: str | None, to: UserId | None) -> SentRef:
        with self.watch.call(proves=True):
            return await self.streams.open(self.watch.guard.document(document), reply_to=reply_to, to=to)

    async def update(self, sent: SentRef, document: Document) -> None:
        with self.watch.call():
            await self.streams.update(sent, self.watch.guard.document(document))

    async def finish(self, sent: SentRef, message: Outbound) -> SentRef:
        with self.watch.call(proves=True):
            return await self.streams.finish(sent, _safe(message, self.watch.guard))

    async def drop(self, sent: SentRef) -> None:
        with self.watch.call():
            await self.streams.drop(sent)


@dataclass(frozen=True, slots=True)
class _Presence:
    presence: Presence
    watch: _Watch

    async def typing(self, status: str = "") -> None:
        with self.watch.call():
            await self.presence.typing(status)

    async def react(self, message_id: str, emoji: str, *, on: bool = True) -> None:
        with self.watch.call():
            await self.presence.react(message_id, emoji, on=on)


@dataclass(frozen=True, slots=True)
class _Interactions:
    interactions: Interactions
    guard: Guard

    async def acknowledge(self, interaction: str, text: str = "", *, visible: bool = False) -> None:
        await self.interactions.acknowledge(interaction, self.guard.text(text), visible=visible)


def guarded(
    channel_for: Callable[[ConversationKey], Channel | None], guard: Guard, note_login: NoteLogin
) -> Callable[[ConversationKey], Channel | None]:
    """The same look-up, of channels that are guarded."""
    kept: BoundedMap[ConversationKey, GuardedChannel] = BoundedMap(KEPT_CHANNELS)

    def look(key: ConversationKey) -> Channel | None:
        channel = channel_for(key)
        if channel is None:
            return None
        found = kept.get(key)
        if found is None or not found.stands_for(channel):
            found = kept[key] = GuardedChannel(channel, guard, note_login)
        return found

    return look


def _safe(message: Outbound, guard: Guard) -> Outbound:
    buttons = tuple(tuple(replace(button, label=guard.text(button.label)) for button in row) for row in message.buttons)
    return replace(message, document=guard.document(message.document), buttons=buttons)
