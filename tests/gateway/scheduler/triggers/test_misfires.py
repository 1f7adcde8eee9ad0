"""Misfires: moments that passed while nobody could act on them."""

from datetime import UTC, datetime, timedelta

import pytest

from gateway.phrases.catalogue import UsageError
from gateway.scheduler.triggers.misfires import ONE_SHOT, RECURRING, Misfire, held_back, judge, read_misfire, written
from gateway.scheduler.triggers.occurrences import Occurrence, due
from gateway.scheduler.triggers.rules import Calendar, Every, Line
from gateway.scheduler.triggers.zones import zone_named

NOW = datetime(2026, 11, 25, 9, 10, tzinfo=UTC)
GRACE = timedelta(seconds=60)


def ago(*minutes: float) -> list[Occurrence]:
    return [Occurrence(key=f"-{minute:g}", at=NOW - timedelta(minutes=minute)) for minute in minutes]


@pytest.mark.parametrize(
    ("policy", "due", "fires", "missed"),
    [
        pytest.param("skip", (0.5,), ["-0.5"], [], id="on time is on time"),
        pytest.param("skip", (10,), [], ["-10"], id="skip: nothing late"),
        pytest.param("skip", (20, 10, 0.5), ["-0.5"], ["-20", "-10"], id="skip: only the newest, on time"),
        pytest.param("once", (20, 10), ["-10 late for 1"], [], id="once: all in one, marked late"),
        pytest.param("once", (20, 10, 0.5), ["-0.5 for 2"], [], id="once: the one on time stands for them"),
        pytest.param("all", (20, 10, 0.5), ["-20 late", "-10 late", "-0.5"], [], id="all: each of them"),
        pytest.param("within", (10,), ["-10 late"], [], id="within a period: the only one missed is made up for"),
        pytest.param("within", (20, 10), [], ["-20", "-10"], id="more than a period: none is"),
        pytest.param("within", (20, 0.5), ["-0.5"], ["-20"], id="within: the newest on time, the others written off"),
        pytest.param("within 900", (20, 10), ["-10 late for 1"], [], id="within 15 min: the newest stands for all"),
        pytest.param("within 300", (20, 10), [], ["-20", "-10"], id="within 5 min: too late"),
    ],
)
def test_judging(policy: str, due: tuple[float, ...], fires: list[str], missed: list[str]) -> None:
    verdict = judge(ago(*due), read_misfire(policy), now=NOW, grace=GRACE)
    shown = [
        f"{fire.occurrence.key}{' late' * fire.late}{f' for {fire.stands_for}' * bool(fire.stands_for)}"
        for fire in verdict.fires
    ]
    assert (shown, [one.key for one in verdict.missed]) == (fires, missed)


def test_the_defaults() -> None:
    assert Misfire(policy="once") == ONE_SHOT
    assert Misfire(policy="within") == RECURRING


def test_no_more_than_twenty_are_made_up_for() -> None:
    verdict = judge(ago(*range(60, 5, -1)), read_misfire("all"), now=NOW, grace=GRACE)
    assert (len(verdict.fires), len(verdict.missed)) == (20, 35)


def test_what_quiet_hours_held_back_is_one_run_and_not_late() -> None:
    fire = held_back(ago(300, 180, 60)).fires
    assert [(one.occurrence.key, one.late, one.stands_for) for one in fire] == [("-60", False, 2)]


@pytest.mark.parametrize("text", ["skip", "once", "all", "within", "within 3600"])
def test_a_policy_is_written_as_it_is_read(text: str) -> None:
    assert written(read_misfire(text)) == text


@pytest.mark.parametrize("text", ["never", "once 5", "within x", "within 0"])
def test_what_is_no_policy(text: str) -> None:
    with pytest.raises(UsageError, match="misfire_unknown"):
        read_misfire(text)


def test_a_policy_that_is_missing_is_asked_for() -> None:
    with pytest.raises(UsageError, match="misfire_which"):
        read_misfire("")


@pytest.mark.parametrize(
    "rule",
    [Every(seconds=5, anchor=NOW - timedelta(days=30)), Calendar(lines=(Line(minutes=(), seconds=(0, 30)),))],
    ids=["each 5 s", "each half minute"],
)
def test_a_month_of_missed_moments_is_not_counted_through(rule: Every | Calendar) -> None:
    first = Occurrence(key="first", at=NOW - timedelta(days=30))
    found = due(rule, zone_named("UTC"), first=first, now=NOW, most=50)
    assert (found[0], len(found), found[-1].at) == (first, 51, NOW)
