"""Finds what is to be forgotten, and changes nothing: in a reader, so that nobody who writes waits for it.

Each thing is looked up by an index, a page at a time: the transcripts of others are not read.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError
from sqlalchemy import Connection, select

from agent.core.ids import ConversationId, PersonId
from agent.core.messages import (
    CompactionPart,
    FilePart,
    Part,
    RedactedThinking,
    SummaryPart,
    TextPart,
    Thinking,
    ToolResult,
    ToolUse,
)
from agent.core.outbox import OutgoingMessage
from agent.memory import rows
from agent.memory.records import Item
from agent.memory.target import PAGE, Erased, Target, chunks
from agent.storage.payloads import decode_outgoing, decode_parts
from agent.storage.tables import outbox
from agent.storage.transcript_tables import cleared_result, message, passage, session


@dataclass(frozen=True, slots=True, kw_only=True)
class Meant:
    """What is to be forgotten, by its ids; `runs` and `touched` are the runs and sessions that the messages are of.

    `sessions` are all of these conversations. `texts` is what people said in messages that go with one item or session.
    """

    items: tuple[int, ...]
    messages: tuple[int, ...]
    runs: frozenset[int]
    touched: frozenset[str]
    conversations: tuple[ConversationId, ...]
    sessions: tuple[str, ...]
    texts: tuple[str, ...]
    since: int | None = None  # when the one session began that is meant (UTC microseconds)

    @property
    def erased(self) -> Erased:
        """How much it is."""
        return Erased(
            items=len(self.items), messages=len(self.messages), conversations=self.conversations, texts=self.texts
        )


def places(conn: Connection, target: Target) -> tuple[ConversationId, ...]:
    """The conversations it may stand in: those of the same people; of one session its own."""
    if target.session:
        return (target.scope.conversation,)
    return tuple(dict.fromkeys((target.scope.conversation, *rows.conversations(conn, target.scope.own))))


def gathered(conn: Connection, target: Target) -> Meant:
    """All of it, as things stand now."""
    conversations = places(conn, target)
    sessions = (target.session,) if target.session else _sessions_of(conn, conversations)
    theirs = _runs_of(conn, target.only_by, sessions) if target.only_by is not None else None
    items = tuple((item.id, item.inbox_id, item.session) for item in _items(conn, target, theirs))
    sources = {run for _, run, _ in items if run is not None}
    told_in = {place for _, _, place in items}
    looked_at: Iterable[str] = sessions
    if target.item is not None:
        looked_at = [id for id in sessions if id in told_in | _sessions_with(conn, sources)]
    derived = _with_traces(conn, target, sessions) if target.words else frozenset()
    hits: list[tuple[int, int | None, str]] = []
    texts: list[str] = []
    for row in _messages(conn, looked_at):
        by_the_gateway = row.inbox_id is None  # a summary, which may tell of anything
        if theirs is not None and row.inbox_id not in theirs and not by_the_gateway:
            continue
        if target.words:
            wanted = any(target.holds(text) for part in parts_of(row) for text in texts_of(part))
            wanted = wanted or row.id in derived or target.holds(row.deferred or "")
        elif target.item is not None:
            wanted = row.inbox_id in sources or (by_the_gateway and row.session_id in told_in)
        else:
            wanted = True
        if wanted:
            hits.append((row.id, row.inbox_id, row.session_id))
            if (target.item is not None or target.session) and row.person is not None:
                texts += [part.text for part in parts_of(row) if isinstance(part, TextPart)]
    return Meant(
        items=tuple(id for id, _, _ in items),
        messages=tuple(id for id, _, _ in hits),
        runs=frozenset(run for _, run, _ in hits if run is not None),
        touched=frozenset(place for _, _, place in hits),
        conversations=conversations,
        sessions=sessions,
        texts=tuple(texts),
        since=_began(conn, target.session) if target.session else None,
    )


def files(conn: Connection, target: Target, meant: Meant) -> tuple[list[str], list[str]]:
    """Names of files that came or were sent with what is meant; and, where words are, of all others there."""
    gone: list[str] = []
    others: list[str] = []
    hits = frozenset(meant.messages)
    for row in _messages(conn, meant.sessions) if target.item is None else ():
        for part in parts_of(row) if '"path"' in row.parts else ():
            if isinstance(part, FilePart):
                whole = row.id in hits and (not target.words or target.holds(part.name))
                (gone if whole else others).append(part.path)
    for some in chunks(meant.conversations):
        ended = outbox.c.status.in_(("sent", "dead", "dropped"))
        sent = select(outbox.c.payload, outbox.c.inbox_id, outbox.c.created_at).where(outbox.c.conv.in_(some), ended)
        for row in conn.execute(sent):
            said = decode_outgoing(row.payload)
            went = is_said(target, meant.runs, row.inbox_id, said) or is_within(meant, row.created_at)
            (gone if went else others).extend(one.path for one in said.files)
    return gone, others if target.words else []


def is_said(target: Target, runs: Collection[int], run: int | None, said: OutgoingMessage) -> bool:
    """Whether something that was sent is meant."""
    meant = run in runs or target.holds(said.text) or any(target.holds(file.name) for file in said.files)
    return meant or (target.everything and target.only_by is None)


def is_within(meant: Meant, at: int) -> bool:
    """Whether it came or went while the one session was there that is meant: an answer to a command may quote it."""
    return meant.since is not None and at >= meant.since


def _began(conn: Connection, id: str) -> int | None:
    found: int | None = conn.execute(select(session.c.created_at).where(session.c.id == id)).scalar_one_or_none()
    return found


def _sessions_of(conn: Connection, conversations: Sequence[str]) -> tuple[str, ...]:
    found: list[str] = []
    for some in chunks(conversations):
        found += conn.execute(select(session.c.id).where(session.c.conv.in_(some))).scalars()
    return tuple(found)


def _with_traces(conn: Connection, target: Target, sessions: Sequence[str]) -> frozenset[int]:
    """Messages of which something that was made of them holds the words, whatever they say themselves by now."""
    found: set[int] = set()
    for made in (passage, cleared_result):
        for some in chunks(sessions):
            of_them = select(made.c.message_id, made.c.text).where(made.c.session_id.in_(some))
            found.update(row.message_id for row in conn.execute(of_them) if target.holds(row.text))
    return frozenset(found)


def _sessions_with(conn: Connection, runs: Collection[int]) -> set[str]:
    found: set[str] = set()
    for some in chunks(sorted(runs)):
        found.update(conn.execute(select(message.c.session_id).where(message.c.inbox_id.in_(some))).scalars())
    return found


def _runs_of(conn: Connection, person: PersonId, sessions: Sequence[str]) -> set[int]:
    """The runs that a person's messages began."""
    found: set[int] = set()
    for some in chunks(sessions):
        statement = select(message.c.inbox_id).where(message.c.session_id.in_(some), message.c.person == person)
        found.update(id for id in conn.execute(statement).scalars() if id is not None)
    return found


