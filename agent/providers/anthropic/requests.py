"""A request in the form of the Messages API, as bytes: each message is encoded once in its life. No I/O."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, assert_never
from weakref import WeakKeyDictionary

from agent.core.messages import (
    CompactionPart,
    FilePart,
    Message,
    Part,
    RedactedThinking,
    SummaryPart,
    TextPart,
    Thinking,
    ToolResult,
    ToolUse,
    flatten,
)
from agent.providers.encoding import (
    IMAGES,
    NO_IDS,
    NOTHING,
    Bytes,
    EncodedPrefixCache,
    Ids,
    SchemaBytes,
    as_base64,
    as_text,
    dumps,
    first_holding,
    ids_of,
    laid_out,
    loop_start,
    named,
    reminder_target,
    unique,
    wire_name,
)
from agent.providers.openai.requests import Alternation
from agent.providers.provider import THOUGHT, CacheTier, Reasoning, Request, ToolSchema
from agent.providers.settings import MIN_THINKING

# Five minutes are the default; some servers of the same form know no other.
MARKERS: dict[CacheTier, dict[str, Any]] = {
    "none": {},
    "5m": {"cache_control": {"type": "ephemeral"}},
    "1h": {"cache_control": {"type": "ephemeral", "ttl": "1h"}},
}

ANSWER_ROOM = 1024  # tokens left for the answer where the budget for thinking takes the whole limit

Thought = int | Literal["off", "adaptive"]
Block = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Encoded:
    """A message on the wire; b"" if nothing of it is sent."""

    body: bytes
    ids: Ids | None


class Encoder:
    """Builds request bodies; keeps what it encoded for as long as the message lives."""

    def __init__(self, family: str, provider: str = "") -> None:
        """`provider` is its configured name: what that one has sealed goes back to it as it came."""
        self._family = family
        self._provider = provider
        self._gives_back = True
        self._kept: WeakKeyDictionary[Message, Encoded] = WeakKeyDictionary()
        self._schemas = SchemaBytes(_tools)
        self._sealed = EncodedPrefixCache(self._for_good)
        self._turns = Alternation(results_apart=False)

    def body(
        self,
        request: Request,
        *,
        model: str,
        max_tokens: int,
        thinking: Thought = "off",
        effort: str = "",
        temperature: float | None = None,
        tier: CacheTier = "none",
        files: Bytes = NOTHING,
        in_turn: bool = False,
    ) -> bytes:
        """The whole body of a streamed call. `in_turn`: no two messages of one role stand in a row.

        What may be cached is marked at up to three of the four places allowed: the stable part of the system prompt
        (with the tools before it), the history before the newest words, whose reminder changes from turn to turn, and
        the end, for the next call of a tool loop.
        """
        if in_turn:
            request = replace(request, messages=self._turns.of(request.messages))
        limit = request.max_tokens or max_tokens
        thought = thinking_for(request, thinking, limit, self._family)
        if not request.max_tokens:
            limit = longest(limit, thought)
        head: Block = {"model": model, "max_tokens": limit, "stream": True}
        if request.compact:
            head["compaction"] = {"type": "summarize"}
            thought = "off"
        if thought == "adaptive":
            head["thinking"] = {"type": "adaptive"}
            if effort:
                head["output_config"] = {"effort": effort}
        elif isinstance(thought, int):
            head["thinking"] = {"type": "enabled", "budget_tokens": thought}
        elif temperature is not None:
            head["temperature"] = temperature  # thinking admits none but its own
        marker = MARKERS[tier]
        system = _system(request, marker)
        pieces = [dumps(head)[:-1]]
        if request.tools.specs:
            pieces.append(b'"tools":' + self._schemas.of(request.tools))
        if system:
            pieces.append(b'"system":' + dumps(system))
        return laid_out(pieces, self._messages(request, marker, files))

    def gives_back(self, messages: Sequence[Message]) -> bool:
        """Whether the first of them, as the oldest, goes back as the service has sealed it."""
        return bool(messages) and self._gives_back and sealed_block(messages[0], self._provider) is not None

    def write_summaries_out(self) -> None:
        """From now on they are text: the service does not take back what it has sealed."""
        self._gives_back = False
        self._kept.clear()
        self._sealed = EncodedPrefixCache(self._for_good)

    def _messages(self, request: Request, marker: Block, files: Bytes) -> list[bytes]:
        # The last message before the newest words bears a marker: what stands before it is sealed.
        end = first_holding(request.messages, files, max(0, reminder_target(request.messages) - 2))
        sealed = self._sealed.of(request.owner, request.messages, end) if request.owner is not None else None
        if sealed and sealed.has_calls and not request.tools.specs:
            sealed = None
        messages = request.messages[end:] if sealed else request.messages
        wire = [self.encoded(message) for message in messages]
        if sealed and any(id in sealed.uses for encoded in wire if encoded.ids for id in encoded.ids.uses):
            return self._messages(replace(request, owner=None), marker, files)
        flat = not request.tools.specs and any(encoded.ids for encoded in wire)
        if flat:  # calls without tools defined are refused: they are told as text instead
            wire = [
                Encoded(self._encode(message, None), None) if encoded.ids else encoded
                for message, encoded in zip(messages, wire, strict=True)
            ]
        renamed = unique([encoded.ids for encoded in wire])
        bodies = [encoded.body for encoded in wire]
        carries = reminder_target(messages)
        marked = _marked(bodies, carries) if marker else frozenset()
        for position, message in enumerate(messages):
            carried = request.reminder if position == carries else ""
            is_marked = position in marked
            if carried or is_marked or position in renamed or (files and _holds(message, files)):
                ids = None if flat else renamed.get(position, wire[position].ids or NO_IDS)
                bodies[position] = self._encode(message, ids, carried, files, marker if is_marked else {})
        return [body for body in (*(sealed.pieces if sealed else ()), *bodies) if body]

    def _for_good(self, message: Message) -> tuple[bytes, Ids | None]:
        encoded = self.encoded(message)
        del self._kept[message]  # it is kept once, joined with its neighbours
        return encoded.body, encoded.ids

    def encoded(self, message: Message) -> Encoded:
        """The bytes of one message, made once for as long as the message lives."""
        kept = self._kept.get(message)
        if kept is None:
            ids = ids_of(message)
            kept = self._kept[message] = Encoded(self._encode(message, ids or NO_IDS), ids)
        return kept

    def _encode(
        self, message: Message, ids: Ids | None, reminder: str = "", files: Bytes = NOTHING, marker: Block | None = None
    ) -> bytes:
        """`ids` None: tool calls and results as text. `marker` goes to the last block that may bear it."""
        if self._gives_back and (block := sealed_block(message, self._provider)) is not None:
            return dumps({"role": "assistant", "content": [{**block, **(marker or {})}]})
        if message.role == "assistant":
            blocks = _assistant(message.parts, self._family, ids)
            if not blocks:
                return b""
        else:
            blocks = _user(message.parts, ids, reminder, files) or [{"type": "text", "text": "(no text)"}]
        if marker:
            for block in reversed(blocks):
                if block["type"] not in ("thinking", "redacted_thinking"):
                    block.update(marker)
                    break
        role = "assistant" if message.role == "assistant" else "user"
        return dumps({"role": role, "content": blocks})


def sealed_block(message: Message, provider: str) -> Block | None:
    """The summary that the provider has made of what stood before, as it wants it back; None where it has made none."""
    for part in message.parts:
        if isinstance(part, SummaryPart) and part.sealed and part.sealed_by == provider:
            block: Block = json.loads(part.sealed)
            return block
    return None


def longest(limit: int, thinking: Thought) -> int:
    """Tokens of an answer with its thinking: it comes on top of what is thought, where that has a budget."""
    return max(limit, thinking + ANSWER_ROOM) if isinstance(thinking, int) else limit


def budget_for(level: Reasoning, limit: int | None, ceiling: int | None) -> Thought:
    """The budget of a level of thinking, less where an answer of at most `limit` tokens would have no room.

    `ceiling` is the most that the model writes, None: unknown.
    """
    most = limit or ceiling
    budget = THOUGHT[level] if most is None else min(THOUGHT[level], most - ANSWER_ROOM)
    return budget if budget >= MIN_THINKING else "off"


def thinking_for(request: Request, thinking: Thought, limit: int, family: str) -> Thought:
    """No thinking where the API would refuse it: too little room, or a tool loop begun without it."""
    if isinstance(thinking, int):
        if request.max_tokens and limit <= thinking:
            return "off"
        start = loop_start(request.messages)
        first = next((message for message in request.messages[start:] if message.role == "assistant"), None)
        if first is not None and not (first.parts and _is_ours(first.parts[0], family)):
            return "off"
    return thinking


def _tools(schema: ToolSchema) -> bytes:
    return dumps(
        [
            {"name": spec.name, "description": spec.description, "input_schema": {"type": "object", **spec.schema}}
            for spec in schema.specs
        ]
    )


def _marked(bodies: Sequence[bytes], carries: int) -> frozenset[int]:
    """The end, and what precedes the newest words; never a message of which nothing is sent."""
    sent = [position for position, body in enumerate(bodies) if body]
    before = [position for position in sent if position < carries]
    return frozenset([*sent[-1:], *before[-1:]])


def _system(request: Request, marker: Block) -> list[Block]:
    stable, volatile = request.system.stable, request.system.volatile
    blocks: list[Block] = []
    if stable.strip():
        blocks.append({"type": "text", "text": stable, **marker})
    if volatile.strip():
        blocks.append({"type": "text", "text": volatile})
    return blocks


def _holds(message: Message, files: Bytes) -> bool:
    return any(isinstance(part, FilePart) and part in files for part in message.parts)


def _is_ours(part: Part, family: str) -> bool:
    return isinstance(part, Thinking | RedactedThinking) and part.family == family


def _assistant(parts: Sequence[Part], family: str, ids: Ids | None) -> list[Block]:
    blocks: list[Block] = []
    use_ids = iter(ids.uses if ids else ())
    for part in parts:
        match part:
            case TextPart() | SummaryPart():
                _add_text(blocks, part.text)
            case ToolUse() if ids is None:
                _add_text(blocks, flatten((part,)))
            case ToolUse():
                blocks.append(
                    {"type": "tool_use", "id": next(use_ids), "name": wire_name(part.name), "input": part.input}
                )
            case Thinking() if part.family == family:
                blocks.append({"type": "thinking", "thinking": part.thinking, "signature": part.signature})
            case RedactedThinking() if part.family == family:
                blocks.append({"type": "redacted_thinking", "data": part.data})
            case Thinking() | RedactedThinking():
                pass  # signed by somebody else: worthless here, and refused
            case FilePart():
                _add_text(blocks, named(part))
            case CompactionPart():
                pass  # the gateway's own record
            case ToolResult():
                pass  # has no place in an assistant message
            case _:
                assert_never(part)
    if all(block["type"] in ("thinking", "redacted_thinking") for block in blocks):
        return []  # a reply that was cut before it said anything
    return blocks


def _user(parts: Sequence[Part], ids: Ids | None, reminder: str, files: Bytes) -> list[Block]:
    results: list[Block] = []
    blocks: list[Block] = []
    _add_text(blocks, reminder)
    result_ids = iter(ids.results if ids else ())
    for part in parts:
        match part:
            case TextPart() | SummaryPart():
                _add_text(blocks, part.text)
            case ToolResult() if ids is None:
                _add_text(results, flatten((part,)))
            case ToolResult():
                results.append(_result(part, next(result_ids)))
            case FilePart():
                blocks.append(_file(part, files.get(part)))
            case ToolUse() | Thinking() | RedactedThinking() | CompactionPart():
                pass
            case _:
                assert_never(part)
    return results + blocks  # results come first, or the API sees the calls as unanswered


def _add_text(blocks: list[Block], text: str) -> None:
    if text.strip():  # blank blocks are refused
        blocks.append({"type": "text", "text": text})


def _result(part: ToolResult, id: str) -> Block:
    block: Block = {"type": "tool_result", "tool_use_id": id}
    if part.content.strip():
        block["content"] = part.content
    if part.is_error:
        block["is_error"] = True
        block.setdefault("content", "Error")  # an empty one is refused
    return block


def _file(part: FilePart, data: bytes | None) -> Block:
    if data is None:
        return {"type": "text", "text": named(part)}
    if part.mime_type in IMAGES or part.mime_type == "application/pdf":
        source = {"type": "base64", "media_type": part.mime_type, "data": as_base64(data)}
        return {"type": "image" if part.mime_type in IMAGES else "document", "source": source}
    return {"type": "text", "text": as_text(part, data)}
