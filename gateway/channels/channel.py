"""The contract of a place where people talk. A feature that some platforms lack is a small Protocol of its own.

`None` in one of a channel's feature attributes is how it says that it has no such thing; delivery picks by that.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal, Protocol

from gateway.channels.document import Document
from gateway.channels.inbound import Attachment, MessageReceived
from gateway.channels.keys import ConversationKey, UserId
from gateway.channels.outbound import Outbound, SentRef


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """The abilities of one channel, as data.

    `measure` gives a rendered document's length in the platform's own unit (Telegram: UTF-16 units after parsing);
    `text_limit` is the most one message holds in that unit. `idempotent_send` tells how a repeat after an unsure send
    is made safe: `nonce` (the platform refuses a second message with the key), `lookup` (find it by key in the
    history first) or `none` (repeat once, flagged).
    """

    measure: Callable[[Document], int]
    text_limit: int
    edits: bool = True
    ephemeral: bool = False  # `send_ephemeral` shows to one person only
    ephemeral_answers: bool = False  # so it is in answer to a slash command or a button, while that can be answered
    buttons: bool = True
    reactions: bool = False
    typing: bool = False
    typing_every_s: float = 4.0
    stream_every_s: float = 1.0  # least time between two frames of a preview
    upload_limit: int = 0  # bytes; 0: no files can be sent
    hitl_suspend: bool = True  # people can answer here while a run waits; else what needs a yes is refused at once
    idempotent_send: Literal["nonce", "lookup", "none"] = "none"
    stop_button: bool = False  # a running answer gets one in a message of ours; False: the channel has its own, or none
    command_prefix: str = "/"  # what people type before a command's name
    command_dash: str = "-"  # in a command's name


class Streams(Protocol):
    """A native way to show a growing answer. The whole text so far is given each time."""

    async def open(self, document: Document, *, reply_to: str | None, to: UserId | None) -> SentRef: ...
    async def update(self, sent: SentRef, document: Document) -> None: ...
    async def finish(self, sent: SentRef, message: Outbound) -> SentRef:
        """Turn it into the final message; what is returned is that message. The same promise as `Channel.send`."""

    async def drop(self, sent: SentRef) -> None:
        """Take it away."""


class Presence(Protocol):
    """Signs of life."""

    async def typing(self, status: str = "") -> None:
        """Show "typing" once; it fades by itself. `status` is shown where the platform has a line for it."""

    async def react(self, message_id: str, emoji: str, *, on: bool = True) -> None: ...


class Files(Protocol):
    """Bytes in. (Bytes out travel in `Outbound.files`.)"""

    async def fetch(self, attachment: Attachment, to: Path, *, limit: int) -> int:
        """Write it to `to` and return its size; raises ChannelRejected above `limit` bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """A message that may have been sent, by its looks: for platforms that do not keep keys for long.

    It was sent after `since` if at all, and is none of `others`, the platform's ids of what else was said there.
    """

    message: Outbound
    since: datetime
    others: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """A point in a conversation: behind the message `message_id`, or without one the moment `at` itself."""

    at: datetime
    message_id: str | None = None

    @property
    def order(self) -> tuple[datetime, bool]:
        """The earlier of two positions of one conversation has the smaller one."""
        return self.at, self.message_id is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryPage:
    """People's messages, oldest first, each as it would have come live but `from_history`.

    The next page begins at `following`; None: this was the last one. `threads` are conversations below these messages,
    where more may have been written: channel ids.
    """

    messages: Sequence[MessageReceived]
    following: Position | None = None
    threads: Sequence[str] = ()


class History(Protocol):
    """The platform's memory of one conversation."""

    async def since(self, after: Position) -> HistoryPage:
        """Messages of people after that position. Those of the very moment `after.at` count, the bot's own never do.

        Asked by `kit.catch_up`. One attempt: raises ChannelBusy rather than wait for a rate limit, ChannelGone where
        the place is closed. A message that cannot be read is left out and logged: it would be so each time.
        """

    async def find(self, key: str, attempt: Attempt | None = None) -> SentRef | None:
        """A recent message of ours that carries this `Outbound.key`. Asked where `idempotent_send` is `lookup`.

        A platform that forgets keys goes by `attempt`, and raises ChannelUnsure when there is something of ours that
        might be it. Without an attempt it may have to send with the key what it takes away again at once.
        """


class Interactions(Protocol):
    """Answers to slash commands and buttons."""

    async def acknowledge(self, interaction: str, text: str = "", *, visible: bool = False) -> None:
        """Stop the platform's waiting sign; `text` is shown to the person alone where there is a way."""


class Channel(Protocol):
    """One place where people talk, keyed by (channel_type, channel_id). Cheap to make, holds no connection."""

    key: ConversationKey
    streams: Streams | None
    presence: Presence | None
    files: Files | None
    history: History | None
    interactions: Interactions | None

    @property
    def capabilities(self) -> Capabilities:
        """Looked at anew for each message: a platform may take tomorrow what it refuses today."""

    async def send(self, message: Outbound) -> SentRef:
        """Deliver once, no retry inside. Raises ChannelBusy, ChannelUnsure, ChannelRejected (ChannelGone)."""

    async def edit(self, sent: SentRef, message: Outbound) -> None:
        """Replace; unchanged content is fine, editing twice is editing once. Raises ChannelRejected when it is gone."""

    async def delete(self, sent: SentRef) -> None:
        """Take it away; fine when it is gone already."""

    async def send_ephemeral(self, message: Outbound, to: UserId | None) -> SentRef | None:
        """Show something that does not stay: ephemeral where the platform has it (None: it cannot be reached again and
        goes by itself), else sent silently, for the caller to delete."""
