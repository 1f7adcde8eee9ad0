"""What is kept, in the database. Plain functions over a `Connection`; each write is safe to repeat.

SQLite has the words in a full-text index, PostgreSQL in one over arrays; what holds them is ranked here, so that both
give the same.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast, get_args

from sqlalchemy import Connection, bindparam, delete, func, insert, or_, select, text, update

from agent.core.ids import ConversationId, SessionId
from agent.memory.audience import Audience, Scope, word_of
from agent.memory.lexicon import Lexicon, Term
from agent.memory.ranking import Candidate, Posting, by_length, candidates, certainty, weighed, with_common
from agent.memory.records import Item, Kept, Kind, Source
from agent.memory.target import PAGE, chunks
from agent.memory.words import signed_words_of
from agent.storage.conflicts import or_ignore, or_update
from agent.storage.hot import Hot
from agent.storage.memory_tables import (
    POSTGRES_WORDS,
    entity,
    memory,
    memory_place,
    memory_session,
    memory_unindexed,
    memory_vector,
    relation,
)
from agent.storage.moments import from_us
from agent.storage.transcript_tables import message as message_table

MOST_HOLDERS = 400  # of one word of a question, the newest; so a question costs no more in a long history
SPARE = 10  # slots that are read at a time beside those that are wanted: some hold nothing that may be shown
FIRST_SLOT = 1 << 19  # of a session: as many before as after
SESSION_BITS = 20
REACH = 2  # messages on either side of one that was found, to be shown with it
UNSURE = 0.4  # how much a pair of signs that nothing holds counts as a word of the question
KEY = 11  # signs of the word of an audience before each word of its things
CODE = 1 << 61  # from here on slots are of code; those of facts are below 0
APART = 4  # slots between facts and between code, which have no neighbours

_KEEP = Hot(or_ignore(insert(memory)))
_KEEP_FACT = or_update(insert(memory), key=("dedup",), columns=("confidence", "created_at")).returning(memory.c.id)
_TAKE = (
    "INSERT INTO memory_session (session, audience, first, last) VALUES (:session, :audience, :begin, :end)"
    " ON CONFLICT (session) DO UPDATE SET {} RETURNING no, first, last"
)
_TAKE_AFTER = Hot(text(_TAKE.format("last = memory_session.last + :many")))
_TAKE_BEFORE = Hot(text(_TAKE.format("first = memory_session.first - :many")))
_SESSION = Hot(select(memory_session.c.no).where(memory_session.c.session == bindparam("session")))
# What people took back, and what the model sees in its window anyway, is not found.
_OPEN_TO_ALL = (
    " AND (message.id IS NULL OR (message.user_visible AND NOT (message.session_id = :session"
    " AND message.agent_visible)))"
)
_COLUMNS = ", ".join(f"memory.{column.name}" for column in memory.columns)
_THINGS = "SELECT SUM(last - first + 1) FROM memory_session WHERE audience IN {}"
_SQLITE_THINGS = Hot(text(_THINGS.format("(SELECT value FROM json_each(:audiences))")))
_POSTGRES_THINGS = text(_THINGS.format(":audiences")).bindparams(bindparam("audiences", expanding=True))
_HOLDERS = Hot(
    text(
        "SELECT rowid FROM memory_fts WHERE memory_fts MATCH :query AND rowid >= :low AND rowid < :high"
        " ORDER BY rowid DESC LIMIT :most"
    )
)
_POSTGRES_HOLDERS = text(
    "SELECT asked.term, held.slot FROM unnest(CAST(:terms AS integer[]), CAST(:words AS text[])) AS asked (term, word)"  # noqa: S608
    f" CROSS JOIN LATERAL (SELECT slot FROM memory WHERE slot IS NOT NULL AND {POSTGRES_WORDS} @> ARRAY[asked.word]"
    " AND slot >= :low AND slot < :high ORDER BY slot DESC LIMIT :most) AS held"
)
_IN_SLOTS = (
    f"SELECT {_COLUMNS} FROM memory LEFT JOIN message ON message.id = memory.message_id"  # noqa: S608 - our own names
    f" WHERE memory.slot IN {{}} AND memory.audience IN {{}}{_OPEN_TO_ALL}"
)
_SQLITE_IN_SLOTS = Hot(
    text(_IN_SLOTS.format("(SELECT value FROM json_each(:slots))", "(SELECT value FROM json_each(:audiences))"))
)
_POSTGRES_IN_SLOTS = text(_IN_SLOTS.format(":slots", ":audiences")).bindparams(
    bindparam("slots", expanding=True), bindparam("audiences", expanding=True)
)
_PLACE = select(memory_place).where(memory_place.c.conv == bindparam("conversation"))
_SET_OFF = or_update(insert(memory_place), key=("conv",), columns=("off",))


def keep(
    conn: Connection, scope: Scope, things: Sequence[Kept], lexicon: Lexicon, *, at: int, older: bool = False
) -> None:
    """Keep what was said, with the commit of its turn. What stands there already is left as it is.

    `things` are of one session, in the order in which they were said; `older`: before all that is kept of it so far.
    """
    said = [thing for thing in things if thing.kind == "said"]
    slots = iter(_said_slots(conn, scope.own, _session_of(scope, said[0]), len(said), older=older) if said else ())
    for thing in things:
        slot = next(slots) if thing.kind == "said" else _lone_slot(conn, scope.own, thing.kind)
        _KEEP.run(conn, _values(scope, thing, slot, lexicon, at))


def keep_fact(conn: Connection, scope: Scope, fact: Kept, lexicon: Lexicon, *, at: int) -> int:
    """Keep a fact, or renew one that says the same; returns its id."""
    slot = _lone_slot(conn, scope.own, fact.kind)
    id: int = conn.execute(_KEEP_FACT, _values(scope, fact, slot, lexicon, at)).scalar_one()
    return id


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
                (slot,) = _said_slots(conn, audience, row.session_id or f"conv:{row.conv}", 1, older=True)
            else:
                slot = _lone_slot(conn, audience, kind)
            words = " ".join(lexicon.words(row.text, row.speaker))
        conn.execute(update(memory).where(memory.c.id == row.id).values(slot=slot, words=words))
    return len(found)


def search(
    conn: Connection, scope: Scope, terms: Sequence[Term], *, kinds: Sequence[Kind], most: int, exact: bool = False
) -> tuple[Item, ...]:
    """What holds any of the words in the scope's audiences, or was said next to them, best first; () without words.

    `exact`: only what holds one itself.
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
                found.append((score, row, one))
        if len(found) >= most:
            break
    found.sort(key=lambda one: (-one[0], -one[1].id))
    return tuple(item_of(row, score, certainty(one, weights)) for score, row, one in found[:most])


