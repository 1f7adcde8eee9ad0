"""Moments on the pages: in the reader's zone by script, in UTC without, a schedule's in the zone that it follows."""

import re
from datetime import datetime

import pytest

from tests.gateway.dashboard.conftest import Browsing
from tests.gateway.dashboard.test_turns import traced

TIME = re.compile(r'<time data-(?:ago|moment) datetime="([^"]+)" title="([^"]+)">([^<]*)</time>')
WITH_MOMENTS = ("/", "/conversations", "/conversations/telegram%3A77", "/turns", "/schedules", "/people", "/audit")
OTHERS = (
    "/people/telegram%3A77",
    "/places",
    "/places/telegram%3A77",
    "/approvals",
    "/delivery",
    "/spending",
    "/goals",
    "/memory",
    "/memory/telegram%3A77",
    "/memory-misses",
    "/sign-ins",
    "/providers",
    "/providers/a",
    "/mcp",
    "/skills",
    "/accounts",
    "/health",
    "/logs",
    "/log-levels",
)  # with a moment or without, as things are
WRITTEN = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d UTC")


async def _moments(owner: Browsing, path: str) -> int:
    """How many moments a page shows; each is told in the one way."""
    page = await owner.page(path)
    found = TIME.findall(page)
    for at, title, text in found:
        assert title == text == f"{datetime.fromisoformat(at):%Y-%m-%d %H:%M} UTC"
    assert len(found) == page.count("<time"), f"{path} has a moment of its own making"
    rest = re.sub(r'<option [^>]*data-utc=[^>]*>[^<]*|title="[^"]*"', "", TIME.sub("", page))
    assert not WRITTEN.search(rest), f"{path} has a moment that no script can put into the reader's zone"
    return len(found)


@pytest.mark.requirement("G-104")
async def test_each_moment_is_told_one_way(owner: Browsing) -> None:
    world = owner.world
    await world.asks("/timezone Tokyo")
    await world.asks("/remind every day at 9:00 water the plants")
    world.script({"match": {"contains": "hello"}, "reply": {"text": "good day"}})
    await world.answered("hello", "good day")
    await owner.page("/conversations/telegram%3A77")
    (turn,) = await traced(owner)
    for path in (*WITH_MOMENTS, f"/turns/{turn.run}"):
        assert await _moments(owner, path), f"{path} shows one"


@pytest.mark.requirement("G-104")
async def test_no_other_page_tells_a_moment_otherwise(owner: Browsing) -> None:
    await owner.world.answered("hello")
    for path in OTHERS:
        await _moments(owner, path)


@pytest.mark.requirement("G-104")
async def test_a_schedule_that_happened_tells_its_moments_one_way(owner: Browsing) -> None:
    world = owner.world
    await world.asks("/timezone Tokyo")
    await world.asks("/remind every day at 9:00 water the plants")
    (schedule,) = set(re.findall(r'href="(/schedules/[^"?]+)"', await owner.page("/schedules")))
    before = await _moments(owner, schedule)
    world.clock.ahead_s += 86_400
    world.services.schedules.look()
    await world.shows("⏰ water the plants")
    await world.settled()
    assert await _moments(owner, schedule) == before + 1, "the one of its history"


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
    world.clock.ahead_s += 86_400
    world.services.schedules.look()
    await world.shows("⏰ feed the cat")
    await owner.act(f"/schedule/skip/{one}")
    await world.settled()
    history = (await owner.page(f"/schedules/{one}")).partition("<caption>History</caption>")[2]
    assert "(time of Person 77)" in history
    assert len(re.findall(r"<td>\d{4}-\d\d-\d\d 07:00 JST<div class=\"soft\"><time data-ago ", history)) == 2
