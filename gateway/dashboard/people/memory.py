"""The memory: what is kept of each person and place, found as a turn there would find it; forget and export."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import cast
from urllib.parse import quote

from sqlalchemy import Connection
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from agent.core.clock import Clock
from agent.core.files.store import FileStore
from agent.core.ids import ConversationId, PersonId
from agent.core.phrases import counted
from agent.memory import erasure_rows, index, misses, rows
from agent.memory import graph as graph_rows
from agent.memory.erasure import preview
from agent.memory.memory import EVERYTHING, Memory
from agent.memory.misses import Miss
from agent.memory.records import ChatType, Item, Scope
from agent.memory.rows import Amount, Erased, Target
from agent.skills.learning import Learning
from agent.storage.database import Database
from agent.storage.timestamps import from_timestamp
from gateway.channels.keys import ConversationKey
from gateway.commands.kept.memory import MOST_RELATIONS, erase
from gateway.dashboard.frame.listing import PAGE, Asked, asked, listing
from gateway.dashboard.frame.readings import Readings
from gateway.dashboard.frame.shell import Done, Page, Section, action, view
from gateway.running.turns import TurnServices
from gateway.storage import conversation_list
from gateway.storage.conversation_list import ConversationEntry
from gateway.web.control import OperationError

MISSES_OF = timedelta(days=7)
MOST_MISSES = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Remembered:
    """A conversation, whose memory it sees, and how much of that there is. `key` is its address."""

    entry: ConversationEntry
    key: str
    whose: str
    amount: Amount
    at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownItem:
    """A thing that is kept, and where it was said."""

    item: Item
    key: str
    place: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPages:
    """The list of conversations, the memory that each one sees, misses, and what may be done with it."""

    database: Database
    clock: Clock
    home: Path
    files: FileStore
    memory: Memory
    learning: Learning
    turns: TurnServices
    readings: Readings

    def section(self) -> Section:
        """The section, for those who may read what others wrote."""
        return Section(
            title="Memory",
            group="People",
            entries=(
                view("/memory", self.all, needs="transcripts"),
                view("/memory-misses", self.missed, needs="transcripts"),
                view("/memory-export/{key:path}", self.export, needs="transcripts"),
                view("/memory/{key:path}", self.one, needs="transcripts"),
                action("/memory-fact/forget/{key:path}", self.forget_fact, name="memory.forget"),
                action("/memory-all/forget/{key:path}", self.forget_all, name="memory.forget_all"),
            ),
        )

    async def all(self, request: Request) -> Page:
        """Conversations, the one used last first, and how much is kept of whom; nobody's words."""
        look = asked(request.query_params)

        def read(conn: Connection) -> tuple[list[ConversationEntry], dict[ConversationId, Scope], Mapping[str, Amount]]:
            entries = conversation_list.newest(conn, find=look.find, most=PAGE + 1, skip=look.skip)
            scopes = {one.key: self._scope(conn, one) for one in entries}
            audiences = {audience for scope in scopes.values() for audience in scope.theirs}
            return entries, scopes, rows.amounts(conn, list(audiences))

        entries, scopes, amounts = await self.database.read(read)
        since = int((self.clock.now() - MISSES_OF).timestamp())
        shown = [_remembered(one, scopes[one.key], amounts) for one in entries]
        values = {
            "listing": listing(shown, look),
            "misses": await self.database.read(lambda conn: misses.count_since(conn, since)),
        }
        return Page(template="memories.html", values=values)

    async def one(self, request: Request) -> Page:
        """The facts that a conversation sees, or all that holds the words looked for; once noted for each reading."""
        look = asked(request.query_params)
        entry, scope, found, amounts, names, is_off = await self.database.read(
            lambda conn: self._read(conn, request, look)
        )
        await self.readings.note(request, "memory.read", entry.key, "a search" if look.find else "facts")
        shown = [
            ShownItem(
                item=one, key=quote(one.conversation, safe=""), place=names.get(one.conversation) or one.conversation
            )
            for one in found
        ]
        values = {
            "title": f"Memory of {_titled(entry)}",
            "one": _remembered(entry, scope, amounts),
            "key": quote(entry.key, safe=""),
            "around": [audience for audience in scope.visible if audience not in scope.theirs],
            "accounts": scope.accounts[1:] if scope.is_private else (),
            "theirs": frozenset(scope.theirs),
            "listing": listing(shown, look),
            "names": names,
            "is_private": scope.is_private,
            "is_off": is_off,
        }
        return Page(template="memory.html", values=values)

    def _read(
        self, conn: Connection, request: Request, look: Asked
    ) -> tuple[ConversationEntry, Scope, Sequence[Item], Mapping[str, Amount], Mapping[str, str], bool]:
        entry = _entry(conn, request)
        scope = self._scope(conn, entry)
        found: Sequence[Item]
        if look.find:
            terms = self.memory.lexicon.terms(look.find)
            found = index.search(conn, scope, terms, kinds=EVERYTHING, most=PAGE, exact=True)
        else:
            found = rows.facts(conn, scope.visible, most=PAGE + 1, after=look.skip)
        places = conversation_list.names(conn, {ConversationId(one.conversation) for one in found})
        names: dict[str, str] = {str(key): name for key, name in places.items()}
        names |= conversation_list.known_as(conn, sorted({one.person for one in found if one.person}))
        return entry, scope, found, rows.amounts(conn, scope.theirs), names, rows.is_off(conn, entry.key)

    async def missed(self, request: Request) -> Page:
        """Searches of the last week that found nothing."""
        since = int((self.clock.now() - MISSES_OF).timestamp())

        def read(conn: Connection) -> tuple[Sequence[Miss], Mapping[str, str]]:
            found = misses.since(conn, since, most=MOST_MISSES)
            places = conversation_list.names(conn, {ConversationId(one.conversation) for one in found})
            return found, {str(key): name for key, name in places.items()}

        found, names = await self.database.read(read)
        await self.readings.note(request, "memory.misses", "all conversations")
        values = {
            "title": "Memory misses",
            "misses": found,
            "names": names,
            "most": MOST_MISSES,
            "at": lambda one: from_timestamp(one.ts * 1_000_000),
        }
        return Page(template="memory_misses.html", values=values)

    async def export(self, request: Request) -> Response:
        """All that may be listed there, as JSON lines."""

        def read(conn: Connection) -> tuple[ConversationEntry, str]:
            entry = _entry(conn, request)
            return entry, "".join(_lines(conn, self._scope(conn, entry)))

        entry, written = await self.database.read(read)
        await self.readings.note(request, "memory.export", entry.key)
        headers = {"content-disposition": 'attachment; filename="memory.jsonl"'}
        return PlainTextResponse(written, media_type="application/x-ndjson", headers=headers)

    async def forget_fact(self, request: Request) -> Done:
        """Forgets one thing, and what it was made of, as `/memory forget` with its number."""
        form = await request.form()
        number = str(form.get("item") or "")
        if not (number.isascii() and number.isdigit() and len(number) < 16):
            raise OperationError("choose what is to be forgotten")
        entry, scope = await self._found(request)
        target = Target(scope=scope, item=int(number))
        there = await preview(self.memory, target)
        if not there.items and not there.messages:
            raise LookupError(f"There is no thing {number} in this memory any more.")
        erased = await self.erase_there(entry.key, target, there)
        return Done(text=_told(erased, one=True), subject=entry.key, detail=f"thing {number}; {_left(erased)}")

    async def forget_all(self, request: Request) -> Done:
        """Forgets all of a person, or of a place, as `/memory forget all`."""
        entry, scope = await self._found(request)
        target = Target(scope=scope)
        erased = await self.erase_there(entry.key, target, await preview(self.memory, target))
        return Done(text=_told(erased), subject=entry.key, detail=_left(erased))

    async def erase_there(self, key: ConversationId, target: Target, there: Erased) -> Erased:
        """Forgets what `preview` found; whoever is awake in that conversation is told."""
        erased = await erase(
            self.memory, self.learning, target, there, home=self.home, files=self.files, clock=self.clock
        )
        # A turn that runs notices by itself; whoever is awake and idle reads anew.
        if self.turns.factory.in_use(key) and not self.turns.is_running(key):
            (await self.turns.factory.operations(key)).memory_changed()
        return erased

    async def _found(self, request: Request) -> tuple[ConversationEntry, Scope]:
        def read(conn: Connection) -> tuple[ConversationEntry, Scope]:
            entry = _entry(conn, request)
            return entry, self._scope(conn, entry)

        return await self.database.read(read)

    def _scope(self, conn: Connection, entry: ConversationEntry) -> Scope:
        """The scope of its next turn. A direct chat of which nobody knows whose it is sees what it has kept itself.

        The entries of the inbox are gone after [retention] inbox_days: then what was kept tells whose the chat is.
        """
        if not entry.chat_type and (audience := rows.kept_last_for(conn, entry.key)) is not None:
            kind, _, whose = audience.partition(":")
            accounts = self.memory.accounts(PersonId(whose))
            is_private = kind == "person" and not erasure_rows.shared(conn, [entry.key], accounts)
            return self.memory.scope(
                entry.key, "direct" if is_private else "group", PersonId(whose) if is_private else None
            )
        person, platform = entry.person, ConversationKey.parse(entry.key).platform
        if person is not None and person.partition(":")[0] != platform:  # an operator spoke there last
            person = None
        return self.memory.scope(entry.key, cast("ChatType", entry.chat_type or "direct"), person)


