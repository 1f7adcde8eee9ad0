"""A provider slot over providers that are at hand."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

from agent.providers.provider import Provider
from agent.providers.registry import UnknownProvider
from agent.providers.routing import NO_NEED, Choice, Chooser, Need


class FakeSlot:
    """The first provider is the default; `failover` names those that stand in for any other."""

    def __init__(self, *providers: Provider, failover: Sequence[str] = ()) -> None:
        self.providers = {provider.name: provider for provider in providers}
        self._default = providers[0].name
        self._choice: Choice | None = None
        self.failover = failover

    @property
    def choice(self) -> Choice:
        return self._choice or Choice(provider=self._default)

    def current(self) -> Provider:
        return self.providers[self.choice.provider]

    def route(self, need: Need = NO_NEED) -> Sequence[Provider]:
        chosen = self.current()
        return (chosen, *(self.providers[name] for name in self.failover if name != chosen.name))

    def named(self, name: str) -> Provider:
        if name not in self.providers:
            raise UnknownProvider(f"unknown provider {name!r}; known: {', '.join(self.providers)}")
        return self.providers[name]

    def override(self, name: str, source: Chooser = "user", model: str | None = None) -> Choice:
        self.named(name)
        self._choice = Choice(provider=name, model=model, source=source)
        return self._choice

    def use_model(self, model: str, source: Chooser = "user") -> Choice:
        self._choice = Choice(provider=self.choice.provider, model=model, source=source)
        return self._choice

    def restore(self, choice: Choice) -> bool:
        if choice.provider not in self.providers:
            return False
        self._choice = choice
        return True

    def turn(self) -> AbstractContextManager[None]:
        return nullcontext()

    def reset(self) -> Choice:
        self._choice = None
        return self.choice
