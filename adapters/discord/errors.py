"""What discord.py and aiohttp raise, as the gateway's errors. Pure: the class tells delivery what it may do next.

No address goes into a message: those of interactions hold their token (G-28).
"""

from json import JSONDecodeError

import aiohttp
import discord

from gateway.channels.errors import (
    ChannelBusy,
    ChannelError,
    ChannelFatal,
    ChannelGone,
    ChannelRejected,
    ChannelUnsure,
)

UNKNOWN_CHANNEL, UNKNOWN_MESSAGE, MISSING_ACCESS = 10003, 10008, 50001
UNKNOWN_WEBHOOK, UNKNOWN_INTERACTION, INVALID_TOKEN = 10015, 10062, 50027

TURNED_AWAY_S = 60.0  # Cloudflare's blocks, before Discord itself: an HTML page and no code, whatever is asked

# 403 and 404 that are about this message or this act, not about the place (opcodes and status codes, JSON codes)
_NOT_THE_PLACE = frozenset(
    {
        10006,  # unknown invite
        UNKNOWN_MESSAGE,
        10014,  # unknown emoji
        UNKNOWN_WEBHOOK,
        UNKNOWN_INTERACTION,
        10063,  # unknown command
        30010,  # too many reactions
        40005,  # request entity too large
        50005,  # another's message
        50006,  # empty message
        50021,  # system message
        INVALID_TOKEN,  # of an interaction
        50035,  # invalid form body
        90001,  # reaction blocked
        160002,  # no reply without reading the history
        200000,  # AutoMod
        200001,
        240000,  # harmful link
    }
)

LOGIN_FIX = (
    "Discord refused the token. Make a new one at https://discord.com/developers/applications → Bot → Reset Token"
    " and put it into `token` of [[channels]]"
)
INTENTS_FIX = (
    "Discord refused the Message Content intent. Switch it on at https://discord.com/developers/applications → Bot →"
    " Privileged Gateway Intents, or set `message_content = false` (then only mentions, replies and direct messages"
    " are read)"
)

# All that a request may raise; the last two by an answer that is cut or none of Discord's.
Trouble = discord.DiscordException, aiohttp.ClientError, OSError, TimeoutError, JSONDecodeError, UnicodeDecodeError


def channel_error(error: Exception, *, creates: bool = False, closes: bool = True) -> ChannelError:
    """`creates`: a repeat would show a second message, so a cut leaves it unsure; everything else may be repeated.

    `closes`: a refused access means that the place is closed to us, not only that the bot may not do this one thing.
    """
    match error:
        case discord.RateLimited():
            return ChannelBusy("Discord asks to wait", after_s=max(error.retry_after, 0.01))
        case discord.DiscordServerError() | discord.HTTPException(status=408):
            return _open(f"Discord answered {error.status}", creates)
        case discord.HTTPException():
            return _refused(error, closes)
        case discord.LoginFailure():
            return ChannelFatal(LOGIN_FIX)
        case aiohttp.ClientConnectorError() | aiohttp.ConnectionTimeoutError():
            return ChannelBusy(f"no connection to Discord ({type(error).__name__})", after_s=2.0)
        case JSONDecodeError() | UnicodeDecodeError():
            return _open("Discord's answer cannot be read", creates)
        case _:
            return _open(f"the connection to Discord was cut ({type(error).__name__})", creates)


def _open(message: str, creates: bool) -> ChannelError:
    return ChannelUnsure(message) if creates else ChannelBusy(message, after_s=1.0)


def _refused(error: discord.HTTPException, closes: bool) -> ChannelError:
    words = f"Discord refused: {error.status}/{error.code} {error.text}".strip()
    if error.status == 401 and error.code != INVALID_TOKEN:
        return ChannelFatal(LOGIN_FIX)
    if error.status == 403 and error.code == 0:
        return ChannelBusy("Discord's door turns everything away (403)", after_s=TURNED_AWAY_S)
    about_place = error.status in (403, 404) and error.code not in _NOT_THE_PLACE
    if about_place and (closes or error.code in (UNKNOWN_CHANNEL, MISSING_ACCESS)):
        return ChannelGone(words)
    return ChannelRejected(words)


def asked_s(error: BaseException) -> float:
    """For how long Discord wants to be left alone."""
    return error.retry_after if isinstance(error, discord.RateLimited) else 0.0


def login_error(error: Exception) -> ChannelFatal | None:
    """The words for a login that will never succeed; None when trying again may help."""
    match error:
        case discord.LoginFailure():
            return ChannelFatal(LOGIN_FIX)
        case discord.HTTPException(status=401):
            return ChannelFatal(LOGIN_FIX)
        case discord.PrivilegedIntentsRequired():
            return ChannelFatal(INTENTS_FIX)
        case discord.ConnectionClosed(code=4004):
            return ChannelFatal(LOGIN_FIX)
        case discord.ConnectionClosed(code=4013 | 4014):
            return ChannelFatal(INTENTS_FIX)
        case _:
            return None
