"""What an earlier process left, and what nobody woke us for: found by looking into the database, safe to repeat."""

from dataclasses import dataclass
from datetime import timedelta

from sqlalchemy import Connection, bindparam, update

from agent.core.ids import ConversationId
from agent.storage import conversation_rows, inbox_rows, outbox_rows
from agent.storage.tables import inbox

PARTS_COME_WITHIN = timedelta(seconds=10)  # accounts open after the dispatcher, and then fetch what they missed

# Of people's messages only an album whose parts may still be under way is put off.
_HOLD_ALBUMS = (
    update(inbox)
    .where(inbox.c.status == "new", inbox.c.kind == "message", inbox.c.attempts == 0)
    .where(inbox.c.not_before < bindparam("until"))
    .values(not_before=bindparam("until"))
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """`leases` is how many leases of dead owners were freed."""

    leases: int
    with_work: tuple[ConversationId, ...]
    with_outbox: tuple[ConversationId, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """`next_at` is when put-off work becomes due, in UTC microseconds."""

    with_work: tuple[ConversationId, ...]
    next_at: int | None


def recover(conn: Connection, *, now: int) -> Left:
    """For the start of the sole owner, in a write: it frees every lease, since whoever took one is dead.

    An album waits once more for its parts: the platform still has those that were not stored.
    """
    conn.execute(_HOLD_ALBUMS, {"until": now + PARTS_COME_WITHIN // timedelta(microseconds=1)})
    return Left(
        leases=conversation_rows.clear_all(conn),
        with_work=inbox_rows.conversations_with_work(conn, now),
        with_outbox=outbox_rows.conversations_with_open(conn),
    )


def look_around(conn: Connection, *, now: int) -> Due:
    """What is to be done now, and when to look again at the latest."""
    return Due(with_work=inbox_rows.conversations_with_work(conn, now), next_at=inbox_rows.next_due(conn, now))
