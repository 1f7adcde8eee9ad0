"""A platform's HTTP interface with JSON: exactly one attempt a call, its failure in the gateway's words."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import aiohttp

from gateway.channels.adapter import AdapterContext
from gateway.channels.errors import ChannelBusy, ChannelError, ChannelGone, ChannelRejected
from gateway.channels.kit.http import json_body, one_attempt, refusal, save
from gateway.channels.kit.rate_limits import Rate, RateLimits

ANSWER_WITHIN_S = 20.0


def nothing_known(status: int, answer: Any) -> ChannelError | None:
    return None


class HttpApi:
    """`headers` go with each call. `judge` gives the error for a refused call where the platform says more than the
    status does: it gets the status and the answer's JSON, None where there is none. `rate` is the platform's limit for
    each key that a call counts against, such as a room.
    """

    def __init__(
        self,
        context: AdapterContext,
        platform: str,
        url: str,
        *,
        headers: Mapping[str, str],
        judge: Callable[[int, Any], ChannelError | None] = nothing_known,
        rate: Rate | None = None,
    ) -> None:
        self.platform = platform
        self.url = url.rstrip("/")
        self.headers = headers
        self._clock = context.clock
        self._proxy = context.proxy
        self._judge = judge
        self._limits: RateLimits[str] | None = None if rate is None else RateLimits(lambda key: rate)
        self._session: aiohttp.ClientSession | None = None

    def session(self) -> aiohttp.ClientSession:
        """The session of all calls and of a `WebSocketEvents`; made when it is first used, inside the event loop."""
        if self._session is None:
            self._session = aiohttp.ClientSession(trust_env=False)
        return self._session

    async def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: Mapping[str, str] | None = None,
        form: aiohttp.FormData | None = None,
        key: str = "",
        frame: bool = False,
        creates: bool | None = None,
        within_s: float = ANSWER_WITHIN_S,
    ) -> Any:
        """The answer's JSON, None for an empty one. Raises the errors of a channel.

        With a `key` the call counts against its limit, and never waits: delivery knows what is worth waiting for. A
        `frame` of a preview leaves the limit's reserve. `creates` as for `kit.http.cut`: by itself that is each POST.
        """
        creates = method == "POST" if creates is None else creates
        with self._limited(key, frame=frame), one_attempt(self.platform, path, creates=creates):
            async with self.session().request(
                method,
                self.url + path,
                json=body,
                params=query,
                data=form,
                headers=self.headers,
                proxy=self._proxy,
                timeout=aiohttp.ClientTimeout(total=within_s),
            ) as response:
                await self._check(response, path, creates=creates)
                if response.status == 204 or response.content_length == 0:
                    return None
                return await json_body(response, self.platform, path, creates=creates)

    async def download(self, path: str, to: Path, *, limit: int) -> int:
        """Write a file of the platform to `to` and give its size; raises ChannelRejected above `limit` bytes."""
        with one_attempt(self.platform, path):
            async with self.session().get(self.url + path, headers=self.headers, proxy=self._proxy) as response:
                await self._check(response, path, creates=False)
                return await save(response, to, limit=limit, too_large=f"the file has more than {limit} bytes")

    async def aclose(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _check(self, response: aiohttp.ClientResponse, path: str, *, creates: bool) -> None:
        if response.status < 400:
            return
        busy = refusal(response, self.platform, path, creates=creates)
        try:
            answer = await json_body(response, self.platform, path)
        except (ChannelError, aiohttp.ClientError, TimeoutError):
            answer = None  # the status alone tells
        if error := self._judge(response.status, answer) or busy:
            raise error

    @contextmanager
    def _limited(self, key: str, *, frame: bool) -> Iterator[None]:
        if self._limits is None or not key:
            yield
            return
        if wait_s := self._limits.ask(key, self._clock.monotonic(), frame=frame):
            raise ChannelBusy(f"the limit of {self.platform} is used up", after_s=wait_s)
        try:
            yield
        except ChannelBusy as busy:
            self._limits.close(key, self._clock.monotonic(), busy.after_s)
            raise


@contextmanager
def may_be_gone() -> Iterator[None]:
    """Around a deletion: what is gone already is fine, a place that is closed to the bot is not."""
    try:
        yield
    except ChannelGone:
        raise
    except ChannelRejected:
        return
