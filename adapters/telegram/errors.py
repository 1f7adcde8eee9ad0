"""What the library raises, in the channel's words (SPEC §1.2). Pure."""

from collections.abc import Iterator
from contextlib import contextmanager

from telegram.error import BadRequest, ChatMigrated, Forbidden, InvalidToken, NetworkError, TelegramError

from adapters.telegram.api import Unknown
from adapters.telegram.request import Flooded, NotSent, ServerTrouble
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


def is_gone(description: str) -> bool:
    """Is the place closed to us, rather than this message wrong?"""
    text = description.lower()
    return any(sign in text for sign in _GONE)


@contextmanager
def in_channel_words() -> Iterator[None]:
    """What the library raises inside leaves as a ChannelError."""
    try:
        yield
    except TelegramError as error:
        raise mapped(error) from error


def speaks_of(error: TelegramError, *signs: str) -> bool:
    text = error.message.lower()
    return any(sign in text for sign in signs)


def mapped(error: TelegramError) -> ChannelError:
    """What the caller may do next. The order matters: most classes of the library are NetworkErrors."""
    match error:
        case Flooded(after_s=after_s):
            return ChannelBusy(error.message, after_s=after_s)
        case NotSent() | ServerTrouble():
            return ChannelBusy(error.message, after_s=TROUBLE_S)
        case InvalidToken():
            return ChannelFatal("Telegram refuses the bot token; take a fresh one from @BotFather (/token)")
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
