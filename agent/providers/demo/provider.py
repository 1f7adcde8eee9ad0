"""The demo: answers by rule, word by word, through the real loop and tools; used when nothing is configured."""

import copy
import json
import re
from collections.abc import AsyncGenerator
from dataclasses import replace
from typing import Self

from agent.core.messages import Message
from agent.core.phrases import as_typed
from agent.providers.demo.replies import Call, Conversation, Words, reply_to
from agent.providers.models import DEFAULT_WINDOW, Card
from agent.providers.provider import (
    Chunk,
    Done,
    Prices,
    Request,
    TextDelta,
    ToolCallDelta,
    ToolCallDone,
    ToolCallStart,
    Usage,
)
from agent.providers.registry import ProviderDeps
from agent.providers.settings import ProviderSettings

MODEL = "demo"
FREE = Prices(input=0.0, output=0.0)

_WORD = re.compile(r"\s*\S+|\s+$")


def _size(message: Message) -> int:
    """Characters that a model would read of it."""
    calls = sum(len(json.dumps(dict(use.input))) for use in message.tool_uses)
    return len(message.content) + calls + sum(len(result.content) for result in message.tool_results)


class DemoProvider:
    """The same question gives the same answer. Reads no files and costs nothing."""

    family = "demo"
    max_tokens: int | None = None
    output_ceiling: int | None = None
    is_warm = True

    def __init__(self, settings: ProviderSettings, card: Card, deps: ProviderDeps) -> None:
        self.name = settings.name
        self.model = settings.model or MODEL
        self.context_window = settings.context_window or DEFAULT_WINDOW
        self.prices = settings.prices or FREE
        self.takes: frozenset[str] = frozenset()
        self._clock = deps.clock

    def for_model(self, settings: ProviderSettings, card: Card) -> Self:
        """There is only one; it goes by any name."""
        other = copy.copy(self)
        other.model = settings.model
        return other

    async def warm_up(self) -> None:
        """Nothing to load."""

    async def aclose(self) -> None:
        """Nothing to close."""

    async def stream(self, request: Request, key: str = "") -> AsyncGenerator[Chunk, None]:
        asked = Conversation(
            messages=request.messages, tools={spec.name: spec for spec in request.tools.specs}, model=self.model
        )
        reply = reply_to(asked)
        reply = replace(reply, text=as_typed(reply.text, to_unpaired=True))
        spent = len(request.system.stable) + len(request.system.volatile) + len(request.reminder)
        spent += sum(map(_size, request.messages)) + sum(
            len(spec.name) + len(spec.description) + len(json.dumps(dict(spec.schema))) for spec in request.tools.specs
        )
        match reply:
            case Words():
                for word in _WORD.findall(reply.text):
                    await self._clock.sleep(reply.pace_s)
                    yield TextDelta(word)
                yield Usage(prompt=spent // 4 + 1, output=len(reply.text) // 4 + 1)
                yield Done("end_turn")
            case Call():
                for word in _WORD.findall(reply.text):
                    await self._clock.sleep(reply.pace_s)
                    yield TextDelta(word)
                arguments = json.dumps(reply.arguments)
                yield ToolCallStart(0, f"demo_{len(request.messages)}", reply.tool)
                yield ToolCallDelta(0, arguments[: len(arguments) // 2])
                yield ToolCallDelta(0, arguments[len(arguments) // 2 :])
                yield ToolCallDone(0)
                yield Usage(prompt=spent // 4 + 1, output=len(arguments) // 4 + 1)
                yield Done("tool_use")
