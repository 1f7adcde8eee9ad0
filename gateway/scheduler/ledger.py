"""The ledger of what schedules did: one row a moment, unique, so that nothing fires twice (G-15).

Whether a run went well and whether its words arrived are two things; both are read from the inbox and the outbox.
"""

from dataclasses import dataclass
from typing import Any, Literal, cast

from sqlalchemy import Connection, Row, bindparam, case, func, insert, literal_column, select, update

from agent.core.ids import ConversationId
from agent.storage.statements import or_ignore
from agent.storage.tables import inbox, outbox, turn, usage
from gateway.scheduler.schedule import Schedule
from gateway.storage.tables import schedule_run as table

BY_HAND = "now:"  # begins the key of a run that somebody asked for; its origin follows
Outcome = Literal["fired", "late", "missed", "skipped", "overlap", "unreachable"]
RunState = Literal["ok", "failed"]
DeliveryState = Literal["sent", "dead", "none"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One row. `count` moments stand behind it; None: not known yet. Moments are UTC microseconds.

    `by_hand` is the origin of a run that somebody asked for besides its times, "" for one of these.
    """

    id: int
    schedule: int
    conversation: ConversationId
    due_at: int
    at: int
    outcome: Outcome
    count: int
    dedup: str | None
    run: RunState | None
    delivery: DeliveryState | None
    by_hand: str = ""


@dataclass(frozen=True, slots=True)
class Finding:
    """The state of a started run. None: it is not over."""

    run: RunState | None
    delivery: DeliveryState | None


_NOTE = or_ignore(insert(table)).returning(table.c.id)
_OPEN = table.c.ended_at.is_(None)
_OPEN_RUNS = select(table).where(_OPEN, table.c.id > bindparam("after")).order_by(table.c.id).limit(bindparam("most"))
_WAITING = (
    select(table.c.id)
    .join(inbox, inbox.c.dedup == table.c.dedup)
    .where(_OPEN, table.c.schedule_id == bindparam("schedule"), inbox.c.status == literal_column("'new'"))
    .limit(1)
)
_SETTLE = (
    update(table)
    .where(table.c.id == bindparam("row"))
    .values(run=bindparam("how"), delivery=bindparam("arrived"), ended_at=bindparam("now"))
)
_RECENT = (
    select(table)
    .where(table.c.schedule_id == bindparam("schedule"))
    .order_by(table.c.id.desc())
    .limit(bindparam("most"))
)
_WORK = select(inbox.c.id, inbox.c.status).where(inbox.c.dedup == bindparam("key"))
_TURN = select(turn.c.state).where(turn.c.inbox_id == bindparam("work"))
_SAID = select(outbox.c.status).where(outbox.c.dedup == bindparam("key"))
_ANSWERS = select(outbox.c.status).where(outbox.c.inbox_id == bindparam("work"))
_COST = (
    select(
        func.count().label("calls"),
        func.coalesce(func.sum(usage.c.prompt + usage.c.output), 0).label("tokens"),
        func.coalesce(func.sum(usage.c.cost_usd), 0.0).label("cost_usd"),
        func.coalesce(func.sum(case((usage.c.cost_usd.is_(None), 1), else_=0)), 0).label("unpriced"),
    )
    .select_from(table)
    .join(inbox, inbox.c.dedup == table.c.dedup)
    .join(usage, usage.c.inbox_id == inbox.c.id)
    .where(table.c.schedule_id == bindparam("schedule"), table.c.dedup.is_not(None))
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Usage by the model calls of a schedule's runs; `unpriced` calls are not in the money."""

    calls: int
    tokens: int
    cost_usd: float
    unpriced: int


def note(
    conn: Connection,
    schedule: Schedule,
    *,
    key: str,
    due_at: int,
    outcome: Outcome,
    at: int,
    dedup: str | None = None,
    count: int = 1,
) -> bool:
    """Write what became of a moment; False when it was written before: then nothing else may be done about it."""
    values = {
        "schedule_id": schedule.id,
        "conv": schedule.conversation,
        "fire_key": key,
        "due_at": due_at,
        "at": at,
        "outcome": outcome,
        "count": count,
        "dedup": dedup,
        "ended_at": None if dedup is not None else at,
    }
    return conn.execute(_NOTE, values).scalar_one_or_none() is not None


def open_runs(conn: Connection, *, after: int = 0, most: int) -> tuple[Entry, ...]:
    """Runs that were started and of which the end is not noted, oldest first, from the id `after` on."""
    return tuple(_entry(row) for row in conn.execute(_OPEN_RUNS, {"after": after, "most": most}))


def is_waiting(conn: Connection, schedule: Schedule) -> bool:
    """Whether an earlier run of it is still in the inbox."""
    return conn.execute(_WAITING, {"schedule": schedule.id}).first() is not None


def finding(conn: Connection, entry: Entry) -> Finding:
    """The present state of a started run. Rows that were tidied away meanwhile are taken to have gone well."""
    work = conn.execute(_WORK, {"key": entry.dedup}).one_or_none()
    if work is None:
        status = conn.execute(_SAID, {"key": entry.dedup}).scalar_one_or_none()
        return Finding("ok", _delivery([status] if status else ["sent"]))
    if work.status == "new":
        return Finding(None, None)
    state = conn.execute(_TURN, {"work": work.id}).scalar_one_or_none()
    failed = work.status in ("dead", "refused") or state == "failed"
    answers = list(conn.execute(_ANSWERS, {"work": work.id}).scalars())
    return Finding("failed" if failed else "ok", _delivery(answers))


def settle(conn: Connection, entry: Entry, found: Finding, *, at: int) -> None:
    conn.execute(_SETTLE, {"row": entry.id, "how": found.run, "arrived": found.delivery, "now": at})


def recent(conn: Connection, schedule: int, *, most: int = 5) -> tuple[Entry, ...]:
    """Its last actions, newest first."""
    return tuple(_entry(row) for row in conn.execute(_RECENT, {"schedule": schedule, "most": most}))


def cost(conn: Connection, schedule: int) -> Cost:
    """Of all its runs that the inbox still knows."""
    row = conn.execute(_COST, {"schedule": schedule}).one()
    return Cost(calls=row.calls, tokens=int(row.tokens), cost_usd=float(row.cost_usd), unpriced=int(row.unpriced))


def _delivery(statuses: list[str]) -> DeliveryState | None:
    if any(status in ("new", "sending") for status in statuses):
        return None
    if not statuses:
        return "none"
    return "dead" if "dead" in statuses else "sent"


def _entry(row: Row[Any]) -> Entry:
    return Entry(
        id=row.id,
        schedule=row.schedule_id,
        conversation=ConversationId(row.conv),
        due_at=row.due_at,
        at=row.at,
        outcome=cast(Outcome, row.outcome),
        count=cast(int, row._mapping[table.c.count]),
        dedup=row.dedup,
        run=cast(RunState | None, row.run),
        delivery=cast(DeliveryState | None, row.delivery),
        by_hand=row.fire_key.removeprefix(BY_HAND) if row.fire_key.startswith(BY_HAND) else "",
    )
