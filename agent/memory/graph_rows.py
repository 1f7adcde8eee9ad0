"""The graph of who and what belongs together, in the database. Plain functions over a `Connection`.

Every entity belongs to one audience; relations never join two of them.
"""

from collections.abc import Sequence

from sqlalchemy import Connection, and_, bindparam, insert, or_, select, update

from agent.memory.audience import Audience
from agent.memory.records import Edge
from agent.memory.words import stem, words_of
from agent.storage.conflicts import or_ignore, or_update
from agent.storage.memory_tables import entity, memory_place, relation

MOST_SEEDS = 20
MOST_VISITED = 200  # relations looked at for one question

_SUBJECT, _OBJECT = entity.alias("subject"), entity.alias("object")
_EDGES = (
    select(
        relation.c.id,
        relation.c.subject_id,
        relation.c.object_id,
        _SUBJECT.c.name.label("subject"),
        relation.c.word,
        _OBJECT.c.name.label("object"),
        relation.c.confidence,
        relation.c.memory_id,
    )
    .join(_SUBJECT, _SUBJECT.c.id == relation.c.subject_id)
    .join(_OBJECT, _OBJECT.c.id == relation.c.object_id)
    .where(relation.c.active)
)
_ENTITY = or_ignore(insert(entity))
_ENTITY_ID = select(entity.c.id).where(entity.c.audience == bindparam("of"), entity.c.key == bindparam("called"))
_RELATION = or_update(
    insert(relation),
    key=("subject_id", "word", "object_id"),
    columns=("confidence", "active", "memory_id", "created_at"),
)
_UPTO = or_update(insert(memory_place), key=("conv",), columns=("graphed_upto",))


def key_of(name: str) -> str:
    """The name as it is compared."""
    return " ".join(words_of(name))


def join(conn: Connection, audience: Audience, edge: Edge, *, at: int, only_one: bool = False) -> None:
    """Add a relation, or renew it. `only_one`: the subject has one object by that word, so older ones are over."""
    subject = _entity(conn, audience, edge.subject)
    target = _entity(conn, audience, edge.object)
    if subject == target:
        return
    if only_one:
        over = and_(relation.c.subject_id == subject, relation.c.word == edge.word, relation.c.object_id != target)
        conn.execute(update(relation).where(over).values(active=False))
    conn.execute(
        _RELATION,
        {
            "audience": audience,
            "subject_id": subject,
            "word": edge.word,
            "object_id": target,
            "confidence": edge.confidence,
            "active": True,
            "memory_id": edge.memory_id,
            "created_at": at,
        },
    )


def around(
    conn: Connection, audiences: Sequence[Audience], words: Sequence[str], *, hops: int, least: float, most: int
) -> tuple[Edge, ...]:
    """Relations within so many hops of entities that the words name, best first (SPEC §16.1).

    The score is how well the seed fits × 1 / (1 + hop) × confidence; relations below `least` are not followed.
    """
    reached = _seeds(conn, audiences, words)
    edges: dict[int, Edge] = {}
    visited = set(reached)
    frontier = dict(reached)
    for hop in range(hops):
        if not frontier or len(edges) >= MOST_VISITED:
            break
        ids = list(frontier)
        near = _EDGES.where(
            relation.c.audience.in_(audiences),
            relation.c.confidence >= least,
            or_(relation.c.subject_id.in_(ids), relation.c.object_id.in_(ids)),
        ).limit(MOST_VISITED)
        following: dict[int, float] = {}
        for row in conn.execute(near):
            fit = max(frontier.get(row.subject_id, 0.0), frontier.get(row.object_id, 0.0))
            edge = Edge(
                subject=row.subject,
                word=row.word,
                object=row.object,
                confidence=row.confidence,
                memory_id=row.memory_id,
                hops=hop,
                score=fit * row.confidence / (1 + hop),
            )
            if row.id not in edges:
                edges[row.id] = edge
            for end in (row.subject_id, row.object_id):
                if end not in visited:
                    following[end] = max(fit, following.get(end, 0.0))
        visited |= set(following)
        frontier = following
    return tuple(sorted(edges.values(), key=lambda edge: (-edge.score, edge.text))[:most])


def listed(conn: Connection, audiences: Sequence[Audience], *, most: int) -> tuple[Edge, ...]:
    """The newest relations."""
    statement = (
        _EDGES.where(relation.c.audience.in_(audiences))
        .order_by(relation.c.created_at.desc(), relation.c.id.desc())
        .limit(most)
    )
    return tuple(
        Edge(
            subject=row.subject,
            word=row.word,
            object=row.object,
            confidence=row.confidence,
            memory_id=row.memory_id,
        )
        for row in conn.execute(statement)
    )


def read_upto(conn: Connection, conversation: str) -> int:
    """Up to which thing that was kept of a conversation its graph was read."""
    statement = select(memory_place.c.graphed_upto).where(memory_place.c.conv == conversation)
    return int(conn.execute(statement).scalar_one_or_none() or 0)


def set_read_upto(conn: Connection, conversation: str, id: int) -> None:
    conn.execute(_UPTO, {"conv": conversation, "graphed_upto": id})


def _seeds(conn: Connection, audiences: Sequence[Audience], words: Sequence[str]) -> dict[int, float]:
    """Entities whose names begin like a word of the question, with how much of the name that is."""
    if not words:
        return {}
    beginnings = [stem(word) for word in words]
    likely = select(entity).where(
        entity.c.audience.in_(audiences),
        or_(*(condition for begin in beginnings
              for condition in (entity.c.key.startswith(begin, autoescape=True),
                                entity.c.key.contains(f" {begin}", autoescape=True)))),
    ).limit(MOST_SEEDS)  # fmt: skip
    found = {}
    for row in conn.execute(likely):
        parts = row.key.split()
        fits = sum(any(part.startswith(begin) for begin in beginnings) for part in parts)
        found[int(row.id)] = fits / len(parts) if parts else 0.0
    return found


def _entity(conn: Connection, audience: Audience, name: str) -> int:
    key = key_of(name)
    conn.execute(_ENTITY, {"audience": audience, "name": name, "key": key})
    id: int = conn.execute(_ENTITY_ID, {"of": audience, "called": key}).scalar_one()
    return id
