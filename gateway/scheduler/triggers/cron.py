"""Reads cron lines into calendars: 5 fields, or 6 with seconds first. Pure.

As in crontab(5): Sunday is 0 and 7, and a line that bounds both the day of the month and the weekday fits when either
does. Beyond it: L for the last day, `mon#1` and `fri#L` for a place in the month.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from gateway.phrases.catalogue import UsageError
from gateway.scheduler.triggers.rules import Calendar, Line

LONGEST = 64  # characters (G-16)

MACROS: Mapping[str, str] = MappingProxyType(
    {
        "@yearly": "0 0 1 1 *",
        "@annually": "0 0 1 1 *",
        "@monthly": "0 0 1 * *",
        "@weekly": "0 0 * * 0",
        "@daily": "0 0 * * *",
        "@midnight": "0 0 * * *",
        "@hourly": "0 * * * *",
    }
)
_QUOTES = ('"', "'", "`")
_FIELD = re.compile(r"[\d*,/\-?#a-z]+")
_CAN_BE_TEXT = re.compile(r"\w[\w-]*")  # "5 reasons", "2-3 eggs", "mon"
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_FULL_DAYS = ("sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday")
_FULL_MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
_LONGEST_MONTHS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_PLACES = {"1": "1st", "2": "2nd", "3": "3rd", "4": "4th", "5": "5th", "l": "last"}
_PART = re.compile(r"(?P<first>\*|\w+)(?:-(?P<last>\w+))?(?:/(?P<step>\d+))?")
_PLACED = re.compile(r"(?P<day>\w+)#(?P<place>[1-5l])")


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    low: int
    high: int
    names: Mapping[str, int] = field(default_factory=dict)


def _numbered(first: int, *tables: Sequence[str]) -> Mapping[str, int]:
    return MappingProxyType({name: number for table in tables for number, name in enumerate(table, first)})


_SECOND, _MINUTE, _HOUR = _Field("second", 0, 59), _Field("minute", 0, 59), _Field("hour", 0, 23)
_DAY = _Field("day of month", 1, 31)
_MONTH = _Field("month", 1, 12, _numbered(1, _MONTHS, _FULL_MONTHS))
_WEEKDAY = _Field("day of week", 0, 7, _numbered(0, _DAYS, _FULL_DAYS))


def parse_cron(text: str) -> Calendar:
    """The calendar of a cron line. Raises UsageError with the field that is wrong."""
    if len(text) > LONGEST:
        raise UsageError("cron_long", limit=LONGEST)
    fields = MACROS.get(text.strip().lower(), text).lower().split()
    if len(fields) not in (5, 6):
        raise UsageError("cron_fields", count=len(fields))
    second, minute, hour, day, month, weekday = ["0", *fields][-6:]
    seconds, minutes, hours = _numbers(_SECOND, second), _numbers(_MINUTE, minute), _numbers(_HOUR, hour)
    months = _numbers(_MONTH, month)
    days = _days(day)
    weekdays, places = _weekdays(weekday)

    def line(*, days: tuple[str, ...] = (), weekdays: tuple[int, ...] = ()) -> Line:
        return Line(months=months, days=days, weekdays=weekdays, hours=hours, minutes=minutes, seconds=seconds)

    lines = []
    if weekdays:
        lines.append(line(weekdays=weekdays))
    if days or places or not lines:
        lines.append(line(days=(*days, *places)))
    calendar = Calendar(lines=tuple(lines))
    if not any(_can_be(one) for one in calendar.lines):
        raise UsageError("cron_never", cron=text)
    return calendar


def read_cron(text: str) -> tuple[str, str]:
    """The cron line in front of a text, and the text. Quotes tell where it ends, else the fields that make sense.

    Raises UsageError when 5 and 6 fields both make sense: the sixth may be a weekday or the text's first word.
    """
    if text[:1] in _QUOTES and (end := text.find(text[0], 1)) > 0:
        return text[1:end], text[end + 1 :]
    words = text.split()
    lines = [" ".join(words[:count]) for count in (5, 6) if len(words) >= count and all(map(_is_field, words[:count]))]
    if not lines:
        raise UsageError("cron_fields", count=len(words))
    fitting = [line for line in lines if _fits(line)]
    if len(fitting) > 1 and _CAN_BE_TEXT.fullmatch(words[5]):
        raise UsageError("cron_unclear", five=lines[0], six=lines[1])
    line = (fitting or lines[:1])[-1]
    return line, " ".join(words[len(line.split()) :])


def _is_field(word: str) -> bool:
    return _FIELD.fullmatch(word.lower()) is not None


def _fits(line: str) -> bool:
    try:
        parse_cron(line)
    except UsageError:
        return False
    return True


def _can_be(line: Line) -> bool:
    """Whether one of its months has one of its days."""
    numbers = [int(day) for day in line.days if day.isdigit()]
    if not line.days or len(numbers) < len(line.days):
        return True
    return min(numbers) <= max(_LONGEST_MONTHS[month - 1] for month in line.months or range(1, 13))


def _days(text: str) -> tuple[str, ...]:
    if text in ("*", "?"):
        return ()
    last = ("last",) if "l" in text.split(",") else ()
    rest = ",".join(part for part in text.split(",") if part != "l")
    return (*map(str, _numbers(_DAY, rest) if rest else ()), *last)


def _weekdays(text: str) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Weekdays beginning with Monday, 0, and places in the month as APScheduler names them."""
    if text in ("*", "?"):
        return (), ()
    placed = [found for part in text.split(",") if (found := _PLACED.fullmatch(part))]
    rest = ",".join(part for part in text.split(",") if not _PLACED.fullmatch(part))
    numbers = _numbers(_WEEKDAY, rest) if rest else ()
    places = tuple(f"{_PLACES[found['place']]} {_DAYS[_number(_WEEKDAY, found['day']) % 7]}" for found in placed)
    days = tuple(sorted({(number - 1) % 7 for number in numbers}))
    return () if len(days) == 7 else days, places


def _numbers(field: _Field, text: str) -> tuple[int, ...]:
    """Every number that the field allows, in order; empty when it allows any."""
    if text in ("*", "*/1", "?"):
        return ()
    found: set[int] = set()
    for part in text.split(","):
        match = _PART.fullmatch(part)
        if match is None:
            raise _wrong(field, part)
        found |= set(_span(field, part, match))
    return () if len(found) > field.high - field.low else tuple(sorted(found))


def _span(field: _Field, part: str, match: re.Match[str]) -> range:
    step = int(match["step"] or 1)
    if match["first"] == "*":
        if match["last"]:
            raise _wrong(field, part)
        first, last = field.low, 6 if field is _WEEKDAY else field.high
    else:
        first = _number(field, match["first"])
        last = _number(field, match["last"]) if match["last"] else field.high if match["step"] else first
        if field is _WEEKDAY and match["last"] and last == 0:  # fri-sun
            last = 7
    if step < 1 or first > last:
        raise _wrong(field, part)
    return range(first, last + 1, step)


def _number(field: _Field, text: str) -> int:
    number = field.names.get(text)
    if number is None:
        number = int(text) if text.isdecimal() and text.isascii() else -1
    if not field.low <= number <= field.high:
        raise _wrong(field, text)
    return number


def _wrong(field: _Field, text: str) -> UsageError:
    return UsageError("cron_wrong", field=field.name, text=text, low=field.low, high=field.high)
