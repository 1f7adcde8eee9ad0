"""Bytes of requests: compact JSON, never invalid; tools, prefixes and files are encoded once."""

import base64
import hashlib
import json
import logging
import re
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import anyio.to_thread

from agent.core.errors import ToolError
from agent.core.files.safe import Tree
from agent.core.files.store import FileStore
from agent.core.messages import FilePart, Message, ToolResult
from agent.core.untrusted_text import defused, one_line
from agent.providers.provider import ToolSchema
from agent.storage.errors import StorageTrouble

log = logging.getLogger("tieline.providers")


def dumps(value: Any) -> bytes:
    """`value` as JSON. What JSON cannot say (NaN, half a surrogate pair) becomes null or a question mark."""
    try:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=_plain)
    except ValueError:
        loose = json.dumps(value, ensure_ascii=False, default=_plain)
        clean = json.loads(loose, parse_constant=lambda _: None)
        text = json.dumps(clean, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "replace")


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} does not belong into a request")


# Visible tools as bytes, made once for each frozen schema.

KEPT = 64  # schemas; conversations share most of them


class SchemaBytes:
    """Keeps what `encode` made of a schema, by identity: the agent hands over the same object until it is dirty."""

    def __init__(self, encode: Callable[[ToolSchema], bytes]) -> None:
        self._encode = encode
        self._kept: dict[int, tuple[ToolSchema, bytes]] = {}  # the schema is held, so that its id stays its own

    def of(self, schema: ToolSchema) -> bytes:
        kept = self._kept.get(id(schema))
        if kept is None:
            if len(self._kept) >= KEPT:
                del self._kept[next(iter(self._kept))]
            kept = self._kept[id(schema)] = (schema, self._encode(schema))
        return kept[1]


# Names and ids of tool calls that every API accepts; ids are unique within one request. Pure.

_SAFE = re.compile(r"[A-Za-z0-9_-]{1,40}")  # Anthropic's alphabet, OpenAI's length
_SHORT = re.compile(r"[A-Za-z0-9]{9}")  # Mistral's
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")  # OpenAI's; Anthropic takes 128


@dataclass(frozen=True, slots=True)
class Ids:
    """The ids of one message, as they go over the wire."""

    uses: tuple[str, ...] = ()
    results: tuple[str, ...] = ()


NO_IDS = Ids()


def ids_of(message: Message) -> Ids | None:
    """The ids in a message; None for the many that have none."""
    uses, results = message.tool_uses, message.tool_results
    if not uses and not results:
        return None
    return Ids(tuple(wire_id(use.id) for use in uses), tuple(wire_id(result.tool_use_id) for result in results))


def wire_id(id: str) -> str:
    """`id` itself if every API accepts it, else a stable stand-in: another provider may have named the call."""
    return id if _SAFE.fullmatch(id) else "call_" + hashlib.sha256(id.encode("utf-8", "replace")).hexdigest()[:24]


def wire_name(name: str) -> str:
    """The name of a call as every API accepts it: models make up names that are none of the tools'."""
    return name if _NAME.fullmatch(name) else re.sub(r"[^A-Za-z0-9_-]", "_", name)[:64] or "unknown"


def unique(messages: Sequence[Ids | None]) -> dict[int, Ids]:
    """New ids for the messages (by position) that repeat an id an earlier call had; empty when all is well."""
    seen: set[str] = set()
    if not any(_clashes(seen, ids.uses) for ids in messages if ids):
        return {}
    changed: dict[int, Ids] = {}
    taken: set[str] = {id for ids in messages if ids for id in ids.uses}
    seen = set()
    open_calls: dict[str, deque[str]] = {}
    for position, ids in enumerate(messages):
        if ids is None:
            continue
        if ids.uses:
            open_calls = {}
        uses = []
        for id in ids.uses:
            new = id if id not in seen else _free(id, taken)
            seen.add(new)
            taken.add(new)
            open_calls.setdefault(id, deque()).append(new)
            uses.append(new)
        results = [open_calls[id].popleft() if open_calls.get(id) else id for id in ids.results]
        renamed = Ids(tuple(uses), tuple(results))
        if renamed != ids:
            changed[position] = renamed
    return changed


def _clashes(seen: set[str], ids: Iterable[str]) -> bool:
    for id in ids:
        if id in seen:
            return True
        seen.add(id)
    return False


def short_id(id: str) -> str:
    """`id` itself if Mistral's API accepts it, else a stable stand-in."""
    return id if _SHORT.fullmatch(id) else hashlib.sha256(id.encode("utf-8", "replace")).hexdigest()[:9]


def _free(id: str, taken: set[str]) -> str:
    number, is_short = 2, _SHORT.fullmatch(id)
    while (candidate := short_id(f"{id}_{number}") if is_short else f"{id[:34]}_{number}") in taken:
        number += 1
    return candidate


# Encoded prefix: the beginning of a history as bytes, kept as long as its conversation is awake.

MOST_PIECES = 64  # copying half a megabyte takes longer than all the rest of a request

