"""Which provider and model one conversation uses now: read at the start of each model call (Z-02, Z-20)."""

from dataclasses import dataclass
from typing import Literal

from agent.providers.opening import LazyProvider
from agent.providers.registry import Registry

Chooser = Literal["default", "user", "admin", "fallback"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What was chosen and by whom; the record that is stored and that /status shows. `model` None: as configured."""

    provider: str
    model: str | None = None
    source: Chooser = "default"


class ProviderSlot:
    """One per conversation. A change takes effect at the next call; a call that runs is not touched."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._choice: Choice | None = None

    @property
    def choice(self) -> Choice:
        return self._choice or Choice(provider=self._registry.default.name)

    def current(self) -> LazyProvider:
        """The provider for the call that begins now."""
        choice = self._choice
        if choice is None or choice.provider not in self._registry:
            return self._registry.default
        if choice.model is None:
            return self._registry.get(choice.provider)
        return self._registry.with_model(choice.provider, choice.model)

    def named(self, name: str) -> LazyProvider:
        """The configured provider of that name, for a side call. Raises UnknownProvider."""
        return self._registry.get(name)

    def override(self, name: str, source: Chooser = "user") -> Choice:
        """Use the provider of that name, with its configured model. Raises UnknownProvider and changes nothing."""
        self._choice = Choice(provider=self._registry.get(name).name, source=source)
        return self._choice

    def use_model(self, model: str, source: Chooser = "user") -> Choice:
        """Keep the provider, use another of its models."""
        provider = self.current()
        chosen = None if model == self._registry.get(provider.name).settings.model else model
        self._choice = Choice(provider=provider.name, model=chosen, source=source)
        return self._choice

    def restore(self, choice: Choice) -> bool:
        """Take up a stored choice. False, and the default, when its provider is gone from the configuration (Z-70)."""
        if choice.provider not in self._registry:
            self.reset()
            return False
        name = self._registry.get(choice.provider).name
        self._choice = Choice(provider=name, model=choice.model, source=choice.source)
        return True

    def reset(self) -> Choice:
        """Back to the default."""
        self._choice = None
        return self.choice
