"""The conversations of everybody: finds them on disk, keeps the busy ones in memory."""

import json
import os
import re
import secrets
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from html import unescape
from pathlib import Path
from typing import Any

import anyio
from anyio import to_thread

from adapters.web.chat_session import ChatSession
from adapters.web.messages import Journal, Shown
from adapters.web.stream import Event
from agent.core.clock import Clock
from gateway.channels.errors import ChannelGone

# Names that people give their conversations, one small file a person; and the text that a search reads.

FILE = "names.json"


def read_names(folder: Path) -> Mapping[str, str]:
    """By conversation. A file that cannot be read gives none: their first messages name them. Blocks."""
    try:
        found = json.loads((folder / FILE).read_bytes())
    except (FileNotFoundError, ValueError):
        return {}
    return {str(session): str(title) for session, title in found.items()} if isinstance(found, dict) else {}


def write_name(folder: Path, session: str, title: str) -> None:
    """Whole or not at all; "" takes the name away. Blocks. Raises OSError."""
    names = dict(read_names(folder))
    if names.get(session, "") == title:
        return
    names.pop(session, None)
    if title:
        names[session] = title
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    new = folder / f"{FILE}.new"
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(json.dumps(names, ensure_ascii=False).encode())
        file.flush()
        os.fsync(descriptor)
    new.replace(folder / FILE)


def words_of(title: str, messages: Sequence[Shown]) -> str:
    """All that a search may find of a conversation, without the tags of the bot's blocks, in small letters."""
    texts = [title]
    for shown in messages:
        texts.append(shown.text)
        texts += [
            unescape("".join(piece.partition(">")[2] for piece in f">{block}".split("<"))) for block in shown.blocks
        ]
        texts += [file.name for file in shown.files]
    return "\n".join(texts).casefold()


FIRST = "main"  # the conversation everybody has
IN_MEMORY = 64
PER_PERSON = 200
TITLE = 60  # characters

_CHANNEL_ID = re.compile(r"([a-z0-9_-]{1,64}):([a-z0-9]{1,32})")


class StillAnswering(Exception):
    """An answer is under way there: it would stand in the conversation again."""


class TooMany(Exception):
    """This person has as many conversations as one may have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A line of the list of conversations."""

    id: str
    title: str
    last_at: str
    last_order: int

    def as_json(self) -> dict[str, Any]:
        return {"id": self.id, "title": self.title, "last_at": self.last_at, "last_order": self.last_order}


def channel_id(person: str, session: str) -> str:
    """`<person>:<room>`; raises ChannelGone for what cannot be one (it names a file)."""
    split(f"{person}:{session}")
    return f"{person}:{session}"


def split(channel_id: str) -> tuple[str, str]:
    """Person and room of a channel id."""
    match = _CHANNEL_ID.fullmatch(channel_id)
    if match is None:
        raise ChannelGone(f"no conversation of the web chat: {channel_id!r}; expected <person>:<conversation>")
    return match[1], match[2]


