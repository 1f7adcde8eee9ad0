"""Wall-clock rules against an independent computation, around every change of every clock (docs/scheduling-clocks.md).

The fast form looks at the zones whose clocks do the oddest things; `make zones` looks at all, over ten years.
"""

from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo, available_timezones

import pytest

from gateway.scheduler.triggers.occurrences import first_after
from gateway.scheduler.triggers.rules import Calendar, Line, Rule, Stride
from tests.gateway.scheduler.triggers.oracle import Fits, by_the_hour, by_wall, transitions

BEGIN, END = datetime(2026, 1, 1, tzinfo=UTC), datetime(2036, 1, 1, tzinfo=UTC)
AROUND = timedelta(hours=30)
STEP_S = 900  # every change there is from 2026 on begins at a whole quarter of an hour

# Hours apart, half hours, two hours, a whole day, clocks that go back in spring, and changes at midnight.
ODD: dict[str, tuple[int, int]] = {
    "Europe/Berlin": (2026, 2027),
    "America/New_York": (2026, 2027),
    "Australia/Lord_Howe": (2026, 2027),
    "Antarctica/Troll": (2026, 2027),
    "Africa/Casablanca": (2026, 2027),
    "America/Havana": (2026, 2027),
    "Asia/Beirut": (2026, 2027),
    "Europe/Dublin": (2026, 2027),
    "Pacific/Apia": (2011, 2012),  # it left out a day
    "Asia/Pyongyang": (2018, 2019),
    "America/Caracas": (2016, 2017),
    "Asia/Kathmandu": (2026, 2027),
}


def _daily(hours: Sequence[int], minutes: Sequence[int]) -> tuple[Rule, Fits]:
    rule = Calendar(lines=tuple(Line(hours=tuple(hours), minutes=(minute,)) for minute in minutes))
    return rule, lambda wall: wall.hour in hours and wall.minute in minutes


QUARTERS = (0, 15, 30, 45)
ON_THE_WALL: dict[str, tuple[Rule, Fits]] = {
    "each quarter, hour by hour": _daily(range(24), QUARTERS),
    "half past, in the hours of the night": _daily((0, 1, 2, 3), (30,)),
    "daily at 2:30": (
        Stride(unit="days", count=1, start=date(2001, 1, 1), at=time(2, 30)),
        lambda wall: (wall.hour, wall.minute) == (2, 30),
    ),
    "weekends at 0:15 and 2:00": (
        Calendar(
            lines=(
                Line(weekdays=(5, 6), hours=(0,), minutes=(15,)),
                Line(weekdays=(5, 6), hours=(2,), minutes=(0,)),
            )
        ),
        lambda wall: wall.weekday() > 4 and (wall.hour, wall.minute) in ((0, 15), (2, 0)),
    ),
}
BY_THE_HOUR: dict[str, tuple[Rule, Fits]] = {
    "every quarter of an hour": (
        Calendar(lines=(Line(minutes=QUARTERS),)),
        lambda wall: wall.minute in QUARTERS,
    ),
    "at half past": (Calendar(lines=(Line(minutes=(30,)),)), lambda wall: wall.minute == 30),
}


def fired(rule: Rule, zone: ZoneInfo, begin: datetime, end: datetime) -> list[datetime]:
    """One after another, as the runner asks."""
    found, at = [], begin - timedelta(microseconds=1)
    while (one := first_after(rule, zone, at)) is not None and one.at < end:
        assert one.at > at
        found.append(at := one.at)
    return found


def disagreements(zone: ZoneInfo, begin: datetime, end: datetime) -> tuple[int, list[str]]:
    """The number of compared moments between the two, and their differences."""
    compared, found = 0, []
    for kind, rules, expected_of in (("wall", ON_THE_WALL, by_wall), ("hour", BY_THE_HOUR, by_the_hour)):
        for name, (rule, fits) in rules.items():
            # The oracle begins a day earlier: what a gap left out may come after `begin`.
            expected = [
                at for at in expected_of(zone, fits, begin - AROUND, end, step_s=STEP_S) if at >= begin
            ]  # fmt: skip
            got = fired(rule, zone, begin, end)
            compared += len(expected)
            if got != expected:
                odd = sorted(set(got) ^ set(expected))[:3]
                found.append(f"{zone.key}, {kind}, {name}: {[at.isoformat() for at in odd]}")
    return compared, found


