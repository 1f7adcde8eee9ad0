"""The REST calls this adapter makes, over discord.py's HTTP client, with the gateway's errors.

Bodies and answers are Discord's own JSON: building the library's objects for each message costs more than it gives.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from json import JSONDecodeError
from types import TracebackType
from typing import Any, cast

import aiohttp
import anyio
import discord
from discord.http import HTTPClient, Ratelimit, Route
from yarl import URL

from adapters.discord.limits import GLOBAL_PER_S
from adapters.discord.settings import DiscordSettings
from agent.core.bounded_body import beginning_of
from gateway.channels.errors import ChannelBusy, ChannelError, ChannelFatal, ChannelGone, ChannelRejected
from gateway.channels.kit.http import cut, transport_error
from gateway.channels.kit.rate_limits import Rate, SharedRates
from gateway.channels.outbound import File

# HTTP client of one account, from discord.py: its own addresses, one attempt a request, no sleeping in line.

CONNECT_WITHIN_S = 10.0
UPLOAD_WITHIN_S = 120.0
LONGEST_REFUSAL = 64 * 1024  # bytes
BANNED_S = 60.0  # a 429 without a Via header comes from the proxy in front of Discord, often without a time


INTERACTIONS = "/interactions/"  # in the address of requests that the limit leaves out
GLOBAL = "global"  # the key of the limit over all requests of an account
GLOBAL_RATE = Rate(per_s=GLOBAL_PER_S, burst=GLOBAL_PER_S)


class Limited(discord.RateLimited):
    """A 429. `everywhere`: it holds for the whole account, not for one bucket.

    `by_discord`: its own word; what stands in front of it counts requests of this address, whoever's they are.
    """

    def __init__(self, retry_after: float, *, everywhere: bool, by_discord: bool = True) -> None:
        super().__init__(retry_after)
        self.everywhere = everywhere
        self.by_discord = by_discord


class Hold:
    """Until when the whole account has to be quiet, in the event loop's time.

    `shared` is what other processes keep to as well; None: there are none.
    """

    __slots__ = ("shared", "until")

    def __init__(self, shared: SharedRates | None) -> None:
        self.shared = shared
        self.until = 0.0


class Bucket(Ratelimit):
    """A rate limit that refuses at once instead of sleeping; what Discord's headers tell is kept by the library.

    `counts`: its requests count against the limit of the whole account.
    """

    __slots__ = ("_counts", "_hold")

    def __init__(self, hold: Hold, *, counts: bool) -> None:
        super().__init__(None)
        self._hold = hold
        self._counts = counts

    def reset(self) -> None:
        super().reset()  # type: ignore[no-untyped-call]

    async def acquire(self) -> None:
        shared = self._hold.shared if self._counts else None
        if shared is not None and (wait_s := await shared.ask(GLOBAL, GLOBAL_RATE)):
            raise discord.RateLimited(wait_s)
        now = self._loop.time()
        self._last_request = now
        if now < self._hold.until:
            raise discord.RateLimited(self._hold.until - now)
        if self.is_expired():
            self.reset()
        if self.expires is not None and self.remaining <= 0:
            raise discord.RateLimited(max(self.expires - now, 0.01))
        self.remaining -= 1
        self.outgoing += 1

    async def __aexit__(
        self,
        type: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.outgoing -= 1
        if isinstance(value, Limited):
            until = self._loop.time() + value.retry_after
            if value.everywhere:
                self._hold.until = max(self._hold.until, until)
                if self._hold.shared is not None and value.by_discord:
                    await self._hold.shared.close(GLOBAL, value.retry_after)
            else:
                self.remaining, self.expires = 0, until


class AccountHTTP(HTTPClient):
    """The library's client with an endpoint of its own. `gateway_url` replaces whatever Discord names."""

    def __init__(
        self,
        *,
        api_base_url: str,
        gateway_url: str | None,
        proxy: str | None,
        timeout_s: float,
        shared_rates: SharedRates | None = None,
    ) -> None:
        trace = aiohttp.TraceConfig()
        trace.on_request_end.append(_refuse)
        super().__init__(asyncio.get_running_loop(), proxy=proxy, http_trace=trace)
        self._api_base_url = api_base_url
        self._gateway_url = gateway_url
        self._timeout = aiohttp.ClientTimeout(total=timeout_s, sock_connect=min(CONNECT_WITHIN_S, timeout_s))
        self._upload_timeout = aiohttp.ClientTimeout(
            total=max(timeout_s, UPLOAD_WITHIN_S), sock_connect=self._timeout.sock_connect
        )
        self._hold = Hold(shared_rates)

    def get_ratelimit(self, key: str) -> Ratelimit:
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = self._buckets[key] = Bucket(self._hold, counts=INTERACTIONS not in key)
            self._try_clear_expired_ratelimits()
        return bucket

    async def request(
        self,
        route: Route,
        *,
        files: Sequence[discord.File] | None = None,
        form: Iterable[dict[str, Any]] | None = None,
        **kwargs: Any,
    ) -> Any:
        """One attempt. Raises RateLimited, HTTPException (DiscordServerError), aiohttp.ClientError, TimeoutError."""
        route.url = self._api_base_url + route.url.removeprefix(Route.BASE)
        kwargs.setdefault("timeout", self._upload_timeout if files else self._timeout)
        return await super().request(route, files=files, form=form, **kwargs)

    async def ws_connect(self, url: str, *, compress: int = 0) -> aiohttp.ClientWebSocketResponse:
        if self._gateway_url is not None:
            url = str(URL(self._gateway_url).with_query(URL(url).query))
        return await super().ws_connect(url, compress=compress)


