"""From the events of a Chat Completions stream to chunks. Pure: bytes of one event in, chunks out."""

import json
from dataclasses import dataclass
from typing import Any

from agent.providers.failures import classify, read_error
from agent.providers.openai_requests import REASONING_FIELDS
from agent.providers.provider import (
    Chunk,
    Done,
    StopReason,
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
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
    "content_filter": "refusal",
}


@dataclass(slots=True)
class _Call:
    index: int
    id: str


class Reading:
    """One stream's state. Feed it events until `closed`, or the body ends; then `end` gives the rest."""

    def __init__(self, provider: str, secrets: tuple[str, ...] = ()) -> None:
        self.closed = False
        self._provider = provider
        self._secrets = secrets
        self._stop: StopReason | None = None
        self._usage: Usage | None = None
        self._calls: dict[int, _Call] = {}
        self._begun: list[_Call] = []
        self._ids: set[str] = set()
        self._reply_id = ""
        self._thought: dict[str, list[str]] = {}
        self._refusal = False

    def event(self, data: bytes) -> list[Chunk]:
        """The chunks in one event. Raises ValueError for what is no JSON, an AgentError for an error event."""
        if data == b"[DONE]" or data.strip() == b"[DONE]":
            self.closed = True
            return []
        body = json.loads(data.decode("utf-8"))
        if not isinstance(body, dict):
            return [Unknown(f"event of type {type(body).__name__}")]
        return self.body(body)

    def body(self, body: dict[str, Any]) -> list[Chunk]:
        """The chunks in one event that is parsed already. Raises an AgentError for an error event."""
        if body.get("error"):
            raise classify(self._provider, read_error(body, 0), self._secrets)
        if isinstance(body.get("usage"), dict):
            self._usage = _usage(body["usage"])
        if not self._reply_id and isinstance(body.get("id"), str):
            self._reply_id = body["id"]
        choices = body.get("choices")
        if choices is None:
            return [] if "usage" in body else [Unknown(f"event with {', '.join(sorted(body)[:5])}")]
        if not isinstance(choices, list) or not choices:
            return []
        return self._choice(choices[0])

    @property
    def complete(self) -> bool:
        """Did the provider close the stream properly: with `[DONE]`, or at least with a reason for stopping? (W-42)"""
        return self.closed or self._stop is not None

    @property
    def usage(self) -> Usage | None:
        return self._usage

    def end(self) -> list[Chunk]:
        """What is left when a complete stream has ended."""
        # Pieces of one call may come between those of another: none is whole before the end.
        chunks = [*self._thinking_done(), *(ToolCallDone(call.index) for call in self._begun)]
        if self._usage is not None:
            chunks.append(self._usage)
        stop = self._stop or "end_turn"
        if self._refusal:
            stop = "refusal"
        elif self._begun and stop == "end_turn":
            stop = "tool_use"  # several servers say "stop" after a call
        return [*chunks, Done(stop)]

    def forget_reasoning(self) -> None:
        """What was thought so far is kept elsewhere."""
        self._thought = {}

    def _choice(self, choice: Any) -> list[Chunk]:
        if not isinstance(choice, dict):
            return [Unknown("a choice that is no object")]
        chunks: list[Chunk] = []
        delta = choice.get("delta")
        if isinstance(delta, dict):
            chunks += self._delta(delta)
        elif delta is not None:
            chunks.append(Unknown("a delta that is no object"))
        reason = choice.get("finish_reason")
        if isinstance(reason, str) and reason:
            if reason == "error":
                raise classify(self._provider, read_error(choice, 0), self._secrets)
            self._stop = _STOPS.get(reason, "other")
        return chunks

    def _delta(self, delta: dict[str, Any]) -> list[Chunk]:
        chunks: list[Chunk] = []
        for field in REASONING_FIELDS:
            text = delta.get(field)
            if text and isinstance(text, str):
                self._thought.setdefault(field, []).append(text)
                chunks.append(ThinkingDelta(text))
                break
        content = delta.get("content")
        if content:
            chunks += self._content(content)
        refusal = delta.get("refusal")
        if refusal and isinstance(refusal, str):
            self._refusal = True
            chunks.append(TextDelta(refusal))
        calls = delta.get("tool_calls")
        if calls:
            for call in calls if isinstance(calls, list) else [calls]:
                chunks += self._call(call)
        if delta.get("function_call"):
            chunks.append(Unknown("function_call, the form before tools"))
        return chunks

    def _content(self, content: Any) -> list[Chunk]:
        if isinstance(content, str):
            return [*self._thinking_done(), TextDelta(content)] if self._thought else [TextDelta(content)]
        chunks: list[Chunk] = []
        for part in content if isinstance(content, list) else [content]:
            text = part.get("text") if isinstance(part, dict) else None
            if isinstance(text, str):
                chunks += [*self._thinking_done(), TextDelta(text)]
            else:
                chunks.append(Unknown("a part of the content that is no text"))
        return chunks

    def _call(self, wire: Any) -> list[Chunk]:
        if not isinstance(wire, dict):
            return [Unknown("a tool call that is no object")]
        function = wire.get("function")
        function = function if isinstance(function, dict) else {}
        name, arguments, id = function.get("name"), function.get("arguments"), wire.get("id")
        index, count = wire.get("index"), len(self._begun)
        place = index if isinstance(index, int) else (count - 1 if not id and count else count)
        call = self._calls.get(place)
        chunks: list[Chunk] = []
        # A server that numbers every call 0 tells them apart by their ids.
        if call is None or (isinstance(id, str) and id and call.id != id and name):
            if not isinstance(name, str) or not name:
                return [Unknown("a piece of a tool call that was never begun")]
            chunks += self._thinking_done()
            call = self._calls[place] = _Call(count, id if isinstance(id, str) else "")
            self._begun.append(call)
            chunks.append(ToolCallStart(call.index, self._unique(call), name))
        if isinstance(arguments, dict):
            arguments = json.dumps(arguments)  # some local servers send the object itself
        if isinstance(arguments, str) and arguments:
            chunks.append(ToolCallDelta(call.index, arguments))
        return chunks

    def _unique(self, call: _Call) -> str:
        id = call.id or f"call_{self._reply_id[-24:]}_{call.index}"
        while id in self._ids:
            id += "_2"
        self._ids.add(id)
        return id

    def _thinking_done(self) -> list[Chunk]:
        # The signature names the field: that is where this reasoning belongs when it is sent back.
        thought, self._thought = self._thought, {}
        return [ThinkingDone("".join(pieces), field) for field, pieces in thought.items()]


def _usage(wire: dict[str, Any]) -> Usage:
    details = wire.get("prompt_tokens_details")
    details = details if isinstance(details, dict) else {}
    read = _count(details.get("cached_tokens")) or _count(wire.get("prompt_cache_hit_tokens"))
    written = _count(details.get("cache_creation_tokens")) or _count(wire.get("cache_creation_input_tokens"))
    return Usage(
        prompt=max(0, _count(wire.get("prompt_tokens")) - read - written),
        output=_count(wire.get("completion_tokens")),
        cache_creation=written,
        cache_read=read,
    )


def _count(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0