def around(conn: Connection, scope: Scope, items: Sequence[Item]) -> tuple[Item, ...]:
    """What was said just before and just after each of these, so far as the scope may see it; none of them again."""
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
            found.append([row[0] for row in _HOLDERS.rows(conn, {"query": query, **within})])
    else:
        asked = [(index, key + form) for index, term in enumerate(terms) for key in keys for form in term.forms]
        lists = {"terms": [index for index, _ in asked], "words": [word for _, word in asked]}
        slots: list[set[int]] = [set() for _ in terms]
        for index, slot in conn.execute(_POSTGRES_HOLDERS, {**lists, **within}):
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
    return conn.execute(_POSTGRES_IN_SLOTS, asked)


def _has_any(conn: Connection, scope: Scope, kind: Kind) -> bool:
    """Whether the scope may see any of the kind. Of most people no code is kept."""
    return any(_SESSION.scalar(conn, {"session": f"{kind}:{audience}"}) is not None for audience in scope.visible)


def _things(conn: Connection, scope: Scope) -> int:
    """About how many things the scope may see."""
    if conn.dialect.name == "sqlite":
        return int(_SQLITE_THINGS.scalar(conn, {"audiences": json.dumps(scope.visible)}) or 0)
    return int(conn.execute(_POSTGRES_THINGS, {"audiences": list(scope.visible)}).scalar() or 0)


