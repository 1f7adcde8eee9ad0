"""HTTP requests to the Bot API over aiohttp: its methods, their bodies, and what their answers mean.

Tells apart what was surely not sent, what the server refused as its own trouble, and what nobody knows. Never lets the
address of a request, which holds the token, into an error.
"""

import json
from collections.abc import Awaitable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import IO, Any

import aiohttp

from adapters.telegram.parse import Json
from adapters.telegram.settings import TelegramSettings
from agent.core.bounded_body import BodyTooLarge, whole_body
from gateway.channels.errors import ChannelBusy, ChannelError, ChannelFatal, ChannelGone, ChannelRejected, ChannelUnsure

# Errors of a call of the Bot API, and the same as errors of the channel. Pure.

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
    """The error that tells the caller what to do next. The two sure NetworkErrors come before the others."""
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
    """The error of the calls that every token may make: there `Unknown` says that the token is malformed."""
    return ChannelFatal("Telegram refuses the bot token; take a fresh one from @BotFather (/token)")


CONNECT_S = 10.0
READ_S = 20.0
LARGEST_ANSWER = 16 * 1024 * 1024  # bytes; a hundred updates have less than one megabyte
UPLOAD_S = 180.0  # 50 MB over a slow line
FLOODED_S = 5.0  # for a 429 that does not say how long
# The server's word for a token that is wrong or a chat that is closed, when it is the server's own.
REFUSALS: Mapping[int, type[TelegramError]] = {
    HTTPStatus.UNAUTHORIZED: InvalidToken,
    HTTPStatus.FORBIDDEN: Forbidden,
    HTTPStatus.NOT_FOUND: Unknown,
}
OTHERS: Mapping[int, type[TelegramError]] = {HTTPStatus.BAD_REQUEST: BadRequest, HTTPStatus.CONFLICT: Conflict}


@dataclass(frozen=True, slots=True)
class Upload:
    """A parameter that is a file; open until the call has ended."""

    name: str
    content: IO[bytes]
    mime_type: str


JSON_TYPE = {"Content-Type": "application/json"}