class ChatSessions:
    """One per adapter. A room that nobody looks at is dropped when others need its place."""

    def __init__(self, folder: Path, clock: Clock, keep: int) -> None:
        self._folder = folder
        self._clock = clock
        self._keep = keep
        self._sessions: OrderedDict[str, ChatSession] = OrderedDict()
        self._opening = anyio.Lock()
        self._commands: Sequence[Event] = ()
        self._entries: dict[Path, tuple[int, Entry]] = {}  # of conversations not in memory, while unchanged

    async def open(self, channel_id: str) -> ChatSession:
        """The conversation, read from disk if it is not in memory. Raises ChannelGone for an impossible id."""
        person, name = split(channel_id)
        session = self._sessions.get(channel_id)
        if session is None:
            async with self._opening:
                session = self._sessions.get(channel_id)
                if session is None:
                    journal = Journal(self._file(person, name), self._keep)
                    session = ChatSession(name, journal, await journal.read(), self._clock, self._keep)
                    session.commands = self._commands
                    self._sessions[channel_id] = session
                    self._make_place()
        self._sessions.move_to_end(channel_id)
        return session

    async def list(self, person: str) -> Sequence[Entry]:
        """A person's conversations, newest first; the first one is always among them."""
        names = await to_thread.run_sync(self._names, person)
        names |= {split(id)[1] for id in self._sessions if split(id)[0] == person}
        given = await to_thread.run_sync(read_names, self._folder / person)
        entries = [_called(await self._entry(person, name), given) for name in names | {FIRST}]
        return sorted(entries, key=lambda entry: (entry.last_at, entry.id != FIRST), reverse=True)

    async def new(self, person: str) -> str:
        """The name of an empty conversation; an empty one that is there already is used first. Raises TooMany."""
        entries = await self.list(person)
        for entry in entries:
            if not entry.last_order:
                return entry.id
        if len(entries) >= PER_PERSON:
            raise TooMany(f"{PER_PERSON} conversations are the most; go on in one of them")
        name = secrets.token_hex(6)
        await self.open(channel_id(person, name))
        return name

    async def find(self, person: str, words: str) -> Sequence[Entry]:
        """Conversations with all the words in their name or messages, newest first; capitals do not matter."""
        entries, wanted = await self.list(person), words.casefold().split()
        found = []
        for entry in entries:
            session = self._sessions.get(f"{person}:{entry.id}")
            standing = session.standing if session is not None else None
            journal = Journal(self._file(person, entry.id), self._keep)
            messages = standing if standing is not None else await journal.read()
            holds = await to_thread.run_sync(words_of, entry.title, messages)
            if all(word in holds for word in wanted):
                found.append(entry)
        return found

    async def rename(self, channel_id: str, title: str) -> None:
        """Call it so; "" gives back the name that its first message gave. Raises OSError, ChannelGone."""
        person, name = split(channel_id)
        async with self._opening:
            await to_thread.run_sync(write_name, self._folder / person, name, title)
        self._tell_list(channel_id)

    async def remove(self, channel_id: str) -> None:
        """Remove what the page shows of it, for good. Raises OSError, ChannelGone, StillAnswering.

        What the agent has kept of it is not: that is the memory's.
        """
        session = await self.open(channel_id)
        if session.is_answering:
            raise StillAnswering("an answer is under way here; stop it first")
        person, name = split(channel_id)
        async with self._opening:
            self._sessions.pop(channel_id, None)
            self._entries.pop(self._file(person, name), None)
            await session.remove()
            await to_thread.run_sync(write_name, self._folder / person, name, "")
        self._tell_list(channel_id)

    def _tell_list(self, channel_id: str) -> None:
        """Let the person's open pages read the list again."""
        person, name = split(channel_id)
        for other, session in self._sessions.items():
            if split(other)[0] == person:
                session.stream.publish({"type": "elsewhere", "room": name})

    def notify_elsewhere(self, channel_id: str, shown: Shown) -> None:
        """Let the person's other open pages know that something came in here."""
        person, name = split(channel_id)
        for other, session in self._sessions.items():
            if other != channel_id and split(other)[0] == person:
                session.stream.publish({"type": "elsewhere", "room": name, "order": shown.order, "at": shown.at})

    def use_commands(self, commands: Sequence[Event]) -> None:
        self._commands = commands
        for session in self._sessions.values():
            session.use_commands(commands)

    def close(self) -> None:
        """Every reader ends, and nothing is kept in memory: whoever comes back gets the whole state, from the disk."""
        for session in self._sessions.values():
            session.stream.close()
        self._sessions.clear()

    async def _entry(self, person: str, name: str) -> Entry:
        session = self._sessions.get(f"{person}:{name}")
        if session is not None:
            return entry_of(name, session.standing)
        path = self._file(person, name)
        changed_at = path.stat().st_mtime_ns if path.exists() else 0
        known = self._entries.get(path)
        if known is None or known[0] != changed_at:
            known = (changed_at, entry_of(name, await Journal(path, self._keep).read()))
            self._entries[path] = known
        return known[1]

    def _make_place(self) -> None:
        quiet = [id for id, session in self._sessions.items() if session.is_quiet]
        for id in quiet[: max(0, len(self._sessions) - IN_MEMORY)]:
            del self._sessions[id]

    def _names(self, person: str) -> set[str]:
        return {path.stem for path in (self._folder / person).glob("*.jsonl")}

    def _file(self, person: str, name: str) -> Path:
        return self._folder / person / f"{name}.jsonl"


def _called(entry: Entry, given: Mapping[str, str]) -> Entry:
    return replace(entry, title=given[entry.id]) if entry.id in given else entry


def entry_of(name: str, messages: Sequence[Shown]) -> Entry:
    last = messages[-1] if messages else None
    title = next((title for shown in messages if (title := title_of(shown))), "")
    return Entry(id=name, title=title, last_at=last.at if last else "", last_order=last.order if last else 0)


def title_of(shown: Shown) -> str:
    """A name for the conversation from a person's message: its first line, shortened; the bot's own give none."""
    line = next((line.strip() for line in shown.text.splitlines() if line.strip()), "")
    if line.startswith("/"):
        return ""  # a command says nothing about what follows
    return line if len(line) <= TITLE else line[: TITLE - 1].rstrip() + "…"
