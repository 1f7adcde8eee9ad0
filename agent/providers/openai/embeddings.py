"""Vectors of any endpoint that speaks OpenAI's `/embeddings`. Loaded by name."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import aiohttp

from agent.core.bounded_body import BodyTooLarge, whole_body
from agent.core.errors import AgentError
from agent.providers.endpoints import host_of, is_local, joined
from agent.providers.failures import Answer, busy, classify, read_error, retry_after
from agent.providers.keys import KeyRing, KeyRings
from agent.providers.models import Card
from agent.providers.settings import ProviderSettings

OPENAI = "https://api.openai.com/v1"
CONNECT_S = 10.0
LARGEST_ANSWER = 16 * 1024 * 1024  # bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Embedded:
    """A vector for each text, in order; `tokens` as the endpoint reported them, None where it did not."""

    vectors: tuple[tuple[float, ...], ...]
    tokens: int | None


class OpenAIEmbeddings:
    """One model behind one endpoint; each call has its own connection."""

    def __init__(
        self, model: str, account: ProviderSettings, card: Card, *, keys: KeyRing | None = None, timeout_s: float
    ) -> None:
        self.name = account.name
        self.model = model
        self.card = card
        self._account = account
        self._keys = keys or KeyRings().of(account)
        self._timeout_s = timeout_s
        self._url = joined(account.base_url or OPENAI, "embeddings")

    async def embed(self, texts: Sequence[str]) -> Embedded:
        """Raises ProviderBusy (later) or ProviderRefused."""
        secrets = self._account.secrets
        try:
            return await self._keys.ask(partial(self._post, texts))
        except BodyTooLarge as error:
            words = f"{host_of(self._url)} answered with more than {error.most} bytes"
            raise busy(self.name, words, secrets) from None
        except TimeoutError as error:
            sent = not isinstance(error, aiohttp.ConnectionTimeoutError)
            raise busy(self.name, f"no answer from {host_of(self._url)} in time", secrets, sent=sent) from None
        except (aiohttp.ClientError, OSError) as error:
            sent = not isinstance(error, aiohttp.ClientConnectorError)
            words = f"the connection to {host_of(self._url)} failed ({type(error).__name__})"
            raise busy(self.name, words, secrets, sent=sent) from None

    async def _post(self, texts: Sequence[str], key: str) -> Embedded:
        account = self._account
        headers = {name: value.get_secret_value() for name, value in account.extra_headers.items()}
        if key:
            headers["Authorization"] = f"Bearer {key}"
        timeout = aiohttp.ClientTimeout(total=self._timeout_s, sock_connect=CONNECT_S)
        async with (
            aiohttp.ClientSession(timeout=timeout, trust_env=not is_local(self._url)) as session,
            session.post(
                self._url,
                json={"model": self.model, "input": list(texts), "encoding_format": "float"},
                headers=headers,
                proxy=account.proxy.get_secret_value() or None,
                allow_redirects=False,
            ) as response,
        ):
            body = await whole_body(response.content.iter_any(), LARGEST_ANSWER)
            if response.status != 200:
                raise self._failure(response, body)
        return self._embedded(body, len(texts))

    def _failure(self, response: aiohttp.ClientResponse, body: bytes) -> AgentError:
        after_s = retry_after(response.headers)
        try:
            answer = read_error(json.loads(body), response.status, after_s)
        except ValueError:
            text = body[:1000].decode("utf-8", "replace")
            answer = Answer(status=response.status, message=text, after_s=after_s)
        return classify(self.name, answer, self._account.secrets)

    def _embedded(self, body: bytes, wanted: int) -> Embedded:
        try:
            answer: Any = json.loads(body)
            rows = sorted(answer["data"], key=lambda row: int(row["index"]))
            vectors = tuple(tuple(float(number) for number in row["embedding"]) for row in rows)
        except (ValueError, KeyError, TypeError):
            raise busy(self.name, f"malformed data from {host_of(self._url)}", self._account.secrets) from None
        if len(vectors) != wanted or not all(vectors):
            raise busy(self.name, f"not one vector for each text from {host_of(self._url)}", self._account.secrets)
        usage = answer.get("usage")
        tokens = usage.get("prompt_tokens") if isinstance(usage, dict) else None
        return Embedded(vectors=vectors, tokens=tokens if isinstance(tokens, int) else None)
