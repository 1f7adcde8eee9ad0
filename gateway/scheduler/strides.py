"""Steps on the calendar. Pure."""

from calendar import monthrange
from datetime import date, datetime
from typing import TypeVar

D = TypeVar("D", date, datetime)


def month_later(day: D, months: int) -> D:
    """So many months later, on the last day of a month that is too short. Raises OverflowError beyond the calendar."""
    count = day.year * 12 + day.month - 1 + months
    year, month = divmod(count, 12)
    if year > 9998:
        raise OverflowError(f"year {year}")
    return day.replace(year=year, month=month + 1, day=min(day.day, monthrange(year, month + 1)[1]))
