"""Quiet hours on the wall clock, and zones as people name them."""

from datetime import UTC, datetime

import pytest

from gateway.phrases.catalogue import UsageError
from gateway.scheduler.triggers.misfires import read_quiet, stored_quiet
from gateway.scheduler.triggers.zones import (
    _BROKEN_OFFSETS,
    _MEANT,
    _SEVERAL,
    find_zone,
    is_zone,
    likely_zones,
    zone_named,
)


@pytest.mark.parametrize(
    ("window", "at", "ends"),
    [
        pytest.param("22-7", "2026-11-25 20:59", None, id="before"),
        pytest.param("22-7", "2026-11-25 21:00", "2026-11-26 06:00", id="from its beginning on"),
        pytest.param("22-7", "2026-11-26 05:59", "2026-11-26 06:00", id="after midnight"),
        pytest.param("22-7", "2026-11-26 06:00", None, id="up to its end"),
        pytest.param("12:30-14:00", "2026-11-25 12:00", "2026-11-25 13:00", id="within a day"),
        pytest.param("22-7", "2026-03-28 23:00", "2026-03-29 05:00", id="the short night in spring"),
        pytest.param("22-7", "2026-10-24 22:00", "2026-10-25 06:00", id="the long night in autumn"),
        pytest.param("1-2:30", "2026-03-29 00:30", "2026-03-29 01:30", id="an end in the gap comes after it"),
    ],
)
def test_when_quiet_ends(window: str, at: str, ends: str | None) -> None:
    quiet = read_quiet(window, "Europe/Berlin")
    assert stored_quiet(str(quiet)) == quiet
    found = quiet.ends_after(datetime.fromisoformat(at).replace(tzinfo=UTC))
    assert (f"{found:%Y-%m-%d %H:%M}" if found else None) == ends


@pytest.mark.parametrize("text", ["", "night", "22", "25-7", "22-22", "22:70-7"])
def test_what_is_no_window(text: str) -> None:
    with pytest.raises(UsageError, match="quiet_unclear"):
        read_quiet(text, "UTC")


@pytest.mark.parametrize(
    ("said", "zone"),
    [
        ("Europe/Berlin", "Europe/Berlin"),
        ("europe/berlin", "Europe/Berlin"),
        ("Berlin", "Europe/Berlin"),
        ("new york", "America/New_York"),
        ("UTC", "UTC"),
        ("UTC+2", "Etc/GMT-2"),
        ("-05:00", "Etc/GMT+5"),
        ("UTC+5:30", "Asia/Kolkata"),
        ("+0545", "Asia/Kathmandu"),
        ("EST", "America/New_York"),
        ("est", "America/New_York"),
        ("MST", "America/Denver"),
        ("PDT", "America/Los_Angeles"),
        ("BST", "Europe/London"),
        ("MEZ", "Europe/Berlin"),
        ("CET", "Europe/Berlin"),
        ("Delhi", "Asia/Kolkata"),
        ("San Francisco", "America/Los_Angeles"),
        ("München", "Europe/Berlin"),
    ],
)
def test_a_zone_is_found(said: str, zone: str) -> None:
    assert find_zone(said) == zone
    assert is_zone(zone)


@pytest.mark.parametrize(("said", "near"), [("GMT", "Europe/London"), ("IST", "Asia/Kolkata"), ("aest", "Brisbane")])
def test_letters_of_several_places_are_asked_about(said: str, near: str) -> None:
    with pytest.raises(UsageError, match="zone_which") as caught:
        find_zone(said)
    assert near in str(caught.value.values["near"])


def test_a_clock_with_letters_changes_with_the_seasons() -> None:
    winter, summer = (datetime(2026, month, 1, tzinfo=UTC).astimezone(zone_named(find_zone("EST"))) for month in (1, 7))
    assert winter.utcoffset() != summer.utcoffset()


def test_every_zone_that_is_meant_is_one() -> None:
    assert all(map(is_zone, [*_MEANT.values(), *_BROKEN_OFFSETS.values()]))
    assert all(is_zone(zone) for zones in _SEVERAL.values() for zone in zones)


@pytest.mark.parametrize("said", ["Mars", "../../etc/passwd", "/etc/localtime", "UTC+99", "UTC-3:30", "\0"])
def test_what_is_no_zone(said: str) -> None:
    for look in (find_zone, zone_named):
        with pytest.raises(UsageError, match=r"zone_(unknown|like_none)"):
            look(said)
    assert not is_zone(said)


def test_every_zone_that_is_offered_is_one() -> None:
    for language in ("en", "de", "fr", "pt-BR", "xx", ""):
        offered = likely_zones(language)
        assert offered
        assert all(map(is_zone, offered))
