"""Sums of the ledger by UTC day and month, so that a year costs no more to read than its days and names.

A turn writes none of them: `sum_up` goes over the calls that were noted, each once, some at a time. What it has not
come to yet is added by whoever reads: the sums are those that `agent.ledger.rows` would make of the calls themselves.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Row, bindparam, delete, func, insert, select

from agent.ledger.rows import GROUPS, SUMS, Grouping, totals_of
from agent.ledger.spending import UsageTotals, period_of
from agent.storage.statements import CompiledStatement, or_add, or_ignore, or_update
from agent.storage.tables import usage, usage_sum
from agent.storage.timestamps import from_timestamp, to_timestamp

KINDS: tuple[Grouping, ...] = ("provider", "model", "purpose", "person", "channel")
BATCH = 100  # calls that one step sums up: each may change twenty rows
HOUR_US = 3600 * 1_000_000
DAY_US = 24 * HOUR_US
FIELDS = tuple(one.name for one in fields(UsageTotals))

_KEY = ("kind", "period", "name")
_REACHED = {"kind": "", "period": "", "name": ""}  # the row that tells up to which call the sums reach
_IS_REACHED = tuple(usage_sum.c[name] == value for name, value in _REACHED.items())
_BEGIN = or_ignore(insert(usage_sum))
_ADD = CompiledStatement(or_add(insert(usage_sum), key=_KEY, columns=FIELDS))
_NOTE = CompiledStatement(or_update(insert(usage_sum), key=_KEY, columns=("calls",)))
_NEXT = (
    select(usage)
    .where(usage.c.id > bindparam("after"), usage.c.id <= bindparam("up_to"))
    .order_by(usage.c.id)
    .limit(BATCH)
)
_OF_PERIODS = (usage_sum.c.kind == bindparam("kind"), usage_sum.c.period.in_(bindparam("periods", expanding=True)))
_SUMMED = tuple(func.sum(usage_sum.c[name]) for name in FIELDS)
_BY_NAME = select(usage_sum.c.name, *_SUMMED).where(*_OF_PERIODS).group_by(usage_sum.c.name)
_BY_PERIOD = select(usage_sum.c.period, *_SUMMED).where(*_OF_PERIODS).group_by(usage_sum.c.period)
_DAY = (usage.c.created_at // DAY_US).label("day")
# Not by the moment itself: both databases would take its index, and read every call of the time that is asked for.
_FRESH = (usage.c.id > bindparam("after"), (usage.c.created_at + 0) >= bindparam("since"))
_HOUR = (usage.c.created_at // HOUR_US).label("hour")
_BY_HOUR = (
    select(_HOUR, *SUMS)
    .where(usage.c.created_at >= bindparam("since"), usage.c.created_at < bindparam("until"))
    .group_by(_HOUR)
)


def newest(conn: Connection) -> int:
    """The call that was noted last."""
    return int(conn.execute(select(func.coalesce(func.max(usage.c.id), 0))).scalar_one())


def sum_up(conn: Connection, *, up_to: int) -> int:
    """Add the next calls up to that one to the sums; how many these were. 0: the sums reach there.

    Calls below `up_to` must all be there: one that is noted later with a lower number is never added.
    """
    _lock(conn)
    calls = conn.execute(_NEXT, {"after": _reached(conn), "up_to": up_to}).all()
    if not calls:
        return 0
    found: dict[tuple[Grouping, str, str], dict[str, float]] = {}
    for call in calls:
        amounts = _amounts(call)
        for key in _keys(call):
            sums = found.setdefault(key, dict.fromkeys(FIELDS, 0))
            for name, amount in amounts.items():
                sums[name] += amount
    for (kind, period, name), sums in sorted(found.items()):
        _ADD.run(conn, {"kind": kind, "period": period, "name": name, **sums})
    _NOTE.run(conn, _REACHED | dict.fromkeys(FIELDS, 0) | {"calls": calls[-1].id})
    return len(calls)


def by_name(conn: Connection, kind: Grouping, periods: Sequence[str]) -> Mapping[str, UsageTotals]:
    """The totals of each name in those days, or in those months, that follow each other up to now."""
    found = {row[0]: totals_of(row[1:]) for row in conn.execute(_BY_NAME, {"kind": kind, "periods": list(periods)})}
    column = GROUPS[kind]
    fresh = select(_DAY, column, *SUMS).where(*_FRESH).group_by(_DAY, column)
    for day, name, *sums in conn.execute(fresh, _since(conn, periods)):
        if _period(day, periods) in periods:
            found[name or ""] = _together(found.get(name or ""), totals_of(sums))
    return found


def by_period(conn: Connection, periods: Sequence[str]) -> Mapping[str, UsageTotals]:
    """The totals of each of those days, or of those months, that follow each other up to now."""
    values = {"kind": "provider", "periods": list(periods)}
    found = {row[0]: totals_of(row[1:]) for row in conn.execute(_BY_PERIOD, values)}
    fresh = select(_DAY, *SUMS).where(*_FRESH).group_by(_DAY)
    for day, *sums in conn.execute(fresh, _since(conn, periods)):
        period = _period(day, periods)
        if period in periods:
            found[period] = _together(found.get(period), totals_of(sums))
    return found


def by_hour(conn: Connection, *, since: int, until: int) -> Mapping[int, UsageTotals]:
    """The totals of each hour from its begin on (UTC microseconds). Reads the calls themselves: of a day at most."""
    found = conn.execute(_BY_HOUR, {"since": since, "until": until})
    return {int(hour) * HOUR_US: totals_of(sums) for hour, *sums in found}


def days_until(at: datetime, count: int) -> Sequence[str]:
    """So many days up to that of the moment, oldest first."""
    return [period_of(at - timedelta(days=ago), "day") for ago in reversed(range(count))]


def months_until(at: datetime, count: int) -> Sequence[str]:
    """So many months up to that of the moment, oldest first."""
    last = at.year * 12 + at.month - 1
    return [f"{month // 12:04d}-{month % 12 + 1:02d}" for month in range(last - count + 1, last + 1)]


def begin_of(period: str) -> datetime:
    """The first moment of a day or month."""
    return datetime.fromisoformat(period if len(period) == len("2026-11-22") else f"{period}-01").replace(tzinfo=UTC)


def all_together(totals: Iterable[UsageTotals]) -> UsageTotals:
    """All of them in one."""
    found: UsageTotals | None = None
    for one in totals:
        found = _together(found, one)
    return found or UsageTotals()


def follow(conn: Connection, old: str, new: str) -> None:
    """Let the sums of a place follow to its new name, added to those that are there.

    Its calls must follow in the same transaction: until that ends nothing is summed up.
    """
    _lock(conn)
    here = (usage_sum.c.kind == "channel", usage_sum.c.name == old)
    for row in conn.execute(select(usage_sum).where(*here)).all():
        _ADD.run(conn, {**row._mapping, "name": new})
    conn.execute(delete(usage_sum).where(*here))


def _lock(conn: Connection) -> None:
    """Keep others from changing the sums until this transaction ends: they would miss what it changes."""
    if conn.dialect.name == "sqlite":  # which has one writer
        return
    conn.execute(_BEGIN, _REACHED | dict.fromkeys(FIELDS, 0))
    conn.execute(select(usage_sum.c.calls).where(*_IS_REACHED).with_for_update())


def _reached(conn: Connection) -> int:
    return int(conn.execute(select(usage_sum.c.calls).where(*_IS_REACHED)).scalar_one_or_none() or 0)


def _since(conn: Connection, periods: Sequence[str]) -> dict[str, int]:
    return {"after": _reached(conn), "since": to_timestamp(begin_of(min(periods)))}


def _period(day: int, periods: Sequence[str]) -> str:
    """The day (since the epoch) or its month, as the periods are."""
    return period_of(from_timestamp(int(day) * DAY_US), "day")[: len(periods[0])]


def _keys(call: Row[Any]) -> Iterator[tuple[Grouping, str, str]]:
    at = from_timestamp(call.created_at)
    names = (call.provider, call.model, call.purpose, call.person, call.conv)
    for kind, name in zip(KINDS, names, strict=True):
        yield kind, period_of(at, "day"), name or ""
        yield kind, period_of(at, "month"), name or ""


def _amounts(call: Row[Any]) -> Mapping[str, float]:
    return {
        "calls": 1,
        "prompt": call.prompt,
        "output": call.output,
        "cache_creation": call.cache_creation,
        "cache_read": call.cache_read,
        "cost_usd": call.cost_usd or 0.0,
        "unpriced": int(call.cost_usd is None),
        "estimated": int(call.estimated),
    }


def _together(one: UsageTotals | None, other: UsageTotals) -> UsageTotals:
    return other if one is None else UsageTotals(**{name: getattr(one, name) + getattr(other, name) for name in FIELDS})
