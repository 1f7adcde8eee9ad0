"""All configured providers by name; which of them is the default. No SDK is imported here (SPEC §6.1)."""

import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from types import MappingProxyType

import anyio

from agent.core.errors import AgentError, Permanent
from agent.providers.opening import LazyProvider, ProviderDeps
from agent.providers.settings import ProviderSettings

LOOK_AGAIN_S = 5.0  # whether a provider that was taken out is still called
NO_ALIASES: Mapping[str, str] = MappingProxyType({})
KEPT_MODELS = 64  # models chosen by /model that are kept at hand; they hold no connection of their own

log = logging.getLogger("tieline.providers")


class UnknownProvider(Permanent):
    """There is no provider of that name in the configuration."""


class Registry:
    """The pool; names are compared without regard to case. Raises ValueError with all that `mistakes_in` finds."""

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
        self._default = self._providers[(marked or settings)[0].name.casefold()]
        self._failover = tuple(failover)
        self._aliases = {alias.casefold(): target for alias, target in aliases.items()}
        self._routing = dict(routing)
        self._leaving += before.values()
        self._something.set()
        for provider in self.route(self._default):
            self.expect(provider)

    @property
    def default(self) -> LazyProvider:
        """The one marked `default = true`, else the first."""
        return self._default

    @property
    def names(self) -> tuple[str, ...]:
        """As configured, in that order."""
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
        """Who takes requests of that need, where somebody is named for it."""
        return self._providers.get(self._routing.get(tier, "").casefold())

    @property
    def aliases(self) -> Mapping[str, str]:
        """What each stands for."""
        return dict(self._aliases)

    def with_model(self, name: str, model: str) -> LazyProvider:
        """That provider with another model: same account, same connections. Whether it exists the first call tells."""
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
    def taken(self) -> Iterator["Registry"]:
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
        """Whoever is in need of it is told by the call itself."""
        try:
            await step()
        except AgentError as error:
            log.warning("%s: %s", failed, error)

    async def aclose(self) -> None:
        for provider in (*self._providers.values(), *self._leaving):
            await provider.aclose()


def mistakes_in(settings: Sequence[ProviderSettings]) -> tuple[str, ...]:
    """What is wrong with the pool as a whole."""
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
