"""A place got a new name: what was kept there follows. Plain functions over a `Connection`."""

from sqlalchemy import Connection, delete, select, update

from agent.core.ids import ConversationId
from agent.memory import rows
from agent.memory.audience import Audience, audience_of_place, word_of
from agent.storage.memory_tables import (
    entity,
    memory,
    memory_place,
    memory_session,
    memory_vector,
    relation,
    user_model,
)


def follow(conn: Connection, old: ConversationId, new: ConversationId) -> None:
    """What belongs to the place `old` belongs to `new` from now on; what `new` has chosen itself stays."""
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
        key = rows.fact_key(after, row.text)
        if conn.execute(select(memory.c.id).where(memory.c.dedup == key)).first() is not None:
            rows.remove(conn, [row.id])
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
