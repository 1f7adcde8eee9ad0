"""Reads days from words: tomorrow, Friday, Monday to Friday, 24.12., the first Monday of the month. Pure."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta

from gateway.phrases.catalogue import UsageError
from gateway.scheduler.phrases import vocabulary as say
from gateway.scheduler.phrases.clock_times import read_clock
from gateway.scheduler.phrases.durations import Words

_ISO_DAY = re.compile(r"(\d{4})-(\d{1,2})-(\d{1,2})")
_DOTTED_DAY = re.compile(r"(\d{1,2})\.(\d{1,2})\.(\d{4}|\d{2})?")
_DAY_NUMBER = re.compile(r"(\d{1,2})(?:\.|st|nd|rd|th)?")
_PLACED_NUMBER = re.compile(r"(\d{1,2})(?:\.|st|nd|rd|th)")
_YEAR = re.compile(r"20\d{2}")
_RANGE = re.compile(r"([a-zäöü]+)[-–]([a-zäöü]+)")
_SHORT = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


@dataclass(frozen=True, slots=True, kw_only=True)
class Weekdays:
    """Beginning with Monday, 0. `again`: the word alone tells of every such day: mondays, werktags, mo-fr."""

    days: tuple[int, ...]
    again: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MonthDay:
    month: int
    day: int
    year: int | None = None

    def __str__(self) -> str:
        return f"{self.day}.{self.month}."

    def next_after(self, today: date) -> date:
        """From today on. Raises UsageError for a day that is not."""
        years = [self.year] if self.year else range(today.year, today.year + 9)  # leap years may be eight years apart
        for year in years:
            try:
                found = date(year, self.month, self.day)
            except ValueError:
                continue
            if self.year or found >= today:
                return found
        raise UsageError("when_no_day", text=str(self))


# --- days of the calendar ---------------------------------------------------------------------------


def read_day(words: Words, today: date) -> date | None:
    """Today, tomorrow, this evening (of which the day is read), 2026-12-24. Raises UsageError for a day that is not."""
    return words.try_to(lambda: _day(words, today))


def _day(words: Words, today: date) -> date | None:
    if words.take(say.TODAY) or words.try_to(lambda: _of_today(words)):
        return today
    if words.take(say.DAY_AFTER_TOMORROW) or words.try_to(lambda: _day_after_tomorrow(words)):
        return today + timedelta(2)
    if words.take(say.TOMORROW):
        return today + timedelta(1)
    words.take(say.ON)
    found = words.match(_ISO_DAY)
    if found is None:
        return None
    try:
        return date(int(found[1]), int(found[2]), int(found[3]))
    except ValueError as error:
        raise UsageError("when_no_day", text=found[0]) from error


def _of_today(words: Words) -> bool | None:
    return bool(words.take(say.THIS) and words.next in say.PARTS) or None


def _day_after_tomorrow(words: Words) -> bool | None:
    words.take(say.THE)
    return bool(words.take({"day"}) and words.take({"after"}) and words.take(say.TOMORROW)) or None


def read_month_day(words: Words) -> MonthDay | None:
    """24 December, Dec 24th, march 20th, 2027; 24.12., 24.12.2026."""
    return words.try_to(lambda: _month_day(words))


def _month_day(words: Words) -> MonthDay | None:
    words.take(say.THE)
    if found := words.match(_DOTTED_DAY):
        year = int(found[3]) if found[3] else None
        return MonthDay(month=int(found[2]), day=int(found[1]), year=2000 + year if year and year < 100 else year)
    month = words.take(say.MONTHS)
    day = _number(words, _DAY_NUMBER)
    words.take(say.THE)
    month = month or words.take(say.MONTHS)
    if day is None or not month:
        return None
    year = words.try_to(lambda: _year(words))
    return MonthDay(month=say.MONTHS[month], day=day, year=year)


def _year(words: Words) -> int | None:
    words.take(say.COMMA)
    found = words.match(_YEAR)
    return int(found[0]) if found else None


# --- weekdays ---------------------------------------------------------------------------------------


def read_weekdays(words: Words, *, sure: bool, plain: bool) -> Weekdays | None:
    """One or several: Monday; Tue and Fri; Monday to Friday; weekdays.

    A word that has another meaning (do, so, sun) must be in a list, `sure` by what stands before it, or followed by a
    time of the day; so must any single day unless `plain` words will do.
    """
    return words.try_to(lambda: _weekdays(words, sure=sure, plain=plain))


def _weekdays(words: Words, *, sure: bool, plain: bool) -> Weekdays | None:
    first = words.next
    found = _some_days(words)
    if found is None:
        return None
    days, again = set(found.days), found.again
    while more := words.try_to(lambda: _some_days(words) if words.take(say.AND) else None):
        days |= set(more.days)
        again |= more.again
    if not (sure or again) and (first in say.AMBIGUOUS or not plain) and not _time_follows(words, first):
        return None
    return Weekdays(days=tuple(sorted(days)), again=again)


def _some_days(words: Words) -> Weekdays | None:
    if group := words.take(say.GROUPS):
        return Weekdays(days=say.GROUPS[group], again=group not in say.SINGLE_GROUPS)
    if plural := words.take(say.PLURALS):
        return Weekdays(days=(say.PLURALS[plural],), again=True)
    if (found := _RANGE.fullmatch(words.next)) and found[1] in say.WEEKDAYS and found[2] in say.WEEKDAYS:
        words.at += 1
        return Weekdays(days=_through(say.WEEKDAYS[found[1]], say.WEEKDAYS[found[2]]), again=True)
    first = words.take(say.WEEKDAYS)
    if not first:
        return None
    last = words.try_to(lambda: (words.take(say.THROUGH) and words.take(say.WEEKDAYS)) or None)
    if last:
        return Weekdays(days=_through(say.WEEKDAYS[first], say.WEEKDAYS[last]), again=True)
    return Weekdays(days=(say.WEEKDAYS[first],))


def _through(first: int, last: int) -> tuple[int, ...]:
    return tuple(sorted((first + step) % 7 for step in range((last - first) % 7 + 1)))


def _time_follows(words: Words, first: str) -> bool:
    """Do 17 Uhr, but not the end of "what to do at 5"."""
    at = words.at
    follows = not (first in say.GERMAN_SHORT and words.next == "at") and read_clock(words, loose=True) is not None
    words.at = at
    return follows


# --- days of the month ------------------------------------------------------------------------------


def read_month_days(words: Words) -> tuple[str, ...] | None:
    """The 1st; the 1st and the 15th; ersten; the last day; the first Monday: as APScheduler names them."""
    return words.try_to(lambda: tuple(dict.fromkeys(_month_days(words))) or None)


def _month_days(words: Words) -> Iterator[str]:
    found = words.try_to(lambda: _month_day_name(words, _DAY_NUMBER))
    while found is not None:
        yield found
        found = words.try_to(lambda: _month_day_name(words, _PLACED_NUMBER) if words.take(say.AND) else None)


def read_place(words: Words) -> tuple[str, ...] | None:
    """Days of every month behind "every": the 15th of the month, the first Monday, the last day.

    Raises UsageError for "every second Monday", which may be every other.
    """
    return words.try_to(lambda: _place(words))


def _place(words: Words) -> tuple[str, ...] | None:
    at = words.at
    day = _month_day_name(words, _PLACED_NUMBER)
    if day is None:
        return None
    end = words.at
    if of_the_month(words) or day.startswith(("1st", "last")):
        return (day,)
    if " " in day:
        raise UsageError("when_which_place", text=words.between(at, end), day=words.between(end - 1, end))
    return None


def _month_day_name(words: Words, number: re.Pattern[str]) -> str | None:
    words.take(say.THE)
    at = words.at
    place = words.take(say.PLACES)
    if place and (weekday := words.take(say.WEEKDAYS)):
        return f"{say.PLACES[place]} {_SHORT[say.WEEKDAYS[weekday]]}"
    if place in say.LAST:
        words.take(say.DAY)
        return "last"
    words.at = at
    day = _number(words, number)
    if day is None or not 1 <= day <= 31:
        return None
    if words.next in say.DAY:
        words.at += 1
    return str(day)


def _number(words: Words, pattern: re.Pattern[str]) -> int | None:
    """1st, 15., 3; ersten, fifteenth."""
    words.take(say.THE)
    if found := words.match(pattern):
        return int(found[1])
    word = words.take(say.ORDINALS)
    return say.ORDINALS[word] if word else None


def of_the_month(words: Words) -> str | None:
    """Whether that was said, and the word for "every" in it, if any: None, "of", or "every"."""
    return words.try_to(lambda: _of_the_month(words))


def _of_the_month(words: Words) -> str | None:
    words.take({"of", "in", "im", "a"})
    words.take(say.THE)
    every = words.take(say.EVERY)
    words.take({"a"})
    if not words.take(say.MONTH):
        return None
    return "every" if every else "of"
