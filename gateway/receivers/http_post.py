"""One POST to a receiver: within a time, no redirect followed, no answer read. Loads the HTTP library."""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import anyio
import httpx2

from agent.core.httpx_limits import limited_to
from agent.providers.failures import retry_after
from gateway.receivers.email import NotSent

WITHIN_S = 15.0  # for the whole request
LARGEST = 64 * 1024  # bytes of an answer, which nobody reads


class NotConnected(NotSent):
    """There was nobody to send it to: nothing has left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The answer's status, and the wait that it asks for; None: none."""

    status: int
    after_s: float | None


async def tls_of_clients() -> ssl.SSLContext:
    """The certificates that are believed. Read in a thread: that takes as long as tens of turns' steps."""
    return await anyio.to_thread.run_sync(partial(httpx2.create_ssl_context, trust_env=False))


async def post(
    url: str,
    host: str,
    body: bytes,
    headers: Mapping[str, str],
    *,
    tls: ssl.SSLContext,
    proxy: str | None,
    within_s: float = WITHIN_S,
) -> Answer:
    """The answer to the body. `host` is the name that certificates are checked for, and errors tell. Raises NotSent.

    NotConnected where nothing has left.
    """
    try:
        with anyio.fail_after(within_s):
            async with (
                httpx2.AsyncClient(
                    verify=tls,
                    trust_env=False,
                    proxy=proxy,
                    follow_redirects=False,
                    timeout=None,
                    event_hooks={"response": [limited_to(LARGEST)]},
                ) as client,
                client.stream("POST", url, content=body, headers=headers, extensions={"sni_hostname": host}) as answer,
            ):
                return Answer(status=answer.status_code, after_s=retry_after(answer.headers))
    except TimeoutError as error:
        raise NotSent(f"{host} did not answer within {within_s:g} s") from error
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError) as error:
        # Its text may hold the address; the kind alone is told.
        kind = NotConnected if isinstance(error, httpx2.ConnectError) else NotSent
        raise kind(f"{host} cannot be reached: {type(error).__name__}") from error