# A message on the wire, b"" if nothing of it is sent, and its call ids.
Encode = Callable[[Message], tuple[bytes, Ids | None]]


@dataclass(slots=True)
class EncodedPrefix:
    """`pieces` hold `messages`, each one or more of them; `uses` are the ids of their tool calls.

    `has_calls`: calls or results are among them.
    """

    messages: tuple[Message, ...] = ()
    pieces: list[bytes] = field(default_factory=list)
    uses: set[str] = field(default_factory=set)
    has_calls: bool = False


def laid_out(head: Sequence[bytes], messages: Sequence[bytes]) -> bytes:
    """The whole body of a request: the fields of an object that is still open, then its messages. Copied once."""
    parts = [b",".join(head), b',"messages":[']
    for number, message in enumerate(messages):
        if number:
            parts.append(b",")
        parts.append(message)
    parts.append(b"]}")
    return b"".join(parts)


class EncodedPrefixCache:
    """By owner: whatever object lives as long as its conversation does."""

    def __init__(self, encode: Encode) -> None:
        self._encode = encode
        self._kept: WeakKeyDictionary[object, EncodedPrefix] = WeakKeyDictionary()

    def of(self, owner: object, messages: Sequence[Message], end: int) -> EncodedPrefix | None:
        """The first `end` messages; None where two of their calls have one id, which the whole request must mend."""
        kept = self._kept.get(owner)
        wanted = tuple(messages[:end])
        if kept is None or wanted[: len(kept.messages)] != kept.messages:  # messages are compared by identity
            kept = EncodedPrefix()
        for message in wanted[len(kept.messages) :]:
            body, ids = self._encode(message)
            kept.has_calls = kept.has_calls or ids is not None
            for id in ids.uses if ids else ():
                if id in kept.uses:
                    self._kept.pop(owner, None)
                    return None
                kept.uses.add(id)
            if body:
                kept.pieces.append(body)
        if len(kept.pieces) > MOST_PIECES:
            kept.pieces = [b",".join(kept.pieces)]
        kept.messages = wanted
        self._kept[owner] = kept
        return kept


# Position of a person's newest words in a request. Pure.


def reminder_target(messages: Sequence[Message]) -> int:
    """The position of the message that takes the reminder: the newest with a person's own words, else the last.

    It stays the same one through a whole tool loop, so that the prefix a provider has cached stays valid.
    """
    for position in range(len(messages) - 1, -1, -1):
        message = messages[position]
        # Pictures beside results are a tool's, not a person's.
        theirs = (FilePart, ToolResult) if message.tool_results else ToolResult
        if message.role == "user" and any(not isinstance(part, theirs) for part in message.parts):
            return position
    return len(messages) - 1


def loop_start(messages: Sequence[Message]) -> int:
    """The position after which only the current tool loop stands: its calls and their results."""
    position = len(messages)
    while position > 0:
        message = messages[position - 1]
        if message.role == "user" and not message.tool_results:
            break
        position -= 1
    return position


# Bytes of files in a request: the newest, of a type that the model takes, from the data directory only.

NEWEST = 4  # files sent along; older ones are named by a line, so that a picture is not paid for in every later turn
LOOK_BACK = 100  # messages among which they are looked for
TEXT_LIMIT = 64 * 1024  # bytes of a text file shown whole

IMAGES = ("image/jpeg", "image/png", "image/gif", "image/webp")
TEXTS = ("text/plain", "text/markdown", "text/csv", "text/html", "application/json")

Bytes = Mapping[FilePart, bytes]
NOTHING: Bytes = {}


def wanted(messages: Sequence[Message], takes: frozenset[str]) -> list[FilePart]:
    """The newest files of a type in `takes`, newest first; the pages of one document count as one file."""
    found: list[FilePart] = []
    counted: set[str] = set()
    for message in messages[: -LOOK_BACK - 1 : -1]:
        for part in message.parts:
            if part.kind == "file" and part.sent and part.mime_type in takes:
                counted.add(part.page_of or part.path)
                if len(counted) > NEWEST:
                    return found
                found.append(part)
    return found


async def load(home: Path, parts: Sequence[FilePart], limit: int, files: FileStore) -> Bytes:
    """The bytes of those files, read in a thread; without those gone, outside `home` or over `limit` bytes."""
    if not parts:
        return NOTHING
    for part in parts:
        try:
            await files.need(part.path)
        except (OSError, StorageTrouble) as error:
            log.warning("a file is left out of a request: %s", error)
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
    return f"[{name}, {part.mime_type}]\n{defused(data.decode('utf-8', 'replace'))}\n[end of {name}]"


def named(part: FilePart) -> str:
    """The line that stands for a file whose bytes are not sent."""
    return f"[{_name(part)}, {part.mime_type}, {part.size} bytes]"


def _name(part: FilePart) -> str:
    """The name, after a word that tells a file of the message replied to from the sender's own."""
    return f"{'quoted file' if part.quoted else 'file'}: {defused(one_line(part.name))}"


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
