"""A provider that plays a list of replies and remembers what it was asked."""

import json
from collections.abc import AsyncGenerator, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import anyio
import anyio.lowlevel

from agent.core.errors import AgentError, ProviderBusy
from agent.providers.provider import (
    Chunk,
    Done,
    Prices,
    Request,
    TextDelta,
    ThinkingDelta,
    ThinkingDone,
    ToolCallDelta,
    ToolCallDone,
    ToolCallStart,
    Usage,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """One reply: its chunks, then `error` if there is one. `gate` is waited for before the first chunk.

    Without a `Done` at the end the stream was cut: ProviderBusy, as every provider has it (W-42). `stalls` means that
    it never ends by itself. `unoffered`: it calls tools that the request does not offer, which few services let pass.
    """

    chunks: tuple[Chunk, ...] = ()
    error: AgentError | None = None
    gate: anyio.Event | None = None
    stalls: bool = False
    unoffered: bool = False


def check_offered(provider: str, chunks: Iterable[Chunk], request: Request) -> None:
    """Raise AssertionError for a call of a tool that the request does not offer: a model knows no other."""
    offered = {spec.name for spec in request.tools.specs}
    for chunk in chunks:
        if isinstance(chunk, ToolCallStart) and chunk.name not in offered:
            known = ", ".join(sorted(offered)) or "no tool"
            raise AssertionError(f"{provider} calls {chunk.name!r}, which was not offered; offered: {known}")


def says(text: str, *, usage: Usage | None = None, **more: Any) -> Script:
    """A reply in words, streamed word by word."""
    return Script(chunks=(*_words(text), usage or Usage(prompt=10, output=5), Done("end_turn")), **more)


def calls(
    name: str,
    arguments: Mapping[str, Any] | None = None,
    *,
    id: str = "call_1",
    text: str = "",
    unoffered: bool = False,
) -> Script:
    """A reply that asks for one tool, after `text`."""
    return calls_all([(name, arguments or {}, id)], text=text, unoffered=unoffered)


def calls_all(
    wanted: Iterable[tuple[str, Mapping[str, Any], str]], *, text: str = "", unoffered: bool = False
) -> Script:
    """A reply that asks for several tools: (name, arguments, id)."""
    chunks: list[Chunk] = [*_words(text)]
    for index, (name, arguments, id) in enumerate(wanted):
        written = json.dumps(arguments)
        half = len(written) // 2
        chunks += [
            ToolCallStart(index, id, name),
            ToolCallDelta(index, written[:half]),
            ToolCallDelta(index, written[half:]),
            ToolCallDone(index),
        ]
    return Script(chunks=(*chunks, Usage(prompt=10, output=5), Done("tool_use")), unoffered=unoffered)


def thinks(thinking: str, signature: str, then: Script) -> Script:
    """`then` with a signed thinking block before it."""
    return Script(chunks=(ThinkingDelta(thinking), ThinkingDone(thinking, signature), *then.chunks), error=then.error)


def fails(error: AgentError, *, after: str = "") -> Script:
    """A call that fails, after `after` was streamed."""
    return Script(chunks=tuple(_words(after)), error=error)


def cut(after: str) -> Script:
    """A stream that ends without its closing event."""
    return Script(chunks=tuple(_words(after)))


def _words(text: str) -> list[TextDelta]:
    return [TextDelta(piece) for piece in text.replace(" ", " \0").split("\0") if piece]


SUMMARY = "Goal: tea\nAccomplished: hot water\nKey Decisions: no sugar\nRelevant Files: none"


@dataclass(kw_only=True)
class ScriptedProvider:
    """Plays `scripts` one a call; when they are used up it answers `otherwise`. Side calls get `aside` if `sorts`.

    Asked for lasting notes before a compaction it plays `notes`, and then has none.
    """

    scripts: list[Script] = field(default_factory=list)
    otherwise: Script = field(default_factory=lambda: says("ok"))
    name: str = "scripted"
    family: str = "scripted"
    model: str = "scripted-1"
    context_window: int = 128_000
    prices: Prices | None = None
    takes: frozenset[str] = frozenset()
    max_tokens: int | None = None
    output_ceiling: int | None = None
    requests: list[Request] = field(default_factory=list)  # of turns
    aside: Script = field(default_factory=lambda: says(f"<summary>\n{SUMMARY}\n</summary>"))
    asides: list[Request] = field(default_factory=list)
    notes: list[Script] = field(default_factory=list)
    flushes: list[Request] = field(default_factory=list)
    sorts: bool = True
    closed_early: int = 0
    is_warm: bool = False
    closed: bool = False

    async def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        if self.sorts and not request.reminder and request.max_tokens is not None:  # a question beside the turns
            self.asides.append(request)
            script = self.aside
        elif any("answer with exactly: NO_REPLY" in message.content for message in request.messages[-6:]):
            self.flushes.append(request)
            script = self.notes.pop(0) if self.notes else says("NO_REPLY")
        else:
            self.requests.append(request)
            script = self.scripts.pop(0) if self.scripts else self.otherwise
        if not script.unoffered:
            check_offered(self.name, script.chunks, request)
        ended = False
        try:
            if script.gate is not None:
                await script.gate.wait()
            for chunk in script.chunks:
                await anyio.lowlevel.checkpoint()
                yield chunk
            if script.stalls:
                await anyio.sleep_forever()
            ended = True
        finally:
            self.closed_early += not ended
        if script.error is not None:
            raise script.error
        if not script.chunks or not isinstance(script.chunks[-1], Done):
            raise ProviderBusy(f"{self.name}: the stream ended without its closing event")

    async def warm_up(self) -> None:
        self.is_warm = True

    async def aclose(self) -> None:
        self.closed = True
