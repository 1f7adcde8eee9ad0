"""Cron lines of 5 and 6 fields, as crontab(5) has them and APScheduler has not."""

from datetime import UTC, datetime

import pytest

from gateway.phrases.catalogue import UsageError
from gateway.scheduler.triggers.cron import parse_cron
from gateway.scheduler.triggers.occurrences import first_after
from gateway.scheduler.triggers.zones import zone_named

NOW = datetime(2026, 11, 25, 10, 0, tzinfo=UTC)  # a Wednesday


@pytest.mark.requirement("G-14")
@pytest.mark.parametrize(
    ("line", "moments"),
    [
        pytest.param("*/15 * * * *", ["Wed 11-25 10:15:00", "Wed 11-25 10:30:00"], id="steps"),
        pytest.param("30 8 * * 1-5", ["Thu 11-26 08:30:00", "Fri 11-27 08:30:00", "Mon 11-30 08:30:00"], id="weekdays"),
        pytest.param("0 9 * * 0", ["Sun 11-29 09:00:00"], id="Sunday is 0"),
        pytest.param("0 9 * * 7", ["Sun 11-29 09:00:00"], id="Sunday is 7 too"),
        pytest.param("0 9 * * fri-sun", ["Fri 11-27 09:00:00", "Sat 11-28 09:00:00", "Sun 11-29 09:00:00"], id="names"),
        pytest.param("30 0 9 1,15 * *", ["Tue 12-01 09:00:30", "Tue 12-15 09:00:30"], id="six fields, seconds first"),
        pytest.param("0 0 13 * 5", ["Fri 11-27 00:00:00", "Fri 12-04 00:00:00"], id="day or weekday: either will do"),
        pytest.param("0 9 L * *", ["Mon 11-30 09:00:00", "Thu 12-31 09:00:00"], id="the last day"),
        pytest.param("0 9 * * mon#1", ["Mon 12-07 09:00:00"], id="the first Monday"),
        pytest.param("0 9 * * fri#L", ["Fri 11-27 09:00:00", "Fri 12-25 09:00:00"], id="the last Friday"),
        pytest.param("0 0 29 2 *", ["Tue 02-29 00:00:00"], id="leap days"),
        pytest.param(
            "5/20 * * * *", ["Wed 11-25 10:05:00", "Wed 11-25 10:25:00", "Wed 11-25 10:45:00"], id="from 5 on"
        ),
        pytest.param("@weekly", ["Sun 11-29 00:00:00"], id="a macro"),
        pytest.param("0 0-23 * * *", ["Wed 11-25 11:00:00"], id="a full range is any"),
    ],
)
def test_its_moments(line: str, moments: list[str]) -> None:
    rule, found, at = parse_cron(line), [], NOW
    for _ in moments:
        one = first_after(rule, zone_named("UTC"), at)
        assert one is not None
        found.append(f"{one.at:%a %m-%d %H:%M:%S}")
        at = one.at
    assert found == moments


@pytest.mark.parametrize(
    ("line", "why", "field"),
    [
        ("61 * * * *", "cron_wrong", "minute"),
        ("* 24 * * *", "cron_wrong", "hour"),
        ("* * 0 * *", "cron_wrong", "day of month"),
        ("* * * 13 *", "cron_wrong", "month"),
        ("* * * * 8", "cron_wrong", "day of week"),
        ("60 * * * * *", "cron_wrong", "second"),
        ("5-1 * * * *", "cron_wrong", "minute"),
        ("*/0 * * * *", "cron_wrong", "minute"),
        ("*-5 * * * *", "cron_wrong", "minute"),
        ("a * * * *", "cron_wrong", "minute"),
        ("* * * *", "cron_fields", None),
        ("* * * * * * *", "cron_fields", None),
        ("0 0 30 2 *", "cron_never", None),
        ("0 0 31 4,6 *", "cron_never", None),
        (f"{'1,' * 40}1 * * * *", "cron_long", None),
    ],
)
def test_what_is_wrong_is_named(line: str, why: str, field: str | None) -> None:
    with pytest.raises(UsageError) as caught:
        parse_cron(line)
    assert (caught.value.key, caught.value.values.get("field")) == (why, field)
