"""Claude, through Anthropic's own SDK: its client, authentication and errors, our bytes in and our reader out.

The SDK's typed layer costs 9 ms for a reply of 30 tokens and grows with the history (36 ms at 2,000 messages); handing
it the finished body and reading the raw stream over its aiohttp transport costs 1.5 ms and does not grow.
"""

import copy
from collections.abc import AsyncGenerator
from typing import Self

import anthropic
import anyio
import httpx2

from agent.core.errors import AgentError
from agent.providers.anthropic_requests import Encoder
from agent.providers.anthropic_stream import Reading
from agent.providers.attachments import IMAGES, TEXTS, load, wanted
from agent.providers.endpoints import host_of, is_local
from agent.providers.failures import Answer, busy, classify, read_error, refused, retry_after
from agent.providers.opening import Surroundings
from agent.providers.prices import DEFAULT_WINDOW, Card
from agent.providers.provider import CacheTier, Chunk, Request
from agent.providers.settings import ProviderSettings
from agent.providers.sse import EventReader

PATH = "/v1/messages"
CONNECT_S = 15.0
DRAIN_S = 0.2
MOST_OUTPUT = 16_384  # tokens of one reply, unless the configuration says otherwise: the API wants a number
SMALL_OUTPUT = 8192  # the same for a model nothing is known of
LARGEST_FILE = 3_900_000  # bytes: an image may have 5 MB as base64


class AnthropicProvider:
    """One Claude model. Safe for many calls at once; they share connections."""

    family = "anthropic"

    def __init__(self, settings: ProviderSettings, card: Card, surroundings: Surroundings) -> None:
        self.name = settings.name
        self._settings = settings
        self._home = surroundings.home
        self._clock = surroundings.clock
        self._encoder = Encoder(self.family)
        self._client = _client(settings)
        self._become(settings.model, card)

    def for_model(self, model: str, card: Card) -> Self:
        """The same account with another model, on the same connections."""
        other = copy.copy(self)
        other._become(model, card)
        return other

    def _become(self, model: str, card: Card) -> None:
        settings = self._settings
        self.model = model
        self.context_window = settings.context_window or card.window or DEFAULT_WINDOW
        self.prices = settings.prices or card.prices
        self.takes = frozenset(settings.takes if settings.takes is not None else (*IMAGES, "application/pdf", *TEXTS))
        self._max_tokens = settings.max_tokens or min(card.max_output or SMALL_OUTPUT, MOST_OUTPUT)

    async def warm_up(self) -> None:
        """Nothing is left to do: opening has imported the SDK and built the client."""

    async def aclose(self) -> None:
        await self._client.close()

    async def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        deadline = self._clock.monotonic() + self._settings.stream_timeout_s
        files = await load(self._home, wanted(request.messages, self.takes), LARGEST_FILE)
        response = await self._post(self._body(request, files), deadline)
        reading = Reading(self.name, self._settings.secrets)
        events = EventReader()
        pieces = response.aiter_raw()
        try:
            while not reading.closed:
                with anyio.fail_after(max(0.0, deadline - self._clock.monotonic())):
                    piece = await anext(pieces, b"")
                for data in events.feed(piece) if piece else events.finish():
                    for chunk in reading.event(data):
                        yield chunk
                if not piece:
                    break
            if not reading.complete:
                raise busy(self.name, "the stream was cut before its end")
            for chunk in reading.end():
                yield chunk
            await _drain(pieces)
        except (AgentError, ValueError, TimeoutError, httpx2.HTTPError, OSError) as error:
            if not reading.complete and (usage := reading.usage) is not None:
                yield usage
            raise self._failure(error) from None
        finally:
            with anyio.CancelScope(shield=True):
                await response.aclose()
