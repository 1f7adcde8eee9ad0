"""Sums by day and month: they are those of the calls themselves, whether these were summed up or not."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest

from agent.core.ids import ConversationId, PersonId
from agent.ledger import rows, sums
from agent.ledger.spending import Entry
from agent.storage.database import Database
from agent.storage.timestamps import to_timestamp
from tests.agent.ledger.world import attribution

NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)
HERE, THERE = "telegram:77", "telegram:-1005"


def call(number: int, *, ago: timedelta = timedelta(), usd: float | None = 0.25, place: str = HERE) -> Entry:
    """A call of two providers in turn."""
    return Entry(
        call=f"c{number}",
        at=to_timestamp(NOW - ago),
        attribution=replace(
            attribution(), conversation=ConversationId(place), person=None if number % 5 == 0 else PersonId(HERE)
        ),
        provider="ab"[number % 2],
        model="m",
        prompt=100,
        output=number,
        cache_creation=1,
        cache_read=2,
        cost_usd=usd,
        estimated=number % 3 == 0,
    )


CALLS = [call(number, ago=timedelta(hours=7 * number), usd=None if number % 4 == 0 else 0.25) for number in range(300)]


async def summed_up(database: Database) -> None:
    up_to = await database.read(sums.newest)
    while await database.write(lambda conn: sums.sum_up(conn, up_to=up_to)):
        pass


PERIODS = [
    pytest.param(sums.days_until(NOW, 1), id="today"),
    pytest.param(sums.days_until(NOW, 30), id="30 days, over the end of February"),
    pytest.param(sums.months_until(NOW, 12), id="12 months"),
]


@pytest.mark.requirement("G-110")
@pytest.mark.parametrize("summed", [0, 120, 300])
@pytest.mark.parametrize("periods", PERIODS)
async def test_sums_are_those_of_the_calls(database: Database, periods: Sequence[str], summed: int) -> None:
    await database.write(lambda conn: rows.add(conn, CALLS[:summed]))
    await summed_up(database)
    await database.write(lambda conn: rows.add(conn, CALLS[summed:]))
    since = to_timestamp(sums.begin_of(periods[0]))
    for kind in sums.KINDS:
        expected = dict(await database.read(partial(rows.by, group=kind, since=since)))
        assert dict(await database.read(partial(sums.by_name, kind=kind, periods=periods))) == expected
    whole = await database.read(lambda conn: rows.totals(conn, since=since))
    over_time = await database.read(lambda conn: sums.by_period(conn, periods))
    assert sums.all_together(over_time.values()) == whole
    assert set(over_time) <= set(periods)


async def test_a_repeated_step_adds_nothing(database: Database) -> None:
    await database.write(lambda conn: rows.add(conn, CALLS[:10]))
    for _ in range(2):
        await summed_up(database)
    by = await database.read(lambda conn: sums.by_name(conn, "model", sums.months_until(NOW, 12)))
    assert by["m"].calls == 10


async def test_hours_of_a_day(database: Database) -> None:
    await database.write(lambda conn: rows.add(conn, CALLS))
    day = to_timestamp(sums.begin_of("2026-03-02"))
    found = await database.read(lambda conn: sums.by_hour(conn, since=day, until=day + sums.DAY_US))
    assert {(at - day) // sums.HOUR_US: one.calls for at, one in found.items()} == {5: 1, 12: 1}


async def test_the_sums_of_a_place_follow_to_its_new_name(database: Database) -> None:
    await database.write(lambda conn: rows.add(conn, [*CALLS[:10], call(900, place=THERE)]))
    await summed_up(database)
    await database.write(lambda conn: sums.follow(conn, HERE, THERE))
    by = await database.read(lambda conn: sums.by_name(conn, "channel", sums.months_until(NOW, 12)))
    assert {name: one.calls for name, one in by.items()} == {THERE: 11}


@pytest.mark.parametrize(
    ("count", "months"),
    [
        pytest.param(1, ["2026-03"], id="this one"),
        pytest.param(4, ["2025-12", "2026-01", "2026-02", "2026-03"], id="over the end of a year"),
    ],
)
def test_months(count: int, months: Sequence[str]) -> None:
    assert sums.months_until(NOW, count) == months
