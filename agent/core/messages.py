"""Messages and their parts. No I/O, no rendering for people."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any, Literal, assert_never

Role = Literal["system", "user", "assistant"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TextPart:
    text: str
    kind: Literal["text"] = "text"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolUse:
    """A call the model asked for; `input` is what it gave, already parsed."""

    id: str
    name: str
    input: Mapping[str, Any] = field(default_factory=dict)
    kind: Literal["tool_use"] = "tool_use"


@dataclass(frozen=True, slots=True, kw_only=True)
class TacoCompressed:
    """Mark of a tool's output that a model compressed before it was stored (Z-102, Z-144): from how many raw tokens to
    how many."""

    tool_name: str
    original_tokens: int
    compressed_tokens: int
    kind: Literal["taco_compressed"] = "taco_compressed"


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePart:
    """An attachment kept as a file under the data directory; `path` is relative to it.

    Providers that take the type get its bytes, the others a line that names it. Not `sent`: all get the line, for what
    was read out of it goes to them. One that is `quoted` came with the message that its sender replied to, not with
    their own. `page_of` is the path of the file of which it pictures a page, "" for any other.
    """

    path: str
    mime_type: str
    name: str
    size: int
    quoted: bool = False
    sent: bool = True
    page_of: str = ""
    kind: Literal["file"] = "file"

    @property
    def derived(self) -> str:
        """The folder beside the file for what was read out of it."""
        return read_out_of(self.path)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """The result of a call; lives in a user message, before any text.

    `files` are pictures that came with it; they stand as parts of their own behind the results of the message.
    """

    tool_use_id: str
    content: str
    is_error: bool = False
    taco: TacoCompressed | None = None
    files: tuple[FilePart, ...] = ()
    kind: Literal["tool_result"] = "tool_result"


@dataclass(frozen=True, slots=True, kw_only=True)
class Thinking:
    """Reasoning with the provider's signature; sent back byte for byte (Z-19). `family` names who signed it."""

    thinking: str
    signature: str
    family: str = ""
    kind: Literal["thinking_block"] = "thinking_block"


@dataclass(frozen=True, slots=True, kw_only=True)
class RedactedThinking:
    """Reasoning the provider keeps to itself; sent back byte for byte."""

    data: str
    family: str = ""
    kind: Literal["redacted_thinking_block"] = "redacted_thinking_block"


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryPart:
    """Text that stands for messages now hidden from the model.

    `sealed` is the same as the provider called `sealed_by` made and signed it: JSON that goes back to it verbatim.
    """

    text: str
    sealed: str = ""
    sealed_by: str = ""
    kind: Literal["summary"] = "summary"


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionPart:
    """The record of a compaction beside the summary it made: never sent, never removed (Z-31). Tokens are scaled."""

    summary: str
    stage: str
    messages: int  # how many gave way
    tokens_before: int
    mechanical: bool = False  # no model wrote it
    kind: Literal["compaction"] = "compaction"


def read_out_of(path: str) -> str:
    """The folder for what was read out of the file at that path; its text is `TEXT_READ` there."""
    return f"{path}.read"


TEXT_READ = "text.txt"


Part = TextPart | ToolUse | ToolResult | Thinking | RedactedThinking | FilePart | SummaryPart | CompactionPart


@dataclass(frozen=True, kw_only=True, eq=False)
class Message:
    """One item of the context.

    Compared by identity, so that what is derived from a message (its encoding, its token count) can be kept in a
    `WeakKeyDictionary` for as long as the message lives and never computed twice.
    """

    role: Role
    parts: tuple[Part, ...]
    created_at: datetime | None = None
    id: int | None = None  # row of the transcript; None while not stored
    agent_visible: bool = True
    user_visible: bool = True
    pinned: bool = False

    @property
    def content(self) -> str:
        return flatten(self.parts)

    @cached_property
    def tool_uses(self) -> tuple[ToolUse, ...]:
        return tuple(part for part in self.parts if isinstance(part, ToolUse))

    @cached_property
    def tool_results(self) -> tuple[ToolResult, ...]:
        return tuple(part for part in self.parts if isinstance(part, ToolResult))


def flatten(parts: tuple[Part, ...]) -> str:
    """The parts as one text, each in its form; thinking and records of compactions render nothing."""
    return "\n".join(text for part in parts if (text := _flat(part)))


def _flat(part: Part) -> str:
    match part:
        case TextPart() | SummaryPart():
            return part.text
        case ToolUse():
            return f"[tool_use: {part.name}({part.id})]"
        case ToolResult():
            return f"[tool_result: {part.tool_use_id}]\n{part.content}"
        case FilePart():
            return f"[file: {part.name}, {part.mime_type}, {part.size} bytes]"
        case Thinking() | RedactedThinking() | CompactionPart():
            return ""
        case _:
            assert_never(part)


def text_message(role: Role, text: str, *, created_at: datetime | None = None) -> Message:
    """A message that holds one text."""
    return Message(role=role, parts=(TextPart(text=text),), created_at=created_at)
