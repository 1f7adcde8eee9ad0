"""From the events of a Messages stream to chunks. Pure: bytes of one event in, chunks out."""

import json
from dataclasses import dataclass, field
from typing import Any

from agent.providers.failures import classify, read_error
from agent.providers.provider import (
    Chunk,
    Done,
    RedactedThinkingDone,
    StopReason,
    SummaryDone,
    TextDelta,
    ThinkingDelta,
    ThinkingDone,
    ToolCallDelta,
    ToolCallDone,
    ToolCallStart,
    Unknown,
    Usage,
)

_STOPS: dict[str, StopReason] = {
    "end_turn": "end_turn",
    "stop_sequence": "end_turn",
    "tool_use": "tool_use",
    "max_tokens": "max_tokens",
    "model_context_window_exceeded": "max_tokens",
    "refusal": "refusal",
    "compaction": "end_turn",
}


@dataclass(slots=True)
class _Block:
    kind: str
    thinking: list[str] = field(default_factory=list)
    signature: list[str] = field(default_factory=list)
    call: int = -1
    started_with: Any = None
    whole: dict[str, Any] = field(default_factory=dict)  # of a summary: it must be sent back with all that it has


class Reading:
    """One stream's state. Feed it events until `closed`; then `end` gives the rest."""

    def __init__(self, provider: str, secrets: tuple[str, ...] = ()) -> None:
        self.closed = False
        self._provider = provider
        self._secrets = secrets
        self._blocks: dict[Any, _Block] = {}
        self._calls = 0
        self._counts: dict[str, int] = {}
        self._stop: StopReason = "other"

    def event(self, data: bytes) -> list[Chunk]:
        """The chunks in one event. Raises ValueError for what is no JSON, an AgentError for an error event."""
        body = json.loads(data.decode("utf-8"))
        if not isinstance(body, dict):
            return [Unknown(f"event of type {type(body).__name__}")]
        match body.get("type"):
            case "content_block_delta":
                return self._delta(body)
            case "content_block_start":
                return self._start(body)
            case "content_block_stop":
                return self._finish(body)
            case "message_start":
                self._count(_dict(_dict(body.get("message")).get("usage")))
                return []
            case "message_delta":
                self._count(_dict(body.get("usage")))
                reason = _dict(body.get("delta")).get("stop_reason")
                if isinstance(reason, str):
                    self._stop = _STOPS.get(reason, "other")
                return []
            case "message_stop":
                self.closed = True
                return []
            case "ping":
                return []
            case "error":
                raise classify(self._provider, read_error(body, 0), self._secrets)
            case kind:
                return [Unknown(f"event {kind!r}")]

    @property
    def complete(self) -> bool:
        """Did the provider close the stream properly? (W-42)"""
        return self.closed

    @property
    def usage(self) -> Usage | None:
        """The provider's count so far; None if it has said nothing."""
        if not self._counts:
            return None
        return Usage(
            prompt=self._counts.get("input_tokens", 0),
            output=self._counts.get("output_tokens", 0),
            cache_creation=self._counts.get("cache_creation_input_tokens", 0),
            cache_read=self._counts.get("cache_read_input_tokens", 0),
        )

    def end(self) -> list[Chunk]:
        """The rest when a complete stream has ended."""
        usage = self.usage
        return [*([usage] if usage else []), Done(self._stop)]

    def _count(self, usage: dict[str, Any]) -> None:
        # The counts are totals: a later one replaces an earlier one, never adds to it.
        for key, value in usage.items():
            if key.endswith("_tokens") and isinstance(value, int) and not isinstance(value, bool) and value >= 0:
                self._counts[key] = value

    def _start(self, body: dict[str, Any]) -> list[Chunk]:
        wire = _dict(body.get("content_block"))
        kind = wire.get("type")
        block = self._blocks[_key(body)] = _Block(kind if isinstance(kind, str) else "")
        match kind:
            case "text":
                return [TextDelta(wire["text"])] if _text(wire, "text") else []
            case "thinking":
                block.thinking.append(_text(wire, "thinking"))
                block.signature.append(_text(wire, "signature"))
                return [ThinkingDelta(block.thinking[0])] if block.thinking[0] else []
            case "compaction":
                block.whole = wire
                return []
            case "redacted_thinking":
                return [RedactedThinkingDone(_text(wire, "data"))]
            case "tool_use":
                block.call = self._calls
                self._calls += 1
                block.started_with = wire.get("input")
                id, name = _text(wire, "id"), _text(wire, "name")
                return [ToolCallStart(block.call, id or f"call_{block.call}", name)]
            case _:
                return [Unknown(f"content block {kind!r}")]

    def _delta(self, body: dict[str, Any]) -> list[Chunk]:
        delta = _dict(body.get("delta"))
        block = self._blocks.get(_key(body))
        match delta.get("type"):
            case "text_delta":
                text = _text(delta, "text")
                return [TextDelta(text)] if text else []
            case "thinking_delta" if block is not None:
                text = _text(delta, "thinking")
                block.thinking.append(text)
                return [ThinkingDelta(text)] if text else []
            case "signature_delta" if block is not None:
                block.signature.append(_text(delta, "signature"))
                return []
            case "compaction_delta" if block is not None:
                block.whole |= {key: value for key, value in delta.items() if key != "type" and value is not None}
                return []
            case "input_json_delta" if block is not None and block.call >= 0:
                text = _text(delta, "partial_json")
                if text:
                    block.started_with = None
                return [ToolCallDelta(block.call, text)] if text else []
            case kind:
                return [Unknown(f"delta {kind!r}")]

    def _finish(self, body: dict[str, Any]) -> list[Chunk]:
        block = self._blocks.pop(_key(body), None)
        match block:
            case _Block(kind="thinking"):
                return [ThinkingDone("".join(block.thinking), "".join(block.signature))]
            case _Block(kind="compaction"):
                text = _text(block.whole, "content")
                return [SummaryDone(text, json.dumps(block.whole))] if text else []
            case _Block(kind="tool_use"):
                if isinstance(block.started_with, dict) and block.started_with:  # given whole instead of in pieces
                    return [ToolCallDelta(block.call, json.dumps(block.started_with)), ToolCallDone(block.call)]
                return [ToolCallDone(block.call)]
            case _:
                return []


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(wire: dict[str, Any], key: str) -> str:
    value = wire.get(key)
    return value if isinstance(value, str) else ""


def _key(body: dict[str, Any]) -> int:
    index = body.get("index")
    return index if isinstance(index, int) else -1
