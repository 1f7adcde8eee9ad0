"""A request in the form of the Chat Completions API, as bytes: each message is encoded once in its life. No I/O."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, assert_never
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
)
from agent.providers.alternating import COMPLAINT, Alternation
from agent.providers.attachments import IMAGES, NOTHING, TEXTS, Bytes, as_base64, as_text, first_holding, named
from agent.providers.concessions import Rewritten, SystemFirst, in_words, with_content, with_short_ids
from agent.providers.encoded_prefix import EncodedPrefixCache, laid_out
from agent.providers.json_bytes import dumps
from agent.providers.openai_fields import DETAILS, REASONING_FIELDS, Opaque, is_reasoning, opaque_of
from agent.providers.openai_fields import NO_FIELDS as NOT_OPAQUE
from agent.providers.provider import Request, SystemPrompt, ToolSchema
from agent.providers.reminder_target import loop_start, reminder_target
from agent.providers.schema_bytes import SchemaBytes
from agent.providers.tool_ids import NO_IDS, Ids, ids_of, unique, wire_name

AUDIO = {"audio/wav": "wav", "audio/x-wav": "wav", "audio/mpeg": "mp3", "audio/mp3": "mp3"}

_NEW_LIMIT = re.compile(r"(?:^|/)(?:o\d|gpt-(?:[5-9]|\d\d))")  # models that refuse `max_tokens`
COMPLAINT_CHARS = 1000  # of a refusal; some servers repeat what they were sent

# Ollama, OpenRouter, vLLM, llama.cpp (two versions), Google's endpoint for Gemma, and others in their own words.
_NO_TOOLS = re.compile(
    r"(?:not|n't) support (?:the )?(?:`?tools?`?\b|tool[- ](?:use|call)|function[- ]call)|found that support tool use"
    r"|enable-auto-tool-choice|tools param requires|unsupported param: tools"
    r"|(?:tool use|tool[- ]calling|function[- ]calling|tool calls|tools)`? (?:is|are) not (?:supported|enabled)",
    re.IGNORECASE,
)
_NO_SYSTEM = re.compile(
    r"system (?:role|message|prompt|instruction)s? (?:is |are )?not supported"
    r"|(?:developer|system) instruction is not enabled"
    r"|not support (?:the )?'?system'? (?:role|message|prompt|with this)",
    re.IGNORECASE,
)
_SHORT_IDS = re.compile(r"tool call ids? (?:was|should be)[^\n]{0,200}length (?:of )?9", re.IGNORECASE)
_CONCESSIONS = (
    (_NO_TOOLS, "tools"),
    (_NO_SYSTEM, "system"),
    (_SHORT_IDS, "long_ids"),
    # llama-cpp-python, of a message with calls and no words
    (re.compile(r"AssistantMessage', 'content'\), 'msg': 'Input should be a valid string'"), "null_content"),
    (COMPLAINT, "repeats"),
    (re.compile(r"stream_options|include_usage"), "usage"),
    (re.compile(r"max_completion_tokens"), "completion_limit"),
    (re.compile(r"temperature"), "temperature"),
    (re.compile(r"reasoning[_ .]?effort", re.IGNORECASE), "effort"),
    (
        re.compile(
            r"image|vision|multimodal|multi-modal|modalit|input_audio|content part"
            r"|content'?[^\n]{0,20} must be a string",  # Groq, of a list that holds a picture
            re.IGNORECASE,
        ),
        "media",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """What an endpoint understands. Starts hopeful and is corrected by what it refuses."""

    usage: bool = True
    completion_limit: bool = False
    temperature: bool = True
    effort: bool = True  # how much to think
    media: bool = True
    repeats: bool = True  # two messages of one role in a row
    tools: bool = True
    system: bool = True  # a message of that role
    null_content: bool = True  # beside calls
    long_ids: bool = True  # of calls, other than nine letters and digits
    thinks_first: bool = False  # replies begin inside a thought that no tag opens


def dialect_for(model: str, base_url: str) -> Dialect:
    """The first guess. `base_url` empty means OpenAI's own service."""
    return Dialect(completion_limit=not base_url or bool(_NEW_LIMIT.search(model)))


def differing(dialect: Dialect, guess: Dialect) -> dict[str, bool]:
    """What of the dialect is not as it was guessed, to be kept."""
    known, guessed = asdict(dialect), asdict(guess)
    return {feature: value for feature, value in known.items() if value != guessed[feature]}


def speaking(guess: Dialect, kept: Mapping[str, Any]) -> Dialect:
    """The guess, corrected by what was kept of it; another version may have kept what is not known here."""
    known = {field.name for field in fields(Dialect)}
    return replace(guess, **{name: value for name, value in kept.items() if name in known and value in (True, False)})


