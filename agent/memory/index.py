"""The word index of the memory: finds things by a question's words, and what was said next to them.

SQLite has the words in a full-text index, PostgreSQL in one over arrays; what holds them is ranked here, so that both
give the same. Each thing has a slot in it; a session's messages have slots next to each other.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Any, cast

from sqlalchemy import Connection, bindparam, delete, select, text, update

from agent.core.ids import SessionId
from agent.memory.lexicon import Lexicon, Term
from agent.memory.ranking import (
    ENOUGH,
    Candidate,
    Names,
    Posting,
    by_length,
    by_speaker,
    candidates,
    certainty,
    names_any,
    surely,
    weighed,
    with_common,
)
from agent.memory.records import Audience, Item, Kind, Scope, Source, word_of
from agent.storage.statements import CompiledStatement
from agent.storage.tables import POSTGRES_WORDS, memory, memory_session, memory_unindexed
from agent.storage.tables import message as message_table
from agent.storage.timestamps import from_timestamp

MOST_HOLDERS = 400  # of one word of a question, the newest; so a question costs no more in a long history
SPARE = 10  # slots that are read at a time beside those that are wanted: some hold nothing that may be shown
FIRST_SLOT = 1 << 19  # of a session: as many before as after
SESSION_BITS = 20
NEWEST = 20  # holders of a word, among whose speakers is looked for whoever it may name
REACH = 2  # messages on either side of one that was found, to be shown with it
UNSURE = 0.4  # how much a pair of signs that nothing holds counts as a word of the question
KEY = 11  # signs of the word of an audience before each word of its things
CODE = 1 << 61  # from here on slots are of code; those of facts are below 0
APART = 4  # slots between facts and between code, which have no neighbours

_TAKE = (
    "INSERT INTO memory_session (session, audience, first, last) VALUES (:session, :audience, :begin, :end)"
    " ON CONFLICT (session) DO UPDATE SET {} RETURNING no, first, last"
)
_TAKE_AFTER = CompiledStatement(text(_TAKE.format("last = memory_session.last + :many")))
_TAKE_BEFORE = CompiledStatement(text(_TAKE.format("first = memory_session.first - :many")))
_SESSION = CompiledStatement(select(memory_session.c.no).where(memory_session.c.session == bindparam("session")))
# Messages that people took back, and those that the model sees in its window anyway, are not found.
_OPEN_TO_ALL = (
    " AND (message.id IS NULL OR (message.user_visible AND NOT (message.session_id = :session"
    " AND message.agent_visible)))"
)
_COLUMNS = ", ".join(f"memory.{column.name}" for column in memory.columns)
_SQLITE_AUDIENCES = "IN (SELECT value FROM json_each(:audiences))"
_SQLITE_SLOTS = "IN (SELECT value FROM json_each(:slots))"
_POSTGRES_AUDIENCES = "= ANY(CAST(:audiences AS text[]))"
_POSTGRES_SLOTS = "= ANY(CAST(:slots AS bigint[]))"
_THINGS = "SELECT SUM(last - first + 1) FROM memory_session WHERE audience {}"
_SQLITE_THINGS = CompiledStatement(text(_THINGS.format(_SQLITE_AUDIENCES)))
_POSTGRES_THINGS = CompiledStatement(text(_THINGS.format(_POSTGRES_AUDIENCES)))
_HOLDERS = CompiledStatement(
    text(
        "SELECT rowid FROM memory_fts WHERE memory_fts MATCH :query AND rowid >= :low AND rowid < :high"
        " ORDER BY rowid DESC LIMIT :most"
    )
)
_POSTGRES_HOLDERS = CompiledStatement(
    text(
        "SELECT asked.term, held.slot"  # noqa: S608 - our own names
        " FROM unnest(CAST(:terms AS integer[]), CAST(:words AS text[])) AS asked (term, word)"
        f" CROSS JOIN LATERAL (SELECT slot FROM memory WHERE slot IS NOT NULL AND {POSTGRES_WORDS} @> ARRAY[asked.word]"
        " AND slot >= :low AND slot < :high ORDER BY slot DESC LIMIT :most) AS held"
    )
)
_IN_SLOTS = (
    f"SELECT {_COLUMNS} FROM memory LEFT JOIN message ON message.id = memory.message_id"  # noqa: S608 - our own names
    f" WHERE memory.slot {{}} AND memory.audience {{}}{_OPEN_TO_ALL}"
)
_SQLITE_IN_SLOTS = CompiledStatement(text(_IN_SLOTS.format(_SQLITE_SLOTS, _SQLITE_AUDIENCES)))
_POSTGRES_IN_SLOTS = CompiledStatement(text(_IN_SLOTS.format(_POSTGRES_SLOTS, _POSTGRES_AUDIENCES)))
_SPEAKERS = "SELECT DISTINCT speaker FROM memory WHERE slot {} AND audience {}"
_SQLITE_SPEAKERS = CompiledStatement(text(_SPEAKERS.format(_SQLITE_SLOTS, _SQLITE_AUDIENCES)))
_POSTGRES_SPEAKERS = CompiledStatement(text(_SPEAKERS.format(_POSTGRES_SLOTS, _POSTGRES_AUDIENCES)))


def take_back(conn: Connection, session: SessionId, first: int) -> None:
    """Take what was said in the session from this message on out of the index: no neighbour is found by it."""
    no: int | None = _SESSION.scalar(conn, {"session": session})
    if no is None:
        return
    low = no << SESSION_BITS
    here = memory.c.slot.between(low, low + (1 << SESSION_BITS) - 1)
    conn.execute(update(memory).where(here, memory.c.message_id >= first).values(slot=None))


def index_some(conn: Connection, lexicon: Lexicon, *, most: int) -> int | None:
    """Make the words of the next things that have none, the newest first; how many, None when none is left.

    One session at a time, from its end: so neighbours get slots next to each other.
    """
    below = conn.execute(select(memory_unindexed.c.below)).scalar_one_or_none()
    if below is None:
        return None
    waiting = select(memory.c.id, memory.c.session_id).where(memory.c.id < below, memory.c.words.is_(None))
    next_one = conn.execute(waiting.order_by(memory.c.id.desc()).limit(1)).one_or_none()
    if next_one is None:
        conn.execute(delete(memory_unindexed))
        return None
    conn.execute(update(memory_unindexed).values(below=next_one.id + 1))
    page = select(memory, message_table.c.user_visible).outerjoin(
        message_table, message_table.c.id == memory.c.message_id
    )
    page = page.where(memory.c.words.is_(None), memory.c.session_id.is_not_distinct_from(next_one.session_id))
    newest_first = (memory.c.message_id.desc(), memory.c.id.desc())
    found = conn.execute(page.order_by(*newest_first).limit(most)).all()
    for row in found:
        slot, words = None, ""
        if row.user_visible is not False:  # None: it comes from no message
            kind, audience = cast(Kind, row.kind), Audience(row.audience)
            if kind == "said":
                (slot,) = said_slots(conn, audience, row.session_id or f"conv:{row.conv}", 1, older=True)
            else:
                slot = lone_slot(conn, audience, kind)
            words = " ".join(lexicon.words(row.text, row.speaker))
        conn.execute(update(memory).where(memory.c.id == row.id).values(slot=slot, words=words))
    return len(found)


def search(
    conn: Connection,
    scope: Scope,
    terms: Sequence[Term],
    *,
    kinds: Sequence[Kind],
    most: int,
    exact: bool = False,
    names: Names | None = None,
    only_sure: bool = False,
) -> tuple[Item, ...]:
    """Things in the scope's audiences that hold any of the words, or stand next to them, best first; () without words.

    `exact`: only what holds one itself. `names` makes the words by which a question names a speaker: what they said
    comes first. `only_sure`: nothing where the question is not surely about it and names nobody who speaks.
    """
    if not terms or not kinds:
        return ()
    if len(kinds) == 1 and kinds[0] != "said" and not _has_any(conn, scope, kinds[0]):
        return ()
    low, high = _between(kinds)
    postings = _holders(conn, scope, terms, low, high)
    if not any(posting.slots for posting in postings):
        return ()
    weights = weighed(postings, _things(conn, scope))
    # No candidate can be surer than what is known of the question.
    if (
        only_sure
        and weights.known < ENOUGH
        and not (names is not None and names_any(_newest_speakers(conn, scope, postings), terms, names))
    ):
        return ()
    common = {index: terms[index].forms for index, posting in enumerate(postings) if posting.cut}
    if len(common) == sum(bool(posting.slots) for posting in postings):
        common = {}
    own = frozenset(form for term in terms for form in term.forms)
    ranked = [one for one in candidates(postings, weights) if low <= one.slot < high]
    found: list[tuple[float, Any, Candidate]] = []
    for begin in range(0, len(ranked), most + SPARE):
        some = {one.slot: one for one in ranked[begin : begin + most + SPARE]}
        for row in _in_slots(conn, scope, list(some)):
            words = frozenset(row.words.split(" "))
            if row.kind in kinds and not (exact and words.isdisjoint(own)):
                one = some[row.slot]
                score = by_length(with_common(one.score, words, common, weights), len(words))
                if names is not None and row.kind == "said":
                    score = by_speaker(score, names(row.speaker), own)
                found.append((score, row, one))
        if len(found) >= most:
            break
    found.sort(key=lambda one: (-one[0], -one[1].id))
    items = tuple(item_of(row, score, certainty(one, weights)) for score, row, one in found[:most])
    return surely(items, terms, names) if only_sure else items


def around(conn: Connection, scope: Scope, items: Sequence[Item]) -> tuple[Item, ...]:
    """Words just before and just after each of these, so far as the scope may see them; none of them again."""
    slots = {item.slot for item in items if item.slot is not None and item.kind == "said"}
    beside = {slot + away for slot in slots for away in range(-REACH, REACH + 1)} - slots
    return tuple(item_of(row) for row in _in_slots(conn, scope, sorted(beside)) if row.kind == "said")


def _holders(conn: Connection, scope: Scope, terms: Sequence[Term], low: int, high: int) -> list[Posting]:
    keys = [word_of(audience)[:KEY] for audience in scope.visible]
    within = {"low": low, "high": high, "most": MOST_HOLDERS}
    found: list[list[int]] = []
    if conn.dialect.name == "sqlite":
        for term in terms:
            query = " OR ".join(f'"{key}{form}"' for key in keys for form in term.forms)
            found.append(_HOLDERS.column(conn, {"query": query, **within}))
    else:
        asked = [(index, key + form) for index, term in enumerate(terms) for key in keys for form in term.forms]
        lists = {"terms": [index for index, _ in asked], "words": [word for _, word in asked]}
        slots: list[set[int]] = [set() for _ in terms]
        for index, slot in _POSTGRES_HOLDERS.rows(conn, {**lists, **within}):
            slots[index].add(slot)
        found = [sorted(some, reverse=True)[:MOST_HOLDERS] for some in slots]
    return [
        Posting(slots=some, cut=len(some) == MOST_HOLDERS, counts=UNSURE if term.is_pair else 1.0)
        for some, term in zip(found, terms, strict=True)
    ]


def _in_slots(conn: Connection, scope: Scope, slots: Sequence[int]) -> Iterable[Any]:
    if not slots:
        return ()
    session = scope.session or ""
    if conn.dialect.name == "sqlite":
        lists = {"slots": json.dumps(slots), "audiences": json.dumps(scope.visible)}
        return _SQLITE_IN_SLOTS.rows(conn, {**lists, "session": session})
    asked = {"slots": list(slots), "audiences": list(scope.visible), "session": session}
    return _POSTGRES_IN_SLOTS.rows(conn, asked)


def _newest_speakers(conn: Connection, scope: Scope, postings: Sequence[Posting]) -> set[str]:
    """Speakers of the newest things that hold each of the words; a named person counts for all they said."""
    slots = sorted({slot for posting in postings for slot in posting.slots[:NEWEST]})
    if conn.dialect.name == "sqlite":
        lists = {"slots": json.dumps(slots), "audiences": json.dumps(scope.visible)}
        return set(_SQLITE_SPEAKERS.column(conn, lists))
    return set(_POSTGRES_SPEAKERS.column(conn, {"slots": slots, "audiences": list(scope.visible)}))


def _has_any(conn: Connection, scope: Scope, kind: Kind) -> bool:
    """Whether the scope may see any of the kind. Of most people no code is kept."""
    return any(_SESSION.scalar(conn, {"session": f"{kind}:{audience}"}) is not None for audience in scope.visible)


def _things(conn: Connection, scope: Scope) -> int:
    """About how many things the scope may see."""
    if conn.dialect.name == "sqlite":
        return int(_SQLITE_THINGS.scalar(conn, {"audiences": json.dumps(scope.visible)}) or 0)
    return int(_POSTGRES_THINGS.scalar(conn, {"audiences": list(scope.visible)}) or 0)


def _between(kinds: Sequence[Kind]) -> tuple[int, int]:
    """From which slot on, and below which, things of these kinds are."""
    low = -CODE if "fact" in kinds else 0 if "said" in kinds else CODE
    high = CODE << 1 if "code" in kinds else CODE if "said" in kinds else 0
    return low, min(high, (1 << 63) - 1)


def said_slots(conn: Connection, audience: Audience, session: str, many: int, *, older: bool) -> range:
    """A range of at most `many` slots of the session, in the order in which things were said."""
    begin = FIRST_SLOT - many if older else FIRST_SLOT
    values = {"session": session, "audience": audience, "begin": begin, "end": begin + many - 1, "many": many}
    (row,) = (_TAKE_BEFORE if older else _TAKE_AFTER).rows(conn, values)
    first: int = (row.no << SESSION_BITS) + (row.first if older else row.last - many + 1)
    return range(first, first + many)


def lone_slot(conn: Connection, audience: Audience, kind: Kind) -> int:
    """A slot that has no neighbours."""
    values = {"session": f"{kind}:{audience}", "audience": audience, "begin": 1, "end": 1, "many": 1}
    (row,) = _TAKE_AFTER.rows(conn, values)
    slot: int = (row.no << SESSION_BITS) + row.last * APART
    return -slot if kind == "fact" else CODE + slot


def item_of(row: Any, score: float = 0.0, sure: float = 0.0) -> Item:
    return Item(
        id=row.id,
        audience=row.audience,
        kind=cast(Kind, row.kind),
        conversation=row.conv,
        person=row.person,
        speaker=row.speaker,
        text=row.text,
        source=cast(Source, row.source),
        confidence=row.confidence,
        session=row.session_id,
        message_id=row.message_id,
        inbox_id=row.inbox_id,
        at=from_timestamp(row.created_at),
        slot=row.slot,
        score=score,
        sure=sure,
    )
