"""What is kept, in the database. Plain functions over a `Connection`; each write is safe to repeat.

SQLite searches its full-text index, PostgreSQL an index over the words.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast, get_args

from sqlalchemy import Connection, bindparam, delete, func, insert, or_, select, text, update

from agent.core.ids import ConversationId
from agent.memory.audience import Audience, Scope, word_of
from agent.memory.records import Item, Kept, Kind, Source
from agent.memory.target import PAGE, chunks
from agent.memory.words import postgres_query, signed_words_of, sqlite_query
from agent.storage.conflicts import or_ignore, or_update
from agent.storage.hot import Hot
from agent.storage.memory_tables import entity, memory, memory_place, memory_vector, relation
from agent.storage.moments import from_us
from agent.storage.transcript_tables import message as message_table

_KEEP = Hot(or_ignore(insert(memory)))
_KEEP_FACT = or_update(insert(memory), key=("dedup",), columns=("confidence", "created_at")).returning(memory.c.id)
# What people took back, and what the model sees in its window anyway, is not found.
_OPEN_TO_ALL = (
    " AND (message.id IS NULL OR (message.user_visible AND NOT (message.session_id = :session"
    " AND message.agent_visible)))"
)
_COLUMNS = ", ".join(f"memory.{column.name}" for column in memory.columns)
_SQLITE = Hot(
    text(
        f"SELECT {_COLUMNS}, -bm25(memory_fts, 0.0, 0.5, 1.0) AS score"  # noqa: S608 - our own column names
        " FROM memory_fts JOIN memory ON memory.id = memory_fts.rowid"
        " LEFT JOIN message ON message.id = memory.message_id"
        " WHERE memory_fts MATCH :query AND memory.audience IN (SELECT value FROM json_each(:audiences))"
        " AND memory.kind IN (SELECT value FROM json_each(:kinds))"
        f"{_OPEN_TO_ALL} ORDER BY score DESC, memory.id DESC LIMIT :most"
    )
)
# Of most people no code is kept: without this each of their turns would go through all that shares a word with it.
_ANY_OF_KIND = Hot(
    text(
        "SELECT 1 FROM memory WHERE audience IN (SELECT value FROM json_each(:audiences))"
        " AND kind IN (SELECT value FROM json_each(:kinds)) LIMIT 1"
    )
)
_POSTGRES = text(
    f"SELECT {_COLUMNS}, ts_rank(to_tsvector('english', memory.speaker || ' ' || memory.text),"  # noqa: S608
    " to_tsquery('english', :query), 1) AS score"
    " FROM memory LEFT JOIN message ON message.id = memory.message_id"
    " WHERE to_tsvector('english', memory.speaker || ' ' || memory.text) @@ to_tsquery('english', :query)"
    " AND memory.audience IN :audiences AND memory.kind IN :kinds"
    f"{_OPEN_TO_ALL} ORDER BY score DESC, memory.id DESC LIMIT :most"
).bindparams(bindparam("audiences", expanding=True), bindparam("kinds", expanding=True))
_PLACE = select(memory_place).where(memory_place.c.conv == bindparam("conversation"))
_SET_OFF = or_update(insert(memory_place), key=("conv",), columns=("off",))


def keep(conn: Connection, scope: Scope, things: Iterable[Kept], *, at: int) -> None:
    """Keep what was said, with the commit of its turn. What stands there already is left as it is."""
    for thing in things:
        _KEEP.run(conn, _values(scope, thing, at))


def keep_fact(conn: Connection, scope: Scope, fact: Kept, *, at: int) -> int:
    """Keep a fact, or renew one that says the same; returns its id."""
    id: int = conn.execute(_KEEP_FACT, _values(scope, fact, at)).scalar_one()
    return id


def search(
    conn: Connection, scope: Scope, words: Sequence[str], *, kinds: Sequence[Kind], most: int
) -> tuple[Item, ...]:
    """What holds any of the words in the scope's audiences, best first; () without words."""
    if not words:
        return ()
    audiences, values = list(scope.visible), {"session": scope.session or "", "most": most}
    found: Iterable[Any]
    if conn.dialect.name == "sqlite":
        lists = {"audiences": json.dumps(audiences), "kinds": json.dumps(kinds)}
        if _ANY_OF_KIND.scalar(conn, lists) is None:
            return ()
        found = _SQLITE.rows(conn, {"query": sqlite_query(words, scope.visible), **lists, **values})
    else:
        asked = {"query": postgres_query(words), "audiences": audiences, "kinds": list(kinds)}
        found = conn.execute(_POSTGRES, {**asked, **values})
    return tuple(item_of(row, float(row.score)) for row in found)


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


def rewrite(conn: Connection, id: int, wording: str, scope: Scope, *, at: int) -> None:
    """Let a fact say something else from now on; what was derived from its old words goes."""
    conn.execute(delete(memory_vector).where(memory_vector.c.memory_id == id))
    conn.execute(delete(relation).where(relation.c.memory_id == id))
    values = {"text": wording, "dedup": fact_key(scope.own, wording), "created_at": at}
    conn.execute(update(memory).where(memory.c.id == id).values(**values))


def is_off(conn: Connection, conversation: ConversationId) -> bool:
    """Whether people switched the memory off there."""
    row = conn.execute(_PLACE, {"conversation": conversation}).one_or_none()
    return row is not None and bool(row.off)


def set_off(conn: Connection, conversation: ConversationId, *, off: bool) -> None:
    conn.execute(_SET_OFF, {"conv": conversation, "off": off})


def item_of(row: Any, score: float = 0.0) -> Item:
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
        score=score,
    )


def _values(scope: Scope, thing: Kept, at: int) -> dict[str, object]:
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
    }


def fact_key(audience: Audience, wording: str) -> str:
    """The same for facts that differ in case, spaces and the marks between sentences alone."""
    told = hashlib.blake2b(f"{audience}\0{' '.join(signed_words_of(wording))}".encode(), digest_size=16)
    return f"f:{told.hexdigest()}"