def conceded(dialect: Dialect, refusal: str, used: frozenset[str]) -> Dialect | None:
    """The dialect without the feature in `used` that `refusal` complains of; None if it complains of something else."""
    refusal = refusal[:COMPLAINT_CHARS]
    for pattern, feature in _CONCESSIONS:
        if feature not in used or not pattern.search(refusal):
            continue
        if feature == "completion_limit":
            return replace(dialect, completion_limit=not dialect.completion_limit)
        if getattr(dialect, feature):
            return replace(dialect, **{feature: False})
    return None


@dataclass(frozen=True, slots=True)
class Encoded:
    """A message on the wire: one or more objects, joined by commas; b"" if nothing of it is sent."""

    body: bytes
    ids: Ids | None
    reasoned: bool  # holds reasoning that is sent back inside its own tool loop


class Encoder:
    """Builds request bodies; keeps what it encoded for as long as the message lives.

    `signed`: thinking blocks with a signature go along as `thinking_blocks`, which is litellm's addition to the form.
    """

    def __init__(self, family: str, *, signed: bool = False) -> None:
        self._family = family
        self._signed = signed
        self._kept: WeakKeyDictionary[Message, Encoded] = WeakKeyDictionary()
        self._schemas = SchemaBytes(_tools)
        self._sealed = EncodedPrefixCache(self._for_good)
        self._turns = Alternation(results_apart=True)
        self._told = Rewritten(in_words)
        self._worded = Rewritten(with_content)
        self._short = Rewritten(with_short_ids)
        self._system_first = SystemFirst()

    def body(
        self,
        request: Request,
        *,
        model: str,
        dialect: Dialect,
        max_tokens: int | None = None,
        temperature: float | None = None,
        effort: str = "",
        files: Bytes = NOTHING,
        origin: str = "",
    ) -> bytes:
        """The whole body of a streamed call. The cache tier and the routing hint have no place in it (W-37).

        `origin`: whose opaque fields go along (`openai_fields.Opaque`).
        """
        request = self._conceding(request, dialect)
        head: dict[str, Any] = {"model": model, "stream": True}
        if dialect.usage:
            head["stream_options"] = {"include_usage": True}
        if limit := request.max_tokens or max_tokens:
            head["max_completion_tokens" if dialect.completion_limit else "max_tokens"] = limit
        if temperature is not None and dialect.temperature:
            head["temperature"] = temperature
        if effort and dialect.effort:
            head["reasoning_effort"] = effort
        pieces = [dumps(head)[:-1]]
        if request.tools.specs:
            pieces.append(b'"tools":' + self._schemas.of(request.tools))
        return laid_out(pieces, self._messages(request, files, origin))

    def _conceding(self, request: Request, dialect: Dialect) -> Request:
        messages, system, tools = request.messages, request.system, request.tools
        if not dialect.tools:
            messages, tools = self._told.of(messages), ToolSchema()
        if not dialect.null_content:
            messages = self._worded.of(messages)
        if not dialect.long_ids:
            messages = self._short.of(messages)
        if not dialect.system:
            messages, system = self._system_first.of(_system_text(system), messages), SystemPrompt("")
        if not dialect.repeats:
            messages = self._turns.of(messages)
        if messages is request.messages:
            return request
        return replace(request, messages=messages, system=system, tools=tools)

    def _messages(self, request: Request, files: Bytes, origin: str) -> list[bytes]:
        carries, in_loop = reminder_target(request.messages), loop_start(request.messages)
        end = first_holding(request.messages, files, min(carries, in_loop))
        sealed = self._sealed.of(request.owner, request.messages, end) if request.owner is not None else None
        messages = request.messages[end:] if sealed else request.messages
        offset = len(request.messages) - len(messages)
        wire = [self._encoded(message) for message in messages]
        if sealed and any(id in sealed.uses for encoded in wire if encoded.ids for id in encoded.ids.uses):
            return self._messages(replace(request, owner=None), files, origin)
        renamed = unique([encoded.ids for encoded in wire])
        bodies = [encoded.body for encoded in wire]
        carries, in_loop = carries - offset if request.reminder else -1, in_loop - offset
        for position, message in enumerate(messages):
            encoded = wire[position]
            reasons = encoded.reasoned and position >= in_loop
            carried = request.reminder if position == carries else ""
            if carried or reasons or position in renamed or (files and _holds(message, files)):
                ids = renamed.get(position, encoded.ids)
                opaque = opaque_of(message, self._family, origin) if reasons and not self._signed else NOT_OPAQUE
                bodies[position] = self._encode(message, ids, carried, files, reasons=reasons, opaque=opaque)
        return [body for body in (_system(request), *(sealed.pieces if sealed else ()), *bodies) if body]

    def _for_good(self, message: Message) -> tuple[bytes, Ids | None]:
        encoded = self._encoded(message)
        del self._kept[message]  # it is kept once, joined with its neighbours
        return encoded.body, encoded.ids

    def _encoded(self, message: Message) -> Encoded:
        kept = self._kept.get(message)
        if kept is None:
            ids = ids_of(message)
            reasoned = any(is_reasoning(part, self._family) for part in message.parts)
            kept = Encoded(self._encode(message, ids, "", NOTHING, reasons=False), ids, reasoned)
            self._kept[message] = kept
        return kept

    def _encode(
        self,
        message: Message,
        ids: Ids | None,
        reminder: str,
        files: Bytes,
        *,
        reasons: bool,
        opaque: Opaque = NOT_OPAQUE,
    ) -> bytes:
        ids = ids or NO_IDS
        if message.role == "assistant":
            built = _assistant(message, self._family, ids, opaque, reasons=reasons)
            if built and self._signed and (signed := _signed(message, self._family)):
                built["thinking_blocks"] = signed
            return dumps(built) if built else b""
        objects: list[dict[str, Any]] = [
            {"role": "tool", "tool_call_id": id, "content": _result(result)}
            for id, result in zip(ids.results, message.tool_results, strict=True)
        ]
        content = _content(message.parts, reminder, files)
        if not content and not objects:
            content = "(no text)"
        if content:
            objects.append({"role": message.role, "content": content})
        return b",".join(dumps(built) for built in objects)


