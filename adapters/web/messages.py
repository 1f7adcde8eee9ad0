"""One message of a conversation, as it is kept and as the browser gets it, and the file of all."""

import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import anyio
from anyio import to_thread
from pydantic import TypeAdapter

from adapters.web.render import linked
from agent.core.outbox import Tone


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A button."""

    label: str
    action: str
    style: Literal["plain", "primary", "danger"] = "plain"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownFile:
    """A file on the shelf; `is_image` ones are shown, `is_sound` ones played, the others offered for download."""

    id: str
    name: str
    mime_type: str
    size: int
    is_image: bool = False
    is_sound: bool = False


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
    """The message for the browser, which does not need the key. `html` is a person's text where that has links."""
    found: dict[str, Any] = _SHOWN.dump_python(shown, mode="json", exclude={"key"}, exclude_defaults=True)
    if shown.who == "person" and "://" in shown.text:
        found["html"] = linked(shown.text)
    return found


def again(asked: str, id: str) -> str:
    """The id of a request to answer a message once more; it has no message of its own on the page."""
    return f"again.{asked}.{id}"


def asked_by(answers: str) -> str:
    """The message that an answer is for, also when it was answered once more."""
    _, is_again, rest = answers.partition("again.")
    return rest.partition(".")[0] if is_again else answers


def file_as_json(file: ShownFile) -> dict[str, Any]:
    found: dict[str, Any] = _FILE.dump_python(file, mode="json")
    return found


def file_of_json(text: str | bytes) -> ShownFile:
    """Raises ValueError for what is none."""
    return _FILE.validate_json(text)


# Messages of a conversation on disk, so that the page shows them after a restart. One file of JSON lines.

log = logging.getLogger("tieline.web")


class Journal:
    """Appends and, when it has grown to twice what is kept, rewrites. Raises OSError when the disk refuses."""

    def __init__(self, path: Path, keep: int) -> None:
        self._path = path
        self._keep = keep
        self._lines = 0
        self._one_at_a_time = anyio.Lock()

    async def read(self) -> list[Shown]:
        """The messages that stand, in their order; broken lines are skipped."""
        entries = await to_thread.run_sync(_read, self._path)
        self._lines = len(entries)
        return standing(entries, self._keep)

    async def write(self, entry: Entry, standing_now: Sequence[Shown]) -> None:
        """Return once it is on the disk. `standing_now` is what a rewrite would keep."""
        async with self._one_at_a_time:
            await to_thread.run_sync(_append, self._path, entry_as_line(entry))
            self._lines += 1
            if self._lines > 2 * self._keep + 50:
                await self._shorten(standing_now[-self._keep :])

    async def remove(self) -> None:
        """The file is gone; nothing that was being written comes after."""
        async with self._one_at_a_time:
            await to_thread.run_sync(lambda: self._path.unlink(missing_ok=True))
            self._lines = 0

    async def _shorten(self, kept: Sequence[Shown]) -> None:
        """Failing costs room alone: what was to be written is on the disk."""
        lines = [entry_as_line(Put(put=shown)) for shown in kept]
        try:
            await to_thread.run_sync(_rewrite, self._path, b"".join(lines))
        except OSError as error:
            log.warning("%s stays as long as it is: %s", self._path, error)
        else:
            self._lines = len(lines)


def standing(entries: Sequence[Entry], keep: int) -> list[Shown]:
    """The messages that the entries leave: the last word on each message counts, the newest `keep` stay."""
    messages: dict[str, Shown] = {}
    for entry in entries:
        match entry:
            case Put(put=shown):
                messages[shown.id] = shown
            case Gone(gone=id):
                messages.pop(id, None)
    return sorted(messages.values(), key=lambda shown: shown.order)[-keep:]


def _read(path: Path) -> list[Entry]:
    entries = []
    try:
        lines = path.read_bytes().splitlines()
    except FileNotFoundError:
        return []
    for line in lines:
        try:
            entries.append(entry_of_line(line))
        except ValueError:
            continue
    return entries


def _append(path: Path, line: bytes) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
    with os.fdopen(descriptor, "r+b", buffering=0) as file:
        end = file.seek(0, os.SEEK_END)
        if end and os.pread(descriptor, 1, end - 1) != b"\n":
            line = b"\n" + line  # the process was killed while it wrote the line before
        file.write(line)
        os.fsync(descriptor)


def _rewrite(path: Path, content: bytes) -> None:
    new = path.with_suffix(".new")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(descriptor)
    new.replace(path)
