"""Rows of the inbox: what was said to an agent and what became of it (G-12, G-13).

A row is `new` until its run ends it. `attempts` counts the runs begun: as long as it is 0, the row can still be
edited, taken back, merged or cleared (`agent.storage.inbox_rows`); afterwards only its run's owner touches it.
`forgiven` of them are no failed tries.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

from pydantic import ValidationError
from sqlalchemy import Connection, Row, Text, and_, bindparam, case, func, insert, literal_column, or_, select, update

from agent.core.ids import ConversationId, PersonId
from agent.inbox import Incoming, WorkKind
from agent.storage.conversation_rows import ensure, lock_row
from agent.storage.payloads import decode_incoming, encode_incoming
from agent.storage.statements import CompiledStatement, or_ignore
from agent.storage.tables import inbox

UNREADABLE = "its payload cannot be read"  # the note of a row that is ended for it

InboxStatus = Literal["new", "done", "merged", "refused", "dead"]

_log = logging.getLogger("tieline.storage")

MAX_WAITING = 10  # people's messages of one conversation that wait for their run (B-62, B-84)


@dataclass(frozen=True, slots=True, kw_only=True)
class Admitted:
    """The result of an admission. `depth` counts the people's messages that wait, this one included.

    duplicate: `id` is None, it was stored before. refused: stored, but the queue was full; the person must be told.
    """

    id: int | None
    duplicate: bool = False
    refused: bool = False
    depth: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxRow:
    """One row that is `new`. Moments are UTC microseconds."""

    id: int
    conversation: ConversationId
    kind: WorkKind
    incoming: Incoming
    attempts: int
    forgiven: int = 0
    not_before: int | None
    created_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenRow:
    """A row that is not done, and how many runs had begun for it when it was looked at."""

    id: int
    attempts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedRow:
    """Something that rights refused: whose it was, the rule, and when, in UTC microseconds."""

    person: PersonId | None
    rule: str
    created_at: int


WEBHOOKS = "hook:"  # begins the dedup of a row that a webhook of another service has brought
ASKED = "asked:"  # and of one that another program asks in a chat of people
RIGHTS = "rights: "  # begins the note of a row that rights refused; behind it the rule
_CONV = inbox.c.conv == bindparam("conversation")
# Written out: behind a parameter a prepared plan of PostgreSQL could not use the partial index of new rows.
NEW = inbox.c.status == literal_column("'new'")
# People's messages of one conversation for which no run has begun.
WAITING = (inbox.c.conv == bindparam("conversation"), NEW, inbox.c.kind == "message", inbox.c.attempts == 0)
_ONE = inbox.c.id == bindparam("row")
_DUE = or_(inbox.c.not_before.is_(None), inbox.c.not_before <= bindparam("now"))
# Scheduled tasks that are due first, as they are injected; then people, then what was put off until nobody waits: turns
# of goals and plans, heartbeats (Z-07, Z-22).
_RANK = case(
    ((inbox.c.kind != "message") & inbox.c.not_before.is_(None), 0),
    (inbox.c.kind == "message", 1),
    else_=2,
)

_ADMIT = CompiledStatement(or_ignore(insert(inbox)).returning(inbox.c.id))
_KNOWN = (
    select(inbox.c.id)
    .where(or_(inbox.c.dedup == bindparam("message"), inbox.c.event_dedup == bindparam("event", type_=Text)))
    .limit(1)
)
_DEPTH = CompiledStatement(select(func.count()).select_from(inbox).where(*WAITING))
_END = update(inbox).where(_ONE).values(status=bindparam("ending"), note=bindparam("why"))
_DUE_ROWS = CompiledStatement(
    select(inbox).where(_CONV, NEW, _DUE).order_by(_RANK, inbox.c.id).limit(bindparam("most"))
)
_HAS_DUE = CompiledStatement(select(inbox.c.id).where(_CONV, NEW, _DUE).limit(1))
_FINISH = CompiledStatement(
    update(inbox).where(_ONE, NEW).values(status=bindparam("ending"), done_epoch=bindparam("by"), note=bindparam("why"))
)
_BEGIN = CompiledStatement(update(inbox).where(_ONE, NEW).values(attempts=inbox.c.attempts + 1))
_BEGIN_MERGED = CompiledStatement(
    update(inbox).where(_ONE, NEW).values(attempts=inbox.c.attempts + 1, payload=bindparam("text"))
)
_FORGIVE = update(inbox).where(_ONE, NEW).values(forgiven=inbox.c.attempts)
_CALLED = (
    select(inbox.c.id)
    .where(_CONV, NEW, inbox.c.kind == "system", inbox.c.attempts <= bindparam("begun"))
    .where(inbox.c.dedup.startswith(bindparam("prefix"), autoescape=False))
)
_WITH_NEW = select(inbox.c.conv).where(NEW, _DUE).distinct()
_NEXT_DUE = select(func.min(inbox.c.not_before)).where(NEW, inbox.c.not_before > bindparam("now"))

_BY_RIGHTS = (
    select(inbox.c.payload, inbox.c.note, inbox.c.created_at)
    .where(
        or_(_CONV, func.substr(inbox.c.conv, 1, bindparam("length")) == bindparam("prefix")),
        inbox.c.status == "refused",
        func.substr(inbox.c.note, 1, len(RIGHTS)) == bindparam("begins"),
    )
    .order_by(inbox.c.id.desc())
    .limit(bindparam("most"))
)

_IS_NEW = select(inbox.c.id).where(_ONE, NEW)
_NEXT_OPEN = (
    select(inbox.c.id, inbox.c.attempts)
    .where(_CONV, NEW, inbox.c.kind == "message", inbox.c.created_at <= bindparam("said_at"))
    .where(inbox.c.attempts <= bindparam("begun"))
    .order_by(inbox.c.id)
    .limit(1)
)
_REFUSE = CompiledStatement(
    update(inbox)
    .where(_ONE, NEW, inbox.c.attempts == bindparam("begun"))
    .values(status=bindparam("ending"), note=bindparam("why"))
)


def admit(
    conn: Connection,
    *,
    conversation: ConversationId,
    kind: WorkKind,
    dedup: str,
    payload: str,
    at: int,
    event_dedup: str | None = None,
    platform_ref: str | None = None,
    not_before: int | None = None,
    limit: int | None = MAX_WAITING,
) -> Admitted:
    """Store it, once. `payload` is an encoded Incoming. `limit` bounds people's messages only; None: no bound.

    A repeat is known by `dedup` (the message) or by `event_dedup` (the platform's event), whatever became of the
    first. A refused one is kept as well, so that its repeat is a duplicate and not a second refusal.
    """
    ensure(conn, conversation, at)
    lock_row(conn, conversation)
    values = {
        "conv": conversation,
        "kind": kind,
        "dedup": dedup,
        "event_dedup": event_dedup,
        "platform_ref": platform_ref,
        "payload": payload,
        "not_before": not_before,
        "created_at": at,
    }
    row_id = _ADMIT.scalar(conn, values)
    depth: int = _DEPTH.scalar(conn, {"conversation": conversation})
    if row_id is None:
        return Admitted(id=None, duplicate=True, depth=depth)
    if kind == "message" and limit is not None and depth > limit:
        conn.execute(_END, {"row": row_id, "ending": "refused", "why": f"more than {limit} messages were waiting"})
        return Admitted(id=row_id, refused=True, depth=depth - 1)
    return Admitted(id=row_id, depth=depth)


def is_known(conn: Connection, *, dedup: str, event_dedup: str | None) -> bool:
    """Was it stored before, whatever became of it?"""
    return conn.execute(_KNOWN, {"message": dedup, "event": event_dedup}).first() is not None


def is_new(conn: Connection, id: int) -> bool:
    """Is it still to be done, or under work?"""
    return conn.execute(_IS_NEW, {"row": id}).first() is not None


def waiting_count(conn: Connection, conversation: ConversationId) -> int:
    """How many of people's messages wait for their run."""
    return cast(int, _DEPTH.scalar(conn, {"conversation": conversation}))


def people_wait(conn: Connection, conversation: ConversationId) -> bool:
    """Whether people's messages wait for their run."""
    return waiting_count(conn, conversation) > 0


def due(
    conn: Connection,
    conversation: ConversationId,
    *,
    now: int,
    most: int = MAX_WAITING + 2,
    unread: Callable[[int, int, str], None] = lambda row, attempts, why: None,
) -> list[InboxRow]:
    """Rows to be done now, in the order in which they must be done; rows under work included.

    A row that cannot be read is ended as dead: it must not block its conversation. So call it in a write. `unread` is
    told of it: its id, its attempts and the reason.
    """
    rows = []
    for row in _DUE_ROWS.rows(conn, {"conversation": conversation, "now": now, "most": most}):
        try:
            rows.append(read_row(row))
        except ValidationError:
            _log.exception("inbox row %d of %s cannot be read; it is dead", row.id, conversation)
            finish(conn, [row.id], status="dead", note=UNREADABLE)
            unread(row.id, row.attempts, UNREADABLE)
    return rows


def has_due(conn: Connection, conversation: ConversationId, *, now: int) -> bool:
    """Whether there is anything to be done now."""
    return _HAS_DUE.scalar(conn, {"conversation": conversation, "now": now}) is not None


def begin(conn: Connection, row: InboxRow, incoming: Incoming, absorbed: Sequence[int] = ()) -> int:
    """Count a run for the row and return its number, 1 for the first.

    Rows in `absorbed` were merged into `incoming`: they end here, in the same transaction, so that a run repeated
    after a crash has the same words again.
    """
    if absorbed:
        finish(conn, absorbed, status="merged", epoch=None, note=f"merged into {row.id}")
    if incoming is row.incoming:
        _BEGIN.run(conn, {"row": row.id})
    else:
        _BEGIN_MERGED.run(conn, {"row": row.id, "text": encode_incoming(incoming)})
    return row.attempts + 1


def forgive(conn: Connection, id: int) -> None:
    """The runs begun so far are no failed tries: the newest came to where it waits for a person."""
    conn.execute(_FORGIVE, {"row": id})


SET_ASIDE = "history set aside"  # begins the note of a run that went on without messages that the model refused


def finish(
    conn: Connection, ids: Sequence[int], status: InboxStatus, epoch: int | None = None, note: str | None = None
) -> int:
    """End rows that are `new` and return how many were; merged and ended rows stay what they are."""
    return sum(_FINISH.run(conn, {"row": row, "ending": status, "by": epoch, "why": note}) for row in ids)


def withdraw(
    conn: Connection, conversation: ConversationId, *, prefix: str, note: str, begun: bool = False
) -> Sequence[int]:
    """End what the gateway put off under a dedup key that begins so, and return which it was.

    What was `begun` belongs to its run, and is ended only where no run can be under way.
    """
    values = {"conversation": conversation, "prefix": prefix, "begun": 1_000_000 if begun else 0}
    ids = conn.execute(_CALLED, values).scalars().all()
    finish(conn, ids, status="refused", note=note)
    return ids


def conversations_with_work(conn: Connection, now: int) -> tuple[ConversationId, ...]:
    """Conversations that have something to do now."""
    return tuple(ConversationId(key) for key in conn.execute(_WITH_NEW, {"now": now}).scalars())


def next_due(conn: Connection, now: int) -> int | None:
    """The next moment after `now` at which put-off work becomes due."""
    return cast(int | None, conn.execute(_NEXT_DUE, {"now": now}).scalar_one())


def refused_by_rights(conn: Connection, place: ConversationId, *, most: int) -> tuple[RefusedRow, ...]:
    """The newest things there, and in the topics and threads of the place, that nobody with rights had asked for."""
    prefix = f"{place}:"
    found = conn.execute(
        _BY_RIGHTS, {"conversation": place, "length": len(prefix), "prefix": prefix, "begins": RIGHTS, "most": most}
    )
    return tuple(
        RefusedRow(person=decode_incoming(row.payload).person, rule=row.note[len(RIGHTS) :], created_at=row.created_at)
        for row in found
    )


def next_open(conn: Connection, conversation: ConversationId, *, said_at: int, unbegun: bool = False) -> OpenRow | None:
    """The first of the people's messages stored until then that is not done; `unbegun`: for which no run has begun."""
    values = {"conversation": conversation, "said_at": said_at, "begun": 0 if unbegun else 1_000_000}
    row = conn.execute(_NEXT_OPEN, values).first()
    return None if row is None else OpenRow(id=row.id, attempts=row.attempts)


def refuse_open(conn: Connection, conversation: ConversationId, row: OpenRow, *, note: str) -> bool:
    """End it; False when it was ended or a run of it has begun since it was looked at: then nothing changes."""
    lock_row(conn, conversation)
    return _REFUSE.run(conn, {"row": row.id, "begun": row.attempts, "ending": "refused", "why": note}) == 1


def read_row(row: Row[Any]) -> InboxRow:
    """The row as a value. Raises ValidationError when what it holds cannot be read."""
    return InboxRow(
        id=row.id,
        conversation=ConversationId(row.conv),
        kind=cast(WorkKind, row.kind),
        incoming=decode_incoming(row.payload),
        attempts=row.attempts,
        forgiven=row.forgiven,
        not_before=row.not_before,
        created_at=row.created_at,
    )


# Waiting messages: until their run begins, people may edit, take back or clear them, and an album's parts join.

_REF = inbox.c.platform_ref == bindparam("ref")

_ALL_WAITING = select(inbox).where(*WAITING).order_by(inbox.c.id)
_WAITING_IDS = select(inbox.c.id).where(*WAITING).order_by(inbox.c.id)
_BY_REF = select(inbox.c.id, inbox.c.payload).where(*WAITING, _REF).with_for_update()
_BEGUN = select(inbox.c.payload).where(
    inbox.c.conv == bindparam("conversation"),
    inbox.c.kind == "message",
    _REF,
    or_(inbox.c.status == "done", and_(inbox.c.status == "new", inbox.c.attempts > 0)),
)
_REWRITE = update(inbox).where(_ONE).values(payload=bindparam("text"))
_TAKE_BACK = update(inbox).where(_ONE).values(status="done", note="deleted")
_JOIN = update(inbox).where(_ONE, NEW).values(payload=bindparam("text"), not_before=bindparam("until"))
_COMPLETE = update(inbox).where(*WAITING, inbox.c.not_before.is_not(None)).values(not_before=None)


def waiting(conn: Connection, conversation: ConversationId) -> tuple[InboxRow, ...]:
    """The people's messages that wait for their run, oldest first."""
    return tuple(read_row(row) for row in conn.execute(_ALL_WAITING, {"conversation": conversation}))


def edit(conn: Connection, *, conversation: ConversationId, platform_ref: str, text: str, version: str) -> bool:
    """Give a message its new text; the lines about what could not be read of it stay.

    False when its run has begun, when it is unknown, or when a newer version was there before: then nothing changes.
    """
    row = conn.execute(_BY_REF, {"conversation": conversation, "ref": platform_ref}).first()
    if row is None:
        return False
    before = decode_incoming(row.payload)
    if _moment(version) < _moment(before.version):
        return False
    incoming = replace(before, text="\n".join(filter(None, (text, *before.notes))), version=version)
    conn.execute(_REWRITE, {"row": row.id, "text": encode_incoming(incoming)})
    return True


def is_edited_late(conn: Connection, *, conversation: ConversationId, platform_ref: str, text: str) -> bool:
    """Whether a run has begun for the message, with other words than these."""
    payload = conn.execute(_BEGUN, {"conversation": conversation, "ref": platform_ref}).scalar()
    if payload is None:
        return False
    before = decode_incoming(payload)
    return before.text not in (text, "\n".join(filter(None, (text, *before.notes))))


def take_back(conn: Connection, *, conversation: ConversationId, platform_ref: str) -> bool:
    """End a message that was deleted before its run; False when that has begun (or it is unknown)."""
    row = conn.execute(_BY_REF, {"conversation": conversation, "ref": platform_ref}).first()
    if row is None:
        return False
    conn.execute(_TAKE_BACK, {"row": row.id})
    return True


def clear_waiting(conn: Connection, conversation: ConversationId, *, note: str) -> int:
    """End all waiting messages as refused and return how many they were."""
    ids = conn.execute(_WAITING_IDS, {"conversation": conversation}).scalars().all()
    return finish(conn, ids, status="refused", epoch=None, note=note)


def drop_last_waiting(conn: Connection, conversation: ConversationId, *, note: str) -> bool:
    """End the newest waiting message as refused; False when none waits."""
    ids = conn.execute(_WAITING_IDS, {"conversation": conversation}).scalars().all()
    return finish(conn, ids[-1:], status="refused", epoch=None, note=note) == 1


def waiting_album(conn: Connection, conversation: ConversationId, said: Incoming) -> InboxRow | None:
    """The row to which the parts of an album that came before are joined, as long as no run has begun for it."""
    if said.album is None:
        return None
    rows = waiting(conn, conversation)
    alike = (row for row in rows if (row.incoming.album, row.incoming.person) == (said.album, said.person))
    return next(alike, None)


def join(conn: Connection, row: InboxRow, incoming: Incoming, *, part: int | None, not_before: int) -> None:
    """Give an album's row what it has with its newest part, whose own row ends, and let it wait for the next one."""
    if part is not None:
        finish(conn, [part], "merged", note=f"part of the album of {row.id}")
    conn.execute(_JOIN, {"row": row.id, "text": encode_incoming(incoming), "until": not_before})


def complete_albums(conn: Connection, conversation: ConversationId) -> None:
    """Something else was said there: no further part of an album is to be waited for."""
    conn.execute(_COMPLETE, {"conversation": conversation})


def _moment(version: str) -> tuple[float, str]:
    """By which versions are ordered: seconds of an epoch on some platforms, a written moment on others."""
    try:
        return float(version), ""
    except ValueError:
        return 0.0, version
