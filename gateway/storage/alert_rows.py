"""Rows of alerts that go beyond the owners' chats, one for each receiver. Moments: UTC microseconds."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import Connection, Row, bindparam, insert, or_, select, update

from gateway.storage.tables import alert

Severity = Literal["warning", "resolved", "test"]

LONGEST_ERROR = 300  # characters
_OPEN = alert.c.state == "open"
_ADD = insert(alert)
_before = alert.alias("earlier")
# None overtakes another: nothing is taken behind one that waits for its moment, or that another process is sending.
_WAITS_BEHIND = (
    select(_before.c.id)
    .where(
        _before.c.state == "open",
        _before.c.receiver == bindparam("who"),
        _before.c.id < alert.c.id,
        or_(_before.c.due_at > bindparam("now"), _before.c.claimed_until > bindparam("now")),
    )
    .correlate(alert)
    .exists()
)
# Those that were taken together before, and no others: they leave under the same id once more.
_oldest = alert.alias("oldest")
_ATTEMPTS = (
    select(_oldest.c.attempts)
    .where(_oldest.c.state == "open", _oldest.c.receiver == bindparam("who"))
    .order_by(_oldest.c.id)
    .limit(1)
)
_DUE = (
    select(alert.c.id)
    .where(
        _OPEN,
        alert.c.receiver == bindparam("who"),
        alert.c.due_at <= bindparam("now"),
        alert.c.claimed_until <= bindparam("now"),
        alert.c.attempts == _ATTEMPTS.scalar_subquery(),
        ~_WAITS_BEHIND,
    )
    .order_by(alert.c.id)
    .limit(bindparam("most"))
)
# Asked once more of each row: on PostgreSQL another process may have claimed it since the inner query.
_CLAIM = (
    update(alert)
    .where(alert.c.id.in_(_DUE.scalar_subquery()), _OPEN, alert.c.claimed_until <= bindparam("now"))
    .values(claimed_until=bindparam("until"), attempts=alert.c.attempts + 1)
    .returning(alert)
)
_CLAIMED = (alert.c.id.in_(bindparam("ids", expanding=True)), _OPEN, alert.c.claimed_until == bindparam("until"))
_END = update(alert).where(*_CLAIMED).values(state=bindparam("to"), error=bindparam("why"), ended_at=bindparam("now"))
_FREE = update(alert).where(*_CLAIMED).values(claimed_until=0, due_at=bindparam("due"), error=bindparam("why"))
_LEAVE = update(alert).where(*_CLAIMED).values(claimed_until=0, attempts=alert.c.attempts - 1)
_OLD = (
    select(alert)
    .where(_OPEN, alert.c.receiver == bindparam("who"), alert.c.created_at <= bindparam("before"))
    .order_by(alert.c.id)
)
_GIVE_UP = (
    update(alert)
    .where(alert.c.id == bindparam("one"), _OPEN, alert.c.claimed_until <= bindparam("now"))
    .values(state="given_up", ended_at=bindparam("now"))
)
_HEAD = (
    select(alert.c.due_at, alert.c.claimed_until)
    .where(_OPEN, alert.c.receiver == bindparam("who"))
    .order_by(alert.c.id)
    .limit(1)
)
_NEWEST = select(alert).order_by(alert.c.id.desc()).limit(bindparam("most"))
_NOW_DUE = update(alert).where(_OPEN, alert.c.receiver == bindparam("who")).values(due_at=bindparam("now"))


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertRow:
    """An alert for one receiver, or for the part of it that did not take it.

    `subject` is "" for a single event; `error` is of the last attempt.
    """

    id: int
    receiver: str
    subject: str
    severity: Severity
    text: str
    created_at: int
    due_at: int
    attempts: int
    error: str
    state: str
    ended_at: int | None


def add(conn: Connection, receiver: str, *, subject: str, severity: Severity, text: str, at: int) -> None:
    """Keep one that is due at once."""
    values = {"receiver": receiver, "subject": subject, "severity": severity, "text": text}
    conn.execute(_ADD, values | {"created_at": at, "due_at": at})


def claim(conn: Connection, receiver: str, *, now: int, until: int, most: int) -> Sequence[AlertRow]:
    """Take the oldest that are due for sending; until that moment no other process takes them. Oldest first.

    What did not leave is taken as it was taken before, without what has come since.
    """
    rows = conn.execute(_CLAIM, {"who": receiver, "now": now, "until": until, "most": most}).all()
    return sorted((_row(row) for row in rows), key=lambda one: one.id)


def sent(conn: Connection, ids: Sequence[int], *, until: int, now: int) -> bool:
    """They have left. `until` is that of the claim: whoever lost it changes nothing, and False is given."""
    return conn.execute(_END, {"ids": list(ids), "until": until, "to": "sent", "why": "", "now": now}).rowcount > 0


def failed(conn: Connection, ids: Sequence[int], *, until: int, due: int, why: str) -> None:
    """They have not: they are due again at that moment, and what came later waits behind them."""
    conn.execute(_FREE, {"ids": list(ids), "until": until, "due": due, "why": why[:LONGEST_ERROR]})


def leave(conn: Connection, ids: Sequence[int], *, until: int) -> None:
    """They were taken and not tried: they stay due as they were."""
    conn.execute(_LEAVE, {"ids": list(ids), "until": until})


def again(conn: Connection, rows: Sequence[AlertRow], receiver: str, *, due: int) -> None:
    """Keep the same for a part of a receiver, which did not take them: they are due for it at that moment."""
    for row in rows:
        values = {"receiver": receiver, "subject": row.subject, "severity": row.severity, "text": row.text}
        conn.execute(_ADD, values | {"created_at": row.created_at, "due_at": due, "attempts": row.attempts})


def parts(conn: Connection, receiver: str) -> Sequence[str]:
    """The parts of a receiver that something waits for: `email:ops@example.org`."""
    of_it = alert.c.receiver.startswith(f"{receiver}:", autoescape=True)
    return sorted(conn.execute(select(alert.c.receiver).where(_OPEN, of_it).distinct()).scalars())


def give_up(conn: Connection, receiver: str, *, before: int, now: int) -> Sequence[AlertRow]:
    """End those that were made before that moment, which nobody is sending; these are given."""
    old = [_row(row) for row in conn.execute(_OLD, {"who": receiver, "before": before})]
    return [one for one in old if conn.execute(_GIVE_UP, {"one": one.id, "now": now}).rowcount]


def is_any_open(conn: Connection, receiver: str, *, before: int) -> bool:
    """Whether one waits that was made before that moment."""
    return conn.execute(_OLD.limit(1), {"who": receiver, "before": before}).first() is not None


def next_due(conn: Connection, receiver: str) -> int | None:
    """When one can be claimed again; None: none waits."""
    head = conn.execute(_HEAD, {"who": receiver}).one_or_none()
    return None if head is None else max(head.due_at, head.claimed_until)


def due_now(conn: Connection, receiver: str, now: int) -> None:
    """Let all that wait be due now: the receiver may have been corrected."""
    conn.execute(_NOW_DUE, {"who": receiver, "now": now})


def newest(conn: Connection, most: int) -> Sequence[AlertRow]:
    """The newest first."""
    return [_row(row) for row in conn.execute(_NEWEST, {"most": most})]


def _row(row: Row[Any]) -> AlertRow:
    return AlertRow(
        id=row.id,
        receiver=row.receiver,
        subject=row.subject,
        severity=row.severity,
        text=row.text,
        created_at=row.created_at,
        due_at=row.due_at,
        attempts=row.attempts,
        error=row.error,
        state=row.state,
        ended_at=row.ended_at,
    )
