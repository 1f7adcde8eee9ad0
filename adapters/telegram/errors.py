"""Errors of a call of the Bot API, and the same in the channel's words (SPEC §1.2). Pure.

TelegramError            says in `message` what the server or the line said
├── NetworkError         nobody knows whether the server carried it out
│   ├── TimedOut
│   ├── NotSent          the server never saw the request
│   └── ServerTrouble    by the server's own word nothing was carried out
├── Flooded              429: not before `after_s`
├── BadRequest           400: what was asked is wrong, or the place is closed
├── Forbidden            403: the place is closed to this bot
├── ChatMigrated         the group has a new id
├── Conflict             409: another process polls, or a webhook is set
├── InvalidToken         401
└── Unknown              404: no such method here, or the token is malformed
"""

from collections.abc import Iterator
from contextlib import contextmanager

from gateway.channels.errors import (
    ChannelBusy,
    ChannelError,
    ChannelFatal,
    ChannelGone,
    ChannelRejected,
    ChannelUnsure,
)

TROUBLE_S = 2.0  # a first guess when the server does not say how long

# Descriptions are all the Bot API gives; they come from the server's source and have been the same for years.
_GONE = (
    "chat not found",
    "chat_id_invalid",
    "group chat was deactivated",
    "user is deactivated",
    "user not found",
    "peer_id_invalid",
    "message thread not found",
    "topic_deleted",
    "topic_closed",
    "have no rights to send a message",
    "not enough rights to send text messages",  # of photos, documents, voice notes…: only these may not go there
    "need administrator rights",
    "chat_write_forbidden",
    "chat_restricted",
)


class TelegramError(Exception):
    """A call that brought no result."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class NetworkError(TelegramError):
    """Nobody knows whether the server carried it out."""


class TimedOut(NetworkError):
    """No answer in time."""


class NotSent(NetworkError):
    """The server never saw the request."""


class ServerTrouble(NetworkError):
    """The server answered 5xx: by its own word nothing was carried out. 504 excepted, that is no word of its own.

    Also a refusal of what stands in front of the server, as of an ingress while the server is started anew.
    """


class Flooded(TelegramError):
    """429, with the seconds to wait."""

    def __init__(self, after_s: float) -> None:
        super().__init__(f"Telegram asks to wait {after_s:g} s")
        self.after_s = after_s


class BadRequest(TelegramError):
    """The server finds fault with what was asked, or the place is closed."""


class Forbidden(TelegramError):
    """The place is closed to this bot."""


class ChatMigrated(TelegramError):
    """The group is a supergroup now, with another id."""

    def __init__(self, new_chat_id: int) -> None:
        super().__init__(f"the group has the new id {new_chat_id}")
        self.new_chat_id = new_chat_id


class Conflict(TelegramError):
    """Another process polls with this token, or a webhook is set."""


class InvalidToken(TelegramError):
    """The server refuses the token."""


class Unknown(TelegramError):
    """This server has no such method: it is older, or somebody's own. Or the token is malformed."""


def is_gone(description: str) -> bool:
    """Is the place closed to us, rather than this message wrong?"""
    text = description.lower()
    return any(sign in text for sign in _GONE)


@contextmanager
def in_channel_words() -> Iterator[None]:
    """A TelegramError inside leaves as a ChannelError."""
    try:
        yield
    except TelegramError as error:
        raise mapped(error) from error


def speaks_of(error: TelegramError, *signs: str) -> bool:
    """Does the message hold one of these? Signs are lower case."""
    text = error.message.lower()
    return any(sign in text for sign in signs)


def mapped(error: TelegramError) -> ChannelError:
    """What the caller may do next. The two sure NetworkErrors come before the others, which leave it open."""
    match error:
        case Flooded(after_s=after_s):
            return ChannelBusy(error.message, after_s=after_s)
        case NotSent() | ServerTrouble():
            return ChannelBusy(error.message, after_s=TROUBLE_S)
        case InvalidToken():
            return token_refused()
        case Forbidden():
            return ChannelGone(error.message)
        case ChatMigrated():
            return ChannelGone("the group became a supergroup with a new id")
        case BadRequest():
            return ChannelGone(error.message) if is_gone(error.message) else ChannelRejected(error.message)
        case Unknown():
            return ChannelRejected(error.message)
        case NetworkError():
            return ChannelUnsure(error.message)
        case _:
            return ChannelUnsure(f"no answer to make sense of: {error.message}")


def token_refused() -> ChannelFatal:
    """For the calls that every token may make: there `Unknown` says that the token is malformed."""
    return ChannelFatal("Telegram refuses the bot token; take a fresh one from @BotFather (/token)")
