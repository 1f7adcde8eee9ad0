"""Models that providers offer: asked of their servers, stored for a day, never on the way of a turn.

/v1/models   OpenAI and all that follow it: ids alone. OpenRouter, Together, Mistral and vLLM tell more.
             https://openrouter.ai/docs/api-reference/list-available-models
/v1/models   Anthropic, in pages: https://docs.anthropic.com/en/api/models-list
/api/tags    Ollama: https://docs.ollama.com/api
"""

import json
import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any, Protocol

import aiohttp
import anyio
import anyio.to_thread

from agent.core.bounded_body import BodyTooLarge, whole_body
from agent.core.clock import Clock
from agent.core.model_facts import ModelList, ModelOffer
from agent.providers.endpoints import is_local, without_login
from agent.providers.models import Card, cards
from agent.providers.settings import ProviderSettings, is_model_name
from agent.providers.window_discovery import KEPT, NESTED, entries_of, headers_of, part_of, tokens_in
from agent.storage.timestamps import to_timestamp

WITHIN_S = 8.0  # for all the pages of one list
DAY_US = 24 * 3600 * 1_000_000
LARGEST_PAGE = 8 * 1024 * 1024  # bytes
PAGE = 1000  # models; the most that Anthropic takes
MOST_PAGES = 20
MOST_MODELS = 3000
SERVICES = {"openai": "https://api.openai.com/v1", "anthropic": "https://api.anthropic.com/v1"}
# What OpenAI's list holds beside models that answer.
_NO_CHAT = re.compile(r"(?:^|/)(?:text-embedding|whis[p]er|tts-|dall-e|omni-moderation|text-moderation|gpt-image|sora)")

log = logging.getLogger("tieline.providers")


class Store(Protocol):
    """Where lists are kept; `agent.storage.model_rows.ModelListStore` is it. Neither raises: what fails is logged."""

    async def get(self, provider: str, address: str) -> ModelList | None: ...
    async def put(self, found: ModelList) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """The answer of a server. `reached` False: it did not answer, so that what is stored stands."""

    reached: bool
    offers: tuple[ModelOffer, ...] = ()


class ModelLists:
    """The lists of all providers, one for each at its address."""

    def __init__(self, clock: Clock, store: Store) -> None:
        self._clock = clock
        self._store = store

    async def stored(self, settings: ProviderSettings) -> ModelList | None:
        """The stored list; asks no server."""
        return await self._store.get(settings.name, without_login(settings.base_url))

    async def of(self, settings: ProviderSettings) -> ModelList:
        """The stored list; where there is none, the server is asked now."""
        stored = await self.stored(settings)
        return stored if stored is not None else await self.refresh(settings)

    async def all_of(self, providers: Sequence[ProviderSettings], *, anew: bool = False) -> Sequence[ModelList]:
        """The lists of several, in order; those that are not stored, or with `anew` all, are asked for side by side."""
        found: dict[int, ModelList] = {}

        async def one(place: int, settings: ProviderSettings) -> None:
            found[place] = await (self.refresh if anew else self.of)(settings)

        async with anyio.create_task_group() as tasks:
            for place, settings in enumerate(providers):
                tasks.start_soon(one, place, settings)
        return [found[place] for place in range(len(providers))]

    async def refresh(self, settings: ProviderSettings) -> ModelList:
        """Ask the server now, and store what it says. Where it does not answer, the stored list stands."""
        address = without_login(settings.base_url)
        answered = await ask(settings)
        stored = None if answered.offers else await self._store.get(settings.name, address)
        if stored is not None and (stored.listed or not answered.reached):
            return stored
        offers = await anyio.to_thread.run_sync(known_offers, settings, answered.offers)
        found = ModelList(
            provider=settings.name,
            address=address,
            listed=bool(answered.offers),
            at=to_timestamp(self._clock.now()),
            offers=offers,
        )
        if answered.reached or settings.type in ("demo", "litellm"):
            await self._store.put(found)
        return found

    async def refresh_old(self, providers: Sequence[ProviderSettings]) -> None:
        """Ask anew for the lists that are older than a day; what nobody has asked for is left alone."""
        for settings in providers:
            stored = await self.stored(settings)
            if stored is not None and to_timestamp(self._clock.now()) - stored.at >= DAY_US:
                await self.refresh(settings)


