"""All configured providers by name; which of them is the default. No SDK is imported here."""

from __future__ import annotations

import importlib
import logging
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from copy import copy
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Protocol, Self

import anyio
import anyio.to_thread

from agent.core.clock import Clock
from agent.core.errors import (
    AgentError,
    ContextTooLong,
    NoProviders,
    Permanent,
    ProviderBusy,
    ProviderRefused,
    RequestFiltered,
)
from agent.core.files.store import FileStore, LocalFiles
from agent.providers.failures import clean
from agent.providers.keys import KeyRing, KeyRings
from agent.providers.models import DEFAULT_WINDOW, LEAST_WINDOW, Card, KnownModels, WindowOrigin, lookup, told_exactly
from agent.providers.provider import Chunk, Provider, Request
from agent.providers.settings import ProviderSettings, missing_extra

# Lazy providers: present at once; each loads its library in a thread when it is first needed.

MODULES = {
    "anthropic": "agent.providers.anthropic.client:AnthropicProvider",
    "openai": "agent.providers.openai.client:OpenAIProvider",
    "litellm": "agent.providers.litellm.provider:LitellmProvider",
    "demo": "agent.providers.demo.provider:DemoProvider",
}

# How often a server that answered a shorter request goes away over a longer one, until that is taken for too long.
CUT_OFF = 3

log = logging.getLogger("tieline.providers")


