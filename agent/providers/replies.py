"""Assembly of a provider's stream: text, thinking, tool calls, usage. No I/O and no waiting."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, assert_never

from agent.core.errors import AgentError, Permanent
from agent.core.messages import Part, RedactedThinking, SummaryPart, TextPart, Thinking, ToolUse
from agent.core.untrusted_text import whole, whole_data, without_half
from agent.providers.provider import (
    Chunk,
    Done,
    RedactedThinkingDone,
    Spared,
    StopReason,
    SummaryDone,
    TextDelta,
    TextWithdrawn,
    ThinkingDelta,
    ThinkingDone,
    ToolCallDelta,
    ToolCallDone,
    ToolCallStart,
    Unknown,
    Usage,
)

MOST_TOOL_JSON = 4 * 1024 * 1024
MOST_THINKING = 1024 * 1024
MOST_TEXT = 4 * 1024 * 1024


class ReplyTooLarge(Permanent):
    """The reply grew beyond a cap; nothing is cut silently."""


@dataclass(frozen=True, kw_only=True)
class Reply:
    """The reply of one call, parts in the order they came.

    `malformed` says of a call what is wrong with the arguments the model wrote; its `input` is empty then.
    """

    parts: tuple[Part, ...] = ()
    malformed: Mapping[str, str] = field(default_factory=dict)
    stop_reason: StopReason = "other"
    usage: Usage | None = None
    spared: frozenset[str] = frozenset()  # features the service was spared, for the first time

    @cached_property
    def text(self) -> str:
        return "".join(part.text for part in self.parts if isinstance(part, TextPart))

    @property
    def summary(self) -> SummaryPart | None:
        """The summary that the service wrote of the messages, where that was asked for."""
        return next((part for part in self.parts if isinstance(part, SummaryPart)), None)

    @property
    def thought(self) -> str:
        return "".join(part.thinking for part in self.parts if isinstance(part, Thinking))

    @cached_property
    def calls(self) -> tuple[ToolUse, ...]:
        return tuple(part for part in self.parts if isinstance(part, ToolUse))


@dataclass(slots=True)
class _Text:
    pieces: list[str]


@dataclass(slots=True)
class _Call:
    id: str
    name: str
    pieces: list[str]


def joined_text(chunks: Iterable[Chunk]) -> Iterator[Chunk]:
    """The chunks that arrived together, neighbouring texts as one: each chunk costs a way through the whole turn.

    What raises while they are read raises after the text before it.
    """
    texts: list[str] = []
    try:
        for chunk in chunks:
            if isinstance(chunk, TextDelta):
                texts.append(chunk.text)
                continue
            if texts:
                text, texts = "".join(texts), []
                yield TextDelta(text)
            yield chunk
    except (AgentError, ValueError):
        if texts:
            yield TextDelta("".join(texts))
        raise
    if texts:
        yield TextDelta("".join(texts))


class Accumulator:
    """Takes the chunks of one attempt. `family` is noted in thinking blocks as who signed them."""

    def __init__(self, family: str) -> None:
        self._family = family
        self._blocks: list[_Text | _Call | Thinking | RedactedThinking | SummaryPart] = []
        self._open_calls: dict[int, _Call] = {}
        self._half = ""  # of an emoji that a server has cut between two pieces of text
        self._sizes = {"text": 0, "thinking": 0, "tool call": 0}
        self._usage: Usage | None = None
        self._stop_reason: StopReason = "other"
        self.begun = False  # anything at all arrived
        self.shown = False  # text arrived
        self.done = False  # the provider closed the stream properly
        self.unknown: list[str] = []
        self._spared: set[str] = set()

    def take(self, chunk: Chunk) -> str:
        """Add a chunk; returns the text it adds to the reply, made whole. Raises ReplyTooLarge."""
        if isinstance(chunk, Spared):
            self._spared.add(chunk.feature)
            return ""
        self.begun = True
        if isinstance(chunk, TextDelta):
            return self._text(chunk.text)
        lone = self._lone_half() if self._half else ""
        match chunk:
            case ToolCallStart():
                self._open_calls[chunk.index] = call = _Call(whole(chunk.id), whole(chunk.name), [])
                self._blocks.append(call)
            case ToolCallDelta():
                self._grow("tool call", len(chunk.arguments), MOST_TOOL_JSON)
                if (open_call := self._open_calls.get(chunk.index)) is not None:
                    open_call.pieces.append(chunk.arguments)
                else:
                    self.unknown.append("a piece of a tool call that was never begun")
            case ToolCallDone():
                self._open_calls.pop(chunk.index, None)
            case ThinkingDelta():
                self._grow("thinking", len(chunk.text), MOST_THINKING)
            case ThinkingDone():
                if len(chunk.thinking) > MOST_THINKING:
                    self._grow("thinking", len(chunk.thinking), MOST_THINKING)
                self._blocks.append(Thinking(thinking=chunk.thinking, signature=chunk.signature, family=self._family))
            case RedactedThinkingDone():
                self._grow("thinking", len(chunk.data), MOST_THINKING)
                self._blocks.append(RedactedThinking(data=chunk.data, family=self._family))
            case SummaryDone():
                self._grow("text", len(chunk.text), MOST_TEXT)
                self._blocks.append(SummaryPart(text=whole(chunk.text), sealed=chunk.sealed))
            case TextWithdrawn():
                self._blocks = [block for block in self._blocks if not isinstance(block, _Text)]
                self.shown = False
                return ""
            case Usage():
                self._usage = chunk if self._usage is None else _highest(self._usage, chunk)
            case Done():
                self.done = True
                self._stop_reason = chunk.stop_reason
            case Unknown():
                self.unknown.append(chunk.what)
            case _:
                assert_never(chunk)
        return lone

    def reply(self) -> Reply:
        """Everything that arrived, as it can be stored and sent back."""
        parts: list[Part] = []
        malformed: dict[str, str] = {}
        for block in self._blocks:
            match block:
                case _Text():
                    parts.append(TextPart(text="".join(block.pieces)))
                case _Call():
                    arguments, mistake = parsed_arguments("".join(block.pieces))
                    if mistake:
                        malformed[block.id] = mistake
                    parts.append(ToolUse(id=block.id, name=block.name, input=arguments))
                case _:
                    parts.append(block)
        return Reply(
            parts=tuple(parts),
            malformed=malformed,
            stop_reason=self._stop_reason,
            usage=self._usage,
            spared=frozenset(self._spared),
        )

    def _text(self, text: str) -> str:
        if not text:
            return ""
        self._grow("text", len(text), MOST_TEXT)
        text, self._half = without_half(self._half + text)
        return self._add(whole(text))

    def _lone_half(self) -> str:
        """The replacement of half an emoji that no text has completed."""
        half, self._half = self._half, ""
        return self._add(whole(half))

    def _add(self, text: str) -> str:
        if not text:
            return ""
        self.shown = True
        last = self._blocks[-1] if self._blocks else None
        if isinstance(last, _Text):
            last.pieces.append(text)
        else:
            self._blocks.append(_Text([text]))
        return text

    def _grow(self, what: str, by: int, most: int) -> None:
        self._sizes[what] += by
        if self._sizes[what] > most:
            raise ReplyTooLarge(f"the {what} of one reply grew beyond {most} characters")


def parsed_arguments(written: str) -> tuple[dict[str, Any], str]:
    """The arguments a model wrote, their texts made whole, and ""; or {} and what is wrong with them."""
    if not written.strip():
        return {}, ""
    try:
        arguments = json.loads(whole(written))
        if "\\u" in written:  # as an escape JSON may name what no text can hold
            arguments = whole_data(arguments)
        if isinstance(arguments, str):  # some servers encode twice
            arguments = whole_data(json.loads(arguments))
    except (ValueError, RecursionError) as error:
        return {}, f"the arguments are not valid JSON ({error}); send the call again with correct JSON"
    if arguments is None:  # what some servers write for none
        return {}, ""
    if not isinstance(arguments, dict):
        return {}, f"the arguments must be a JSON object, not {type(arguments).__name__}"
    return arguments, ""


def _highest(one: Usage, other: Usage) -> Usage:
    """Providers report running totals, some in two reports: the higher of each number is the total."""
    return Usage(
        prompt=max(one.prompt, other.prompt),
        output=max(one.output, other.output),
        cache_creation=max(one.cache_creation, other.cache_creation),
        cache_read=max(one.cache_read, other.cache_read),
    )
