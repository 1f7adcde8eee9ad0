"""A request in the form of the Chat Completions API, as bytes: each message is encoded once in its life. No I/O."""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, assert_never
from weakref import WeakKeyDictionary

from agent.core.messages import (
    CompactionPart,
    FilePart,
    Message,
    Part,
    RedactedThinking,
    Role,
    SummaryPart,
    TextPart,
    Thinking,
    ToolResult,
    ToolUse,
)
from agent.providers.encoding import (
    IMAGES,
    NO_IDS,
    NOTHING,
    TEXTS,
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
    short_id,
    unique,
    wire_id,
    wire_name,
)
from agent.providers.endpoints import host_of
from agent.providers.provider import Reasoning, Request, SystemPrompt, ToolSchema

# Fields beside Chat Completions proper that servers send and want back, such as reasoning. Pure.

REASONING_FIELDS = ("reasoning_content", "reasoning")  # what servers call it
DETAILS = "reasoning_details"  # OpenRouter's


@dataclass(frozen=True, slots=True)
class Opaque:
    """Parts of a reply for its own endpoint and model, `origin`: fields of its calls by their ids, and details.

    Gemini refuses a call that comes back without its signature; other servers refuse fields they do not know.
    """

    origin: str
    calls: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    details: Sequence[Mapping[str, Any]] = ()

    def written(self) -> str:
        """The data of a RedactedThinking."""
        return json.dumps(
            {"origin": self.origin, "calls": self.calls, "details": list(self.details)}, ensure_ascii=False
        )


NO_FIELDS = Opaque("")


def is_reasoning(part: Part, family: str) -> bool:
    """Whether the part goes back inside its own tool loop."""
    if isinstance(part, RedactedThinking):
        return part.family == family
    return isinstance(part, Thinking) and part.family == family and part.signature in REASONING_FIELDS


def opaque_of(message: Message, family: str, origin: str) -> Opaque:
    """The part of the message that goes back to `origin` alone."""
    for part in message.parts:
        if isinstance(part, RedactedThinking) and part.family == family:
            try:
                read = json.loads(part.data)
            except ValueError:
                continue
            if isinstance(read, dict) and origin and read.get("origin") == origin:
                return Opaque(origin, read.get("calls") or {}, read.get("details") or ())
    return NO_FIELDS


