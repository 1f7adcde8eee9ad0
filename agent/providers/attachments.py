"""The bytes of files that go into a request: the newest, of a type the model takes, in the data directory only."""

import base64
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import anyio.to_thread

from agent.core.errors import ToolError
from agent.core.framing import defused
from agent.core.messages import FilePart, Message
from agent.core.tree import Tree
from agent.core.whole_text import one_line

NEWEST = 4  # files sent along; older ones are named by a line, so that a picture is not paid for in every later turn
LOOK_BACK = 100  # messages among which they are looked for
TEXT_LIMIT = 64 * 1024  # bytes of a text file shown whole

IMAGES = ("image/jpeg", "image/png", "image/gif", "image/webp")
TEXTS = ("text/plain", "text/markdown", "text/csv", "text/html", "application/json")

Bytes = Mapping[FilePart, bytes]
NOTHING: Bytes = {}


def wanted(messages: Sequence[Message], takes: frozenset[str]) -> list[FilePart]:
    """The newest files of a type in `takes`, newest first."""
    found: list[FilePart] = []
    for message in messages[: -LOOK_BACK - 1 : -1]:
        for part in message.parts:
            if part.kind == "file" and part.mime_type in takes:
                found.append(part)
                if len(found) == NEWEST:
                    return found
    return found


async def load(home: Path, parts: Sequence[FilePart], limit: int) -> Bytes:
    """What those files hold, read in a thread; without those that are gone, outside `home` or over `limit` bytes."""
    if not parts:
        return NOTHING
    return await anyio.to_thread.run_sync(_read_all, home, tuple(parts), limit)


def first_holding(messages: Sequence[Message], files: Bytes, end: int) -> int:
    """The position of the first message before `end` that one of `files` is sent with, else `end`."""
    if not files:
        return end
    for position in range(max(0, len(messages) - LOOK_BACK), end):
        if any(part.kind == "file" and part in files for part in messages[position].parts):
            return position
    return end


def as_base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def as_text(part: FilePart, data: bytes) -> str:
    """A text file as the model reads it: its sender's words, in which no tag of the gateway counts."""
    name = _name(part)
    return f"[file: {name}, {part.mime_type}]\n{defused(data.decode('utf-8', 'replace'))}\n[end of file: {name}]"


def named(part: FilePart) -> str:
    """The line that stands for a file whose bytes are not sent."""
    return f"[file: {_name(part)}, {part.mime_type}, {part.size} bytes]"


def _name(part: FilePart) -> str:
    return defused(one_line(part.name))


def _read_all(home: Path, parts: Iterable[FilePart], limit: int) -> Bytes:
    return {part: data for part in parts if (data := _read(home, part, limit)) is not None}


def _read(home: Path, part: FilePart, limit: int) -> bytes | None:
    """A picture that a tool gave lies in a workspace, where a command can put a link in its place: none is followed."""
    names = Path(part.path).parts
    if part.path.startswith("/") or ".." in names:
        return None
    largest = min(limit, TEXT_LIMIT) if part.mime_type in TEXTS else limit
    try:
        return Tree(home).read(names, largest)
    except (ToolError, OSError):
        return None
