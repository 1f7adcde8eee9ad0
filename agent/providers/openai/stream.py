"""From the events of a Chat Completions stream to chunks. Pure: bytes of one event in, chunks out."""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from agent.core.errors import AgentError
from agent.providers.failures import classify, read_error
from agent.providers.openai.requests import REASONING_FIELDS, Opaque, joined_details
from agent.providers.provider import (
    Chunk,
    Done,
    RedactedThinkingDone,
    StopReason,
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

# Server-sent events from raw bytes: complete lines only, so that no character is ever cut.

LARGEST_EVENT = 8 * 1024 * 1024  # bytes; more than any API sends in one event


class EventReader:
    """Takes the body in pieces of any size and gives the `data` of every event that is complete.

    Names, ids and comments are skipped: both model APIs repeat the event's kind inside its data.
    """

    def __init__(self, largest: int = LARGEST_EVENT) -> None:
        self._rest = b""
        self._data: list[bytes] = []
        self._size = 0
        self._largest = largest
        self._begun = False

    def feed(self, piece: bytes) -> list[bytes]:
        """The events that `piece` completed. Raises ValueError when one grows beyond all measure."""
        text = self._rest + piece
        if not self._begun:
            if len(text) < 3 and b"\xef\xbb\xbf".startswith(text):
                self._rest = text  # perhaps the beginning of a byte order mark
                return []
            self._begun = True
            text = text.removeprefix(b"\xef\xbb\xbf")
        held = b""
        if b"\r" in text:
            if text.endswith(b"\r"):  # perhaps the first half of a line end
                text, held = text[:-1], b"\r"
            text = text.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        *lines, rest = text.split(b"\n")
        self._rest = rest + held
        if len(self._rest) + self._size > self._largest:
            raise ValueError(f"an event is larger than {self._largest} bytes")
        return [event for line in lines if (event := self._line(line)) is not None]

    def finish(self) -> list[bytes]:
        """The body has ended: what its last line completed. An event without its blank line counts (some servers)."""
        events = self.feed(b"\n\n")
        self._rest = b""
        return events

    def _line(self, line: bytes) -> bytes | None:
        if not line:
            if not self._data:
                return None
            event = self._data[0] if len(self._data) == 1 else b"\n".join(self._data)
            self._data, self._size = [], 0
            return event
        if line.startswith(b"data:"):
            value = line[6:] if line.startswith(b"data: ") else line[5:]
            self._data.append(value)
            self._size += len(value)
            if self._size > self._largest:
                raise ValueError(f"an event is larger than {self._largest} bytes")
        return None


class Body:
    """The body of an answer: events, or one JSON object though a stream was asked for."""

    def __init__(self) -> None:
        self.is_plain: bool = False
        self.has_begun: bool = False
        self._events = EventReader()
        self._whole = b""

    def feed(self, piece: bytes) -> list[bytes]:
        """Events that `piece` completed; b"" stands for the end. Raises ValueError for one beyond all measure."""
        if not self.has_begun and piece.strip():
            self.has_begun, self.is_plain = True, piece.lstrip().startswith((b"{", b"["))
        if not self.is_plain:
            return self._events.feed(piece) if piece else self._events.finish()
        self._whole += piece
        if len(self._whole) > LARGEST_EVENT:
            raise ValueError(f"an answer is larger than {LARGEST_EVENT} bytes")
        return [] if piece else [self._whole]


# Reasoning between tags within the content, taken out of it. Pure.

Kind = Literal["words", "thought", "withdrawn"]  # the last: all words so far were a thought
Piece = tuple[Kind, str]

_OPENS = re.compile(r"<(think|thinking|thought)>")
_OPENINGS = ("<think>", "<thinking>", "<thought>")
_CLOSINGS = ("</think>", "</thinking>", "</thought>")
_LINE = 16  # characters of a line that are looked at: more than any tag has
_FENCES = ("```", "~~~")


class Tagged:
    """The content of one reply, piece by piece. How it was cut into pieces changes nothing."""

    def __init__(self, *, opened: bool = False) -> None:
        """`opened`: this model's replies begin inside a thought."""
        self._state: Literal["beginning", "thinking", "speaking"] = "thinking" if opened else "beginning"
        self._closing = _CLOSINGS[0]
        self._held = ""  # perhaps a tag, or a part of one
        self._kept: list[str] = []  # of a thought that has not ended, with its tag
        self._line = ""  # the beginning of the line that is spoken
        self._fenced = False
        self._may_close = True  # a tag that was never opened may still come
        self._ended = False  # a thought has ended, and nothing was said since

    def taken(self, text: str) -> Iterator[Piece]:
        """The parts that `text` settles."""
        if self._state == "beginning":
            text, self._held = self._held + text, ""
            begun = text.lstrip()
            if any(tag.startswith(begun) and begun != tag for tag in _OPENINGS) and begun not in _OPENINGS:
                self._held = text
                return
            found = _OPENS.match(begun)
            self._state = "thinking" if found else "speaking"
            if found:
                self._closing, text = f"</{found[1]}>", begun[found.end() :]
                self._kept.append(found[0])
        if self._state == "thinking":
            yield from self._thinking(text)
        else:
            yield from self._speaking(text)

    def rest(self, *, cut: bool) -> Iterator[Piece]:
        """The rest at the end. A thought that never ended is one if the reply was `cut`; else it was no thought."""
        held, self._held = self._held, ""
        if self._state == "thinking":
            if not cut:
                yield "words", "".join(self._kept) + held
        elif self._state == "speaking" and self._closes(held):
            yield "withdrawn", ""
        elif held:
            yield "words", held

    def _thinking(self, text: str) -> Iterator[Piece]:
        text, self._held = self._held + text, ""
        thought, closing, after = text.partition(self._closing)
        if closing:
            self._state, self._may_close, self._ended, self._kept = "speaking", False, True, []
            if thought:
                yield "thought", thought
            yield from self._speaking(after)
            return
        held = next((size for size in range(len(self._closing) - 1, 0, -1) if text.endswith(self._closing[:size])), 0)
        thought, self._held = text[: len(text) - held], text[len(text) - held :]
        if thought:
            self._kept.append(thought)
            yield "thought", thought

    def _speaking(self, text: str) -> Iterator[Piece]:
        if self._ended:
            text = text.lstrip()
            self._ended = not text
        if not self._may_close:
            if text:
                yield "words", text
            return
        text, self._held = self._held + text, ""
        *lines, last = text.split("\n")
        said: list[str] = []
        for number, line in enumerate(lines):
            if not self._line and self._closes(line):
                self._may_close, self._ended = False, True
                yield "withdrawn", ""
                yield from self._speaking("\n".join([*lines[number + 1 :], last]))
                return
            self._look_at(line)
            self._line = ""
            said.append(line + "\n")
        if not self._line and last and any(tag.startswith(last.strip(" \t")) for tag in _CLOSINGS):
            self._held = last
        else:
            self._line = (self._line + last)[:_LINE]
            said.append(last)
        if words := "".join(said):
            yield "words", words

    def _look_at(self, rest: str) -> None:
        if (self._line + rest[:_LINE]).lstrip().startswith(_FENCES):
            self._fenced = not self._fenced

    def _closes(self, line: str) -> bool:
        """Is that line nothing but the tag? Who writes about the tag sets it in a sentence or in code."""
        return self._may_close and not self._fenced and line.strip(" \t\r") in _CLOSINGS


# By what they are in lower case: some servers pass on the reason of the service behind them.
_STOPS: dict[str, StopReason] = {
    "stop": "end_turn",
    "end_turn": "end_turn",
    "stop_sequence": "end_turn",
    "eos": "end_turn",  # Together
    "complete": "end_turn",  # Cohere
    "length": "max_tokens",
    "model_length": "max_tokens",  # Mistral
    "max_tokens": "max_tokens",
    "tool_use": "tool_use",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
    "content_filter": "refusal",
    "safety": "refusal",
    "refusal": "refusal",
}
_BROKE_OFF = ("error", "insufficient_system_resource")  # OpenRouter, DeepSeek
_FILTERS = ("content_filter", "safety", "prohibited", "blocklist")  # Google adds which


@dataclass(slots=True)
class _Call:
    index: int
    id: str
    name: str
    written: list[str] = field(default_factory=list)
    wire_id: str = ""  # as it was given to the rest of the program

    @property
    def is_whole(self) -> bool:
        """Are its arguments complete? Only asked of servers that number their calls badly."""
        try:
            json.loads("".join(self.written))
        except ValueError:
            return False
        return True


class Reading:
    """One stream's state. Feed it events until `closed`, or the body ends; then `end` gives the rest."""

    def __init__(
        self, provider: str, secrets: tuple[str, ...] = (), *, origin: str = "", thinks_first: bool = False
    ) -> None:
        """`origin` names endpoint and model: what is theirs alone is kept for them; "": it is not kept.

        `thinks_first`: the content begins inside a thought that no tag opens.
        """
        self.closed = False
        self.thought_unopened = False  # a tag has closed a thought that none had opened
        self._origin = origin
        self._tagged = Tagged(opened=thinks_first)
        self._details: list[dict[str, Any]] = []
        self._extras: dict[int, dict[str, Any]] = {}  # by call
        self._said = False
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

    def events(self, several: Iterable[bytes]) -> Iterator[Chunk]:
        """The chunks in events that arrived together; words in a row are taken as one text.

        Raises ValueError for what is no JSON, an AgentError for an error event, after the chunks before it.
        """
        words: list[str] = []
        try:
            for data in several:
                if data == b"[DONE]" or data.strip() == b"[DONE]":
                    self.closed = True
                    continue
                body = json.loads(data.decode("utf-8"))
                text = _words_alone(body) if self._reply_id else None
                if text is not None:
                    words.append(text)
                    continue
                if words:
                    yield from self._said_words(words)
                    words = []
                if isinstance(body, dict):
                    yield from self.body(body)
                else:
                    yield Unknown(f"event of type {type(body).__name__}")
        except (AgentError, ValueError):
            if words:
                yield from self._said_words(words)
            raise
        if words:
            yield from self._said_words(words)

    def _said_words(self, words: Sequence[str]) -> list[Chunk]:
        self._said = True
        return self._content("".join(words))

    def body(self, body: dict[str, Any]) -> list[Chunk]:
        """The chunks in one event that is parsed already. Raises an AgentError for an error event."""
        if body.get("error") or body.get("object") == "error":  # the second is vLLM's form
            raise classify(self._provider, read_error(body, 0), self._secrets)
        groq = body.get("x_groq")
        usage = body.get("usage") or (groq.get("usage") if isinstance(groq, dict) else None)
        if isinstance(usage, dict):
            self._usage = _usage(usage)
        if not self._reply_id and isinstance(body.get("id"), str):
            self._reply_id = body["id"]
        choices = body.get("choices")
        if choices is None:
            return (
                []
                if "usage" in body
                else [Unknown(f"event with {', '.join(f'{key[:40]!r}' for key in sorted(body)[:5])}")]
            )
        if not isinstance(choices, list) or not choices:
            return []
        return self._choice(choices[0])

    @property
    def complete(self) -> bool:
        """Did the provider close the stream properly: with `[DONE]`, or at least with a reason for stopping? (W-42)"""
        return self.closed or self._stop is not None

    @property
    def has_content(self) -> bool:
        """Whether anything came that could be a whole answer."""
        return self._said or bool(self._begun)

    @property
    def usage(self) -> Usage | None:
        return self._usage

    def end(self) -> list[Chunk]:
        """The rest when a complete stream has ended."""
        # Pieces of one call may come between those of another: none is whole before the end.
        cut = self._stop == "max_tokens" or bool(self._begun)
        chunks = [*self._thinking_done(), *self._chunks(self._tagged.rest(cut=cut))]
        chunks += [ToolCallDone(call.index) for call in self._begun]
        if self._origin and (self._details or self._extras):
            calls = {self._begun[index].wire_id: extra for index, extra in self._extras.items()}
            chunks.append(RedactedThinkingDone(Opaque(self._origin, calls, joined_details(self._details)).written()))
        if self._usage is not None:
            chunks.append(self._usage)
        stop = self._stop or "end_turn"
        if self._refusal:
            stop = "refusal"
        elif self._begun and stop == "end_turn":
            stop = "tool_use"  # several servers say "stop" after a call
        return [*chunks, Done(stop)]

    def forget_reasoning(self) -> None:
        """End the thought; its text so far is kept elsewhere."""
        self._thought = {}

    def _choice(self, choice: Any) -> list[Chunk]:
        if not isinstance(choice, dict):
            return [Unknown("a choice that is no object")]
        chunks: list[Chunk] = []
        delta = choice.get("delta")
        if delta is None and not self.has_content:
            delta = choice.get("message")  # of a server that does not stream, or puts a whole call there
        if isinstance(delta, dict):
            chunks += self._delta(delta)
        elif delta is not None:
            chunks.append(Unknown("a delta that is no object"))
        reason = choice.get("finish_reason")
        if isinstance(reason, str) and reason:
            reason = reason.lower()
            if reason in _BROKE_OFF:
                raise classify(self._provider, read_error(choice, 0), self._secrets)
            self._stop = _STOPS.get(reason) or ("refusal" if reason.startswith(_FILTERS) else "other")
        return chunks

    def _delta(self, delta: dict[str, Any]) -> list[Chunk]:
        content = delta.get("content")
        chunks: list[Chunk] = []
        for name in REASONING_FIELDS:
            text = delta.get(name)
            if text and isinstance(text, str):
                self._thought.setdefault(name, []).append(text)
                chunks.append(ThinkingDelta(text))
                break
        details = delta.get("reasoning_details")
        if isinstance(details, list):
            self._details += [detail for detail in details if isinstance(detail, dict)]
        if content:
            self._said = True
            chunks += self._content(content)
        refusal = delta.get("refusal")
        if refusal and isinstance(refusal, str):
            self._refusal = True
            chunks.append(TextDelta(refusal))
        calls = delta.get("tool_calls")
        if calls:
            for call in calls if isinstance(calls, list) else [calls]:
                chunks += self._call(call)
        if isinstance(delta.get("function_call"), dict):  # the form before tools
            chunks += self._call({"index": 0, "function": delta["function_call"]})
        return chunks

    def _content(self, content: Any) -> list[Chunk]:
        if isinstance(content, str):
            return [*self._thinking_done(), *self._chunks(self._tagged.taken(content))]
        chunks: list[Chunk] = []
        for part in content if isinstance(content, list) else [content]:
            text = part.get("text") if isinstance(part, dict) else None
            if isinstance(part, dict) and part.get("type") == "thinking":
                chunks += [ThinkingDelta(thought) for thought in _thoughts(part.get("thinking"))]
            elif isinstance(text, str):
                chunks += [*self._thinking_done(), *self._chunks(self._tagged.taken(text))]
            else:
                chunks.append(Unknown("a part of the content that is no text"))
        return chunks

    def _chunks(self, pieces: Iterable[Piece]) -> list[Chunk]:
        chunks: list[Chunk] = []
        for kind, text in pieces:
            if kind == "withdrawn":
                self.thought_unopened = True
                chunks.append(TextWithdrawn())
            elif text:
                chunks.append(TextDelta(text) if kind == "words" else ThinkingDelta(text))
        return chunks

    def _call(self, wire: Any) -> list[Chunk]:
        if not isinstance(wire, dict):
            return [Unknown("a tool call that is no object")]
        function = wire.get("function")
        function = function if isinstance(function, dict) else {}
        name, arguments, id = function.get("name"), function.get("arguments"), wire.get("id")
        id, name = id if isinstance(id, str) else "", name if isinstance(name, str) else ""
        place, count = self._place(wire.get("index"), id), len(self._begun)
        call = self._calls.get(place)
        chunks: list[Chunk] = []
        if call is None or (name and _is_another(call, id, name)):
            if not name:
                return [Unknown("a piece of a tool call that was never begun")]
            chunks += self._thinking_done()
            call = self._calls[place] = _Call(count, id, name)
            self._begun.append(call)
            call.wire_id = self._unique(call)
            chunks.append(ToolCallStart(call.index, call.wire_id, name))
        if isinstance(wire.get("extra_content"), dict):
            self._extras.setdefault(call.index, {})["extra_content"] = wire["extra_content"]
        if isinstance(arguments, dict):
            arguments = json.dumps(arguments)  # some local servers send the object itself
        if isinstance(arguments, str) and arguments:
            call.written.append(arguments)
            chunks.append(ToolCallDelta(call.index, arguments))
        return chunks

    def _place(self, index: Any, id: str) -> int:
        """Where the call of a piece stands. Some servers repeat the id instead of numbering."""
        if isinstance(index, int):
            return index
        known = next((place for place, call in self._calls.items() if id and call.id == id), None)
        count = len(self._begun)
        return known if known is not None else (count - 1 if not id and count else count)

    def _unique(self, call: _Call) -> str:
        id = call.id or f"call_{self._reply_id[-24:]}_{call.index}"
        while id in self._ids:
            id += "_2"
        self._ids.add(id)
        return id

    def _thinking_done(self) -> list[Chunk]:
        if not self._thought:
            return []
        # The signature names the field: that is where this reasoning belongs when it is sent back.
        thought, self._thought = self._thought, {}
        return [ThinkingDone("".join(pieces), name) for name, pieces in thought.items()]


def _thoughts(parts: Any) -> list[str]:
    """Mistral's form: parts of text within a part of the content."""
    found = (
        part.get("text") if isinstance(part, dict) else part for part in (parts if isinstance(parts, list) else [parts])
    )
    return [text for text in found if isinstance(text, str) and text]


def _words_alone(body: Any) -> str | None:
    """The words of an event that brings nothing else, as nearly every one does; None for any other."""
    if not isinstance(body, dict) or body.get("error") or body.get("usage") is not None or "x_groq" in body:
        return None
    choices = body.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    if not isinstance(choice, dict) or choice.get("finish_reason"):
        return None
    delta = choice.get("delta")
    content = delta.get("content") if isinstance(delta, dict) and len(delta) == 1 else None
    return content if isinstance(content, str) and content else None


def _is_another(call: _Call, id: str, name: str) -> bool:
    """Does a piece with a name begin a call of its own, although it has the number of one that was begun?

    A server that numbers every call 0 tells them apart by their ids, or (Google) by nothing at all. Others repeat the
    name in each piece.
    """
    if id or call.id:
        return bool(id) and id != call.id
    return name != call.name or call.is_whole


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
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0