def joined_details(pieces: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The details of a stream as the whole reply would hold them: a text in pieces is one text."""
    found: list[dict[str, Any]] = []
    for piece in pieces:
        last = found[-1] if found else None
        if last is None or (last.get("type"), last.get("index")) != (piece.get("type"), piece.get("index")):
            found.append(dict(piece))
            continue
        for name, value in piece.items():
            if name in ("text", "summary", "data") and isinstance(value, str) and isinstance(last.get(name), str):
                last[name] += value
            elif value is not None:
                last[name] = value
    return found


# Alternating histories, for servers that refuse two messages of one role in a row. Pure.

# Templates (Mistral, Gemma), Bedrock, Perplexity, DeepSeek, and Mistral's own service.
COMPLAINT = re.compile(
    r"must alternate|should (?:be )?alternat|(?:successive|consecutive) (?:user|assistant)"
    r"|unexpected role '?(?:user|assistant)'? after role",
    re.IGNORECASE,
)
# The assistant's turn between results of tools and a person's words, which may not follow each other directly.
HEARD = "I have the results."


class Alternation:
    """One encoder's. `results_apart`: results of tools are messages of their own on the wire."""

    def __init__(self, *, results_apart: bool) -> None:
        self._results_apart = results_apart
        self._kept: WeakKeyDictionary[Message, tuple[tuple[Message, ...], tuple[Message, ...]]] = WeakKeyDictionary()

    def of(self, messages: Sequence[Message]) -> Sequence[Message]:
        """The same words in the same order; messages that need no joining are the same objects."""
        found: list[Message] = []
        for run in _runs(messages):
            first, rest = run[0], tuple(run[1:])
            if not rest and not (self._results_apart and first.tool_results):
                found.append(first)
                continue
            kept = self._kept.get(first)
            if kept is None or kept[0] != rest:  # messages are compared by identity
                kept = self._kept[first] = (rest, self._joined(run))
            found += kept[1]
        return found

    def _joined(self, run: Sequence[Message]) -> tuple[Message, ...]:
        role: Role = "assistant" if run[0].role == "assistant" else "user"
        parts = tuple(part for message in run for part in message.parts)
        results = tuple(part for part in parts if isinstance(part, ToolResult))
        words = tuple(part for part in parts if not isinstance(part, ToolResult))
        if self._results_apart and results and any(_is_sent(part) for part in words):
            heard = Message(role="assistant", parts=(TextPart(text=HEARD),))
            return (Message(role=role, parts=results), heard, Message(role=role, parts=words))
        return (Message(role=role, parts=parts),)


def _runs(messages: Sequence[Message]) -> Iterator[list[Message]]:
    """Neighbours of one role; replies of which nothing is sent are left out."""
    run: list[Message] = []
    for message in messages:
        if message.role == "assistant" and not any(_is_sent(part) for part in message.parts):
            continue
        if run and (run[0].role == "assistant") != (message.role == "assistant"):
            yield run
            run = []
        run.append(message)
    if run:
        yield run


def _is_sent(part: Part) -> bool:
    return isinstance(part, FilePart | ToolUse) or (isinstance(part, TextPart | SummaryPart) and bool(part.text))


# Conceding histories, for servers that refuse calls, calls without words, long call ids, or a system message. Pure.


class Rewritten:
    """The messages as `change` makes them; those it gives back as they were are the same objects."""

    def __init__(self, change: Callable[[Message], Message]) -> None:
        self._change = change
        self._kept: WeakKeyDictionary[Message, Message] = WeakKeyDictionary()

    def of(self, messages: Sequence[Message]) -> Sequence[Message]:
        return [self._of(message) for message in messages]

    def _of(self, message: Message) -> Message:
        changed = self._change(message) if (kept := self._kept.get(message)) is None else kept
        if changed is not message and kept is None:
            self._kept[message] = changed
        return changed


class SystemFirst:
    """The system prompt before the first person's words."""

    def __init__(self) -> None:
        self._kept: WeakKeyDictionary[Message, tuple[str, Message]] = WeakKeyDictionary()

    def of(self, text: str, messages: Sequence[Message]) -> Sequence[Message]:
        if not text or not messages:
            return messages
        first, *rest = messages
        kept = self._kept.get(first)
        if kept is None or kept[0] != text:
            kept = self._kept[first] = (text, replace(first, parts=(TextPart(text=text), *first.parts)))
        return [kept[1], *rest]


def in_words(message: Message) -> Message:
    """The message with its calls and results told in words, for a model without tools."""
    if not message.tool_uses and not message.tool_results:
        return message
    parts = tuple(told for part in message.parts if (told := _told(part)) is not None)
    return replace(message, parts=parts)


def with_content(message: Message) -> Message:
    """The message with some content beside its calls, for a server that takes none that is null."""
    if not message.tool_uses or any(isinstance(part, TextPart) and part.text for part in message.parts):
        return message
    return replace(message, parts=(TextPart(text=" "), *message.parts))


def with_short_ids(message: Message) -> Message:
    """The message with ids of nine letters and digits, which is all that Mistral's API takes."""
    if not message.tool_uses and not message.tool_results:
        return message
    return replace(message, parts=tuple(_short(part) for part in message.parts))


def _told(part: Part) -> Part | None:
    match part:
        case ToolUse():
            return TextPart(text=f"(I called the tool {part.name} with {dumps(part.input).decode()}.)")
        case ToolResult():
            return TextPart(text=f"(The tool's {'error' if part.is_error else 'answer'}:)\n{part.content}")
        case Thinking() | RedactedThinking():
            return None  # it belongs to calls
        case _:
            return part


def _short(part: Part) -> Part:
    match part:
        case ToolUse():
            return replace(part, id=short_id(wire_id(part.id)))
        case ToolResult():
            return replace(part, tool_use_id=short_id(wire_id(part.tool_use_id)))
        case _:
            return part


AUDIO = {"audio/wav": "wav", "audio/x-wav": "wav", "audio/mpeg": "mp3", "audio/mp3": "mp3"}

_NEW_LIMIT = re.compile(r"(?:^|/)(?:o\d|gpt-(?:[5-9]|\d\d))")  # models that refuse `max_tokens`
OPENROUTER = "openrouter.ai"
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
# Ollama says of a model that it does not support thinking. Looked for last: other refusals speak of reasoning models.
_EFFORT = re.compile(
    r"\breasoning[_ .]?effort|\breasoning\b[^\n]{0,60}\b(?:not|unsupported|invalid|unknown|unrecognized)\b"
    r"|not support (?:thinking|reasoning)",
    re.IGNORECASE,
)
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
    (
        re.compile(
            r"image|vision|multimodal|multi-modal|modalit|input_audio|content part"
            r"|content'?[^\n]{0,20} must be a string",  # Groq, of a list that holds a picture
            re.IGNORECASE,
        ),
        "media",
    ),
    (_EFFORT, "effort_none"),
    (_EFFORT, "effort"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """The dialect of an endpoint. Starts hopeful and is corrected by refusals."""

    usage: bool = True
    completion_limit: bool = False
    temperature: bool = True
    effort: bool = True  # how much to think
    effort_none: bool = True  # not to think at all
    effort_inside: bool = False  # OpenRouter's `reasoning` holds it
    media: bool = True
    repeats: bool = True  # two messages of one role in a row
    tools: bool = True
    system: bool = True  # a message of that role
    null_content: bool = True  # beside calls
    long_ids: bool = True  # of calls, other than nine letters and digits
    thinks_first: bool = False  # replies begin inside a thought that no tag opens


def dialect_for(model: str, base_url: str) -> Dialect:
    """The first guess. `base_url` empty means OpenAI's own service."""
    return Dialect(
        completion_limit=not base_url or bool(_NEW_LIMIT.search(model)),
        effort_inside=host_of(base_url).partition(":")[0].endswith(OPENROUTER),
    )


def effort_for(reasoning: Reasoning | None, configured: str, dialect: Dialect) -> str:
    """The effort that is asked for; "" where nobody asks. The least that there is where "none" is not understood."""
    if reasoning is None:
        return configured
    if reasoning == "off":
        return "none" if dialect.effort_none else "low"
    return reasoning


def differing(dialect: Dialect, guess: Dialect) -> dict[str, bool]:
    """The differences of the dialect from the guess, to be kept."""
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
        if (level := effort_for(request.reasoning, effort, dialect)) and dialect.effort:
            if dialect.effort_inside:
                head["reasoning"] = {"effort": level}
            else:
                head["reasoning_effort"] = level
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
        wire = [self.encoded(message) for message in messages]
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
                opaque = opaque_of(message, self._family, origin) if reasons and not self._signed else NO_FIELDS
                bodies[position] = self._encode(message, ids, carried, files, reasons=reasons, opaque=opaque)
        return [body for body in (_system(request), *(sealed.pieces if sealed else ()), *bodies) if body]

    def _for_good(self, message: Message) -> tuple[bytes, Ids | None]:
        encoded = self.encoded(message)
        del self._kept[message]  # it is kept once, joined with its neighbours
        return encoded.body, encoded.ids

    def encoded(self, message: Message) -> Encoded:
        """The bytes of one message, made once for as long as the message lives."""
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
        opaque: Opaque = NO_FIELDS,
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