def _between(kinds: Sequence[Kind]) -> tuple[int, int]:
    """From which slot on, and below which, things of these kinds are."""
    low = -CODE if "fact" in kinds else 0 if "said" in kinds else CODE
    high = CODE << 1 if "code" in kinds else CODE if "said" in kinds else 0
    return low, min(high, (1 << 63) - 1)


def _said_slots(conn: Connection, audience: Audience, session: str, many: int, *, older: bool) -> range:
    """So many slots of the session, in the order in which things were said."""
    begin = FIRST_SLOT - many if older else FIRST_SLOT
    values = {"session": session, "audience": audience, "begin": begin, "end": begin + many - 1, "many": many}
    (row,) = (_TAKE_BEFORE if older else _TAKE_AFTER).rows(conn, values)
    first: int = (row.no << SESSION_BITS) + (row.first if older else row.last - many + 1)
    return range(first, first + many)


def _lone_slot(conn: Connection, audience: Audience, kind: Kind) -> int:
    """A slot that has no neighbours."""
    values = {"session": f"{kind}:{audience}", "audience": audience, "begin": 1, "end": 1, "many": 1}
    (row,) = _TAKE_AFTER.rows(conn, values)
    slot: int = (row.no << SESSION_BITS) + row.last * APART
    return -slot if kind == "fact" else CODE + slot


def _session_of(scope: Scope, thing: Kept) -> str:
    return thing.session or f"conv:{scope.conversation}"


def by_ids(conn: Connection, scope: Scope, ids: Sequence[int]) -> Mapping[int, Item]:
    """Those of the ids that the scope may see and does not have before it."""
    found = {}
    statement = (
        select(memory)
        .outerjoin(message_table, message_table.c.id == memory.c.message_id)
        .where(
            memory.c.id.in_(ids),
            memory.c.audience.in_(scope.visible),
            or_(
                message_table.c.id.is_(None),
                message_table.c.user_visible
                & ~((message_table.c.session_id == (scope.session or "")) & message_table.c.agent_visible),
            ),
        )
    )
    for row in conn.execute(statement):
        found[row.id] = item_of(row)
    return found


def facts(conn: Connection, audience: Audience, *, most: int, after: int = 0) -> tuple[Item, ...]:
    """The facts of an audience, the newest first; `after` so many of them."""
    statement = (
        select(memory)
        .where(memory.c.audience == audience, memory.c.kind == "fact")
        .order_by(memory.c.created_at.desc(), memory.c.id.desc())
        .limit(most)
        .offset(after)
    )
    return tuple(item_of(row) for row in conn.execute(statement))


def fact(conn: Connection, audience: Audience, id: int) -> Item | None:
    row = conn.execute(select(memory).where(memory.c.id == id, memory.c.audience == audience)).one_or_none()
    return item_of(row) if row is not None else None


def counts(conn: Connection, audience: Audience) -> Mapping[str, int]:
    """How many things of each kind an audience has."""
    statement = select(memory.c.kind, func.count()).where(memory.c.audience == audience).group_by(memory.c.kind)
    return {kind: int(count) for kind, count in conn.execute(statement)}


def everything(conn: Connection, audience: Audience) -> tuple[Item, ...]:
    """All that an audience has, oldest first."""
    statement = select(memory).where(memory.c.audience == audience).order_by(memory.c.id)
    return tuple(item_of(row) for row in conn.execute(statement))


