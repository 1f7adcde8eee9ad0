"""The endpoint that a section of the configuration names, with its provider's account; loaded when first needed."""

import importlib
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

import anyio.to_thread

from agent.core.errors import ProviderRefused
from agent.providers.models import lookup
from agent.providers.registry import Registry


class NamesProvider(Protocol):
    """A section with `provider`, one of type "openai" in `[[llm.providers]]`; "": what it is about is off."""

    @property
    def provider(self) -> str: ...

    @property
    def model(self) -> str: ...


S = TypeVar("S", bound=NamesProvider)
E = TypeVar("E")


class NamedEndpoint(Generic[S, E]):
    """Gives the endpoint that the section names now. A subclass says where its class is, which takes the settings, the
    account, the model's card and the keys."""

    section: str
    module: str
    kind: str

    def __init__(self, providers: Callable[[], Registry], settings: Callable[[], S]) -> None:
        self._providers = providers
        self._settings = settings
        self._made: tuple[object, E] | None = None

    @property
    def settings(self) -> S:
        return self._settings()

    async def current(self) -> E:
        """Raises ProviderRefused when its provider is gone or cannot do it."""
        settings = self._settings()
        if settings.provider not in self._providers():
            raise ProviderRefused(f"[{self.section}] provider: there is no {settings.provider!r} in [[llm.providers]]")
        provider = self._providers().get(settings.provider)
        account = provider.settings
        made_for = (settings, account)
        if self._made is None or self._made[0] != made_for:
            module = await anyio.to_thread.run_sync(importlib.import_module, self.module)
            card = await anyio.to_thread.run_sync(lookup, account.type, settings.model)
            made: E = getattr(module, self.kind)(settings, account, card, provider.keys)
            self._made = (made_for, made)
        return self._made[1]
