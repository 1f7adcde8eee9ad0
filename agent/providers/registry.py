"""All configured providers by name; which of them is the default. No SDK is imported here (SPEC §6.1)."""

from collections.abc import Sequence
from dataclasses import replace

from agent.core.errors import Permanent
from agent.providers.opening import LazyProvider, Surroundings
from agent.providers.settings import ProviderSettings

KEPT_MODELS = 64  # models chosen by /model that are kept at hand; they hold no connection of their own


class UnknownProvider(Permanent):
    """There is no provider of that name in the configuration."""


class Registry:
    """The pool; names are compared without regard to case. Raises ValueError with all that `mistakes_in` finds."""

    def __init__(self, settings: Sequence[ProviderSettings], surroundings: Surroundings) -> None:
        mistakes = mistakes_in(settings)
        if mistakes:
            raise ValueError("; ".join(mistakes))
        self._surroundings = surroundings
        self._providers = {one.name.casefold(): LazyProvider(one, surroundings) for one in settings}
        marked = [one for one in settings if one.default]
        self._default = self._providers[(marked or settings)[0].name.casefold()]
        self._models: dict[tuple[str, str], LazyProvider] = {}

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
            found = LazyProvider(settings, self._surroundings, parent=base)
            if len(self._models) >= KEPT_MODELS:
                del self._models[next(iter(self._models))]
            self._models[key] = found
        return found

    async def warm_up(self) -> None:
        """Load the default provider's library; for the background, right after the start."""
        await self._default.warm_up()

    async def aclose(self) -> None:
        for provider in self._providers.values():
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
