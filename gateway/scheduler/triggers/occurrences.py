"""The moments of a rule in a zone, those of calendars through APScheduler's trigger. Pure: the moment is an argument.

All count on a wall clock without a zone; what it shows becomes a moment here, by three rules that
docs/scheduling-clocks.md explains to people. A time that a spring gap leaves out happens later by the gap.
A time that an autumn fold has twice happens the first time. Whatever fits every hour is counted by real hours instead:
it happens in both, and in a gap nothing is made up for. (APScheduler itself would fire twice in a fold.)
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import assert_never
from zoneinfo import ZoneInfo

from apscheduler.triggers.cron import CronTrigger

from gateway.scheduler.triggers.rules import Calendar, Every, Line, On, Once, Rule, Stride, step_of, steps_before

HORIZON = timedelta(days=366 * 9)  # a 29th of February may be eight years away
_DAY = timedelta(hours=25)
_TICK = timedelta(microseconds=1)
_WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


@dataclass(frozen=True, slots=True, kw_only=True)
class Occurrence:
    """One moment. `key` names it for ever: the wall clock's time as it was meant, or the moment in UTC."""

    key: str
    at: datetime


def first_after(rule: Rule, zone: ZoneInfo, moment: datetime) -> Occurrence | None:
    """The first occurrence later than `moment` (aware); None when there is none (any more, or within nine years)."""
    moment = moment.astimezone(UTC)
    match rule:
        case Once(at=at):
            return _in_utc(at) if at > moment else None
        case On(wall=wall):
            at = moment_of(wall, zone)
            return Occurrence(key=_wall_key(wall), at=at) if at > moment else None
        case Every(seconds=seconds, anchor=anchor):
            passed = (moment - anchor) // timedelta(seconds=seconds)
            return _in_utc(anchor + timedelta(seconds=seconds) * max(passed + 1, 1))
        case Calendar(lines=lines):
            found = [one for line in lines if (one := _first_of_line(line, zone, moment)) is not None]
            return min(found, key=lambda one: one.at, default=None)
        case Stride():
            return _first_on_wall(_Strides(rule), zone, moment)
        case _:
            assert_never(rule)


def due(rule: Rule, zone: ZoneInfo, *, first: Occurrence, now: datetime, most: int) -> tuple[Occurrence, ...]:
    """`first` and what follows it up to `now`, oldest first: `first` and the newest `most` of the others.

    `first` is given because it was stored when it was computed: it counts whatever zone and rule say today.
    """
    span = timedelta(minutes=1)
    while True:  # backwards from now, so that a week of missed minutes is not counted through
        start = max(first.at, now - span)
        found = tuple(_following(rule, zone, start, now))
        if start == first.at or len(found) >= most:
            return (first, *found[-most:])
        span *= 4


def moment_of(wall: datetime, zone: ZoneInfo) -> datetime:
    """When a wall clock of the zone shows this: the first time of two; later by the gap where it never does."""
    return wall.replace(tzinfo=zone, fold=0).astimezone(UTC)


def _following(rule: Rule, zone: ZoneInfo, after: datetime, now: datetime) -> Iterator[Occurrence]:
    while (one := first_after(rule, zone, after)) is not None and one.at <= now:
        yield one
        after = one.at


def _in_utc(at: datetime) -> Occurrence:
    return Occurrence(key=f"{at.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%f}Z", at=at.astimezone(UTC))


def _wall_key(wall: datetime) -> str:
    return wall.isoformat(timespec="seconds")


# --- the wall clock, counted without a zone ---------------------------------------------------------


class _Fits:
    """The wall-clock times at which a line fits."""

    def __init__(self, line: Line) -> None:
        self._trigger = CronTrigger(
            month=_numbers(line.months),
            day=",".join(line.days) or "*",
            day_of_week=",".join(_WEEKDAYS[day] for day in line.weekdays) or "*",
            hour=_numbers(line.hours),
            minute=_numbers(line.minutes),
            second=_numbers(line.seconds),
            timezone=UTC,
        )

    def since(self, wall: datetime) -> Iterator[datetime]:
        """From `wall` on, in order, for nine years."""
        self._trigger.end_date = wall.replace(tzinfo=UTC) + HORIZON
        at = wall
        while (found := self._trigger.get_next_fire_time(None, at.replace(tzinfo=UTC))) is not None:
            at = found.replace(tzinfo=None)
            yield at
            at += _TICK


class _Strides:
    """The wall-clock times of a stride."""

    def __init__(self, stride: Stride) -> None:
        self._stride = stride

    def since(self, wall: datetime) -> Iterator[datetime]:
        """From `wall` on, in order, for nine years."""
        stride = self._stride
        for step in count(steps_before(stride.start, stride.unit, stride.count, wall.date())):
            found = datetime.combine(step_of(stride.start, stride.unit, stride.count * step), stride.at)
            if found > wall + HORIZON:
                return
            if found >= wall:
                yield found


def _numbers(values: Sequence[int]) -> str:
    return ",".join(map(str, values)) or "*"


# --- from the wall clock to moments -----------------------------------------------------------------


def _first_of_line(line: Line, zone: ZoneInfo, moment: datetime) -> Occurrence | None:
    return _first_by_the_hour(line, zone, moment) if not line.hours else _first_on_wall(_Fits(line), zone, moment)


def _first_on_wall(walls: "_Fits | _Strides", zone: ZoneInfo, moment: datetime) -> Occurrence | None:
    """Each time of the wall clock once."""
    # Within a day after a gap, times that it left out may still be to come: they read earlier than the clock.
    offset = min(_offset(zone, moment), _offset(zone, moment - _DAY))
    best: Occurrence | None = None
    for wall in walls.since(_naive(moment + offset) + _TICK):
        if best is not None and wall >= best.at.astimezone(zone).replace(tzinfo=None):
            break
        at = moment_of(wall, zone)
        if at > moment and (best is None or at < best.at):
            best = Occurrence(key=_wall_key(wall), at=at)
            if at.astimezone(zone).replace(tzinfo=None) == wall:
                break  # no gap: whatever reads later is later
    return best


def _first_by_the_hour(line: Line, zone: ZoneInfo, moment: datetime) -> Occurrence | None:
    """By real hours: in both hours of a fold, in none that a gap left out."""
    # Within an hour before a fold, times that are to come again may read earlier than the clock.
    offset = _offset(zone, moment)
    back = max(timedelta(), offset - _offset(zone, moment + _DAY))
    offset = min(offset, _offset(zone, moment + back))
    best: datetime | None = None
    for wall in _Fits(line).since(_naive(moment + offset) + _TICK):
        both = {wall.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1)}
        real = [at for at in both if at.astimezone(zone).replace(tzinfo=None) == wall]
        if best is not None and min(real, default=best) >= best:
            break
        coming = [at for at in real if at > moment]
        best = min([*coming, best] if best else coming, default=None)
    return _in_utc(best) if best else None


def _offset(zone: ZoneInfo, moment: datetime) -> timedelta:
    offset = moment.astimezone(zone).utcoffset()
    assert offset is not None
    return offset


def _naive(moment: datetime) -> datetime:
    return moment.astimezone(UTC).replace(tzinfo=None)