@pytest.mark.parametrize(("name", "years"), ODD.items(), ids=list(ODD))
def test_the_oddest_clocks_agree_with_the_oracle(name: str, years: tuple[int, int]) -> None:
    zone = ZoneInfo(name)
    begin, end = (datetime(year, 1, 1, tzinfo=UTC) for year in years)
    changes = list(transitions(zone, begin, end))[:2] or [begin + timedelta(days=100)]
    for change in changes:
        day = timedelta(hours=14)
        middle = change.replace(minute=0, second=0)
        compared, found = disagreements(zone, middle - day, middle + day)
        assert compared > 100
        assert found == []


def test_a_time_in_a_gap_is_later_and_one_in_a_fold_comes_once() -> None:
    """By hand, for a reader: Berlin, 2026."""
    berlin, night = ZoneInfo("Europe/Berlin"), Calendar(lines=(Line(hours=(2,), minutes=(30,)),))
    spring = first_after(night, berlin, datetime(2026, 3, 28, 12, tzinfo=UTC))
    assert spring is not None
    assert (spring.key, spring.at) == ("2026-03-29T02:30:00", datetime(2026, 3, 29, 1, 30, tzinfo=UTC))
    autumn = fired(night, berlin, datetime(2026, 10, 24, 12, tzinfo=UTC), datetime(2026, 10, 26, 12, tzinfo=UTC))
    assert autumn == [datetime(2026, 10, 25, 0, 30, tzinfo=UTC), datetime(2026, 10, 26, 1, 30, tzinfo=UTC)]


Clock = tuple[timedelta, tuple[tuple[datetime, timedelta], ...]]


def clock_of(zone: ZoneInfo) -> Clock:
    """Everything that the wall clock of a zone does in the ten years: its offset, and each change of it."""
    changes = tuple((at, _offset(zone, at)) for at in transitions(zone, BEGIN, END))
    return _offset(zone, BEGIN), changes


def _offset(zone: ZoneInfo, at: datetime) -> timedelta:
    return at.astimezone(zone).utcoffset() or timedelta()


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_every_zone_agrees_with_the_oracle_for_ten_years() -> None:
    """Zones whose clocks do the same all the time are the same here: one of them is compared."""
    names = sorted(name for name in available_timezones() if name not in ("localtime", "Factory"))
    clocks: dict[Clock, str] = {}
    for name in names:
        clocks.setdefault(clock_of(ZoneInfo(name)), name)
    compared, found = 0, list[str]()
    for (_, changes), name in clocks.items():
        zone = ZoneInfo(name)
        for change in [at for at, _ in changes] or [BEGIN + timedelta(days=100)]:
            middle = change.replace(minute=0, second=0)
            counted, wrong = disagreements(zone, middle - timedelta(hours=3), middle + timedelta(hours=5))
            compared += counted
            found += wrong
        counted, wrong = every_day(zone, [at for at, _ in changes])
        compared += counted
        found += wrong
    changes_seen = sum(len(changes) for _, changes in clocks)
    print(f"\n{len(names)} zones, {len(clocks)} clocks, {changes_seen} changes, {compared} moments compared, {found}")
    assert found == []


def every_day(zone: ZoneInfo, changes: Sequence[datetime]) -> tuple[int, list[str]]:
    """At 2:30 on every day of the ten years: once a day, and at 2:30 unless a gap of that day says otherwise."""
    begin, end = BEGIN + timedelta(days=1), END - timedelta(days=1)
    got, found = fired(_daily((2,), (30,))[0], zone, begin, end), []
    for at in got:
        wall = at.astimezone(zone)
        after_a_gap = any(timedelta() <= at - change < timedelta(hours=3) for change in changes)
        if (wall.hour, wall.minute) != (2, 30) and not after_a_gap:
            found.append(f"{zone.key}: {at.isoformat()} is {wall:%H:%M}")
    days = {(at.astimezone(zone) - timedelta(hours=2)).date() for at in got}
    if len(days) != len(got) or abs(len(got) - (end - begin).days) > 1:
        found.append(f"{zone.key}: {len(got)} times on {len(days)} days")
    return len(got), found