class Opened(Provider, Protocol):
    """A provider whose library is loaded."""

    def stream(self, request: Request, key: str = "") -> AsyncGenerator[Chunk, None]:
        """Make one call with that key; "": with the configured one."""

    def for_model(self, settings: ProviderSettings, card: Card) -> Self:
        """The same account and connections with another model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderDeps:
    """Loans to every provider: the data directory, where attachments lie, the time, knowledge of models, and keys.

    `files` brings attachments there.
    """

    home: Path
    clock: Clock
    files: FileStore = field(default_factory=LocalFiles)
    models: KnownModels = field(default_factory=KnownModels)
    keys: KeyRings = field(default_factory=KeyRings)


class LazyProvider:
    """A configured provider. Until it is opened its prices are the configured ones or none, and its window is not that
    of the price list, which `look_up_window` reads earlier.

    A window that neither the configuration nor the price list names is asked for in the background; until its server
    has told, it is assumed, and learned from what the model answers and what is too long for it.
    Opening happens at the first call or in `warm_up`, whichever comes first, and never on the event loop.
    """

    def __init__(self, settings: ProviderSettings, deps: ProviderDeps, parent: LazyProvider | None = None) -> None:
        self.name = settings.name
        self.family: str = settings.type
        self.model = settings.model or settings.type  # the demo has no model to name
        self.known = deps.models.of(settings)
        self.keys: KeyRing = deps.keys.of(settings)
        self.prices = settings.prices
        self.takes = frozenset(settings.takes or ())
        self.max_tokens = settings.max_tokens
        self.output_ceiling: int | None = None
        self.settings = settings
        self._deps = deps
        self._parent = parent
        self._opened: Opened | None = None
        self._opening = anyio.Lock()
        self._calls = 0
        self._listed: int | None = None  # the window by the price list
        self._card: Card | None = None
        self.is_warm = False

    @property
    def context_window(self) -> int:
        """The window in tokens, as far as is known now."""
        if (configured := self.settings.context_window) is not None:
            return configured
        facts = self.known.facts
        stated = told_exactly(facts) or self._listed or facts.told or DEFAULT_WINDOW
        return min(stated, facts.refused) if facts.refused is not None and self._believes_refusal else stated

    @property
    def _believes_refusal(self) -> bool:
        """Where the window is known only the server's own words make it smaller; a guess is for one that is not."""
        return self.doubts_window and (self.known.says_too_long or not self.knows_window)

    @property
    def knows_window(self) -> bool:
        """Whether configuration, price list or the server itself tells the window: what fails teaches nothing."""
        return (
            self.settings.context_window is not None
            or self._listed is not None
            or told_exactly(self.known.facts) is not None
        )

    @property
    def guesses_window(self) -> bool:
        """Whether its window is smaller than anybody tells, because something larger failed without such words."""
        return self.known.facts.refused is not None and self._believes_refusal and not self.known.says_too_long

    def forget_guess(self, *, confirmed: bool = True) -> bool:
        """Believe no guess about the window any more; whether there was one. `confirmed` False: one that has shown
        itself twice stays.
        """
        if not self.guesses_window or (not confirmed and self.known.facts.refusals > 1):
            return False
        log.warning("%s: the guess about the window of %s is dropped", self.name, self.model)
        self.known.forget_refusal()
        self._deps.models.window_is(self)
        return True

    @property
    def doubts_window(self) -> bool:
        """Whether what fails may show that the window is smaller: a list is right about a vendor's own service only."""
        if self.settings.context_window is not None or self.settings.type == "demo":
            return False
        return self._listed is None or bool(self.settings.base_url)

    @property
    def asks_window(self) -> bool:
        """Whether nobody but its server can tell the window; known once the price list was read."""
        return self.doubts_window and self._listed is None and bool(self.settings.base_url)

    @property
    def window_origin(self) -> WindowOrigin | None:
        """Where the number is from; None for the demo, which has no window."""
        facts, window = self.known.facts, self.context_window
        if self.settings.type == "demo":
            return None
        if self.settings.context_window is not None:
            return WindowOrigin(source="configured")
        if facts.refused is not None and self._believes_refusal and window == facts.refused:
            return WindowOrigin(source="learned", at=facts.refused_at, answered=facts.answered, refused=facts.refused)
        if window == facts.told:
            return WindowOrigin(source="told", by=facts.told_by, at=facts.told_at)
        return WindowOrigin(source="listed" if window == self._listed else "assumed")

    @property
    def is_called(self) -> bool:
        """Whether a call goes on, on its connections."""
        return self._calls > 0

    async def look_up_window(self) -> int:
        """How much it holds, from the price list where neither settings nor library said so yet; opens nothing."""
        if self._opened is None and self.settings.context_window is None:
            self._listed = (await self.look_up_card()).window
        return self.context_window

    async def look_up_card(self) -> Card:
        """The price list's card of its model, read once; opens nothing."""
        if self._card is None:
            self._card = await anyio.to_thread.run_sync(
                lookup, self.settings.type, self.settings.model, abandon_on_cancel=True
            )
        return self._card

    async def ask_window(self) -> None:
        """Ask its server now; what it tells holds from then on."""
        await self._deps.models.ask(self)

    def suspects_length(self, error: AgentError, tokens: int) -> bool:
        """Whether a failure in which nothing speaks of length may be one of length: the window is not known, and the
        model has never answered as much.
        """
        if self.knows_window or not self.doubts_window or not may_be_too_long(error):
            return False
        return tokens > max(self.known.facts.answered, LEAST_WINDOW)

    async def finds_too_long(self, error: AgentError, tokens: int, *, proven: bool = False) -> bool:
        """Whether a request of about `tokens` failed by its length, as far as can be told; the window is smaller then.

        That is so of every ContextTooLong, and of a request that hardly fits what the server tells now. Where the
        window is not known it is also so of one larger than all that the model answered, refused in whatever words. Of
        one that the server broke over or cut off, only if that is `proven`: a short one was answered right after, and
        the same failed again; or if its server went away over such requests several times, and had answered shorter
        ones each time before.
        """
        certain = isinstance(error, ContextTooLong)
        if not self.doubts_window or not (certain or may_be_too_long(error)):
            return certain
        known, models = self.known, self._deps.models
        answer = await models.ask(self)
        told = told_exactly(known.facts) if answer.told is not None else None
        if told is not None and tokens > told * 0.9:
            return True
        if not certain and (self.knows_window or tokens <= max(known.facts.answered, LEAST_WINDOW)):
            return False
        await models.write(known)  # another process may know of a larger answer
        if not certain:
            if tokens <= known.facts.answered:
                return False
            if not (isinstance(error, ProviderRefused) or proven) and (answer.reached or known.went_away() < CUT_OFF):
                return False
        if tokens > LEAST_WINDOW:
            known.refused(tokens, said=certain)
            await models.write(known)
            log.warning("%s: %d tokens are too long for %s, as it seems", self.name, tokens, self.model)
            models.window_is(self)
        return True

    async def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        opened = self._opened or await self.open()
        owner = self._parent or self
        owner._calls += 1
        try:
            async with aclosing(self.keys.stream(partial(opened.stream, request))) as chunks:
                async for chunk in chunks:
                    yield chunk
        finally:
            owner._calls -= 1

    async def warm_up(self) -> None:
        if not self.is_warm:
            await (await self.open()).warm_up()
            self.is_warm = True

    async def aclose(self) -> None:
        """Close the connections. One made by `registry.with_model` shares its parent's and leaves them open."""
        if self._opened is not None and self._parent is None:
            await self._opened.aclose()

    async def open(self) -> Opened:
        """The provider itself. Raises ProviderRefused when its library is not installed or refuses the settings."""
        async with self._opening:
            if self._opened is None:
                parent = await self._parent.open() if self._parent else None
                # A person who stops the turn must not wait for an import: it goes on by itself and is then done.
                opened, card = await anyio.to_thread.run_sync(self._load, parent, abandon_on_cancel=True)
                self._listed = card.window
                self.prices = opened.prices
                self.takes = opened.takes
                self.max_tokens = opened.max_tokens
                self.output_ceiling = opened.output_ceiling
                self.model = opened.model
                self._opened = opened
                log.info("provider opened", extra={"provider": self.name, "model": self.model})
                if self.asks_window:
                    self._deps.models.expect(self)
                self._deps.models.window_is(self)
            return self._opened

    def _load(self, parent: Opened | None) -> tuple[Opened, Card]:
        settings = self.settings
        card = lookup(settings.type, settings.model, cache_ttl=settings.prompt_cache_ttl)
        if parent is not None:
            return parent.for_model(settings, card), card
        module, _, name = MODULES[settings.type].partition(":")
        try:
            made: Opened = getattr(importlib.import_module(module), name)(settings, card, self._deps)
        except ImportError as error:
            why = missing_extra(settings.type) or (
                f"the library of type {settings.type!r} cannot be loaded ({error}); install tieline again"
            )
            raise ProviderRefused(f"{self.name}: {why}", any_request=True) from error
        except (ValueError, TypeError, OSError, RuntimeError) as error:  # what its library thinks of the settings
            why = clean(f"{type(error).__name__}: {error}", settings.secrets)
            refusal = f"{self.name} cannot be opened ({why}); see its settings"
            raise ProviderRefused(refusal, any_request=True) from error
        return made, card


