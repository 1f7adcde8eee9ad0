"""Steps on the calendar. Pure."""

from calendar import monthrange
from datetime import date, datetime, timedelta
from typing import TypeVar

from gateway.scheduler.rules import Unit

D = TypeVar("D", date, datetime)

_DAYS = {"days": 1, "weeks": 7}
_MONTHS = {"months": 1, "years": 12}


def month_later(day: D, months: int) -> D:
    """So many months later, on the last day of a month that is too short. Raises OverflowError beyond the calendar."""
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
