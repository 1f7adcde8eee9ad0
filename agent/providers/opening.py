"""Providers that are there at once and load their library when it is first needed, in a thread (DESIGN §2)."""

from __future__ import annotations

import importlib
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, Self

import anyio
import anyio.to_thread

from agent.core.clock import Clock
from agent.core.errors import ProviderRefused
from agent.providers.failures import clean
from agent.providers.prices import DEFAULT_WINDOW, Card, lookup
from agent.providers.provider import Chunk, Provider, Request
from agent.providers.settings import ProviderSettings

MODULES = {
    "anthropic": "agent.providers.anthropic:AnthropicProvider",
    "openai": "agent.providers.openai:OpenAIProvider",
    "litellm": "agent.providers.litellm_provider:LitellmProvider",
    "demo": "agent.providers.demo:DemoProvider",
}

log = logging.getLogger("tieline.providers")


class Opened(Provider, Protocol):
    """A provider whose library is loaded."""

    def for_model(self, settings: ProviderSettings, card: Card) -> Self:
        """The same account and connections with another model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What every provider is lent: the data directory, where attachments lie, and the time."""

    home: Path
    clock: Clock


class LazyProvider:
    """A configured provider. Until it is opened its window is the configured one or the default, its prices likewise;
    `look_up_window` knows it earlier.

    Opening happens at the first call or in `warm_up`, whichever comes first, and never on the event loop.
    """

    def __init__(
        self, settings: ProviderSettings, surroundings: Surroundings, parent: LazyProvider | None = None
    ) -> None:
        self.name = settings.name
        self.family: str = settings.type
        self.model = settings.model or settings.type  # the demo has no model to name
        self.context_window = settings.context_window or DEFAULT_WINDOW
        self.prices = settings.prices
        self.takes = frozenset(settings.takes or ())
        self.max_tokens = settings.max_tokens
        self.output_ceiling: int | None = None
        self.settings = settings
        self._surroundings = surroundings
        self._parent = parent
        self._opened: Opened | None = None
        self._opening = anyio.Lock()
        self._calls = 0
        self.is_warm = False

    @property
    def is_called(self) -> bool:
        """Whether a call goes on, on its connections."""
        return self._calls > 0

    async def look_up_window(self) -> int:
        """How much it holds, from the price list where neither settings nor library said so yet; opens nothing."""
        if self._opened is None and self.settings.context_window is None:
            card = await anyio.to_thread.run_sync(
                lookup, self.settings.type, self.settings.model, abandon_on_cancel=True
            )
            self.context_window = card.window or DEFAULT_WINDOW
        return self.context_window

    async def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        opened = self._opened or await self.open()
        owner = self._parent or self
        owner._calls += 1
        try:
            async with aclosing(opened.stream(request)) as chunks:
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
                opened = await anyio.to_thread.run_sync(self._load, parent, abandon_on_cancel=True)
                self.context_window = opened.context_window
                self.prices = opened.prices
                self.takes = opened.takes
                self.max_tokens = opened.max_tokens
                self.output_ceiling = opened.output_ceiling
                self.model = opened.model
                self._opened = opened
                log.info("provider opened", extra={"provider": self.name, "model": self.model})
            return self._opened

    def _load(self, parent: Opened | None) -> Opened:
        settings = self.settings
        card = lookup(settings.type, settings.model, cache_ttl=settings.prompt_cache_ttl)
        if parent is not None:
            return parent.for_model(settings, card)
        module, _, name = MODULES[settings.type].partition(":")
        try:
            made: Opened = getattr(importlib.import_module(module), name)(settings, card, self._surroundings)
        except ImportError as error:
            raise ProviderRefused(
                f"{self.name}: the library of type {settings.type!r} cannot be loaded ({error}); install tieline again",
                any_request=True,
            ) from error
        except (ValueError, TypeError, OSError, RuntimeError) as error:  # what its library thinks of the settings
            why = clean(f"{type(error).__name__}: {error}", settings.secrets)
            refusal = f"{self.name} cannot be opened ({why}); see its settings"
            raise ProviderRefused(refusal, any_request=True) from error
        return made
