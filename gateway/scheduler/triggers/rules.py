"""Trigger rules as frozen values, and their stored form. Knows no clock and computes nothing.

Moments that were meant as a span from now are kept in UTC; what was meant on the clock of the wall is kept as it was
meant, without an offset: the zone stands beside the rule and may change.
"""

from calendar import monthrange
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from typing import Annotated, Literal, TypeVar

from pydantic import Field, TypeAdapter

Unit = Literal["days", "weeks", "months", "years"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Once:
    """One moment, `at` in UTC: "in 20 minutes"."""

    kind: Literal["once"] = "once"
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class On:
    """One moment on the wall clock of the zone: "tomorrow 9:00"."""

    kind: Literal["on"] = "on"
    wall: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Every:
    """Each `seconds` after `anchor` (UTC), whatever clocks on walls do: "every 2 hours"."""

    kind: Literal["every"] = "every"
    seconds: int
    anchor: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of a calendar: the wall clock must show one of each. Empty: any.

    `days` are days of the month, "last", or a place such as "1st mon" and "last fri"; `weekdays` begin with Monday, 0.
    """

    months: tuple[int, ...] = ()
    days: tuple[str, ...] = ()
    weekdays: tuple[int, ...] = ()
    hours: tuple[int, ...] = ()
    minutes: tuple[int, ...] = (0,)
    seconds: tuple[int, ...] = (0,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Calendar:
    """A rule that fits whenever one of its lines does: cron, "every weekday 8:30", "every 2h between 9 and 18"."""

    kind: Literal["calendar"] = "calendar"
    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stride:
    """Every so many days, weeks, months or years since `start`, at one wall-clock time: "every 2 weeks at 9:00".

    In a month that is too short for the day, its last day.
    """

    kind: Literal["stride"] = "stride"
    unit: Unit
    count: int
    start: date
    at: time


Rule = Once | On | Every | Calendar | Stride

_RULE: TypeAdapter[Rule] = TypeAdapter(Annotated[Rule, Field(discriminator="kind")])


def encode_rule(rule: Rule) -> str:
    return _RULE.dump_json(rule).decode()


def decode_rule(text: str) -> Rule:
    """Raises pydantic's ValidationError for anything but an encoded rule."""
    return _RULE.validate_json(text)


def is_recurring(rule: Rule) -> bool:
    return not isinstance(rule, Once | On)


def follows_the_wall(rule: Rule) -> bool:
    """Whether another zone would move it."""
    return not isinstance(rule, Once | Every)


# Steps on the calendar. Pure.

D = TypeVar("D", date, datetime)

_DAYS = {"days": 1, "weeks": 7}
_MONTHS = {"months": 1, "years": 12}


def month_later(day: D, months: int) -> D:
    """The day so many months later, or the last of a shorter month. Raises OverflowError beyond the calendar."""
    count = day.year * 12 + day.month - 1 + months
    year, month = divmod(count, 12)
    if year > 9998:
        raise OverflowError(f"year {year}")
    return day.replace(year=year, month=month + 1, day=min(day.day, monthrange(year, month + 1)[1]))


def step_of(start: date, unit: Unit, number: int) -> date:
    """The day so many units after the start. Raises OverflowError beyond the calendar."""
    match unit:
        case "days" | "weeks":
            return start + timedelta(number * _DAYS[unit])
        case "months" | "years":
            return month_later(start, number * _MONTHS[unit])


def steps_before(start: date, unit: Unit, count: int, day: date) -> int:
    """How many steps of `count` units certainly come before that day; none before the start."""
    if unit in _DAYS:
        steps = (day - start).days // (count * _DAYS[unit])
    else:
        steps = ((day.year - start.year) * 12 + day.month - start.month) // (count * _MONTHS[unit])
    return max(steps - 1, 0)