class Connections:
    """One pool of connections. Opens at the first request, so that it may be built where no loop runs."""

    def __init__(self, *, most: int, proxy: str | None = None) -> None:
        self.proxy = proxy
        self._most = most
        self._session: aiohttp.ClientSession | None = None
        self._timeouts: dict[tuple[float, float], aiohttp.ClientTimeout] = {}
        self._date: str | None = None

    @property
    def session(self) -> aiohttp.ClientSession:
        """The open pool."""
        if self._session is None or self._session.closed:
            connector = aiohttp.TCPConnector(limit=self._most, ttl_dns_cache=300)
            self._session = aiohttp.ClientSession(
                connector=connector, headers={"User-Agent": "tieline"}, cookie_jar=aiohttp.DummyCookieJar()
            )
        return self._session

    @property
    def server_time(self) -> datetime | None:
        """The server's clock at its last answer."""
        try:
            return parsedate_to_datetime(self._date) if self._date else None
        except ValueError:
            return None

    async def aclose(self) -> None:
        """Cut them all. They open again at the next request."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def post(self, url: str, parameters: Mapping[str, Any], *, read_s: float = READ_S) -> Any:
        """Call the method behind `url`; gives its result. Raises TelegramError.

        `read_s` is how long the line may be silent.
        """
        given = {name: value for name, value in parameters.items() if value is not None}
        uploads = any(isinstance(value, Upload) for value in given.values())
        # Without a file JSON is cheaper than a form, and the server takes both.
        body, headers = (_form(given), {}) if uploads else (json.dumps(given).encode(), JSON_TYPE)
        try:
            async with self.session.post(
                url, data=body, headers=headers, proxy=self.proxy, timeout=self._timeout(read_s, uploads)
            ) as response:
                payload = await whole_body(response.content.iter_any(), LARGEST_ANSWER)
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError, aiohttp.ClientProxyConnectionError) as e:
            raise NotSent(f"cannot reach the Bot API: {type(e).__name__}") from None
        except BodyTooLarge as e:
            raise NetworkError(f"the Bot API answered with more than {e.most} bytes") from None
        except aiohttp.InvalidURL:
            raise NotSent("the address of the Bot API is no valid URL") from None
        except TimeoutError:
            raise TimedOut("no answer from the Bot API in time") from None
        except (aiohttp.ClientError, OSError) as e:
            raise NetworkError(f"the connection to the Bot API was cut: {type(e).__name__}") from None
        except (RuntimeError, ValueError) as e:  # closed meanwhile; a host or a file name that HTTP cannot carry
            raise NetworkError(f"the Bot API cannot be called: {type(e).__name__}") from None
        self._date = response.headers.get("Date")
        return _result(response.status, payload, response.headers.get("Retry-After"))

    def _timeout(self, read_s: float, uploads: bool) -> aiohttp.ClientTimeout:
        """Two deadlines: for silence on the line, and for all of it."""
        total_s = CONNECT_S + (UPLOAD_S if uploads else 0.0) + read_s + 5.0
        key = (read_s, total_s)
        if key not in self._timeouts:
            self._timeouts[key] = aiohttp.ClientTimeout(
                total=total_s, connect=CONNECT_S, sock_connect=CONNECT_S, sock_read=read_s
            )
        return self._timeouts[key]


def _form(parameters: Mapping[str, Any]) -> aiohttp.FormData:
    form = aiohttp.FormData(quote_fields=False)  # else the server shows a file name as %C3%B6
    for name, value in parameters.items():
        if isinstance(value, Upload):
            form.add_field(name, value.content, filename=value.name, content_type=value.mime_type)
        else:
            form.add_field(name, value if isinstance(value, str) else json.dumps(value))
    return form


def _result(status: int, payload: bytes, retry_after: str | None) -> Any:
    """The result of the method. Raises the TelegramError that the answer stands for."""
    answer = _answer(payload)
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        raise Flooded(_wait_s(answer, retry_after))
    if status == HTTPStatus.GATEWAY_TIMEOUT:
        raise TimedOut("the Bot API answered 504")
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        raise ServerTrouble(f"the Bot API answered {status}")
    if status in REFUSALS and "ok" not in answer:
        raise ServerTrouble(f"a refusal ({status}) that is not the Bot API's own")
    if not 200 <= status < 300:
        raise _refusal(status, answer)
    if "result" not in answer:
        raise TelegramError("the Bot API answered with what is no result")
    return answer["result"]


def _answer(payload: bytes) -> Json:
    """The JSON object that each answer of the Bot API is, with `ok` in it; {} for anything else."""
    try:
        answer = json.loads(payload)
    except ValueError:
        return {}
    return answer if isinstance(answer, dict) else {}


def _refusal(status: int, answer: Json) -> TelegramError:
    description = str(answer.get("description") or f"the Bot API answered {status}").removeprefix("Bad Request: ")
    message = description[:1].upper() + description[1:]
    parameters = answer.get("parameters")
    moved_to = parameters.get("migrate_to_chat_id") if isinstance(parameters, dict) else None
    if isinstance(moved_to, int):
        return ChatMigrated(moved_to)
    return (REFUSALS.get(status) or OTHERS.get(status) or NetworkError)(message)


def _wait_s(answer: Json, header: str | None) -> float:
    try:
        return float(answer["parameters"]["retry_after"])
    except (ValueError, KeyError, TypeError):
        return float(header) if header and header.isdigit() else FLOODED_S


# The Bot API as this adapter uses it: methods by name, parameters and results as plain JSON.

POLL_SLACK_S = 15.0  # how much longer than the long poll its answer may take


class Api:
    """One account. Polling and sending have connections of their own, so that neither can starve the other."""

    def __init__(self, settings: TelegramSettings, proxy: str | None) -> None:
        token = settings.token.get_secret_value()
        self.sending = Connections(most=100, proxy=proxy)
        self._polling = Connections(most=2, proxy=proxy)
        self._methods_url = f"{settings.api_base_url}/bot{token}"
        self._files_url = f"{settings.api_base_url}/file/bot{token}"

    def file_url(self, path: str) -> str:
        """Holds the token: for no log and no error."""
        return f"{self._files_url}/{path}"

    def call(self, method: str, *, read_s: float = READ_S, **parameters: Any) -> Awaitable[Any]:
        """Call a method and give its result as JSON; parameters that are None are left out. Raises TelegramError."""
        connections = self._polling if method == "getUpdates" else self.sending
        return connections.post(f"{self._methods_url}/{method}", parameters, read_s=read_s)

    async def aclose(self) -> None:
        """Cut all connections."""
        await self._polling.aclose()
        await self.sending.aclose()
