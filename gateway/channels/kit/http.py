"""One attempt of an HTTP request with aiohttp, and its failures in the gateway's words.

Nothing here is repeated: delivery knows what a repeat would show. No error holds the address of a request, for many
platforms put the token into it.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import anyio

from gateway.channels.adapter import wait_asked_s, whole_or_nothing
from gateway.channels.errors import ChannelBusy, ChannelError, ChannelRejected, ChannelUnsure

AFTER_S = 2.0  # before another try, where the platform does not say
CHUNK = 64 * 1024
LARGEST_ANSWER = 16 * 1024 * 1024  # bytes

# The request never left. All are aiohttp.ClientError, so these come before what leaves the outcome open.
NOT_SENT = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError, aiohttp.InvalidURL)
NO_ANSWER = (aiohttp.ClientError, TimeoutError, ConnectionError)


def cut(says: str, *, creates: bool) -> ChannelError:
    """No answer came, or none that tells what became of it. What `creates` would show twice is not just done again."""
    return ChannelUnsure(says) if creates else ChannelBusy(says, after_s=AFTER_S)


def transport_error(error: Exception, platform: str, what: str, *, creates: bool) -> ChannelError:
    """The error for what aiohttp raised instead of an answer."""
    name = type(error).__name__
    if isinstance(error, aiohttp.ClientConnectorError):
        return ChannelBusy(f"cannot reach {platform} for {what}: {error}", after_s=AFTER_S)  # names the host alone
    if isinstance(error, NOT_SENT):
        return ChannelBusy(f"cannot reach {platform} for {what} ({name})", after_s=AFTER_S)
    return cut(f"no answer from {platform} to {what} ({name})", creates=creates)


@contextmanager
def one_attempt(platform: str, what: str, *, creates: bool = False) -> Iterator[None]:
    """Around a request: what aiohttp raises leaves as a ChannelError. `creates` as for `cut`."""
    try:
        yield
    except NO_ANSWER as error:
        raise transport_error(error, platform, what, creates=creates) from None


def refusal(
    response: aiohttp.ClientResponse, platform: str, what: str, *, creates: bool = False
) -> ChannelError | None:
    """The error for an answer by its status alone, None for a good one: where the platform has no codes of its own.

    Which refusals close the place or the login, the adapter has to say: a 403 means either, or this message alone.
    """
    status = response.status
    if status < 400:
        return None
    says = f"{platform} answered {what} with HTTP {status}"
    if status == 429 or (status == 503 and "Retry-After" in response.headers):
        return ChannelBusy(says, after_s=wait_asked_s(response.headers, AFTER_S))
    if status >= 500 or status == 408:
        return cut(says, creates=creates)
    return ChannelRejected(says)


async def json_body(response: aiohttp.ClientResponse, platform: str, what: str, *, creates: bool = False) -> Any:
    """The answer's JSON; `creates` as for `cut`, since an answer that cannot be read leaves the outcome open."""
    body = bytearray()
    async for chunk in response.content.iter_chunked(CHUNK):
        body += chunk
        if len(body) > LARGEST_ANSWER:
            raise cut(f"{platform} answered {what} with more than {LARGEST_ANSWER} bytes", creates=creates)
    try:
        return json.loads(body)
    except (ValueError, RecursionError):  # the second for what is nested too deep
        raise cut(f"{platform} answered {what} with no JSON", creates=creates) from None


async def save(response: aiohttp.ClientResponse, to: Path, *, limit: int, too_large: str) -> int:
    """Write the body to `to` and give its size; raises ChannelRejected(`too_large`) above `limit` bytes, with nothing
    kept."""
    size = 0
    async with whole_or_nothing(to), await anyio.open_file(to, "wb") as file:
        async for chunk in response.content.iter_chunked(CHUNK):
            size += len(chunk)
            if size > limit:
                raise ChannelRejected(too_large)
            await file.write(chunk)
    return size
