"""All conversations for operators, newest activity first: names, sessions, and a search. Moments: UTC microseconds."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic import ValidationError
from sqlalchemy import ColumnElement, Connection, bindparam, func, literal_column, not_, or_, select, union

from agent.core.ids import ConversationId, PersonId, SessionId
from agent.inbox import Incoming
from agent.ledger.spending import Account
from agent.storage.inbox_rows import ASKED, WEBHOOKS
from agent.storage.payloads import decode_incoming
from agent.storage.tables import conversation, group_message, inbox, message, session, turn, usage
from agent.storage.watch_tables import turn_trace
from gateway.storage import pairings

PROGRAMS = (WEBHOOKS, ASKED)  # begin the dedup of what other programs bring into a chat
MOST_LOOKED_AT = 5_000  # conversations that a search by name looks at, the newest first
MOST_MESSAGES = 50_000  # messages that a search for words looks at, the newest first


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationEntry:
    """A conversation. `name` is who spoke there last, by the account `person`, `place` what people call the group.

    Before the first answer there `name` is who asked to be let in. Both are "" where nobody knows. `title` are the
    first words of its session: somebody's words. `messages` counts those of the session. `language` is that of the last
    answer there.
    """

    key: ConversationId
    state: str
    name: str
    person: PersonId | None
    place: str
    chat_type: str
    language: str
    session: SessionId | None
    title: str
    messages: int
    active_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundMessage:
    """A message with the words that were looked for. `id` is its row."""

    key: ConversationId
    session: SessionId
    id: int
    role: str
    parts: str
    created_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """Money and tokens of a conversation. `unpriced` calls have no known price."""

    tokens: int
    cost_usd: float
    unpriced: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownPerson:
    """A person who was answered: the name that their platform shows, "" where nobody knows; when the last turn was."""

    name: str
    active_at: int


_ACTIVE = func.coalesce(session.c.updated_at, conversation.c.created_at)
# Its row of the inbox: a join of turns between them would be a scan of all turns for each conversation on SQLite.
_NEWEST_TURN = (
    select(turn.c.inbox_id)
    .where(turn.c.conv == conversation.c.key)
    .order_by(turn.c.id.desc())
    .limit(1)
    .correlate(conversation)
)
_ALL = (
    select(
        conversation.c.key,
        conversation.c.state,
        conversation.c.session_id,
        session.c.title,
        session.c.message_count,
        _ACTIVE.label("active_at"),
        inbox.c.payload,
        inbox.c.dedup,
    )
    .select_from(
        conversation.outerjoin(session, session.c.id == conversation.c.session_id).outerjoin(
            inbox, inbox.c.id == _NEWEST_TURN.scalar_subquery()
        )
    )
    .order_by(_ACTIVE.desc(), conversation.c.key)
    .limit(bindparam("most"))
    .offset(bindparam("skip"))
)
_ONE = _ALL.where(conversation.c.key == bindparam("conversation"))
_ON = _ALL.where(conversation.c.key.startswith(bindparam("platform"), autoescape=False))
# Not from other programs: what these bring says nothing of the people of the chat.
_NEWEST_CAME = (
    select(func.max(inbox.c.id))
    .where(
        inbox.c.conv.in_(bindparam("keys", expanding=True)),
        *(not_(inbox.c.dedup.startswith(beginning)) for beginning in PROGRAMS),
    )
    .group_by(inbox.c.conv)
)
_CAME = select(inbox.c.conv, inbox.c.payload).where(inbox.c.id.in_(_NEWEST_CAME))
_NAMED = _ALL.where(conversation.c.key.in_(bindparam("keys", expanding=True)))
_WORDS = (
    select(message.c.conv, message.c.session_id, message.c.id, message.c.role, message.c.parts, message.c.created_at)
    .where(
        message.c.id > select(func.max(message.c.id) - MOST_MESSAGES).scalar_subquery(),
        message.c.user_visible,
        message.c.parts.ilike(bindparam("words"), escape="/"),
    )
    .order_by(message.c.id.desc())
    .limit(bindparam("most"))
)
_NEWEST_OF = select(func.max(turn_trace.c.id)).where(turn_trace.c.person.is_not(None)).group_by(turn_trace.c.person)
_PEOPLE = (
    select(turn_trace.c.person, turn_trace.c.started_at, inbox.c.payload)
    .outerjoin(inbox, inbox.c.id == turn_trace.c.inbox_id)
    .where(turn_trace.c.id.in_(_NEWEST_OF))
    .order_by(turn_trace.c.id.desc())
    .limit(MOST_LOOKED_AT)
)
_ANSWERED = select(turn_trace.c.conv).where(turn_trace.c.person.in_(bindparam("people", expanding=True)))
_COUNT = select(func.coalesce(func.sum(session.c.message_count), 0)).where(
    session.c.conv.in_(bindparam("keys", expanding=True))
)
_NEWEST_OF_THESE = (
    select(func.max(turn_trace.c.id))
    .where(turn_trace.c.person.in_(bindparam("accounts", expanding=True)))
    .group_by(turn_trace.c.person)
)
_NAMES_OF_PEOPLE = (
    select(turn_trace.c.person, inbox.c.payload)
    .join(inbox, inbox.c.id == turn_trace.c.inbox_id)
    .where(turn_trace.c.id.in_(_NEWEST_OF_THESE))
)
_SPENT = (
    select(
        usage.c.conv,
        func.sum(usage.c.prompt + usage.c.output + usage.c.cache_creation + usage.c.cache_read),
        func.coalesce(func.sum(usage.c.cost_usd), 0.0),
        func.sum(func.coalesce(literal_column("CASE WHEN cost_usd IS NULL THEN 1 END"), 0)),
    )
    .where(usage.c.conv.in_(bindparam("conversations", expanding=True)), usage.c.created_at >= bindparam("since"))
    .group_by(usage.c.conv)
)


def newest(
    conn: Connection, *, find: str = "", in_words: bool = False, on: str = "", most: int = 50, skip: int = 0
) -> list[ConversationEntry]:
    """Conversations, the one used last first.

    `find` is looked for in keys, names and places of the 5,000 newest, and with `in_words` in titles too; `on` names a
    platform.
    """
    values: dict[str, Any] = {"most": most, "skip": skip}
    query = _ALL
    if on:
        query, values["platform"] = _ON, f"{on}:"
    if not find:
        return _entries(conn, conn.execute(query, values))
    rows = conn.execute(query, values | {"most": MOST_LOOKED_AT, "skip": 0})
    sought = find.casefold()
    found = [
        entry
        for entry in _entries(conn, rows)
        if any(
            sought in text.casefold()
            for text in (entry.key, entry.name, entry.place, *((entry.title,) if in_words else ()))
        )
    ]
    return found[skip : skip + most]


def find(conn: Connection, key: ConversationId) -> ConversationEntry | None:
    """The conversation of that key."""
    found = _entries(conn, conn.execute(_ONE, {"conversation": key, "most": 1, "skip": 0}))
    return found[0] if found else None


def names(conn: Connection, keys: Iterable[ConversationId]) -> Mapping[ConversationId, str]:
    """How people call these conversations: the group, or who spoke there last; the key where nobody knows."""
    sought = sorted(set(keys))
    found = _entries(conn, conn.execute(_NAMED, {"keys": sought, "most": len(sought), "skip": 0}))
    return dict(zip(sought, sought, strict=True)) | {one.key: one.place or one.name or one.key for one in found}


def people(conn: Connection) -> Mapping[str, KnownPerson]:
    """The people whose turns left a trace, the 5,000 answered last."""
    return {
        row.person: KnownPerson(name=incoming.display if incoming else "", active_at=row.started_at)
        for row in conn.execute(_PEOPLE)
        for incoming in (_incoming(row.payload),)
    }


def where_answered(
    conn: Connection, accounts: Iterable[PersonId], *, most: int | None = None
) -> Sequence[ConversationId]:
    """Where the person with these accounts was answered, as their traces tell; in the newest `most` turns."""
    newest = _ANSWERED.order_by(turn_trace.c.id.desc()).limit(most).subquery()
    found = conn.scalars(select(newest.c.conv).distinct(), {"people": list(accounts)})
    return [ConversationId(key) for key in found]


def where_spoken(
    conn: Connection, accounts: Iterable[PersonId], *, most: int | None = None
) -> Sequence[ConversationId]:
    """Where the person with these accounts spoke, as transcripts and read-along words tell, however old.

    With `most` only so many messages are looked at, the newest.
    """
    people = list(accounts)
    spoke = select(message.c.conv).where(message.c.person.in_(people))
    if most is not None:
        spoke = spoke.where(message.c.id > select(func.max(message.c.id) - most).scalar_subquery())
    heard = select(group_message.c.conv).where(group_message.c.person.in_(people))
    return [ConversationId(key) for key in conn.scalars(union(spoke, heard))]


def chat_types(conn: Connection, keys: Iterable[ConversationId]) -> Mapping[ConversationId, str]:
    """The kind of chat of each; "" where nobody knows any more."""
    sought = sorted(set(keys))
    found = _entries(conn, conn.execute(_NAMED, {"keys": sought, "most": len(sought), "skip": 0}))
    return {one.key: one.chat_type for one in found}


def count_messages(conn: Connection, keys: Iterable[ConversationId]) -> int:
    """The messages of all sessions of these conversations."""
    return int(conn.execute(_COUNT, {"keys": list(keys)}).scalar_one())


def names_of_people(conn: Connection, accounts: Sequence[str]) -> Mapping[str, str]:
    """The names that their platforms show of these people, as far as a trace of a turn tells them."""
    return {
        row.person: incoming.display
        for row in conn.execute(_NAMES_OF_PEOPLE, {"accounts": accounts})
        if (incoming := _incoming(row.payload)) is not None
    }


def known_as(conn: Connection, accounts: Sequence[str]) -> Mapping[str, str]:
    """The names of these people, from their platforms or as they asked to be let in; those without one are left out."""
    asked_as, names = pairings.displays(conn), names_of_people(conn, accounts)
    return {one: name for one in accounts if (name := names.get(one) or asked_as.get(one))}


def names_of_payers(conn: Connection, payers: Sequence[Account]) -> Mapping[Account, str]:
    """The names of the people and places whose budgets these are; those without one are left out."""
    people = {one.name: one for one in payers if one.scope == "person"}
    places = {ConversationId(one.name): one for one in payers if one.scope == "channel"}
    named = {people[account]: name for account, name in known_as(conn, list(people)).items()}
    return named | {places[key]: name for key, name in names(conn, places).items() if name != key}


def with_words(conn: Connection, words: str, *, within: Sequence[str] = (), most: int = 20) -> list[FoundMessage]:
    """Messages whose stored form holds these words, the newest first, among the newest 50,000.

    `within` names places that count, with what is in them; without any all do.
    """
    written = json.dumps(words, ensure_ascii=False)[1:-1]
    for sign in "/%_":
        written = written.replace(sign, f"/{sign}")
    query = _WORDS
    if within:
        query = query.where(or_(*(message.c.conv == place for place in within), *(_inside(place) for place in within)))
    return [
        FoundMessage(
            key=ConversationId(row.conv),
            session=SessionId(row.session_id),
            id=row.id,
            role=row.role,
            parts=row.parts,
            created_at=row.created_at,
        )
        for row in conn.execute(query, {"words": f"%{written}%", "most": most})
    ]


def _inside(place: str) -> ColumnElement[bool]:
    return message.c.conv.startswith(f"{place}:", autoescape=True)


def spent(conn: Connection, keys: Iterable[ConversationId], *, since: int) -> Mapping[ConversationId, Spent]:
    """Money and tokens of these conversations from that moment on; who spent nothing is left out."""
    values = {"conversations": list(keys), "since": since}
    return {
        ConversationId(key): Spent(tokens=int(tokens), cost_usd=float(usd), unpriced=int(unpriced))
        for key, tokens, usd, unpriced in conn.execute(_SPENT, values)
    }


def platforms(conn: Connection) -> Sequence[str]:
    """The channel types that have conversations."""
    return sorted({key.partition(":")[0] for key in conn.scalars(select(conversation.c.key))})


def _entries(conn: Connection, rows: Iterable[Any]) -> list[ConversationEntry]:
    """The conversations of these rows. Where no turn tells a name, what came last does, or the request to be let in."""
    found = [_entry(row) for row in rows]
    nameless = [one.key for one in found if not one.name]
    if not nameless:
        return found
    asked_as = pairings.displays_by_place(conn)
    came = {row.conv: _incoming(row.payload) for row in conn.execute(_CAME, {"keys": nameless})}
    return [one if one.name else _told_by(one, came.get(one.key), or_else=asked_as.get(one.key, "")) for one in found]


def _told_by(one: ConversationEntry, incoming: Incoming | None, *, or_else: str = "") -> ConversationEntry:
    """The entry with what the message tells of its people."""
    if incoming is None:
        return replace(one, name=or_else)
    return replace(
        one,
        name=incoming.display or or_else,
        person=incoming.person or one.person,
        place=incoming.place or one.place,
        chat_type=incoming.chat_type or one.chat_type,
        language=incoming.language,
    )


def _entry(row: Any) -> ConversationEntry:
    is_of_people = row.dedup is not None and not row.dedup.startswith(PROGRAMS)
    one = ConversationEntry(
        key=ConversationId(row.key),
        state=row.state,
        name="",
        person=None,
        place="",
        chat_type="",
        language="en",
        session=SessionId(row.session_id) if row.session_id else None,
        title=row.title or "",
        messages=row.message_count or 0,
        active_at=row.active_at,
    )
    return _told_by(one, _incoming(row.payload)) if is_of_people else one


def _incoming(payload: str | None) -> Incoming | None:
    """None also for a damaged row: it costs the name alone."""
    try:
        return decode_incoming(payload) if payload else None
    except ValidationError:
        return None
