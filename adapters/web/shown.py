"""What the page shows of a conversation: one message, as it is kept and as the browser gets it. Pure data."""

from dataclasses import dataclass
from typing import Any, Literal

from pydantic import TypeAdapter

from agent.core.outbox import Tone


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A button."""

    label: str
    action: str
    style: Literal["plain", "primary", "danger"] = "plain"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownFile:
    """A file on the shelf; `is_image` ones are shown, the others offered for download."""

    id: str
    name: str
    mime_type: str
    size: int
    is_image: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A message. A person's is plain `text`, the bot's HTML `blocks` (safe, from `render`).

    `order` grows within a conversation. `at` is ISO 8601, UTC, to the millisecond: the list of conversations is sorted
    by it. `key` names the bot's message across repeats, `answers` the person's message whose answer it is. `note` says
    why a person's message was not taken. The `tone` "stopped" marks an answer that ends halfway, and a person's message
    that got none. A `private` one is seen by this person only and does not stay; when it is `silent` too it is a status
    line, not an answer.
    """

    id: str
    order: int
    who: Literal["person", "bot"]
    at: str
    text: str = ""
    blocks: tuple[str, ...] = ()
    buttons: tuple[tuple[Choice, ...], ...] = ()
    files: tuple[ShownFile, ...] = ()
    key: str = ""
    reply_to: str | None = None
    answers: str | None = None
    reactions: tuple[str, ...] = ()
    edited: bool = False
    private: bool = False
    silent: bool = False
    note: str = ""
    tone: Tone = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Put:
    """A line of the journal: this message stands there now."""

    put: Shown


@dataclass(frozen=True, slots=True, kw_only=True)
class Gone:
    """A line of the journal: the message with this id was taken away."""

    gone: str


Entry = Put | Gone

_ENTRY: TypeAdapter[Entry] = TypeAdapter(Entry)
_FILE: TypeAdapter[ShownFile] = TypeAdapter(ShownFile)
_SHOWN: TypeAdapter[Shown] = TypeAdapter(Shown)


def entry_as_line(entry: Entry) -> bytes:
    return _ENTRY.dump_json(entry, exclude_defaults=True) + b"\n"


def entry_of_line(line: bytes) -> Entry:
    """Raises ValueError for what is no entry (the last line of a process that was killed)."""
    return _ENTRY.validate_json(line)


def as_json(shown: Shown) -> dict[str, Any]:
    """For the browser, which needs neither the key nor whose answer it is."""
    found: dict[str, Any] = _SHOWN.dump_python(shown, mode="json", exclude={"key", "answers"}, exclude_defaults=True)
    return found


def file_as_json(file: ShownFile) -> dict[str, Any]:
    found: dict[str, Any] = _FILE.dump_python(file, mode="json")
    return found


def file_of_json(text: str | bytes) -> ShownFile:
    """Raises ValueError for what is none."""
    return _FILE.validate_json(text)
