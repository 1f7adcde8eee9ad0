"""Reads times of the day, days and spans from words: the small parts of `when`. Pure."""

import re
from dataclasses import dataclass
from datetime import date, time, timedelta

from gateway.scheduler import vocabulary as say
from gateway.scheduler.mistakes import Mistake
from gateway.scheduler.words import Words

_CLOCK = re.compile(r"(\d{1,2})[:.h](\d{2})(?::(\d{2}))?(am|pm|uhr)?")
_HOUR = re.compile(r"(\d{1,2})(am|pm|uhr|h)")
_BARE = re.compile(r"\d{1,2}")
_MINUTES = re.compile(r"\d{2}")
_HALF_DAY = frozenset({"am", "pm", "a.m", "p.m"})
_ISO_DAY = re.compile(r"(\d{4})-(\d{1,2})-(\d{1,2})")
_DOTTED_DAY = re.compile(r"(\d{1,2})\.(\d{1,2})\.(\d{4})?")
_DAY_NUMBER = re.compile(r"(\d{1,2})(?:\.|st|nd|rd|th)?")
_YEAR = re.compile(r"20\d{2}")
_NUMBER = re.compile(r"\d{1,6}(?:\.\d{1,3})?")
_COMPACT = re.compile(r"(?:\d+(?:\.\d+)?[a-zäöü]+)+")
_COMPACT_PART = re.compile(r"(\d+(?:\.\d+)?)([a-zäöü]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Amount:
    """A span: what is of fixed length in seconds, and what only a calendar knows."""

    seconds: float = 0
    days: int = 0
    months: int = 0

    @property
    def is_of_the_calendar(self) -> bool:
        return not self.seconds


# --- times of the day -------------------------------------------------------------------------------


def read_time(words: Words) -> time | None:
    """A time, with "at" or without: 17:30, 5pm, 9 Uhr, half past six, noon; after "at" the hour alone will do."""
    return words.try_to(lambda: _time(words, after_at=bool(words.take(say.AT))))


def _time(words: Words, *, after_at: bool) -> time | None:
    if found := words.match(_CLOCK):
        return _checked(found[0], int(found[1]), int(found[2]), int(found[3] or 0), found[4] or _half_day(words))
    if found := words.match(_HOUR):
        return _checked(found[0], int(found[1]), 0, 0, found[2])
    if (spoken := words.try_to(lambda: _spoken(words))) is not None:
        return spoken
    if part := words.take(say.PARTS):
        return time(say.PARTS[part])
    return words.try_to(lambda: _hour_alone(words, after_at=after_at))


def _hour_alone(words: Words, *, after_at: bool) -> time | None:
    found = words.match(_BARE)
    if found is None:
        return None
    half = words.take(_HALF_DAY).replace(".", "")
    oclock = not half and words.take(say.OCLOCK)
    if not half and not oclock and not after_at:
        return None
    minutes = words.match(_MINUTES) if oclock else None  # 17 Uhr 30
    return _checked(found[0], int(found[0]), int(minutes[0]) if minutes else 0, 0, half)


def _half_day(words: Words) -> str | None:
    half = words.take(_HALF_DAY)
    if not half:
        words.take(say.OCLOCK)
    return half.replace(".", "") or None


def _spoken(words: Words) -> time | None:
    """Half past six, quarter to 7; halb sieben, Viertel nach 6."""
    minutes = 30 if (half := words.take(say.HALF)) else 15 if words.take(say.QUARTER) else 0
    if not minutes:
        return None
    if words.take(say.PAST):
        before = False
    elif words.take(say.BEFORE) or half == "halb":
        before = True
    else:
        return None
    hour = _hour(words)
    if hour is None:
        return None
    words.take(say.OCLOCK)
    return time((hour - before) % 24, 60 - minutes if before else minutes)


def _hour(words: Words) -> int | None:
    if found := words.match(_BARE):
        return int(found[0]) % 24
    return say.NUMBERS[word] if (word := words.take(say.NUMBERS)) else None


def _checked(text: str, hour: int, minute: int, second: int, half: str | None) -> time:
    if half in ("am", "pm"):
        if not 1 <= hour <= 12:
            raise Mistake("when_no_time", text=f"{text} {half}")
        hour = hour % 12 + 12 * (half == "pm")
    if hour == 24 and not minute:
        hour = 0
    if hour > 23 or minute > 59 or second > 59:
        raise Mistake("when_no_time", text=text)
    return time(hour, minute, second)


# --- days -------------------------------------------------------------------------------------------


def read_day(words: Words, today: date) -> date | None:
    """A day: tomorrow, next Friday, 2026-12-24, 24.12., 24 December, Dec 24. Raises Mistake for one that is not."""
    return words.try_to(lambda: _day(words, today))


def _day(words: Words, today: date) -> date | None:
    if words.take(say.TODAY):
        return today
    if words.take(say.DAY_AFTER_TOMORROW) or _day_after_tomorrow(words):
        return today + timedelta(2)
    if words.take(say.TOMORROW):
        return today + timedelta(1)
    words.take(say.ON)
    words.take(say.NEXT)
    if weekday := words.take(say.WEEKDAYS):
        return today + timedelta((say.WEEKDAYS[weekday] - today.weekday()) % 7 or 7)
    if found := words.match(_ISO_DAY):
        return day_of(found[0], int(found[1]), int(found[2]), int(found[3]))
    if found := words.match(_DOTTED_DAY):
        return _this_or_next_year(found[0], int(found[2]), int(found[1]), found[3], today)
    named = words.try_to(lambda: read_month_day(words))
    if named is None:
        return None
    month, day = named
    year = words.match(_YEAR)
    return _this_or_next_year(f"{day}.{month}.", month, day, year[0] if year else None, today)


def _day_after_tomorrow(words: Words) -> bool:
    at = words.at
    words.take(say.THE)
    if words.take({"day"}) and words.take({"after"}) and words.take(say.TOMORROW):
        return True
    words.at = at
    return False


def read_month_day(words: Words) -> tuple[int, int] | None:
    """Month and day of "24 December" and "Dec 24th"."""
    words.take(say.THE)
    if month := words.take(say.MONTHS):
        found = words.match(_DAY_NUMBER)
        return (say.MONTHS[month], int(found[1])) if found else None
    found = words.match(_DAY_NUMBER)
    words.take(say.THE)
    month = words.take(say.MONTHS) if found else ""
    return (say.MONTHS[month], int(found[1])) if found and month else None


def read_day_number(words: Words) -> int | None:
    """A day of the month: 1st, 15., 3."""
    words.take(say.THE)
    found = words.match(_DAY_NUMBER)
    return int(found[1]) if found else None


def day_of(text: str, year: int, month: int, day: int) -> date:
    """Raises Mistake for a day that is not."""
    try:
        return date(year, month, day)
    except ValueError as error:
        raise Mistake("when_no_day", text=text) from error


def _this_or_next_year(text: str, month: int, day: int, year: str | None, today: date) -> date:
    if year:
        return day_of(text, int(year), month, day)
    for coming in range(today.year, today.year + 9):  # a 29th of February may be eight years away
        try:
            found = date(coming, month, day)
        except ValueError:
            continue
        if found >= today:
            return found
    raise Mistake("when_no_day", text=text)


# --- spans ------------------------------------------------------------------------------------------


def read_amount(words: Words) -> Amount | None:
    """A span: 20 min, 1h30m, an hour and a half, half an hour, 2 days. Raises Mistake for an unknown unit."""
    total = words.try_to(lambda: _one_amount(words))
    while total is not None:
        more = words.try_to(lambda: _more(words))
        if more is None:
            return total
        total = _sum(total, more)
    return None


def _more(words: Words) -> Amount | None:
    words.take(say.AND)
    return _one_amount(words)


def _one_amount(words: Words) -> Amount | None:
    if found := words.match(_COMPACT):
        total = Amount()
        for number, unit in _COMPACT_PART.findall(found[0]):
            if unit not in say.UNITS:
                return None
            total = _sum(total, amount_of(float(number), say.UNITS[unit]))
        return total
    number = read_number(words)
    half = bool(words.take(say.HALF))
    words.take({"a", "an"})
    unit = words.take(say.UNITS)
    if not unit or (number is None and not half):
        return None
    if half:
        number = 0.5 if number in (None, 1) else (number or 0) + 0.5
    elif words.try_to(lambda: _and_a_half(words)):
        number = (number or 0) + 0.5
    return amount_of(number or 0, say.UNITS[unit])


def _and_a_half(words: Words) -> bool | None:
    return bool(words.take(say.AND) and words.take({"a"}) and words.take(say.HALF)) or None


def read_number(words: Words) -> float | None:
    """In digits or as a word."""
    if found := words.match(_NUMBER):
        return float(found[0])
    word = words.take(say.NUMBERS)
    return say.NUMBERS[word] if word else None


def amount_of(number: float, unit: str) -> Amount:
    """So many of a unit. Raises Mistake for half a month."""
    if unit in ("seconds", "minutes", "hours"):
        return Amount(seconds=number * say.SECONDS[unit])
    whole = number * {"days": 1, "weeks": 7, "months": 1, "years": 12}[unit]
    if whole != int(whole):
        if unit in ("days", "weeks"):
            return Amount(seconds=number * say.SECONDS[unit])
        raise Mistake("when_whole", unit=unit)
    return Amount(months=int(whole)) if unit in ("months", "years") else Amount(days=int(whole))


def _sum(one: Amount, other: Amount) -> Amount:
    return Amount(seconds=one.seconds + other.seconds, days=one.days + other.days, months=one.months + other.months)
