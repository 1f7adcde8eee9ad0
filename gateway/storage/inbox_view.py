"""The inbox as the operator sees it: what waits, what is dead, trying a message again, taking one out."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Select, bindparam, func, literal_column, select, update

from agent.core.ids import ConversationId
from agent.sessions import runs
from agent.storage.tables import inbox


@dataclass(frozen=True, slots=True, kw_only=True)
class Letter:
    """A message. `payload` is the stored Incoming, possibly unreadable; moments are UTC microseconds."""

    id: int
    conversation: ConversationId
    kind: str
    payload: str
    attempts: int
    why: str
    not_before: int | None
    created_at: int


_NEW = inbox.c.status == literal_column("'new'")
_DEAD = inbox.c.status == literal_column("'dead'")
_ONE = inbox.c.id == bindparam("row")
_NEWEST = select(inbox).order_by(inbox.c.id.desc()).limit(bindparam("most"))
_LIST_DEAD = _NEWEST.where(_DEAD)
_LIST_WAITING = _NEWEST.where(_NEW)
_NOW = update(inbox).where(_ONE, _NEW).values(not_before=None).returning(inbox.c.conv)
# A run that has begun is its owner's; what it is about to say cannot be taken back here.
_TAKE_OUT = (
    update(inbox)
    .where(_ONE, _NEW, inbox.c.attempts == 0)
    .values(status="refused", note=bindparam("why"))
    .returning(inbox.c.conv)
)
_BURY = update(inbox).where(_ONE, _DEAD).values(status="refused").returning(inbox.c.conv)
_REVIVE = (
    update(inbox)
    .where(_ONE, _DEAD)
    .values(status="new", attempts=0, note=None, done_epoch=None)
    .returning(inbox.c.conv)
)
_COUNTS = select(inbox.c.status, func.count().label("rows")).group_by(inbox.c.status)


def dead(conn: Connection, *, most: int = 100) -> tuple[Letter, ...]:
    """What was given up, newest first."""
    return _listed(conn, _LIST_DEAD, most)


def waiting(conn: Connection, *, most: int = 100) -> tuple[Letter, ...]:
    """What waits or is under work, newest first."""
    return _listed(conn, _LIST_WAITING, most)


def now(conn: Connection, row_id: int) -> ConversationId | None:
    """Let a message that waits be due at once; wake the conversation returned. None: it does not wait."""
    return _key(conn.execute(_NOW, {"row": row_id}).scalar_one_or_none())


def take_out(conn: Connection, row_id: int, *, why: str) -> ConversationId | None:
    """Refuse a message whose turn has not begun. None: there is no such one."""
    return _key(conn.execute(_TAKE_OUT, {"row": row_id, "why": why}).scalar_one_or_none())


def bury(conn: Connection, row_id: int) -> ConversationId | None:
    """A dead letter is settled and leaves the list; its repeats are still known. None: it is not dead."""
    return _key(conn.execute(_BURY, {"row": row_id}).scalar_one_or_none())


def _listed(conn: Connection, query: Select[Any], most: int) -> tuple[Letter, ...]:
    return tuple(
        Letter(
            id=row.id,
            conversation=ConversationId(row.conv),
            kind=row.kind,
            payload=row.payload,
            attempts=row.attempts,
            why=row.note or "",
            not_before=row.not_before,
            created_at=row.created_at,
        )
        for row in conn.execute(query, {"most": most})
    )


def revive(conn: Connection, row_id: int) -> ConversationId | None:
    """Let a dead message be tried anew; wake the conversation returned. None: it is not dead."""
    found = _key(conn.execute(_REVIVE, {"row": row_id}).scalar_one_or_none())
    if found is not None:
        runs.revive(conn, row_id)
    return found


def counts(conn: Connection) -> Mapping[str, int]:
    """How many rows there are of each status."""
    return {row.status: row.rows for row in conn.execute(_COUNTS)}


def _key(stored: str | None) -> ConversationId | None:
    return None if stored is None else ConversationId(stored)
