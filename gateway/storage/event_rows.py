"""Rows of events that other programs are told of, one for each subscription. Moments: UTC microseconds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import (
    Connection,
    Row,
    and_,
    bindparam,
    case,
    delete,
    false,
    func,
    insert,
    literal_column,
    or_,
    select,
    update,
)
from sqlalchemy import true as true_

from agent.core.ids import ConversationId
from agent.storage.statements import CompiledStatement, or_ignore, or_update
from gateway.storage.tables import event_delivery, event_switched_off

State = Literal["open", "sent", "given_up"]

LONGEST_ERROR = 300  # characters
BATCH = 500

# Written out: behind parameters neither database could use the partial indexes.
_OPEN = event_delivery.c.state == literal_column("'open'")
_GIVEN_UP = event_delivery.c.state == literal_column("'given_up'")
_ONE = event_delivery.c.id == bindparam("row")
_OF_IT = event_delivery.c.subscription == bindparam("name")
_ADD = CompiledStatement(or_ignore(insert(event_delivery)))  # in the transaction of what it tells of
_waiting = event_delivery.alias("waiting")
_HEAD = (
    select(func.min(_waiting.c.id))
    .where(_waiting.c.state == literal_column("'open'"), _waiting.c.subscription == bindparam("name"))
    .where(_waiting.c.aside == false())
    .scalar_subquery()
)
# None overtakes another, but for those that the receiver refuses by themselves.
_NEXT = (
    select(event_delivery)
    .where(_OPEN, _OF_IT, or_(event_delivery.c.id == _HEAD, event_delivery.c.aside == true_()))
    .order_by(event_delivery.c.due_at, event_delivery.c.id)
    .limit(1)
)
_SENT = (
    update(event_delivery)
    .where(_ONE, _OPEN)
    .values(state="sent", error="", attempts=event_delivery.c.attempts + 1, ended_at=bindparam("now"))
)
_FAILED = (
    update(event_delivery)
    .where(_ONE, _OPEN)
    .values(
        attempts=event_delivery.c.attempts + 1,
        due_at=bindparam("due"),
        aside=bindparam("is_aside"),
        error=bindparam("why"),
    )
)
_GIVE_UP = update(event_delivery).values(state="given_up", error=bindparam("why"), ended_at=bindparam("now"))
_OVERDUE = and_(_OPEN, _OF_IT, event_delivery.c.give_up_at <= bindparam("now"))
_NEWEST_WAITING = (
    select(_waiting.c.id)
    .where(_waiting.c.state == literal_column("'open'"), _waiting.c.subscription == bindparam("name"))
    .order_by(_waiting.c.id.desc())
    .limit(bindparam("most"))
)
_AGAIN = {
    "state": "open",
    "aside": False,
    "attempts": 0,
    "ended_at": None,
    "due_at": bindparam("now"),
    "give_up_at": bindparam("until"),
}
_DUE_NOW = update(event_delivery).where(_OPEN, _OF_IT).values(due_at=bindparam("now"), aside=False)
_LIST = (
    select(event_delivery).where(or_(_OPEN, _GIVEN_UP)).order_by(event_delivery.c.id.desc()).limit(bindparam("most"))
)
_NEWEST = select(event_delivery).order_by(event_delivery.c.id.desc()).limit(bindparam("most")).offset(bindparam("skip"))
_COUNTS = select(event_delivery.c.subscription, event_delivery.c.state, func.count()).group_by(
    event_delivery.c.subscription, event_delivery.c.state
)
_LAST_SENT = (
    select(event_delivery.c.ended_at)
    .where(_OF_IT, event_delivery.c.state == literal_column("'sent'"))
    .order_by(event_delivery.c.id.desc())
    .limit(1)
)
_SWITCH_OFF = or_update(insert(event_switched_off), key=("subscription",), columns=("address_digest", "at"))


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRow:
    """An event for one subscription. `message` is its id there, `body` what is sent; `error` is of the last attempt.

    `conversation` is "" for none. A try that fails after `give_up_at` is the last one.
    """

    id: int
    subscription: str
    message: str
    type: str
    conversation: str
    body: str
    created_at: int
    due_at: int
    give_up_at: int
    attempts: int
    error: str
    state: State
    ended_at: int | None


def add(
    conn: Connection,
    subscription: str,
    *,
    message: str,
    type: str,
    conversation: ConversationId | None,
    inbox_id: int | None,
    body: str,
    at: int,
    give_up_at: int,
) -> bool:
    """Keep one that is due at once; False when there is one of that subscription with this id."""
    values = {
        "subscription": subscription,
        "message": message,
        "type": type,
        "conv": conversation or "",
        "inbox_id": inbox_id,
        "body": body,
        "created_at": at,
        "due_at": at,
        "give_up_at": give_up_at,
    }
    return _ADD.run(conn, values) > 0


def next_of(conn: Connection, subscription: str) -> EventRow | None:
    """The one that is to be tried next, from its `due_at` on; None: nothing waits."""
    row = conn.execute(_NEXT, {"name": subscription}).one_or_none()
    return None if row is None else _row(row)


def sent(conn: Connection, id: int, *, now: int) -> None:
    """The receiver has taken it."""
    conn.execute(_SENT, {"row": id, "now": now})


def failed(conn: Connection, id: int, *, due: int, why: str, aside: bool) -> None:
    """It is due again at that moment; `aside`: those behind it do not wait for it."""
    conn.execute(_FAILED, {"row": id, "due": due, "why": why[:LONGEST_ERROR], "is_aside": aside})


def give_up(conn: Connection, id: int, *, now: int, why: str) -> None:
    """It is not tried any more, unless the operator says so."""
    values = {"row": id, "now": now, "why": why[:LONGEST_ERROR]}
    conn.execute(_GIVE_UP.where(_ONE, _OPEN).values(attempts=event_delivery.c.attempts + 1), values)


def give_up_overdue(conn: Connection, subscription: str, *, now: int, why: str) -> int:
    """End those whose time is over by then; how many these are."""
    values = {"name": subscription, "now": now, "why": why[:LONGEST_ERROR]}
    return conn.execute(_GIVE_UP.where(_OVERDUE), values).rowcount


def give_up_all(conn: Connection, subscription: str, *, now: int, why: str, but_newest: int = 0) -> int:
    """End all that wait, but for so many of the newest; how many these are."""
    kept = event_delivery.c.id.not_in(_NEWEST_WAITING)
    values = {"name": subscription, "now": now, "why": why[:LONGEST_ERROR], "most": but_newest}
    return conn.execute(_GIVE_UP.where(_OPEN, _OF_IT, kept), values).rowcount


def give_up_strays(conn: Connection, subscriptions: Sequence[str], *, now: int) -> int:
    """End those of subscriptions that are not configured any more, once their time is over; how many these are."""
    stray = and_(_OPEN, event_delivery.c.subscription.not_in(subscriptions), event_delivery.c.give_up_at <= now)
    return conn.execute(_GIVE_UP.where(stray), {"now": now, "why": "there is no such section any more"}).rowcount


def due_now(conn: Connection, subscription: str, *, now: int) -> None:
    """Let all that wait be due: the receiver may have been corrected."""
    conn.execute(_DUE_NOW, {"name": subscription, "now": now})


def retry(conn: Connection, id: int, *, now: int, until: int) -> str | None:
    """Try one again that was given up or waits; its subscription. None: there is none of that number."""
    again = update(event_delivery).where(_ONE, or_(_OPEN, _GIVEN_UP)).values(_AGAIN)
    found = conn.execute(again.returning(event_delivery.c.subscription), {"row": id, "now": now, "until": until})
    return found.scalar_one_or_none()


def retry_all(conn: Connection, *, now: int, until: int, subscription: str = "") -> Sequence[str]:
    """Try all again that were given up, of one subscription where it is named; the subscription of each."""
    again = update(event_delivery).where(_GIVEN_UP).values(_AGAIN).returning(event_delivery.c.subscription)
    values: dict[str, object] = {"now": now, "until": until}
    if subscription:
        again, values = again.where(_OF_IT), values | {"name": subscription}
    return list(conn.execute(again, values).scalars())


def unsent(conn: Connection, *, most: int) -> Sequence[EventRow]:
    """Rows that wait or were given up, newest first."""
    return [_row(row) for row in conn.execute(_LIST, {"most": most})]


def newest(
    conn: Connection, *, subscription: str = "", state: State | None = None, most: int, skip: int = 0
) -> Sequence[EventRow]:
    """Rows of one subscription or all, in one state or any, newest first."""
    query, values = _NEWEST, {"most": most, "skip": skip}
    if state is not None:
        query = query.where(event_delivery.c.state == literal_column(f"'{state}'"))
    if subscription:
        query = query.where(event_delivery.c.subscription == subscription)
    return [_row(row) for row in conn.execute(query, values)]


def counts(conn: Connection) -> Mapping[tuple[str, State], int]:
    """How many rows there are, by subscription and state."""
    return {(subscription, state): count for subscription, state, count in conn.execute(_COUNTS)}


def last_sent(conn: Connection, subscription: str) -> int | None:
    """When its receiver has taken the newest one that it took; None: none is kept."""
    return conn.execute(_LAST_SENT, {"name": subscription}).scalar_one_or_none()


def prune(conn: Connection, *, before: int, budgets_before: int) -> int:
    """Remove some that have ended and are older, those of budgets by their own moment; returns how many went."""
    kept_long = event_delivery.c.type == "budget.reached"
    old = event_delivery.c.created_at < case((kept_long, budgets_before), else_=before)
    ids = select(event_delivery.c.id).where(event_delivery.c.state != "open", old).limit(BATCH).subquery()
    return conn.execute(delete(event_delivery).where(event_delivery.c.id.in_(select(ids.c.id)))).rowcount


def given_up(conn: Connection) -> int:
    """How many were given up."""
    return int(conn.execute(select(func.count()).select_from(event_delivery).where(_GIVEN_UP)).scalar_one())


def switched_off(conn: Connection) -> Mapping[str, str]:
    """The subscriptions that their receivers ended, with the digest of the address that did."""
    columns = (event_switched_off.c.subscription, event_switched_off.c.address_digest)
    return {row.subscription: row.address_digest for row in conn.execute(select(*columns))}


def switch_off(conn: Connection, subscription: str, *, address_digest: str, at: int) -> None:
    values = {"subscription": subscription, "address_digest": address_digest, "at": at}
    conn.execute(_SWITCH_OFF, values)


def switch_on(conn: Connection, subscription: str) -> bool:
    """False when it was not off."""
    off = event_switched_off.c.subscription == subscription
    return conn.execute(delete(event_switched_off).where(off)).rowcount > 0


def _row(row: Row[Any]) -> EventRow:
    return EventRow(
        id=row.id,
        subscription=row.subscription,
        message=row.message,
        type=row.type,
        conversation=row.conv,
        body=row.body,
        created_at=row.created_at,
        due_at=row.due_at,
        give_up_at=row.give_up_at,
        attempts=row.attempts,
        error=row.error,
        state=row.state,
        ended_at=row.ended_at,
    )
