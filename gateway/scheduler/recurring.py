"""Reads what is to happen again and again: "every weekday 8:30", "every 2h between 9 and 18", "alle 2 Wochen". Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta

from gateway.scheduler import vocabulary as say
from gateway.scheduler.clock_times import (
    amount_of,
    day_of,
    read_amount,
    read_day_number,
    read_month_day,
    read_number,
    read_time,
)
from gateway.scheduler.mistakes import Mistake
from gateway.scheduler.rules import Calendar, Every, Line, Rule, Stride, Unit
from gateway.scheduler.words import Words

MOST_TIMES = 12
_DAY_MINUTES = 24 * 60


@dataclass(slots=True, kw_only=True)
class _Rest:
    """What stands around the unit: times of the day, a window, weekdays, a day of the month."""

    times: tuple[time, ...] = ()
    window: tuple[time, time] | None = None
    weekdays: tuple[int, ...] = ()
    days: tuple[str, ...] = ()
    named: tuple[int, int] | None = None  # month and day


def read_recurring(words: Words, local: datetime, now: datetime) -> Rule | None:
    """The rule; None when the words tell of nothing that recurs. `local` is the wall clock now."""
    first = words.try_to(lambda: _times_before(words)) or ()
    return _recurring(words, _Rest(times=first), local, now)


def _times_before(words: Words) -> tuple[time, ...] | None:
    """At 8:30 every day."""
    at = read_time(words)
    return (at,) if at is not None and words.next in say.EVERY else None


def _recurring(words: Words, rest: _Rest, local: datetime, now: datetime) -> Rule | None:
    if adverb := words.take(say.ADVERBS):
        return _by_unit(1, say.ADVERBS[adverb], _tail(words, rest), local, now)
    if not words.take(say.EVERY):
        return _plural(words, rest)
    if days := words.try_to(lambda: _place(words)):
        rest.days = days
        return _monthly(1, _tail(words, rest), local)
    if weekdays := words.try_to(lambda: _weekdays(words)):
        rest.weekdays = weekdays
        return _weekly(1, _tail(words, rest), local)
    if (named := words.try_to(lambda: read_month_day(words))) is not None:
        return _yearly(named, _tail(words, rest))
    return _every_so_often(words, rest, local, now)


def _plural(words: Words, rest: _Rest) -> Rule | None:
    """Mondays at 9, werktags 8:30: only with a time, lest a text that begins with a day is taken for it."""
    words.take(say.ON)
    if words.next in say.WEEKDAYS and not words.next.endswith(("s", "en")):
        return None
    weekdays = words.try_to(lambda: _weekdays(words))
    if not weekdays:
        return None
    rest.weekdays = weekdays
    rest = _tail(words, rest)
    return _calendar(rest.times, weekdays=weekdays) if rest.times else None


def _every_so_often(words: Words, rest: _Rest, local: datetime, now: datetime) -> Rule | None:
    """Every 2 hours, every other week, every 90 min, every 1h30m."""
    at = words.at
    number = read_number(words)
    if weekdays := words.try_to(lambda: _weekdays(words)):  # every other Monday
        rest.weekdays = weekdays
        return _weekly(_whole(number, "weeks"), _tail(words, rest), local)
    unit = words.take(say.UNITS)
    if unit and say.UNITS[unit] not in ("seconds", "minutes", "hours"):
        return _by_unit(_whole(number, say.UNITS[unit]), say.UNITS[unit], _tail(words, rest), local, now)
    words.at = at
    amount = read_amount(words)
    if amount is None and unit:
        words.at = at
        words.take(say.UNITS)
        amount = amount_of(1, say.UNITS[unit])
    if amount is None or amount.months:
        return None
    if not (amount.seconds or amount.days):
        raise Mistake("when_zero")
    return _by_the_clock(round(amount.seconds) + amount.days * 86_400, _tail(words, rest), now)


def _whole(number: float | None, unit: str) -> int:
    if number is None:
        return 1
    if number != int(number) or not 1 <= number <= 1000:
        raise Mistake("when_whole", unit=unit)
    return int(number)


def _by_unit(count: int, unit: str, rest: _Rest, local: datetime, now: datetime) -> Rule:
    match unit:
        case "hours":
            return _by_the_clock(count * 3600, rest, now)
        case "days":
            if count == 1:
                return _calendar(rest.times or (_time_of(local),), weekdays=rest.weekdays)
            return _stride("days", count, local.date(), rest, local)
        case "weeks":
            return _weekly(count, rest, local)
        case "months":
            return _monthly(count, rest, local)
        case _:
            if count == 1:
                return _yearly(rest.named or (local.month, local.day), rest, None if rest.named else local)
            return _stride("years", count, local.date(), rest, local)


# --- the rules --------------------------------------------------------------------------------------


def _by_the_clock(seconds: int, rest: _Rest, now: datetime) -> Rule:
    """Every so many seconds; within a window or on some days by the wall clock, from the window's beginning on."""
    if rest.window is None and not rest.weekdays:
        return Every(seconds=seconds, anchor=now.astimezone(UTC).replace(microsecond=0))
    if seconds % 60 or not 60 <= seconds < 86_400:
        raise Mistake("when_window")
    begin, end = rest.window or (time(0), time(23, 59))
    first, last = (at.hour * 60 + at.minute for at in (begin, end))
    if last < first:
        last += _DAY_MINUTES
    minutes = range(first, last + 1, seconds // 60)
    times = [time(*divmod(minute % _DAY_MINUTES, 60)) for minute in minutes]
    return _calendar(times, weekdays=rest.weekdays)


def _weekly(count: int, rest: _Rest, local: datetime) -> Rule:
    days = rest.weekdays or (local.weekday(),)
    if count == 1:
        return _calendar(rest.times or (time(say.DAY_HOUR) if rest.weekdays else _time_of(local),), weekdays=days)
    if len(days) > 1:
        raise Mistake("when_one_day")
    start = local.date() + timedelta((days[0] - local.weekday()) % 7)
    return _stride("weeks", count, start, rest, local)


def _monthly(count: int, rest: _Rest, local: datetime) -> Rule:
    if count == 1:
        return _calendar(rest.times or (time(say.DAY_HOUR),), days=rest.days or (str(local.day),))
    if any(not day.isdecimal() for day in rest.days) or len(rest.days) > 1:
        raise Mistake("when_one_day")
    start = local.date().replace(day=1)
    day = int(rest.days[0]) if rest.days else local.day
    return _stride("months", count, day_of(f"{day}.", start.year, start.month, day), rest, local)


def _yearly(named: tuple[int, int], rest: _Rest, local: datetime | None = None) -> Rule:
    month, day = named
    day_of(f"{day}.{month}.", 2024, month, day)  # a leap year
    default = _time_of(local) if local else time(say.DAY_HOUR)
    return _calendar(rest.times or (default,), days=(str(day),), months=(month,))


def _stride(unit: Unit, count: int, start: date, rest: _Rest, local: datetime) -> Stride:
    if len(rest.times) > 1 or rest.window:
        raise Mistake("when_one_time")
    return Stride(unit=unit, count=count, start=start, at=rest.times[0] if rest.times else _time_of(local))


def _calendar(
    times: Iterable[time], *, weekdays: tuple[int, ...] = (), days: tuple[str, ...] = (), months: tuple[int, ...] = ()
) -> Calendar:
    """One line for each minute of the hour that occurs."""
    hours: dict[tuple[int, int], set[int]] = {}
    for at in times:
        hours.setdefault((at.minute, at.second), set()).add(at.hour)
    return Calendar(
        lines=tuple(
            Line(
                months=months,
                days=days,
                weekdays=weekdays,
                hours=tuple(sorted(found)),
                minutes=(minute,),
                seconds=(second,),
            )
            for (minute, second), found in sorted(hours.items())
        )
    )


def _time_of(local: datetime) -> time:
    return local.time().replace(second=0, microsecond=0)


# --- what follows -----------------------------------------------------------------------------------


def _tail(words: Words, rest: _Rest) -> _Rest:
    """Times, a window, weekdays and days of the month, in any order."""
    while True:
        if not rest.window and (window := words.try_to(lambda: _window(words))) is not None:
            rest.window = window
        elif not rest.times and (times := words.try_to(lambda: _times(words))) is not None:
            rest.times = times
        elif not rest.weekdays and (weekdays := words.try_to(lambda: _on_weekdays(words))) is not None:
            rest.weekdays = weekdays
        elif not rest.named and (named := words.try_to(lambda: _on_month_day(words))) is not None:
            rest.named = named
        elif not rest.days and (days := words.try_to(lambda: _on_days(words))) is not None:
            rest.days = days
        else:
            return rest


def _times(words: Words) -> tuple[time, ...] | None:
    """9:00; at 9 and 17:30; 8, 12 and 18 Uhr is left to "um 8 und um 12"."""
    first = read_time(words)
    if first is None:
        return None
    found = [first]
    while len(found) < MOST_TIMES and (more := words.try_to(lambda: _another_time(words))) is not None:
        found.append(more)
    return tuple(found)


def _another_time(words: Words) -> time | None:
    return read_time(words) if words.take(say.AND) else None


def _window(words: Words) -> tuple[time, time] | None:
    if not words.take(say.FROM):
        return None
    begin = _window_end(words)
    if begin is None or not words.take(say.UP_TO):
        return None
    end = _window_end(words)
    return (begin, end) if end is not None else None


def _window_end(words: Words) -> time | None:
    """In a window the hour alone will do."""
    at = read_time(words)
    if at is None and words.next.isdecimal() and int(words.next) <= 24:
        at = time(int(words.next) % 24)
        words.at += 1
    return at


def _on_weekdays(words: Words) -> tuple[int, ...] | None:
    words.take(say.ON)
    return _weekdays(words)


def _on_month_day(words: Words) -> tuple[int, int] | None:
    return read_month_day(words) if words.take(say.ON) else None


def _on_days(words: Words) -> tuple[str, ...] | None:
    if not words.take(say.ON):
        return None
    if place := words.try_to(lambda: _place(words)):
        return place
    number = read_day_number(words)
    if number is None or not 1 <= number <= 31:
        return None
    return (str(number),)


def _weekdays(words: Words) -> tuple[int, ...] | None:
    """One or several: Monday, Tue and Fri, weekdays."""
    found: set[int] = set()
    while True:
        at = words.at
        if found:
            words.take(say.AND)
        if word := words.take(say.WEEKDAYS):
            found.add(say.WEEKDAYS[word])
        elif word := words.take(say.GROUPS):
            found |= set(say.GROUPS[word])
        else:
            words.at = at
            return tuple(sorted(found)) or None


def _place(words: Words) -> tuple[str, ...] | None:
    """The first Monday, the last day, the 1st: of the month."""
    words.take(say.THE)
    at = words.at
    place = words.take(say.PLACES)
    if place and (weekday := words.take(say.WEEKDAYS)):
        name = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")[say.WEEKDAYS[weekday]]
        days: Sequence[str] = (f"{say.PLACES[place]} {name}",)
    elif place in say.LAST and words.take({"day", "tag"}):
        days = ("last",)
    else:
        words.at = at
        number = read_day_number(words)
        if number is None or not 1 <= number <= 31:
            return None
        words.take({"day", "tag"})
        if not _of_the_month(words):
            return None
        return (str(number),)
    _of_the_month(words)
    return tuple(days)


def _of_the_month(words: Words) -> bool:
    at = words.at
    words.take(say.THE)
    words.take(say.THE)
    words.take(say.EVERY)
    words.take({"in", "im", "a"})
    if words.take({"month", "monat", "monats", "monates"}):
        return True
    words.at = at
    return False