async def ask(settings: ProviderSettings) -> Answered:
    """The server's own list; never raises."""
    base = settings.base_url.rstrip("/").removesuffix("/chat/completions") or SERVICES.get(settings.type, "")
    if settings.type == "demo" or not base:
        return Answered(reached=False)
    if settings.type != "openai" and not base.endswith("/v1"):
        base = f"{base}/v1"
    asking = _Asking(settings, is_local(base))
    offers: tuple[ModelOffer, ...] = ()
    with anyio.move_on_after(WITHIN_S) as within:
        async with aiohttp.ClientSession(
            timeout=aiohttp.ClientTimeout(total=WITHIN_S),
            headers=headers_of(settings),
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=not asking.local,
        ) as session:
            offers = await asking.pages(session, f"{base}/models")
            if not offers and asking.reached:
                offers = offers_in(await asking.read(session, f"{base.removesuffix('/v1')}/api/tags", {}))
    if within.cancelled_caught or asking.failed:  # half a list is none
        return Answered(reached=False)
    return Answered(reached=asking.reached, offers=offers[:MOST_MODELS])


class _Asking:
    """One question to one server. `reached`: it gave a list, or said that it has none; `failed`: a part of the list
    could not be read."""

    def __init__(self, settings: ProviderSettings, local: bool) -> None:
        self.reached = self.failed = False
        self.local = local
        self._pages = settings.type == "anthropic"
        self._proxy = settings.proxy.get_secret_value() or None

    async def pages(self, session: aiohttp.ClientSession, url: str) -> tuple[ModelOffer, ...]:
        """All the pages of a list; those before one that cannot be read."""
        found: dict[str, ModelOffer] = {}
        query = {"limit": str(PAGE)} if self._pages else {}
        for _ in range(MOST_PAGES):
            body = await self.read(session, url, query)
            found |= {offer.id: offer for offer in await anyio.to_thread.run_sync(offers_in, body)}
            last = body.get("last_id") if isinstance(body, dict) and body.get("has_more") is True else None
            if not isinstance(last, str) or query.get("after_id") == last:
                break
            query = {"limit": str(PAGE), "after_id": last}
        return tuple(found.values())

    async def read(self, session: aiohttp.ClientSession, url: str, query: Mapping[str, str]) -> Any:
        """The JSON that is answered; None for anything else."""
        try:
            async with session.get(url, params=query, proxy=self._proxy, allow_redirects=False) as response:
                if response.status != 200:
                    self.failed = self.failed or response.status not in (404, 405)
                    self.reached = True
                    return None
                data = await whole_body(response.content.iter_any(), LARGEST_PAGE)
            body = await anyio.to_thread.run_sync(json.loads, data)
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError, RecursionError, BodyTooLarge):
            self.failed = True
            return None
        self.reached = True
        return body


# Reading of lists. Pure.


def offers_in(body: Any) -> tuple[ModelOffer, ...]:
    """The models of a list, with what it says of them; names that cannot be shown are left out."""
    found = {}
    for entry in entries_of(body):
        name = entry.get("id") or entry.get("name") or entry.get("model")
        if isinstance(name, str) and is_model_name(name) and not _NO_CHAT.search(name):
            found[name] = _offer(name, entry)
    return tuple(found.values())


def _offer(name: str, entry: Mapping[str, Any]) -> ModelOffer:
    parts = (entry, *(part_of(entry, key) for key in NESTED))
    windows = [tokens for part in parts for key in KEPT if (tokens := tokens_in(part.get(key)))]
    input_usd, output_usd = _prices(part_of(entry, "pricing"))
    parameters = _words(entry.get("supported_parameters"))
    inputs = _words(part_of(entry, "architecture").get("input_modalities"))
    can = _capabilities(entry.get("capabilities"))
    return ModelOffer(
        id=name,
        window=min(windows, default=None),
        input_usd=input_usd,
        output_usd=output_usd,
        pictures=("image" in inputs) if inputs else _can(can, "vision", "image_input"),
        tools=("tools" in parameters) if parameters else _can(can, "tools", "function_calling", "tool_use"),
        reasoning=(
            bool(parameters & {"reasoning", "reasoning_effort", "include_reasoning"})
            if parameters
            else _can(can, "thinking", "reasoning")
        ),
    )