def _entry(conn: Connection, request: Request) -> ConversationEntry:
    key = ConversationId(request.path_params["key"])
    entry = conversation_list.find(conn, key)
    if entry is None:
        raise LookupError(f"There is no conversation {key}.")
    return entry


def _titled(entry: ConversationEntry) -> str:
    return entry.place or entry.name or entry.key


def _remembered(entry: ConversationEntry, scope: Scope, amounts: Mapping[str, Amount]) -> Remembered:
    parts = [amounts[audience] for audience in scope.theirs if audience in amounts]
    at = max((part.at for part in parts if part.at is not None), default=None)
    amount = Amount(facts=sum(part.facts for part in parts), said=sum(part.said for part in parts), at=at)
    return Remembered(
        entry=entry,
        key=quote(entry.key, safe=""),
        whose="this person, in direct chats" if scope.is_private else "everybody in this place",
        amount=amount,
        at=from_timestamp(at) if at is not None else None,
    )


def _lines(conn: Connection, scope: Scope) -> Iterator[str]:
    """Each thing that is kept, then each relation, one on a line."""
    for audience in scope.theirs:
        for item in rows.paged(conn, audience):
            yield _line(
                {
                    "id": item.id,
                    "kind": item.kind,
                    "text": item.text,
                    "by": item.person,
                    "source": item.source,
                    "confidence": item.confidence,
                    "conversation": item.conversation,
                    "at": item.at.isoformat(),
                }
            )
    for edge in graph_rows.listed(conn, scope.theirs, most=MOST_RELATIONS):
        relation = {"subject": edge.subject, "relation": edge.word, "object": edge.object}
        yield _line({"kind": "relation", **relation, "confidence": edge.confidence})


def _line(values: Mapping[str, object]) -> str:
    return f"{json.dumps(values, ensure_ascii=False)}\n"


def _told(erased: Erased, *, one: bool = False) -> str:
    """The sentence on what is gone; of `one` thing, with what it came from."""
    # Recall may remember messages whose transcript is gone already.
    messages = counted(erased.messages or erased.items - erased.facts, "message")
    if not erased.facts:
        text = f"Forgotten: the exchange, {messages}." if one else f"Forgotten: {messages}."
    elif not erased.messages and erased.items == erased.facts:
        text = f"Forgotten: {counted(erased.facts, 'fact')}."
    else:
        rest = f"the {messages} it came from" if one else messages
        text = f"Forgotten: {counted(erased.facts, 'fact')} and {rest}."
    return (
        f"{text} {counted(len(erased.left), 'file')} could not be removed; the log names them." if erased.left else text
    )


def _left(erased: Erased) -> str:
    return f"{erased.facts} facts, {erased.messages} messages, {len(erased.left)} files left"
