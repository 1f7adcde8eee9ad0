"""The inbox as the operator sees it: what is dead, how much waits, and bringing a dead message back."""

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import Connection, bindparam, func, literal_column, select, update

from agent.core.ids import ConversationId
from agent.storage.tables import inbox


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """A message that was given up. `payload` is the stored Incoming, possibly unreadable; moments UTC microseconds."""

    id: int
    conversation: ConversationId
    kind: str
    payload: str
    attempts: int
    why: str
    created_at: int


_DEAD = inbox.c.status == literal_column("'dead'")
_LIST = select(inbox).where(_DEAD).order_by(inbox.c.id.desc()).limit(bindparam("most"))
_REVIVE = (
    update(inbox)
    .where(inbox.c.id == bindparam("row"), _DEAD)
    .values(status="new", attempts=0, note=None, done_epoch=None)
    .returning(inbox.c.conv)
)
_COUNTS = select(inbox.c.status, func.count().label("rows")).group_by(inbox.c.status)


def dead_letters(conn: Connection, *, most: int = 100) -> tuple[DeadLetter, ...]:
    """Newest first."""
    return tuple(
        DeadLetter(
            id=row.id,
            conversation=ConversationId(row.conv),
            kind=row.kind,
            payload=row.payload,
            attempts=row.attempts,
            why=row.note or "",
            created_at=row.created_at,
        )
        for row in conn.execute(_LIST, {"most": most})
    )


def revive(conn: Connection, row_id: int) -> ConversationId | None:
    """Let a dead message be tried anew; wake the conversation returned. None: it is not dead."""
    key = conn.execute(_REVIVE, {"row": row_id}).scalar_one_or_none()
    return None if key is None else ConversationId(key)


def counts(conn: Connection) -> Mapping[str, int]:
    """How many rows there are of each status."""
    return {row.status: row.rows for row in conn.execute(_COUNTS)}