async def _refuse(session: aiohttp.ClientSession, context: object, params: aiohttp.TraceRequestEndParams) -> None:
    """Ends a request before the library's own retries begin."""
    response = params.response
    if response.status == 429:
        raise await _limited(response)
    if response.status >= 500:
        raise discord.DiscordServerError(response, (await _said(response)).decode("utf-8", "replace")[:200])


async def _said(response: aiohttp.ClientResponse) -> bytes:
    """The words of a refusal, a few hundred bytes if it is Discord's own."""
    return await beginning_of(response.content.iter_any(), LONGEST_REFUSAL)


async def _limited(response: aiohttp.ClientResponse) -> Limited:
    said = await _said(response)
    if response.headers.get("Via") and response.content_type == "application/json":
        with suppress(ValueError, TypeError, AttributeError):  # longer than any of Discord's, or another's words
            body = json.loads(said)
            return Limited(float(body.get("retry_after", 1.0)), everywhere=bool(body.get("global")))
    after = response.headers.get("Retry-After", "")
    return Limited(float(after) if after.isdecimal() else BANNED_S, everywhere=True, by_discord=False)


# Errors of discord.py and aiohttp as the gateway's errors. Pure: the class tells delivery what it may do next.

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
            return cut(f"Discord answered {error.status}", creates=creates)
        case discord.HTTPException():
            return _refused(error, closes)
        case discord.LoginFailure():
            return ChannelFatal(LOGIN_FIX)
        case JSONDecodeError() | UnicodeDecodeError():
            return cut("Discord's answer cannot be read", creates=creates)
        case _:
            return transport_error(error, "Discord", "a request", creates=creates)


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
    """Seconds for which Discord wants to be left alone."""
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


Json = dict[str, Any]


