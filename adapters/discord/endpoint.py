"""discord.py's HTTP client for one account: its own addresses, one attempt a request, no sleeping in line.

The library's own way suits one bot on one endpoint: it retries inside, sleeps out rate limits and lets others queue
behind the sleeper. Delivery wants the truth at once instead (`ChannelBusy` with the time to wait, DESIGN §5), so a
429 or 5xx ends the request here. No module global is touched: several accounts may have different endpoints.
"""

import asyncio
import json
from collections.abc import Iterable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any

import aiohttp
import discord
from discord.http import HTTPClient, Ratelimit, Route
from yarl import URL

from agent.core.bodies import beginning_of

CONNECT_WITHIN_S = 10.0
UPLOAD_WITHIN_S = 120.0
LONGEST_REFUSAL = 64 * 1024  # bytes
BANNED_S = 60.0  # a 429 without a Via header comes from the proxy in front of Discord, often without a time


class Limited(discord.RateLimited):
    """A 429. `everywhere`: it holds for the whole account, not for one bucket."""

    def __init__(self, retry_after: float, *, everywhere: bool) -> None:
        super().__init__(retry_after)
        self.everywhere = everywhere


class Hold:
    """Until when the whole account has to be quiet, in the event loop's time."""

    __slots__ = ("until",)

    def __init__(self) -> None:
        self.until = 0.0


class Bucket(Ratelimit):
    """A rate limit that refuses at once instead of sleeping; what Discord's headers tell is kept by the library."""

    __slots__ = ("_hold",)

    def __init__(self, hold: Hold) -> None:
        super().__init__(None)
        self._hold = hold

    def reset(self) -> None:
        super().reset()  # type: ignore[no-untyped-call]

    async def acquire(self) -> None:
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
            else:
                self.remaining, self.expires = 0, until


class AccountHTTP(HTTPClient):
    """The library's client with an endpoint of its own. `gateway_url` replaces whatever Discord names."""

    def __init__(self, *, api_base_url: str, gateway_url: str | None, proxy: str | None, timeout_s: float) -> None:
        trace = aiohttp.TraceConfig()
        trace.on_request_end.append(_refuse)
        super().__init__(asyncio.get_running_loop(), proxy=proxy, http_trace=trace)
        self._api_base_url = api_base_url
        self._gateway_url = gateway_url
        self._timeout = aiohttp.ClientTimeout(total=timeout_s, sock_connect=min(CONNECT_WITHIN_S, timeout_s))
        self._upload_timeout = aiohttp.ClientTimeout(
            total=max(timeout_s, UPLOAD_WITHIN_S), sock_connect=self._timeout.sock_connect
        )
        self._hold = Hold()

    def get_ratelimit(self, key: str) -> Ratelimit:
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = self._buckets[key] = Bucket(self._hold)
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
    """What a refusal says, a few hundred bytes if it is Discord's own."""
    return await beginning_of(response.content.iter_any(), LONGEST_REFUSAL)


async def _limited(response: aiohttp.ClientResponse) -> Limited:
    said = await _said(response)
    if response.headers.get("Via") and response.content_type == "application/json":
        with suppress(ValueError, TypeError, AttributeError):  # longer than any of Discord's, or another's words
            body = json.loads(said)
            return Limited(float(body.get("retry_after", 1.0)), everywhere=bool(body.get("global")))
    after = response.headers.get("Retry-After", "")
    return Limited(float(after) if after.isdecimal() else BANNED_S, everywhere=True)