def _prices(pricing: Mapping[str, Any]) -> tuple[float | None, float | None]:
    """OpenRouter counts dollars a token and writes them as text, Together dollars a million tokens."""
    if "prompt" in pricing:
        return _usd(pricing.get("prompt"), 1_000_000), _usd(pricing.get("completion"), 1_000_000)
    return _usd(pricing.get("input"), 1), _usd(pricing.get("output"), 1)


def _usd(value: Any, per: int) -> float | None:
    try:
        amount = float(value) * per
    except (TypeError, ValueError):
        return None
    return round(amount, 6) if isfinite(amount) and amount >= 0 else None  # -1 where the price depends


def _words(value: Any) -> frozenset[str]:
    return frozenset(word for word in value if isinstance(word, str)) if isinstance(value, list) else frozenset()


def _capabilities(value: Any) -> Mapping[str, bool] | None:
    """Ollama names those that are there; Mistral and Anthropic say of each whether it is."""
    if isinstance(value, list):
        return dict.fromkeys(_words(value), True)
    if not isinstance(value, dict):
        return None
    read = {name: part.get("supported") if isinstance(part, dict) else part for name, part in value.items()}
    return {name: can for name, can in read.items() if isinstance(name, str) and isinstance(can, bool)}


def _can(known: Mapping[str, bool] | None, *names: str) -> bool | None:
    if known is None:
        return None
    said = [known[name] for name in names if name in known]
    if said:
        return any(said)
    return False if known and all(known.values()) else None  # a list of names holds all there are


def known_offers(settings: ProviderSettings, told: Sequence[ModelOffer]) -> tuple[ModelOffer, ...]:
    """The offers with what the price list adds; where the server told none, what is known without it.

    That is the configured model, and of litellm those of the same vendor. Reads a file: call it in a thread.
    """
    configured = settings.model or settings.type
    if not told:
        vendor, slash, _ = settings.model.partition("/")
        beginning = f"{vendor}/" if settings.type == "litellm" and slash else ""
        known = cards(settings.type, (configured,), beginning=beginning)
        told = [ModelOffer(id=name) for name in dict.fromkeys((configured, *known)) if is_model_name(name)]
    else:
        known = cards(settings.type, [offer.id for offer in told])
    offers = (_with_card(offer, known.get(offer.id)) for offer in told)
    return tuple(_as_configured(offer, settings) if offer.id == configured else offer for offer in offers)


def _with_card(offer: ModelOffer, card: Card | None) -> ModelOffer:
    """The offer with what the price list adds; the server's own word goes before it."""
    if card is None:
        return offer
    prices = card.prices
    return replace(
        offer,
        window=offer.window or card.window,
        input_usd=prices.input if offer.input_usd is None and prices is not None else offer.input_usd,
        output_usd=prices.output if offer.output_usd is None and prices is not None else offer.output_usd,
        pictures=card.sees if offer.pictures is None else offer.pictures,
        tools=card.calls_tools if offer.tools is None else offer.tools,
        reasoning=card.reasons if offer.reasoning is None else offer.reasoning,
    )


def _as_configured(offer: ModelOffer, settings: ProviderSettings) -> ModelOffer:
    """Window and prices of the operator hold."""
    prices = settings.prices
    return replace(
        offer,
        window=settings.context_window or offer.window,
        input_usd=prices.input if prices is not None else offer.input_usd,
        output_usd=prices.output if prices is not None else offer.output_usd,
    )


# Looking for one. Pure.


def is_among(name: str, offers: Sequence[ModelOffer]) -> bool:
    """Whether a model of that name is offered; Ollama's `:latest` and litellm's vendor may be left out."""
    return found_in(name, offers) is not None


def found_in(name: str, offers: Sequence[ModelOffer]) -> ModelOffer | None:
    """The offer of that name."""
    wanted = {one.casefold().removesuffix(":latest") for one in (name, name.partition("/")[2]) if one}
    exact = next((offer for offer in offers if offer.id == name), None)
    return exact or next((offer for offer in offers if offer.id.casefold().removesuffix(":latest") in wanted), None)


def matching(words: Sequence[str], names: Sequence[str]) -> list[int]:
    """The places of the names that hold all the words."""
    wanted = [word.casefold() for word in words]
    return [place for place, name in enumerate(names) if all(word in name.casefold() for word in wanted)]
