"""Inbound values: what a platform can tell the gateway. Adapters parse into these and nothing else."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Literal

from gateway.channels.keys import ConversationKey, UserId


class ChatType(StrEnum):
    """The kind of a place. `channel`: few write to many there; `group`: any room of several people, public or not."""

    DIRECT = "direct"
    GROUP = "group"
    CHANNEL = "channel"


class Mention(StrEnum):
    """The way a message addresses the bot: not, by name or slash command, or by replying to it or in its own thread."""

    NONE = "none"
    DIRECT = "direct"
    IMPLICIT = "implicit"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sender:
    """The sender. `language` is the platform's language tag ("de"), `zone` an IANA time zone, if it tells.

    `platform_roles` are the platform's own ids of roles and user groups that the person has in this place; on Telegram
    "creator" or "administrator", and the custom title. What the platform did not tell in time is left out.
    """

    id: UserId
    display: str = ""
    is_bot: bool = False
    language: str | None = None
    zone: str | None = None
    is_chat_admin: bool = False
    platform_roles: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Attachment:
    """A file on the platform. `handle` is the adapter's own way to fetch it; `size` is bytes, if the platform tells."""

    kind: Literal["audio", "image", "video", "file"]
    handle: str
    name: str
    mime_type: str
    size: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Quoted:
    """The message that somebody replies to, forwards or shares: its words, its files, and its sender.

    `sender` is None where the platform does not tell; one without an id has a name alone. `is_own`: the bot wrote it.
    `message_id` is there if it stands in the same place: files that came with it before are not fetched again.
    """

    text: str = ""
    attachments: tuple[Attachment, ...] = ()
    sender: Sender | None = None
    is_own: bool = False
    message_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """Fields that all inbound things share.

    `place` is the group, chat or workspace channel that grants are given for (`-1005` for every topic of a Telegram
    group, the parent channel of a Discord or Slack thread); `grantable` lists further names a grant may use (a Discord
    guild, a Slack team). `parent` is the channel id of the place that this one is a thread of, where the key does not
    tell it: what was chosen there counts here. `around` is the id of the guild, team or the like that the place is in.
    `thread_root` is the platform's id of the message that begins the thread, for what is said below one.
    `message_id` is the platform's id of the message acted on. `event_id` is
    the platform's own update or event id, where there is one: a second key against repeats. `interaction` is a handle
    for answering a slash command or a button (opaque; given back in `Outbound.interaction`).
    """

    key: ConversationKey
    place: str
    message_id: str
    sender: Sender
    received_at: datetime
    chat_type: ChatType = ChatType.DIRECT
    chat_title: str = ""
    grantable: tuple[str, ...] = ()
    parent: str | None = None
    around: str | None = None
    thread_root: str | None = None
    event_id: str | None = None
    interaction: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageReceived(Received):
    """Somebody wrote. `text` has the bot's mention taken out; a native slash command arrives as its text `/name args`.

    `attachments` are its own files, `quoted` is the message that it replies to, forwards or shares, with the files of
    that one. `to_others`: it names other people than the bot, or replies to one of them. `album` is the platform's id
    of an album of files that comes as one message a file.
    `sent_at` is the platform's time. `from_history` marks what catch-up has read. `interaction_id` is the
    platform's id of a native slash command, which has no message of its own: `message_id` is made of it. `traceparent`
    is the trace context (W3C) of a program that calls, "" where there is none.
    """

    text: str
    attachments: tuple[Attachment, ...] = ()
    mention: Mention = Mention.NONE
    to_others: bool = False
    quoted: Quoted | None = None
    album: str | None = None
    sent_at: datetime | None = None
    from_history: bool = False
    interaction_id: str | None = None
    traceparent: str = ""

    def __post_init__(self) -> None:
        """Take `quoted` as the text that it was, from adapters of other people; that goes with the next version."""
        if isinstance(self.quoted, str):
            warnings.warn("MessageReceived.quoted is a Quoted now", DeprecationWarning, stacklevel=3)
            object.__setattr__(self, "quoted", Quoted(text=self.quoted))

    @property
    def brings_files(self) -> bool:
        """Files came with it or with the message that it quotes."""
        return bool(self.attachments) or (self.quoted is not None and bool(self.quoted.attachments))


@dataclass(frozen=True, slots=True, kw_only=True)
class Edited(Received):
    """A message has a new text. `version` orders edits (the platform's edit time or count)."""

    text: str
    version: str
    mention: Mention = Mention.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class Deleted(Received):
    """A message was taken back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ButtonClicked(Received):
    """A button was pressed: `action` is the button's own, `message_id` the message it hangs on."""

    action: str
    interaction_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved(Received):
    """The place got a new key (a Telegram group became a supergroup): history and settings follow."""

    new_key: ConversationKey
    new_place: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Membership(Received):
    """The bot was removed from, blocked in, or brought (back) to a place; a deleted channel counts as removed.

    `also` are further conversations that this holds for: those of a Discord server's channels.
    """

    present: bool
    also: tuple[ConversationKey, ...] = ()


Inbound = MessageReceived | Edited | Deleted | ButtonClicked | Moved | Membership


class Outcome(StrEnum):
    ACCEPTED = "accepted"  # stored; it will be answered, merged, refused or dead-lettered, visibly
    DUPLICATE = "duplicate"
    IGNORED = "ignored"  # not for the bot, or not allowed; `/why` tells
    REFUSED = "refused"  # the person was told


@dataclass(frozen=True, slots=True)
class Receipt:
    """The result of an inbound thing; whatever it is, it may now be acknowledged to the platform."""

    outcome: Outcome
    reason: str = ""


# For adapters of other people, in this version.
_FORMER: Mapping[str, type] = {"Said": MessageReceived, "Pressed": ButtonClicked}


def __getattr__(name: str) -> type:
    """A class by the name that it had before; it goes with the next version."""
    if name in _FORMER:
        warnings.warn(f"{name} is called {_FORMER[name].__name__} now", DeprecationWarning, stacklevel=2)
        return _FORMER[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
