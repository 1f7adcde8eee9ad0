"""Moments on the pages: in the reader's zone by script, in UTC without, a schedule's in the zone that it follows."""

import re
from datetime import datetime

import pytest

from tests.gateway.dashboard.conftest import Browsing

TIME = re.compile(r'<time data-(?:ago|moment) datetime="([^"]+)" title="([^"]+)">([^<]*)</time>')
WRITTEN = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d UTC")


@pytest.mark.requirement("G-104")
async def test_each_moment_is_told_one_way(owner: Browsing) -> None:
    world = owner.world
    await world.asks("/timezone Tokyo")
    await world.asks("/remind every day at 9:00 water the plants")
    world.script({"match": {"contains": "hello"}, "reply": {"text": "good day"}})
    await world.answered("hello", "good day")
    await owner.page("/conversations/telegram%3A77")
    pages = ("/", "/conversations", "/conversations/telegram%3A77", "/turns", "/schedules", "/people", "/audit")
    shown = 0
    for path in pages:
        page = await owner.page(path)
        for at, title, text in TIME.findall(page):
            written = datetime.fromisoformat(at)
            assert title == text == f"{written:%Y-%m-%d %H:%M} UTC"
            shown += 1
        assert len(TIME.findall(page)) == page.count("<time"), f"{path} has a moment of its own making"
        rest = re.sub(r'<option [^>]*data-utc=[^>]*>[^<]*|title="[^"]*"', "", TIME.sub("", page))
        assert not WRITTEN.search(rest), f"{path} has a moment that no script can put into the reader's zone"
    assert shown >= len(pages)


@pytest.mark.requirement("G-104")
async def test_a_schedule_says_whose_zone_its_time_is_in(owner: Browsing) -> None:
    world = owner.world
    await world.asks("/remind every day at 7:00 feed the cat")
    assert "zone assumed" in await owner.page("/schedules")
    await world.asks("/timezone Tokyo")
    listed = await owner.page("/schedules")
    assert re.search(r"\d\d 07:00 JST, time of Person 77<", listed)
    one = listed.partition('href="/schedules/')[2].partition('"')[0]
    page = await owner.page(f"/schedules/{one}")
    assert re.search(r"07:00 JST <span class=\"soft\">time of Person 77; for you <time data-moment ", page)