def _items(conn: Connection, target: Target, theirs: Collection[int] | None) -> Iterator[Item]:
    if target.item is not None:
        one = rows.fact(conn, target.scope.own, target.item)
        every: Iterable[Item] = (one,) if one is not None else ()
    else:
        every = rows.paged(conn, target.scope.own)
    for item in every:
        if target.session and (item.session != target.session or item.kind == "fact"):
            continue
        if target.words and not target.holds(item.text) and not target.holds(item.speaker):
            continue
        if theirs is None or item.person == target.only_by or item.inbox_id in theirs:
            yield item


def _messages(conn: Connection, sessions: Iterable[str]) -> Iterator[Any]:
    """The messages of these sessions, by the index of each session: other people's are not read."""
    for one in sessions:
        after = 0
        while True:
            statement = select(message).where(message.c.session_id == one, message.c.id > after)
            page = conn.execute(statement.order_by(message.c.id).limit(PAGE)).all()
            yield from page
            if len(page) < PAGE:
                break
            after = page[-1].id


def parts_of(row: Any) -> tuple[Part, ...]:
    try:
        return decode_parts(row.parts)
    except ValidationError:  # damaged: what cannot be read is looked at as it stands
        return (TextPart(text=row.parts),)


def texts_of(part: Part) -> tuple[str, ...]:
    match part:
        case TextPart() | SummaryPart():
            return (part.text,)
        case ToolUse():
            return (json.dumps(dict(part.input), ensure_ascii=False),)
        case ToolResult():
            return (part.content,)
        case Thinking():
            return (part.thinking,)
        case FilePart():
            return (part.name,)
        case CompactionPart():
            return (part.summary,)
        case RedactedThinking():
            return ()
