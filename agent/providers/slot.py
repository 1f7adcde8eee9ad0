"""Which provider and model one conversation uses now: read at the start of each model call (Z-02, Z-20)."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Literal

from agent.providers.opening import LazyProvider
from agent.providers.provider import Provider
from agent.providers.registry import Registry
from agent.providers.settings import is_model_name

Chooser = Literal["default", "user", "admin"]
Scope = Literal["channel", "group", "account"]  # for what it was chosen: this chat, the place it is part of, all chats


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What was chosen, by whom and for what; the record that is stored and shown. `model` None: as configured."""

    provider: str
    model: str | None = None
    source: Chooser = "default"
    scope: Scope = "channel"


@dataclass(frozen=True, slots=True)
class Need:
    """How heavy a request is: the tier of its routing hint, and its scaled tokens."""

    tier: str = ""
    tokens: int = 0


NO_NEED = Need()
FITS = 0.5  # of the window of a provider that takes a request by need: the answer and what is added need room too


class ProviderSlot:
    """One per conversation. A choice takes effect at the next call; a call that runs is not touched.

    Within a turn the pool is that of its beginning (Z-21); what was added meanwhile may be chosen all the same.
    """

    def __init__(self, registry: Registry) -> None:
        self._registry = self._pool = registry
        self._choice: Choice | None = None

    @property
    def choice(self) -> Choice:
        if self._choice is not None and self._choice.provider in self._registry:
            return self._choice
        return Choice(provider=self._registry.default.name)

    def current(self) -> LazyProvider:
        """The provider for the call that begins now."""
        choice = self._choice
        pool = self._pool_with(choice.provider) if choice is not None else self._pool
        if choice is None or choice.provider not in pool:
            return self._pool.default
        if choice.model is None:
            return pool.get(choice.provider)
        return pool.with_model(choice.provider, choice.model)

    def named(self, name: str) -> LazyProvider:
        """The configured provider of that name, whatever is chosen here. Raises UnknownProvider."""
        return self._pool_with(name).get(name)

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Keep the pool as it is now until the turn is over, whatever a reload makes of it."""
        with self._registry.taken() as self._pool:
            try:
                yield
            finally:
                self._pool = self._registry

    def _pool_with(self, name: str) -> Registry:
        return self._pool if name in self._pool else self._registry

    def route(self, need: Need = NO_NEED) -> Sequence[Provider]:
        """That one, and then those that may stand in for it.

        Where nobody has chosen, the one that `[llm.routing]` names for that need goes first, if the request fits it.
        """
        route = self._pool.route(self.current())
        routed = self._pool.for_tier(need.tier) if self.choice.source == "default" else None
        if routed is None or need.tokens > routed.context_window * FITS:
            return route
        return (routed, *(one for one in route if one.name != routed.name))

    def override(self, name: str, source: Chooser = "user", model: str | None = None) -> Choice:
        """Use that provider, with its configured model or another. Raises UnknownProvider and changes nothing."""
        chosen = self._registry.get(name)
        other = model if model != chosen.settings.model else None
        self._choice = Choice(provider=chosen.name, model=other, source=source)
        self._registry.expect(self.current())
        return self._choice

    def use_model(self, model: str, source: Chooser = "user") -> Choice:
        """Keep the provider, use another of its models."""
        provider = self.current()
        chosen = None if model == self._registry.get(provider.name).settings.model else model
        self._choice = Choice(provider=provider.name, model=chosen, source=source)
        self._registry.expect(self.current())
        return self._choice

    def restore(self, choice: Choice) -> bool:
        """Take up a stored choice. False, and the default, when its provider is gone from the configuration (Z-70)."""
        if choice.provider not in self._registry:
            self.reset()
            return False
        model = choice.model if is_model_name(choice.model or "") else None
        self._choice = replace(choice, provider=self._registry.get(choice.provider).name, model=model)
        self._registry.expect(self.current())
        return True

    def reset(self) -> Choice:
        """Back to the default."""
        self._choice = None
        return self.choice
