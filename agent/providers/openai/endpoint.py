"""One request to an endpoint beside the chat: with the account's key, within limits, its errors as ours."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import aiohttp

from agent.core.bounded_body import BodyTooLarge, whole_body
from agent.core.errors import AgentError, ProviderBusy
from agent.providers.endpoints import host_of, is_local, joined
from agent.providers.failures import Answer, busy, classify, read_error, retry_after
from agent.providers.keys import KeyRing, KeyRings
from agent.providers.settings import ProviderSettings

OPENAI = "https://api.openai.com/v1"
CONNECT_S = 15.0
BEGINNING = 1000  # bytes of an answer that are looked at where it is no JSON


@dataclass(frozen=True, slots=True)
class Received:
    """The whole answer; `kind` is the type that the server calls it, in small letters."""

    body: bytes
    kind: str


class Endpoint:
    """One address below an account. Such calls are rare: each has its own connection."""

    def __init__(
        self, account: ProviderSettings, path: str, *, keys: KeyRing | None, timeout_s: float, most: int
    ) -> None:
        """`most` is in bytes of an answer."""
        self._account = account
        self._keys = keys or KeyRings().of(account)
        self._url = joined(account.base_url or OPENAI, path)
        self._timeout = aiohttp.ClientTimeout(total=timeout_s, sock_connect=CONNECT_S)
        self._most = most

    async def post(self, content: Callable[[], Mapping[str, Any]]) -> Received:
        """The answer to one request, whose `content` is made anew for each key: `json` or `data` of aiohttp.

        Raises ProviderBusy (later) or ProviderRefused.
        """
        name, host, secrets = self._account.name, host_of(self._url), self._account.secrets
        try:
            return await self._keys.ask(partial(self._post, content))
        except BodyTooLarge as error:
            raise busy(name, f"{host} answered with more than {error.most} bytes", secrets) from None
        except TimeoutError as error:
            sent = not isinstance(error, aiohttp.ConnectionTimeoutError)
            raise busy(name, f"no answer from {host} in time", secrets, sent=sent) from None
        except (aiohttp.ClientError, OSError) as error:
            sent = not isinstance(error, aiohttp.ClientConnectorError)
            words = f"the connection to {host} failed ({type(error).__name__})"
            raise busy(name, words, secrets, sent=sent) from None

    def nonsense(self, what: str) -> ProviderBusy:
        """The error for an answer that cannot be used, such as "malformed data"; it was paid for perhaps."""
        return busy(self._account.name, f"{what} from {host_of(self._url)}", self._account.secrets)

    async def _post(self, content: Callable[[], Mapping[str, Any]], key: str) -> Received:
        account = self._account
        headers = {name: value.get_secret_value() for name, value in account.extra_headers.items()}
        if key:
            headers["Authorization"] = f"Bearer {key}"
        async with (
            aiohttp.ClientSession(timeout=self._timeout, trust_env=not is_local(self._url)) as session,
            session.post(
                self._url,
                **content(),
                headers=headers,
                proxy=account.proxy.get_secret_value() or None,
                allow_redirects=False,
            ) as response,
        ):
            body = await whole_body(response.content.iter_any(), self._most)
            if response.status != 200:
                raise self._failure(response, body)
            return Received(body, response.content_type.lower())

    def _failure(self, response: aiohttp.ClientResponse, body: bytes) -> AgentError:
        after_s = retry_after(response.headers)
        try:
            answer = read_error(json.loads(body), response.status, after_s)
        except ValueError:
            text = body[:BEGINNING].decode("utf-8", "replace")
            answer = Answer(status=response.status, message=text, after_s=after_s)
        return classify(self._account.name, answer, self._account.secrets)