def may_be_too_long(error: AgentError) -> bool:
    """Whether the failure may be one of length, though nothing says so. Pure."""
    match error:
        case NoProviders(chosen=AgentError() as first):
            return may_be_too_long(first)
        case RequestFiltered():
            return False
        case ProviderRefused():
            return not error.any_request
        case ProviderBusy():
            return error.unanswered
        case _:
            return False


def answered_by(provider: Provider) -> int:
    """Tokens of the largest request that the model answered, as far as that is known; 0 where it is not."""
    return provider.known.facts.answered if isinstance(provider, LazyProvider) else 0


LOOK_AGAIN_S = 5.0  # whether a provider that was taken out is still called
NO_ALIASES: Mapping[str, str] = MappingProxyType({})
KEPT_MODELS = 64  # models chosen by /model that are kept at hand; they hold no connection of their own


class UnknownProvider(Permanent):
    """There is no provider of that name in the configuration."""


class Registry:
    """The pool; names are compared without regard to case. Raises ValueError with all that `mistakes_in` finds.

    `default` is the provider marked `default = true`, else the first.
    """

    def __init__(
        self,
        settings: Sequence[ProviderSettings],
        deps: ProviderDeps,
        *,
        failover: Sequence[str] = (),
        aliases: Mapping[str, str] = NO_ALIASES,
        routing: Mapping[str, str] = NO_ALIASES,
    ) -> None:
        """`failover` names those that stand in for others, `aliases` stand for a provider or for `provider/model`.

        `routing` names the provider for each tier of need.
        """
        self._deps = deps
        self._providers: dict[str, LazyProvider] = {}
        self._models: dict[tuple[str, str], LazyProvider] = {}
        self._expected: deque[LazyProvider] = deque()
        self._leaving: list[LazyProvider] = []
        self._turns: list[Registry] = []
        self._something = anyio.Event()
        self.reload(settings, failover=failover, aliases=aliases, routing=routing)

    def reload(
        self,
        settings: Sequence[ProviderSettings],
        *,
        failover: Sequence[str] = (),
        aliases: Mapping[str, str] = NO_ALIASES,
        routing: Mapping[str, str] = NO_ALIASES,
    ) -> None:
        """Another pool; who holds one that was `taken` goes on with that, everybody else from the next call on.

        A provider whose settings are the same keeps its connections. Raises ValueError and changes nothing.
        """
        mistakes = mistakes_in(settings)
        if mistakes:
            raise ValueError("; ".join(mistakes))
        before, self._providers = self._providers, {}
        for one in settings:
            known = before.get(one.name.casefold())
            if known is not None and known.settings == one:
                self._providers[one.name.casefold()] = before.pop(one.name.casefold())
            else:
                self._providers[one.name.casefold()] = LazyProvider(one, self._deps)
        self._models = {key: provider for key, provider in self._models.items() if key[0] not in before}
        marked = [one for one in settings if one.default]
        self.default = self._providers[(marked or settings)[0].name.casefold()]
        self._failover = tuple(failover)
        self._aliases = {alias.casefold(): target for alias, target in aliases.items()}
        self._routing = dict(routing)
        self._leaving += before.values()
        self._something.set()
        for provider in self.route(self.default):
            self.expect(provider)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the providers in the order of the configuration."""
        return tuple(provider.name for provider in self._providers.values())

    def __contains__(self, name: str) -> bool:
        return name.casefold() in self._providers

    def get(self, name: str) -> LazyProvider:
        """The provider of that name. Raises UnknownProvider, which lists the known ones."""
        provider = self._providers.get(name.casefold())
        if provider is None:
            raise UnknownProvider(f"unknown provider {name!r}; known: {', '.join(self.names)}")
        return provider

    def named(self, name: str) -> tuple[str, str | None]:
        """Provider and model (None: as configured) that a name or an alias stands for. Raises UnknownProvider."""
        provider, _, model = (self._aliases.get(name.casefold()) or name).partition("/")
        return self.get(provider).name, model or None

    def for_tier(self, tier: str) -> LazyProvider | None:
        """The provider for requests of that need, where one is named for it."""
        return self._providers.get(self._routing.get(tier, "").casefold())

    @property
    def aliases(self) -> Mapping[str, str]:
        """The provider and model behind each alias."""
        return dict(self._aliases)

    def with_model(self, name: str, model: str) -> LazyProvider:
        """The provider with another model: same account, same connections. Whether it exists the first call tells."""
        base = self.get(name)
        if model == base.settings.model:
            return base
        key = (base.name.casefold(), model)
        found = self._models.get(key)
        if found is None:
            # Window, prices and types were configured for the configured model; this one has its own.
            settings = replace(base.settings, model=model, context_window=None, prices=None, takes=None)
            found = LazyProvider(settings, self._deps, parent=base)
            if len(self._models) >= KEPT_MODELS:
                del self._models[next(iter(self._models))]
            self._models[key] = found
        return found

    def route(self, chosen: LazyProvider) -> tuple[LazyProvider, ...]:
        """`chosen`, and then those that stand in for it when it cannot answer: its own list, else everybody's."""
        own = chosen.settings.failover
        names = self._failover if own is None else own
        others = (self._providers.get(name.casefold()) for name in names)
        return (chosen, *(other for other in others if other is not None and other.name != chosen.name))

    @contextmanager
    def taken(self) -> Iterator[Registry]:
        """The pool as it is now, for one turn (Z-21): what a reload takes out meanwhile is closed after it."""
        pool = copy(self)
        self._turns.append(pool)
        try:
            yield pool
        finally:
            self._turns.remove(pool)
            if self._leaving:
                self._something.set()

    @property
    def leaving(self) -> tuple[LazyProvider, ...]:
        """Taken out by a reload and not closed yet: calls may still go on."""
        return tuple(self._leaving)

    def expect(self, provider: LazyProvider) -> None:
        """It will soon be called: load it in the background."""
        if not provider.is_warm and provider not in self._expected:
            self._expected.append(provider)
            self._something.set()

    async def run(self) -> None:
        """Load what is expected and close what a reload took away, until cancelled; nobody's turn waits for either."""
        while True:
            self._something = anyio.Event()
            while self._expected:
                provider = self._expected.popleft()
                await self._quietly(provider.warm_up, f"{provider.name} is not loaded ahead of time")
            idle = [provider for provider in self._leaving if not provider.is_called and not self._is_held(provider)]
            self._leaving = [provider for provider in self._leaving if provider not in idle]
            for provider in idle:
                await self._quietly(provider.aclose, f"{provider.name} is not closed properly")
            with anyio.move_on_after(LOOK_AGAIN_S if self._leaving else float("inf")):
                await self._something.wait()

    def _is_held(self, provider: LazyProvider) -> bool:
        return any(pool._providers.get(provider.name.casefold()) is provider for pool in self._turns)

    @staticmethod
    async def _quietly(step: Callable[[], Awaitable[None]], failed: str) -> None:
        """Load it ahead of time; a failure is told by the call that needs it."""
        try:
            await step()
        except AgentError as error:
            log.warning("%s: %s", failed, error)

    async def aclose(self) -> None:
        for provider in (*self._providers.values(), *self._leaving):
            await provider.aclose()


def mistakes_in(settings: Sequence[ProviderSettings]) -> tuple[str, ...]:
    """Mistakes of the pool as a whole."""
    found: list[str] = []
    if not settings:
        found.append('llm.providers is empty: add one, for a first try type = "demo"')
    names: set[str] = set()
    for one in settings:
        if one.name.casefold() in names:
            found.append(f"llm.providers: the name {one.name!r} is used twice; names must differ")
        names.add(one.name.casefold())
    marked = [one.name for one in settings if one.default]
    if len(marked) > 1:
        found.append(f"llm.providers: {', '.join(marked)} are all marked default = true; mark one")
    return tuple(found)
