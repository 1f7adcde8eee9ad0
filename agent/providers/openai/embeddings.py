"""Vectors of any endpoint that speaks OpenAI's `/embeddings`. Loaded by name."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from agent.providers.keys import KeyRing
from agent.providers.models import Card
from agent.providers.openai.endpoint import Endpoint
from agent.providers.settings import ProviderSettings

LARGEST_ANSWER = 16 * 1024 * 1024  # bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Embedded:
    """A vector for each text, in order; `tokens` as the endpoint reported them, None where it did not."""

    vectors: tuple[tuple[float, ...], ...]
    tokens: int | None


class OpenAIEmbeddings:
    """One model behind one endpoint."""

    def __init__(
        self, model: str, account: ProviderSettings, card: Card, *, keys: KeyRing | None = None, timeout_s: float
    ) -> None:
        self.name = account.name
        self.model = model
        self.card = card
        self._endpoint = Endpoint(account, "embeddings", keys=keys, timeout_s=timeout_s, most=LARGEST_ANSWER)

    async def embed(self, texts: Sequence[str]) -> Embedded:
        """Raises ProviderBusy (later) or ProviderRefused."""
        content = {"model": self.model, "input": list(texts), "encoding_format": "float"}
        received = await self._endpoint.post(lambda: {"json": content})
        return self._embedded(received.body, len(texts))

    def _embedded(self, body: bytes, wanted: int) -> Embedded:
        try:
            answer: Any = json.loads(body)
            rows = sorted(answer["data"], key=lambda row: int(row["index"]))
            vectors = tuple(tuple(float(number) for number in row["embedding"]) for row in rows)
        except (ValueError, KeyError, TypeError):
            raise self._endpoint.nonsense("malformed data") from None
        if len(vectors) != wanted or not all(vectors):
            raise self._endpoint.nonsense("not one vector for each text")
        usage = answer.get("usage")
        tokens = usage.get("prompt_tokens") if isinstance(usage, dict) else None
        return Embedded(vectors=vectors, tokens=tokens if isinstance(tokens, int) else None)
