"""The conversations of everybody: finds them where they are kept, keeps the busy ones in memory."""

import json
import re
import secrets
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from html import unescape
from typing import Any

import anyio
from anyio import to_thread

from adapters.web.chat_session import ChatSession, shown_in
from adapters.web.chat_store import ChatStore
from adapters.web.messages import Shown
from adapters.web.stream import Event
from agent.core.clock import Clock
from gateway.channels.errors import ChannelGone


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

    def __init__(self, store: ChatStore, clock: Clock, keep: int, tell: Callable[[str], None] | None = None) -> None:
        """`tell` reaches other processes that have the account, whose words `hear` takes."""
        self._tell = tell
        self._store = store
        self._clock = clock
        self._keep = keep
        self._sessions: OrderedDict[str, ChatSession] = OrderedDict()
        self._opening = anyio.Lock()
        self._commands: Sequence[Event] = ()
        self._entries: dict[str, tuple[int, Entry]] = {}  # of conversations not in memory, while unchanged

    async def open(self, channel_id: str) -> ChatSession:
        """The conversation, read if it is not in memory. Raises ChannelGone for an impossible id, and OSError."""
        person, name = split(channel_id)
        session = self._sessions.get(channel_id)
        if session is None:
            async with self._opening:
                session = self._sessions.get(channel_id)
                if session is None:
                    journal = self._store.journal(person, name)
                    kept = await journal.read()
                    tell = partial(self._tell_change, channel_id)
                    session = ChatSession(name, journal, kept, self._clock, self._keep, tell)
                    session.commands = self._commands
                    self._sessions[channel_id] = session
                    self._make_place()
                    self._tell_change(channel_id, {"type": "opened"})
        self._sessions.move_to_end(channel_id)
        return session

    async def list(self, person: str) -> Sequence[Entry]:
        """A person's conversations, newest first; the first one is always among them."""
        kept = await self._store.sessions(person)
        names = {*kept, FIRST, *(split(id)[1] for id in self._sessions if split(id)[0] == person)}
        given = await self._store.names(person)
        entries = [_called(await self._entry(person, name, kept.get(name, 0)), given) for name in names]
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
            journal = self._store.journal(person, entry.id)
            messages = standing if standing is not None else await journal.read()
            holds = await to_thread.run_sync(words_of, entry.title, messages)
            if all(word in holds for word in wanted):
                found.append(entry)
        return found

    async def rename(self, channel_id: str, title: str) -> None:
        """Call it so; "" gives back the name that its first message gave. Raises OSError, ChannelGone."""
        person, name = split(channel_id)
        async with self._opening:
            await self._store.name(person, name, title)
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
            self._entries.pop(channel_id, None)
            await session.remove()
            await self._store.name(person, name, "")
        self._tell_list(channel_id)

    # -- other processes

    def _tell_change(self, channel_id: str, change: Event) -> None:
        if self._tell is not None:
            self._tell(json.dumps({"in": channel_id, "change": change}))

    def hear(self, told: str) -> None:
        """Another process has changed a conversation, or opened it."""
        said = json.loads(told)
        channel_id, change = said["in"], said["change"]
        session = self._sessions.get(channel_id)
        if change["type"] == "list":
            self._list_changed(channel_id)
        elif change["type"] == "opened":
            if session is not None:
                session.tell_drafts()
        else:
            shown = session.apply(change) if session is not None else None
            if change["type"] == "removed":
                self._sessions.pop(channel_id, None)
            if change["type"] == "shown" and (shown := shown or shown_in(change)).who == "bot" and not shown.private:
                self.notify_elsewhere(channel_id, shown)

    async def read_again(self) -> None:
        """Words of others may have been lost: read what is kept."""
        for channel_id, session in list(self._sessions.items()):
            if session.is_quiet:
                self._sessions.pop(channel_id, None)
            else:
                await session.read_again()
                self._tell_change(channel_id, {"type": "opened"})

    def _tell_list(self, channel_id: str) -> None:
        """Let the person's open pages read the list again."""
        self._list_changed(channel_id)
        self._tell_change(channel_id, {"type": "list"})

    def _list_changed(self, channel_id: str) -> None:
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

    async def _entry(self, person: str, name: str, version: int) -> Entry:
        id = f"{person}:{name}"
        session = self._sessions.get(id)
        if session is not None:
            return entry_of(name, session.standing)
        known = self._entries.get(id)
        if known is None or known[0] != version:
            known = (version, entry_of(name, await self._store.journal(person, name).read()))
            self._entries[id] = known
        return known[1]

    def _make_place(self) -> None:
        quiet = [id for id, session in self._sessions.items() if session.is_quiet]
        for id in quiet[: max(0, len(self._sessions) - IN_MEMORY)]:
            del self._sessions[id]


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