class RestClient:
    """The signed-in account's half of HTTP; the gateway connection has its own. Unusable before `sign_in`."""

    def __init__(self, settings: DiscordSettings, proxy: str | None, shared_rates: SharedRates | None = None) -> None:
        self._settings = settings
        self._proxy = proxy
        self._shared_rates = shared_rates
        self._http: AccountHTTP | None = None
        self.user_id = ""
        self.application_id = ""
        self.signed_in = anyio.Event()

    async def sign_in(self) -> None:
        """Learn who the bot is. Raises what `discord.py` and aiohttp raise; nothing stays open then."""
        http = open_http(self._settings, self._proxy, self._shared_rates)

        async def close() -> None:
            with anyio.CancelScope(shield=True):
                await http.close()

        async with AsyncExitStack() as undone:
            undone.push_async_callback(close)
            user = await http.static_login(self._settings.token.get_secret_value())
            application = await http.application_info()
            undone.pop_all()
        self._http, self.user_id, self.application_id = http, str(user["id"]), str(application["id"])
        self.signed_in.set()

    async def aclose(self) -> None:
        http, self._http = self._http, None
        if http is not None:
            await http.close()

    async def call(
        self,
        method: str,
        path: str,
        names: Mapping[str, str],
        body: Json | Sequence[Json] | None = None,
        *,
        files: Sequence[File] = (),
        creates: bool = False,
        closes: bool = True,
        query: dict[str, str] | None = None,
    ) -> Any:
        """One request; `names` fill the path. See `errors.channel_error` for `creates` and `closes`."""
        if self._http is None:
            raise ChannelBusy("not signed in to Discord yet", after_s=1.0)
        route = Route(method, path, metadata=None, **names)
        options: dict[str, Any] = {"params": query} if query else {}
        try:
            async with AsyncExitStack() as stack:
                if files:
                    opened = [await stack.enter_async_context(_opened(file)) for file in files]
                    options |= {"files": opened, "form": _form(cast(Json, body or {}), files, opened)}
                elif body is not None:
                    options["json"] = body
                answer = await self._http.request(route, **options)
            if isinstance(answer, str) and answer:  # so the library gives a page; Discord gives JSON or nothing
                raise JSONDecodeError("no JSON", answer, 0)
        except RuntimeError as error:
            if self._http is None:
                raise ChannelBusy("the connection to Discord is being closed", after_s=1.0) from None
            raise error
        except Trouble as error:
            raise channel_error(cast(Exception, error), creates=creates, closes=closes) from None
        return answer

    # -- messages

    async def create_message(self, channel_id: str, body: Json, files: Sequence[File] = ()) -> Json:
        path = "/channels/{channel_id}/messages"
        # A missing right to attach files says nothing about the place.
        names = {"channel_id": channel_id}
        return cast(Json, await self.call("POST", path, names, body, files=files, creates=True, closes=not files))

    async def edit_message(self, channel_id: str, message_id: str, body: Json) -> None:
        path = "/channels/{channel_id}/messages/{message_id}"
        await self.call("PATCH", path, {"channel_id": channel_id, "message_id": message_id}, body)

    async def delete_message(self, channel_id: str, message_id: str) -> None:
        path = "/channels/{channel_id}/messages/{message_id}"
        await self.call("DELETE", path, {"channel_id": channel_id, "message_id": message_id})

    async def messages(self, channel_id: str, *, limit: int, after: str | None = None) -> list[Json]:
        """A page of the history, newest first."""
        query = {"limit": str(limit), **({"after": after} if after is not None else {})}
        names = {"channel_id": channel_id}
        return cast(list[Json], await self.call("GET", "/channels/{channel_id}/messages", names, query=query))

    async def message(self, channel_id: str, message_id: str) -> Json:
        path = "/channels/{channel_id}/messages/{message_id}"
        return cast(Json, await self.call("GET", path, {"channel_id": channel_id, "message_id": message_id}))

    async def channel(self, channel_id: str) -> Json:
        return cast(Json, await self.call("GET", "/channels/{channel_id}", {"channel_id": channel_id}))

    # -- interactions

    async def answer(self, interaction_id: str, token: str, body: Json) -> Json | None:
        """The first answer to an interaction, within 3 s. Gives the message it made, if it made one."""
        path = "/interactions/{webhook_id}/{webhook_token}/callback"
        names = {"webhook_id": interaction_id, "webhook_token": token}
        made = await self.call("POST", path, names, body, creates=True, closes=False, query={"with_response": "true"})
        message = ((made or {}).get("resource") or {}).get("message")
        return cast(Json | None, message)

    async def follow_up(self, token: str, body: Json) -> Json:
        path = "/webhooks/{webhook_id}/{webhook_token}"
        names = {"webhook_id": self.application_id, "webhook_token": token}
        made = await self.call("POST", path, names, body, creates=True, closes=False, query={"wait": "true"})
        return cast(Json, made)

    async def followed(self, method: str, token: str, message_id: str = "@original", body: Json | None = None) -> Any:
        """Read, change or delete an answer to an interaction; `@original` is the first one."""
        last = "@original" if message_id == "@original" else "{message_id}"
        path = "/webhooks/{webhook_id}/{webhook_token}/messages/" + last
        names = {"webhook_id": self.application_id, "webhook_token": token, "message_id": message_id}
        return await self.call(method, path, names, body, closes=False)


def open_http(settings: DiscordSettings, proxy: str | None, shared_rates: SharedRates | None = None) -> AccountHTTP:
    return AccountHTTP(
        shared_rates=shared_rates,
        api_base_url=settings.api_base_url,
        gateway_url=settings.gateway_url,
        proxy=settings.proxy or proxy,
        timeout_s=settings.request_timeout_s,
    )


@asynccontextmanager
async def _opened(file: File) -> AsyncIterator[discord.File]:
    """The file for the library, opened and closed in a thread."""
    opened = await anyio.to_thread.run_sync(lambda: discord.File(file.path, filename=file.name))
    try:
        yield opened
    finally:
        await anyio.to_thread.run_sync(opened.close)


def _form(body: Json, files: Sequence[File], opened: Sequence[discord.File]) -> list[Json]:
    told = body.get("attachments") or [{} for _ in files]  # what else is known of each
    names = [{"id": number, "filename": file.name} | told[number] for number, file in enumerate(files)]
    parts: list[Json] = [{"name": "payload_json", "value": json.dumps(body | {"attachments": names})}]
    for number, (file, data) in enumerate(zip(files, opened, strict=True)):
        parts.append(
            {"name": f"files[{number}]", "value": data.fp, "filename": file.name, "content_type": file.mime_type}
        )
    return parts
