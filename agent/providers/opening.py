"""Providers that are there at once and load their library when it is first needed, in a thread (DESIGN §2)."""

from __future__ import annotations

import importlib
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, Self

import anyio
import anyio.to_thread

from agent.core.clock import Clock
from agent.core.errors import (
    AgentError,
    ContextTooLong,
    NoProviders,
    ProviderBusy,
    ProviderRefused,
    RequestFiltered,
)
from agent.providers.failures import clean
from agent.providers.known_models import LEAST_WINDOW, KnownModels, WindowOrigin, told_exactly
from agent.providers.prices import DEFAULT_WINDOW, Card, lookup
from agent.providers.provider import Chunk, Provider, Request
from agent.providers.settings import ProviderSettings

MODULES = {
    "anthropic": "agent.providers.anthropic:AnthropicProvider",
    "openai": "agent.providers.openai:OpenAIProvider",
    "litellm": "agent.providers.litellm_provider:LitellmProvider",
    "demo": "agent.providers.demo:DemoProvider",
}

CUT_OFF = 3  # calls that a server cut off, and was not there to be asked about: perhaps what is too long ends it

log = logging.getLogger("tieline.providers")


class Opened(Provider, Protocol):
    """A provider whose library is loaded."""

    def for_model(self, settings: ProviderSettings, card: Card) -> Self:
        """The same account and connections with another model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderDeps:
    """What every provider is lent: the data directory, where attachments lie, the time, and what is known of models."""

    home: Path
    clock: Clock
    models: KnownModels = field(default_factory=KnownModels)


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
        self.is_warm = False

    @property
    def context_window(self) -> int:
        """In tokens, as far as is known now."""
        if (configured := self.settings.context_window) is not None:
            return configured
        facts = self.known.facts
        stated = told_exactly(facts) or self._listed or facts.told or DEFAULT_WINDOW
        return min(stated, facts.refused) if facts.refused is not None and self.doubts_window else stated

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
        if facts.refused is not None and window == facts.refused:
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
            card = await anyio.to_thread.run_sync(
                lookup, self.settings.type, self.settings.model, abandon_on_cancel=True
            )
            self._listed = card.window
        return self.context_window

    async def ask_window(self) -> None:
        """Ask its server now; what it tells holds from then on."""
        await self._deps.models.ask(self)

    async def finds_too_long(self, error: AgentError, tokens: int) -> bool:
        """Whether a request of about `tokens` failed by its length, as far as can be told; the window is smaller then.

        That is so of every ContextTooLong. Where the window is in doubt it is also so of a request larger than all
        that the model answered, which was refused in whatever words, or cut off before a byte came by a server that is
        there.
        """
        certain = isinstance(error, ContextTooLong)
        if not self.doubts_window or not (certain or may_be_too_long(error)):
            return certain
        known, models = self.known, self._deps.models
        answer = await models.ask(self)
        told = told_exactly(known.facts) if answer.told is not None else None
        if told is not None and tokens > told * 0.9:
            return True
        least = max(LEAST_WINDOW, (told or 0) // 2)
        if not certain and tokens <= max(known.facts.answered, least):
            return False
        await models.write(known)  # another process may know of a larger answer
        if not certain:
            if tokens <= known.facts.answered:
                return False
            if not isinstance(error, ProviderRefused) and not answer.reached:
                known.cut_off += 1
                if known.cut_off < CUT_OFF:
                    return False
        if tokens > LEAST_WINDOW:
            known.refused(tokens)
            await models.write(known)
            log.warning("%s: %d tokens are too long for %s, as it seems", self.name, tokens, self.model)
            models.window_is(self)
        return True

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
            raise ProviderRefused(
                f"{self.name}: the library of type {settings.type!r} cannot be loaded ({error}); install tieline again",
                any_request=True,
            ) from error
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
