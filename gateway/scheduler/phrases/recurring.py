"""Recurring rules from the pieces that they were said in: one function for each repeat. Pure.

Each takes the pieces that it has a use for; any other raises UsageError.
"""

from collections.abc import Iterable
from datetime import UTC, date, datetime, time, timedelta
from typing import assert_never

from gateway.phrases.catalogue import UsageError
from gateway.scheduler.phrases import vocabulary as say
from gateway.scheduler.phrases.clock_times import Clock, checked_window
from gateway.scheduler.phrases.parsed_phrase import ParsedPhrase
from gateway.scheduler.triggers.rules import Calendar, Every, Line, Rule, Stride, Unit

_DAY_MINUTES = 24 * 60
_MONTHS = range(1, 13)
_MORNING = Clock(hour=say.DAY_HOUR)


def recurring(said: ParsedPhrase, local: datetime, now: datetime) -> Rule:
    """The rule; `local` is the wall clock now. Raises UsageError."""
    step = said.every
    assert step is not None
    match step.unit:
        case "seconds":
            return _by_the_clock(said, step.count, now)
        case "days":
            return _daily(said, step.count, local)
        case "weeks":
            return _weekly(said, step.count, local)
        case "months":
            return _monthly(said, step.count, local)
        case "years":
            return _yearly(said, step.count, local)
        case _:
            assert_never(step.unit)


def _by_the_clock(said: ParsedPhrase, seconds: int, now: datetime) -> Rule:
    """Every so many seconds; within a window or on some days by the wall clock, from the window's beginning on."""
    said.only("every", "window", "weekdays")
    if said.window is None and not said.weekdays:
        return Every(seconds=seconds, anchor=now.astimezone(UTC).replace(microsecond=0))
    if seconds % 60 or not 60 <= seconds < 86_400:
        raise UsageError("when_window")
    begin, end = checked_window(said.window) if said.window else (time(0), time(23, 59))
    first, last = (at.hour * 60 + at.minute for at in (begin, end))
    if last < first:
        last += _DAY_MINUTES
    minutes = range(first, last + 1, seconds // 60)
    times = [time(*divmod(minute % _DAY_MINUTES, 60)) for minute in minutes]
    return _calendar(times, Line(weekdays=said.weekdays))


def _daily(said: ParsedPhrase, count: int, local: datetime) -> Rule:
    if count == 1 and len(said.weekdays) > 1:  # daily from Monday to Friday
        return _weekly(said, 1, local)
    said.only("every", "clocks", "part")
    times = [clock.time for clock in said.times(_now(local))]
    return _calendar(times, Line()) if count == 1 else _stride("days", count, local.date(), times)


def _weekly(said: ParsedPhrase, count: int, local: datetime) -> Rule:
    said.only("every", "clocks", "part", "weekdays")
    days = said.weekdays or (local.weekday(),)
    times = _on_the_day(said, said.times(_MORNING if said.weekdays else _now(local)))
    if count == 1:
        return _calendar(times, Line(weekdays=days))
    if len(days) > 1:
        raise UsageError("when_one_day")
    return _stride("weeks", count, local.date() + timedelta((days[0] - local.weekday()) % 7), times)


def _monthly(said: ParsedPhrase, count: int, local: datetime) -> Rule:
    said.only("every", "clocks", "part", "days_of_month")
    times = _on_the_day(said, said.times(_MORNING))
    days = said.days_of_month or (str(local.day),)
    if count == 1:
        return _calendar(times, *_lines_of_month(days))
    day = "31" if days == ("last",) else days[0]
    if len(days) > 1 or not day.isdecimal():
        raise UsageError("when_one_day")
    return _stride("months", count, _next_with(int(day), local.date()), times)


def _yearly(said: ParsedPhrase, count: int, local: datetime) -> Rule:
    said.only("every", "clocks", "part", "month_day")
    named = said.month_day
    if named is None:
        start, times = local.date(), _on_the_day(said, said.times(_now(local)))
    else:
        if named.year:
            raise UsageError("when_unused", text=str(named.year), rest=said.words["every"])
        start, times = named.next_after(local.date()), _on_the_day(said, said.times(_MORNING))
    if count > 1:
        return _stride("years", count, start, times)
    day = "last" if (start.month, start.day) == (2, 29) else str(start.day)  # else only in leap years
    return _calendar(times, Line(months=(start.month,), days=(day,)))


# --- parts of rules ---------------------------------------------------------------------------------


def _on_the_day(said: ParsedPhrase, clocks: Iterable[Clock]) -> list[time]:
    """Raises UsageError for a time in the night that follows: people do not agree which day has it."""
    found = list(clocks)
    for clock in found:
        if clock.hour >= 24:
            raise UsageError("when_which_night", text=said.words.get("clocks") or said.words["part"])
    return [clock.time for clock in found]


def _lines_of_month(days: tuple[str, ...]) -> tuple[Line, ...]:
    """A month that is too short for the 29th, 30th or 31st has its last day instead."""
    if not {"29", "30", "31"} & set(days):
        return (Line(days=days),)

    def within(longest: int) -> tuple[str, ...]:
        return tuple(dict.fromkeys("last" if day.isdecimal() and int(day) >= longest else day for day in days))

    if set(days) & {"29", "30"}:
        return Line(months=tuple(month for month in _MONTHS if month != 2), days=within(31)), Line(
            months=(2,), days=within(29)
        )
    return (Line(days=within(31)),)


def _next_with(day: int, today: date) -> date:
    """From today on, in the first month that has this day; later ones that have not take their last."""
    for months in range(13):
        year, month = divmod(today.year * 12 + today.month - 1 + months, 12)
        try:
            found = date(year, month + 1, day)
        except ValueError:
            continue
        if found >= today:
            return found
    raise UsageError("when_no_day", text=f"{day}.")


def _stride(unit: Unit, count: int, start: date, times: list[time]) -> Stride:
    if len(times) > 1:
        raise UsageError("when_one_time")
    return Stride(unit=unit, count=count, start=start, at=times[0])


def _calendar(times: Iterable[time], *lines: Line) -> Calendar:
    """Each line at these times: one for each minute of the hour that occurs."""
    hours: dict[tuple[int, int], set[int]] = {}
    for at in times:
        hours.setdefault((at.minute, at.second), set()).add(at.hour)
    return Calendar(
        lines=tuple(
            Line(
                months=line.months,
                days=line.days,
                weekdays=line.weekdays,
                hours=tuple(sorted(found)),
                minutes=(minute,),
                seconds=(second,),
            )
            for line in lines
            for (minute, second), found in sorted(hours.items())
        )
    )


def _now(local: datetime) -> Clock:
    return Clock(hour=local.hour, minute=local.minute)