def _tools(schema: ToolSchema) -> bytes:
    return dumps(
        [
            {
                "type": "function",
                "function": {
                    "name": spec.name,
                    "description": spec.description,
                    "parameters": {"type": "object", "properties": {}, **spec.schema},
                },
            }
            for spec in schema.specs
        ]
    )


def _system(request: Request) -> bytes:
    # One message: the templates of many local models take a single system message, in first place.
    text = _system_text(request.system)
    return dumps({"role": "system", "content": text}) if text else b""


def _system_text(system: SystemPrompt) -> str:
    return "\n\n".join(text for text in (system.stable, system.volatile) if text)


def _holds(message: Message, files: Bytes) -> bool:
    return any(isinstance(part, FilePart) and part in files for part in message.parts)


def _assistant(message: Message, family: str, ids: Ids, opaque: Opaque, *, reasons: bool) -> dict[str, Any] | None:
    text = "\n".join(part.text for part in message.parts if isinstance(part, TextPart | SummaryPart) and part.text)
    uses = message.tool_uses
    if not text and not uses:
        return None
    built: dict[str, Any] = {"role": "assistant", "content": text or None}
    if reasons:
        for part in message.parts:
            if isinstance(part, Thinking) and is_reasoning(part, family):
                built[part.signature] = built.get(part.signature, "") + part.thinking
    if opaque.details:
        built[DETAILS] = opaque.details
    if uses:
        built["tool_calls"] = [
            {
                "id": id,
                "type": "function",
                "function": {"name": wire_name(use.name), "arguments": dumps(use.input).decode()},
                **opaque.calls.get(use.id, {}),
            }
            for id, use in zip(ids.uses, uses, strict=True)
        ]
    return built


def _signed(message: Message, family: str) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = []
    for part in message.parts:
        if isinstance(part, Thinking) and part.family == family and part.signature not in REASONING_FIELDS:
            blocks.append({"type": "thinking", "thinking": part.thinking, "signature": part.signature})
        elif isinstance(part, RedactedThinking) and part.family == family:
            blocks.append({"type": "redacted_thinking", "data": part.data})
    return blocks


def _result(result: ToolResult) -> str:
    # The API has no flag for it, and a model must be able to tell a failure from an answer.
    if result.is_error and not result.content.lower().startswith("error"):
        return f"Error: {result.content}"
    return result.content


def _content(parts: Sequence[Part], reminder: str, files: Bytes) -> str | list[dict[str, Any]]:
    """One string where text is all there is: every server takes that; else a list of parts."""
    built = [{"type": "text", "text": reminder}] if reminder else []
    for part in parts:
        match part:
            case TextPart() | SummaryPart():
                if part.text:
                    built.append({"type": "text", "text": part.text})
            case FilePart():
                built.append(_file(part, files.get(part)))
            case ToolUse() | ToolResult() | Thinking() | RedactedThinking() | CompactionPart():
                pass
            case _:
                assert_never(part)
    if all(block["type"] == "text" for block in built):
        return "\n\n".join(block["text"] for block in built)
    return built


def _file(part: FilePart, data: bytes | None) -> dict[str, Any]:
    if data is None:
        return {"type": "text", "text": named(part)}
    if part.mime_type in TEXTS:
        return {"type": "text", "text": as_text(part, data)}
    if part.mime_type in AUDIO:
        return {"type": "input_audio", "input_audio": {"data": as_base64(data), "format": AUDIO[part.mime_type]}}
    url = f"data:{part.mime_type};base64,{as_base64(data)}"
    if part.mime_type in IMAGES:
        return {"type": "image_url", "image_url": {"url": url}}
    return {"type": "file", "file": {"filename": part.name, "file_data": url}}