def paged(conn: Connection, audience: Audience) -> Iterator[Item]:
    """All that an audience has, a page at a time."""
    for kind in get_args(Kind):  # the index goes by it
        after = 0
        while True:
            page = select(memory).where(memory.c.audience == audience, memory.c.kind == kind, memory.c.id > after)
            found = conn.execute(page.order_by(memory.c.id).limit(PAGE)).all()
            yield from map(item_of, found)
            if len(found) < PAGE:
                break
            after = found[-1].id


def conversations(conn: Connection, audience: Audience) -> tuple[ConversationId, ...]:
    """Where what the audience has was said."""
    found = conn.execute(select(memory.c.conv).where(memory.c.audience == audience).distinct())
    return tuple(ConversationId(conv) for conv in found.scalars())


def remove(conn: Connection, ids: Sequence[int]) -> int:
    """Remove these, their vectors, what the graph read from them, and entities that nothing is left of."""
    return sum(_remove(conn, some) for some in chunks(ids))


def _remove(conn: Connection, ids: Sequence[int]) -> int:
    touched = select(relation.c.subject_id, relation.c.object_id).where(relation.c.memory_id.in_(ids))
    entities = {id for pair in conn.execute(touched) for id in pair}
    conn.execute(delete(memory_vector).where(memory_vector.c.memory_id.in_(ids)))
    conn.execute(delete(relation).where(relation.c.memory_id.in_(ids)))
    for id in entities:
        left = select(relation.c.id).where(or_(relation.c.subject_id == id, relation.c.object_id == id)).limit(1)
        if conn.execute(left).first() is None:
            conn.execute(delete(entity).where(entity.c.id == id))
    return conn.execute(delete(memory).where(memory.c.id.in_(ids))).rowcount


def rewrite(conn: Connection, id: int, wording: str, scope: Scope, lexicon: Lexicon, *, at: int) -> None:
    """Let a fact say something else from now on; what was derived from its old words goes."""
    conn.execute(delete(memory_vector).where(memory_vector.c.memory_id == id))
    conn.execute(delete(relation).where(relation.c.memory_id == id))
    words = " ".join(lexicon.words(wording, scope.speaker))
    values = {"text": wording, "dedup": fact_key(scope.own, wording), "created_at": at, "words": words}
    conn.execute(update(memory).where(memory.c.id == id).values(**values))


def is_off(conn: Connection, conversation: ConversationId) -> bool:
    """Whether people switched the memory off there."""
    row = conn.execute(_PLACE, {"conversation": conversation}).one_or_none()
    return row is not None and bool(row.off)


def set_off(conn: Connection, conversation: ConversationId, *, off: bool) -> None:
    conn.execute(_SET_OFF, {"conv": conversation, "off": off})


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
        at=from_us(row.created_at),
        slot=row.slot,
        score=score,
        sure=sure,
    )


def _values(scope: Scope, thing: Kept, slot: int, lexicon: Lexicon, at: int) -> dict[str, object]:
    said = thing.message_id is not None and thing.kind != "fact"
    return {
        "audience": scope.own,
        "scope": word_of(scope.own),
        "kind": thing.kind,
        "conv": scope.conversation,
        "person": thing.person,
        "speaker": thing.speaker,
        "text": thing.text,
        "source": thing.source,
        "confidence": thing.confidence,
        "session_id": thing.session,
        "message_id": thing.message_id,
        "inbox_id": thing.inbox_id,
        "dedup": f"m:{thing.message_id}:{thing.piece}" if said else fact_key(scope.own, thing.text),
        "created_at": at,
        "slot": slot,
        "words": " ".join(lexicon.words(thing.text, thing.speaker)),
    }


def fact_key(audience: Audience, wording: str) -> str:
    """The same for facts that differ in case, spaces and the marks between sentences alone."""
    told = hashlib.blake2b(f"{audience}\0{' '.join(signed_words_of(wording))}".encode(), digest_size=16)
    return f"f:{told.hexdigest()}"
