"""Rows of the memory. Plain functions over a `Connection`; each write is safe to repeat."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar, get_args

from sqlalchemy import Connection, bindparam, delete, func, insert, or_, select, update

from agent.core.ids import ConversationId, PersonId
from agent.memory.index import item_of, lone_slot, said_slots
from agent.memory.lexicon import Lexicon, signed_words_of
from agent.memory.records import Audience, Item, Kept, Kind, Scope, audience_of_place, word_of
from agent.storage.statements import CompiledStatement, or_ignore, or_update
from agent.storage.tables import (
    entity,
    memory,
    memory_place,
    memory_session,
    memory_use,
    memory_vector,
    relation,
    user_model,
)
from agent.storage.tables import message as message_table

# Requests of erasure, and the amount that was erased. Pure.

T = TypeVar("T")

FORGOTTEN = "[forgotten]"  # what stands in place of the words
PAGE = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Things to be erased that are the scope's to take back (`Scope.theirs`): what holds `words`, one `item`, what was
    said in one `session`, or (none of them) everything. Of a session the facts stay that were kept from it.

    `only_by`: what that person said or was answered, and nothing of others.
    """

    scope: Scope
    words: str = ""
    item: int | None = None
    session: str = ""
    only_by: PersonId | None = None

    @property
    def everything(self) -> bool:
        return not self.words and self.item is None and not self.session

    def holds(self, text: str) -> bool:
        """Whether the words stand in it, in whatever case."""
        return bool(self.words) and self.words.casefold() in text.casefold()


@dataclass(frozen=True, slots=True, kw_only=True)
class Erased:
    """How much it was: things that were kept, the facts among them, messages of transcripts.

    `texts` is what people said in messages that went with one `item` or `session`. `left` are files that could not be
    removed or looked through, by their paths below the data directory.
    """

    items: int
    messages: int
    conversations: tuple[ConversationId, ...] = ()
    texts: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    facts: int = 0


def chunks(ids: Sequence[T]) -> Iterator[Sequence[T]]:
    """The ids in groups that one statement takes."""
    for begin in range(0, len(ids), PAGE):
        yield ids[begin : begin + PAGE]


