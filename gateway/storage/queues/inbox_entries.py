"""The inbox for the operator: what waits and what is dead, tried again or taken out."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError
from sqlalchemy import Connection, Select, bindparam, func, literal_column, select, update

from agent.core.ids import ConversationId
from agent.sessions import runs
from agent.storage.payloads import decode_incoming
from agent.storage.tables import inbox, turn


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxEntry:
    """A message. `payload` is the stored Incoming, possibly unreadable; moments are UTC microseconds."""

    id: int
    conversation: ConversationId
    kind: str
    payload: str
    attempts: int
    why: str
    not_before: int | None
    created_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceQueue:
    """The messages of one place that wait or are under work. `later` of them wait for a moment, the first at `next_at`.

    `since` is when the oldest came; moments are UTC microseconds.
    """

    conversation: ConversationId
    waiting: int
    later: int
    next_at: int | None
    attempts: int
    since: int


_NEW = inbox.c.status == literal_column("'new'")
_DEAD = inbox.c.status == literal_column("'dead'")
_ONE = inbox.c.id == bindparam("row")
_NEWEST = select(inbox).order_by(inbox.c.id.desc()).limit(bindparam("most")).offset(bindparam("skip"))
_LIST_DEAD = _NEWEST.where(_DEAD)
_LIST_WAITING = _NEWEST.where(_NEW)
_BY_PLACE = (
    select(
        inbox.c.conv,
        func.count(),
        func.count(inbox.c.not_before),
        func.min(inbox.c.not_before),
        func.max(inbox.c.attempts),
        func.min(inbox.c.created_at),
    )
    .where(_NEW)
    .group_by(inbox.c.conv)
    .order_by(func.min(inbox.c.created_at), inbox.c.conv)
    .limit(bindparam("most"))
    .offset(bindparam("skip"))
)
_PAYLOADS = select(inbox.c.id, inbox.c.payload).where(inbox.c.id.in_(bindparam("rows", expanding=True)))
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
# By the partial indexes: what is done is not counted, since that would read everything ever said.
COUNTED = tuple(select(func.count()).select_from(inbox).where(which) for which in (_NEW, _DEAD))
_OLDEST = select(inbox.c.created_at).where(_NEW).order_by(inbox.c.id).limit(1)
_NEWEST_RUN = (
    select(turn.c.inbox_id).where(turn.c.conv == bindparam("conversation")).order_by(turn.c.id.desc()).limit(1)
)
_ANSWERED_LAST = select(inbox.c.payload).where(inbox.c.id == _NEWEST_RUN.scalar_subquery())


def dead(conn: Connection, *, most: int = 100, skip: int = 0) -> tuple[InboxEntry, ...]:
    """Messages given up, newest first."""
    return _listed(conn, _LIST_DEAD, most, skip)


def waiting(conn: Connection, *, most: int = 100) -> tuple[InboxEntry, ...]:
    """Messages that wait or are under work, newest first."""
    return _listed(conn, _LIST_WAITING, most)


def by_place(conn: Connection, *, most: int, skip: int = 0) -> tuple[PlaceQueue, ...]:
    """Places where messages wait or are under work, the one that has waited longest first."""
    return tuple(
        PlaceQueue(
            conversation=ConversationId(key),
            waiting=waiting,
            later=later,
            next_at=next_at,
            attempts=attempts,
            since=since,
        )
        for key, waiting, later, next_at, attempts, since in conn.execute(_BY_PLACE, {"most": most, "skip": skip})
    )


def now(conn: Connection, row_id: int) -> ConversationId | None:
    """Let a message that waits be due at once; wake the conversation returned. None: it does not wait."""
    return _key(conn.execute(_NOW, {"row": row_id}).scalar_one_or_none())


def take_out(conn: Connection, row_id: int, *, why: str) -> ConversationId | None:
    """Refuse a message whose turn has not begun. None: there is no such one."""
    return _key(conn.execute(_TAKE_OUT, {"row": row_id, "why": why}).scalar_one_or_none())


def bury(conn: Connection, row_id: int) -> ConversationId | None:
    """A dead letter is settled and leaves the list; its repeats are still known. None: it is not dead."""
    return _key(conn.execute(_BURY, {"row": row_id}).scalar_one_or_none())


def _listed(conn: Connection, query: Select[Any], most: int, skip: int = 0) -> tuple[InboxEntry, ...]:
    return tuple(
        InboxEntry(
            id=row.id,
            conversation=ConversationId(row.conv),
            kind=row.kind,
            payload=row.payload,
            attempts=row.attempts,
            why=row.note or "",
            not_before=row.not_before,
            created_at=row.created_at,
        )
        for row in conn.execute(query, {"most": most, "skip": skip})
    )


def revive(conn: Connection, row_id: int) -> ConversationId | None:
    """Let a dead message be tried anew; wake the conversation returned. None: it is not dead."""
    found = _key(conn.execute(_REVIVE, {"row": row_id}).scalar_one_or_none())
    if found is not None:
        runs.revive(conn, row_id)
    return found


def counts(conn: Connection) -> tuple[int, int]:
    """How many messages wait or are under work, and how many were given up."""
    waiting, dead = (int(conn.execute(count).scalar_one()) for count in COUNTED)
    return waiting, dead


def oldest_waiting(conn: Connection) -> int | None:
    """When the oldest message came that waits or is under work, in UTC microseconds; None: none does."""
    found: int | None = conn.execute(_OLDEST).scalar_one_or_none()
    return found


def name_of(conn: Connection, conversation: ConversationId) -> str:
    """The sender of the message that the agent there has worked on last, as the platform shows them; "" if unknown."""
    payload = conn.execute(_ANSWERED_LAST, {"conversation": conversation}).scalar_one_or_none()
    return _display(payload or "")


def senders(conn: Connection, rows: Iterable[int]) -> Mapping[int, str]:
    """The senders of these messages as the platform shows them, by row; one that nobody sent has ""."""
    wanted: Sequence[int] = sorted(set(rows))
    return {id: _display(payload) for id, payload in conn.execute(_PAYLOADS, {"rows": wanted})}


def words(conn: Connection, rows: Iterable[int]) -> Mapping[int, str]:
    """The text of these messages, by row; of one that was removed or cannot be read nothing."""
    found: dict[int, str] = {}
    for id, payload in conn.execute(_PAYLOADS, {"rows": sorted(set(rows))}):
        try:
            found[id] = decode_incoming(payload).text
        except ValidationError:
            continue  # it costs its words alone
    return found


def _display(payload: str) -> str:
    try:
        return decode_incoming(payload).display if payload else ""
    except ValidationError:
        return ""


def _key(stored: str | None) -> ConversationId | None:
    return None if stored is None else ConversationId(stored)
