"""The outbox for the operator: what is on its way or dead, tried again or given up."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Select, bindparam, false, func, literal_column, select, update

from agent.core.ids import ConversationId
from agent.storage import conversation_rows
from agent.storage.tables import conversation, outbox


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxEntry:
    """Something to say. `payload` is the stored Say, possibly unreadable; moments are UTC microseconds.

    `is_held`: the bot was removed from the place or blocked there, and nothing is sent until it is back.
    """

    id: int
    conversation: ConversationId
    payload: str
    status: str
    attempts: int
    why: str
    not_before: int | None
    created_at: int
    is_held: bool


_DEAD = outbox.c.status == literal_column("'dead'")
_OPEN = outbox.c.status.in_((literal_column("'new'"), literal_column("'sending'")))
_ONE = outbox.c.id == bindparam("row")
_IS_CLOSED = conversation.c.state == literal_column("'gone'")
_PLACE = conversation.c.key == outbox.c.conv
_WITH_PLACE = select(outbox, func.coalesce(_IS_CLOSED, false()).label("closed")).outerjoin(conversation, _PLACE)
_PAGE = _WITH_PLACE.limit(bindparam("most")).offset(bindparam("skip"))
_LIST_DEAD = _PAGE.where(_DEAD).order_by(outbox.c.id.desc())
# A sum, so that the few open rows are sorted: by the ids alone SQLite reads all that was ever sent.
_LIST_OPEN = _PAGE.where(_OPEN).order_by((outbox.c.id + 0).desc())
_COUNT_HELD = select(func.count()).select_from(outbox).join(conversation, _PLACE).where(_OPEN, _IS_CLOSED)
_NOW = update(outbox).where(_ONE, _OPEN).values(not_before=None).returning(outbox.c.conv)
# Its pieces that arrived stay noted: they are not sent again.
_REVIVE = (
    update(outbox)
    .where(_ONE, _DEAD)
    .values(status="new", attempts=0, note=None, not_before=None)
    .returning(outbox.c.conv)
)
_GIVE_UP = update(outbox).where(_ONE, _OPEN).values(status="dropped", note=bindparam("why")).returning(outbox.c.conv)
_BURY = update(outbox).where(_ONE, _DEAD).values(status="dropped").returning(outbox.c.conv)


def dead(conn: Connection, *, most: int = 100, skip: int = 0) -> tuple[OutboxEntry, ...]:
    """Messages given up, newest first."""
    return _listed(conn, _LIST_DEAD, most, skip)


def still_open(conn: Connection, *, most: int = 100, skip: int = 0) -> tuple[OutboxEntry, ...]:
    """Messages not yet sent, newest first."""
    return _listed(conn, _LIST_OPEN, most, skip)


def held(conn: Connection) -> int:
    """How many messages wait for the bot to be let back into their place."""
    return int(conn.execute(_COUNT_HELD).scalar_one())


def now(conn: Connection, row_id: int) -> ConversationId | None:
    """Let what waits be sent now, also where the place counted as closed to us. None: it is not open."""
    return _opened(conn, conn.execute(_NOW, {"row": row_id}).scalar_one_or_none())


def revive(conn: Connection, row_id: int) -> ConversationId | None:
    """Let a dead letter be sent after all. None: it is not dead."""
    return _opened(conn, conn.execute(_REVIVE, {"row": row_id}).scalar_one_or_none())


def give_up(conn: Connection, row_id: int, *, why: str) -> ConversationId | None:
    """Send it no more. (What is on its way at this moment may still arrive.) None: it is not open."""
    key = conn.execute(_GIVE_UP, {"row": row_id, "why": why}).scalar_one_or_none()
    return None if key is None else ConversationId(key)


def bury(conn: Connection, row_id: int) -> ConversationId | None:
    """A dead letter is settled and leaves the list. None: it is not dead."""
    key = conn.execute(_BURY, {"row": row_id}).scalar_one_or_none()
    return None if key is None else ConversationId(key)


def _opened(conn: Connection, key: str | None) -> ConversationId | None:
    if key is None:
        return None
    place = ConversationId(key)
    conversation_rows.set_gone(conn, place, gone=False)
    return place


def _listed(conn: Connection, query: Select[Any], most: int, skip: int) -> tuple[OutboxEntry, ...]:
    return tuple(
        OutboxEntry(
            id=row.id,
            conversation=ConversationId(row.conv),
            payload=row.payload,
            status=row.status,
            attempts=row.attempts,
            why=row.note or "",
            not_before=row.not_before,
            created_at=row.created_at,
            is_held=bool(row.closed) and row.status in ("new", "sending"),
        )
        for row in conn.execute(query, {"most": most, "skip": skip})
    )
