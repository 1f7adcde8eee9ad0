"""Moments survive the database to the microsecond."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.storage.timestamps import from_timestamp, to_timestamp


@given(st.datetimes(timezones=st.timezones()))
def test_a_moment_comes_back_to_the_microsecond(moment: datetime) -> None:
    try:
        expected = moment.astimezone(UTC)
    except OverflowError:  # the calendar ends there
        return
    assert from_timestamp(to_timestamp(moment)) == expected


def test_zones_do_not_matter() -> None:
    berlin = timezone(timedelta(hours=1))
    assert to_timestamp(datetime(1970, 1, 1, 1, 0, 0, 1, tzinfo=berlin)) == 1


def test_a_moment_without_a_zone_is_refused() -> None:
    with pytest.raises(ValueError, match="needs a time zone"):
        to_timestamp(datetime(2026, 1, 1))
