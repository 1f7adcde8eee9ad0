"""A provider slot over providers that are at hand."""

from agent.providers.provider import Provider
from agent.providers.registry import UnknownProvider
from agent.providers.slot import Choice, Chooser


class FakeSlot:
    """The first provider is the default."""

    def __init__(self, *providers: Provider) -> None:
        self._providers = {provider.name: provider for provider in providers}
        self._default = providers[0].name
        self._choice: Choice | None = None

    @property
    def choice(self) -> Choice:
        return self._choice or Choice(provider=self._default)

    def current(self) -> Provider:
        return self._providers[self.choice.provider]

    def named(self, name: str) -> Provider:
        if name not in self._providers:
            raise UnknownProvider(f"unknown provider {name!r}; known: {', '.join(self._providers)}")
        return self._providers[name]

    def override(self, name: str, source: Chooser = "user") -> Choice:
        if name not in self._providers:
            raise UnknownProvider(f"unknown provider {name!r}; known: {', '.join(self._providers)}")
        self._choice = Choice(provider=name, source=source)
        return self._choice

    def use_model(self, model: str, source: Chooser = "user") -> Choice:
        self._choice = Choice(provider=self.choice.provider, model=model, source=source)
        return self._choice

    def reset(self) -> Choice:
        self._choice = None
        return self.choice