_KEEP = CompiledStatement(or_ignore(insert(memory)))
_KEEP_FACT = or_update(insert(memory), key=("dedup",), columns=("confidence", "created_at")).returning(memory.c.id)
_KEPT_LAST = (
    select(memory.c.audience).where(memory.c.conv == bindparam("conversation")).order_by(memory.c.id.desc()).limit(1)
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
    slots = iter(said_slots(conn, scope.own, _session_of(scope, said[0]), len(said), older=older) if said else ())
    for thing in things:
        slot = next(slots) if thing.kind == "said" else lone_slot(conn, scope.own, thing.kind)
        _KEEP.run(conn, _values(scope, thing, slot, lexicon, at))


def keep_fact(conn: Connection, scope: Scope, fact: Kept, lexicon: Lexicon, *, at: int) -> int:
    """Keep a fact, or renew one that says the same; returns its id."""
    slot = lone_slot(conn, scope.own, fact.kind)
    id: int = conn.execute(_KEEP_FACT, _values(scope, fact, slot, lexicon, at)).scalar_one()
    return id


def _session_of(scope: Scope, thing: Kept) -> str:
    return thing.session or f"conv:{scope.conversation}"


def by_ids(conn: Connection, scope: Scope, ids: Sequence[int]) -> Mapping[int, Item]:
    """The items of these ids that the scope may see and that its own window does not hold."""
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


def facts(conn: Connection, audiences: Sequence[Audience], *, most: int, after: int = 0) -> tuple[Item, ...]:
    """The facts of these audiences, the newest first; `after` so many of them."""
    statement = (
        select(memory)
        .where(memory.c.audience.in_(audiences), memory.c.kind == "fact")
        .order_by(memory.c.created_at.desc(), memory.c.id.desc())
        .limit(most)
        .offset(after)
    )
    return tuple(item_of(row) for row in conn.execute(statement))


def fact(conn: Connection, audiences: Sequence[Audience], id: int) -> Item | None:
    row = conn.execute(select(memory).where(memory.c.id == id, memory.c.audience.in_(audiences))).one_or_none()
    return item_of(row) if row is not None else None


def counts(conn: Connection, audiences: Sequence[Audience]) -> Mapping[str, int]:
    """How many things of each kind these audiences have."""
    statement = select(memory.c.kind, func.count()).where(memory.c.audience.in_(audiences)).group_by(memory.c.kind)
    return {kind: int(count) for kind, count in conn.execute(statement)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Amount:
    """How much is kept for an audience; `at` is when the newest was, UTC microseconds."""

    facts: int = 0
    said: int = 0
    at: int | None = None


def amounts(conn: Connection, audiences: Sequence[Audience]) -> Mapping[str, Amount]:
    """How much each of these audiences has, as its index tells it."""
    held = select(memory.c.audience, memory.c.kind, func.count().label("count"), func.max(memory.c.id).label("newest"))
    found: dict[str, Amount] = {}
    newest: dict[int, str] = {}
    for row in conn.execute(held.where(memory.c.audience.in_(audiences)).group_by(memory.c.audience, memory.c.kind)):
        before, newest[row.newest] = found.get(row.audience, Amount()), row.audience
        more = {"facts": before.facts + row[2]} if row.kind == "fact" else {"said": before.said + row[2]}
        found[row.audience] = replace(before, **more)
    for id, at in conn.execute(select(memory.c.id, memory.c.created_at).where(memory.c.id.in_(list(newest)))):
        audience = newest[id]
        found[audience] = replace(found[audience], at=max(at, found[audience].at or 0))
    return found


def kept_last_for(conn: Connection, conversation: ConversationId) -> Audience | None:
    """The audience of what was kept last of what was said there; None where nothing is kept of it."""
    found: Audience | None = conn.execute(_KEPT_LAST, {"conversation": conversation}).scalar_one_or_none()
    return found


def everything(conn: Connection, audiences: Sequence[Audience]) -> tuple[Item, ...]:
    """All that these audiences have, oldest first."""
    statement = select(memory).where(memory.c.audience.in_(audiences)).order_by(memory.c.id)
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


def conversations(conn: Connection, audiences: Sequence[Audience]) -> tuple[ConversationId, ...]:
    """Where what these audiences have was said."""
    found = conn.execute(select(memory.c.conv).where(memory.c.audience.in_(audiences)).distinct())
    return tuple(ConversationId(conv) for conv in found.scalars())


def remove(conn: Connection, ids: Sequence[int]) -> int:
    """Remove these, their vectors and uses, what the graph read from them, and entities that nothing is left of."""
    return sum(_remove(conn, some) for some in chunks(ids))


def _remove(conn: Connection, ids: Sequence[int]) -> int:
    touched = select(relation.c.subject_id, relation.c.object_id).where(relation.c.memory_id.in_(ids))
    entities = {id for pair in conn.execute(touched) for id in pair}
    conn.execute(delete(memory_vector).where(memory_vector.c.memory_id.in_(ids)))
    conn.execute(delete(memory_use).where(memory_use.c.memory_id.in_(ids)))
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


# Renaming of a place: what was kept there follows. Plain functions over a `Connection`.


def follow(conn: Connection, old: ConversationId, new: ConversationId) -> None:
    """Move what belongs to the place `old` to `new`; what `new` has chosen itself stays."""
    before, after = audience_of_place(old), audience_of_place(new)
    _facts(conn, before, after)
    conn.execute(update(memory).where(memory.c.audience == before).values(audience=after, scope=word_of(after)))
    conn.execute(update(memory_session).where(memory_session.c.audience == before).values(audience=after))
    conn.execute(update(memory_vector).where(memory_vector.c.audience == before).values(audience=after))
    _graph(conn, before, after)
    known = select(user_model.c.person).where(user_model.c.audience == after)
    conn.execute(delete(user_model).where(user_model.c.audience == before, user_model.c.person.in_(known)))
    conn.execute(update(user_model).where(user_model.c.audience == before).values(audience=after))
    if conn.execute(select(memory_place.c.conv).where(memory_place.c.conv == new)).first() is not None:
        conn.execute(delete(memory_place).where(memory_place.c.conv == old))
    conn.execute(update(memory_place).where(memory_place.c.conv == old).values(conv=new))


def _facts(conn: Connection, before: Audience, after: Audience) -> None:
    """A fact is known by its audience and words: it gets the key of the new one, or gives way to what is there."""
    keyed = select(memory.c.id, memory.c.text).where(memory.c.audience == before, memory.c.dedup.startswith("f:"))
    for row in conn.execute(keyed).all():
        key = fact_key(after, row.text)
        if conn.execute(select(memory.c.id).where(memory.c.dedup == key)).first() is not None:
            remove(conn, [row.id])
        else:
            conn.execute(update(memory).where(memory.c.id == row.id).values(dedup=key))


def _graph(conn: Connection, before: Audience, after: Audience) -> None:
    """Where both places know somebody of one name, the old place's relations are left behind: they can be read anew."""
    if conn.execute(select(entity.c.id).where(entity.c.audience == after).limit(1)).first() is not None:
        conn.execute(delete(relation).where(relation.c.audience == before))
        conn.execute(delete(entity).where(entity.c.audience == before))
        return
    for table in (relation, entity):
        conn.execute(update(table).where(table.c.audience == before).values(audience=after))


def is_theirs(conn: Connection, item: Item, person: PersonId | None) -> bool:
    """Whether they said it, or were answered so: their message began the run that it comes from."""
    if person is None:
        return False
    if item.person == person or item.inbox_id is None:
        return item.person == person
    began = (
        select(message_table.c.id)
        .where(message_table.c.inbox_id == item.inbox_id, message_table.c.person == person)
        .limit(1)
    )
    return conn.execute(began).first() is not None
