"""Schedules on the dashboard: all of them, one with its history, and what an operator does to them."""

from datetime import timedelta

import pytest

from agent.core.ids import ConversationId
from gateway.scheduler import store
from gateway.scheduler.schedule import Schedule
from tests.fakes.waiting import until
from tests.gateway.dashboard.conftest import Browsing
from tests.gateway.dashboard.looking import looking
from tests.gateway.world import BOB, GROUP, World

HOSTILE = "<script>alert(1)</script>"


async def _only(owner: Browsing, chat: str = "telegram:77") -> Schedule:
    (found,) = await owner.world.database.read(lambda conn: store.of_conversation(conn, ConversationId(chat)))
    return found


def _reminded(world: World) -> int:
    """How often the chat was reminded."""
    return sum("⏰ water the plants" in text for text in world.texts())


@pytest.mark.requirement("G-86")
async def test_schedules_of_all_places_are_listed_found_and_sorted(owner: Browsing) -> None:
    world = owner.world
    assert "Nothing is set anywhere." in await owner.page("/schedules")
    await world.asks(f"/remind in 3 hours {HOSTILE}")
    await world.asks("/remind every day at 9:00 water the plants", person=BOB)
    await world.asks("/remind every week to leave", person=BOB, chat=GROUP)
    page = await owner.page("/schedules?sort=set&descending=1")
    assert HOSTILE not in page
    assert "&lt;script&gt;alert(1)" in page
    assert page.index("leave") < page.index("water the plants") < page.index("&lt;script&gt;"), "the newest first"
    assert "every day at 9:00" in page
    assert "Person 78" in page
    found = await owner.page("/schedules?find=plants")
    assert "water the plants" in found
    assert "to leave" not in found
    assert "No schedule matches." in await owner.page("/schedules?find=100%25")
    assert "No schedule matches." in await owner.page("/schedules?state=paused")
    kept = [(one.action, one.subject, one.detail) for one in await owner.actions()]
    assert kept == [("schedules.read", "all conversations", "")] * 2, "each list that showed texts of people"


@pytest.mark.requirement("G-86")
async def test_a_schedule_tells_when_it_comes_and_what_became_of_it(owner: Browsing) -> None:
    world = owner.world
    await world.asks(f"/remind every day at 9:00 {HOSTILE}")
    schedule = await _only(owner)
    page = await owner.page(f"/schedules/{schedule.id}")
    assert HOSTILE not in page
    assert "It has not happened yet." in page
    assert f"{schedule.next_at:%Y-%m-%d %H:%M} UTC" in page
    world.clock.ahead_s += 86_400
    world.services.schedules.look()
    await world.shows(f"⏰ {HOSTILE}")
    await world.settled()
    page = await owner.page(f"/schedules/{schedule.id}")
    assert "Late by" in page
    assert "late" in page or "on time" in page
    (first, *_) = await owner.actions()
    assert (first.action, first.subject) == ("schedules.read", f"schedule {schedule.id} in telegram:77")
    assert "alert" not in first.detail


@pytest.mark.requirement("G-87")
async def test_an_operator_pauses_runs_skips_and_removes(owner: Browsing) -> None:
    world = owner.world
    await world.asks("/remind every day at 9:00 water the plants")
    id = (await _only(owner)).id
    assert await owner.act(f"/schedule/pause/{id}") == f"Schedule {id} (water the plants) is paused."
    assert (await _only(owner)).state == "paused"
    assert "paused" in await world.asks("/schedules")
    refused = await owner.post(f"/schedule/skip/{id}")
    assert refused.status_code == 409
    await owner.act(f"/schedule/resume/{id}")
    before = (await _only(owner)).due
    await owner.act(f"/schedule/skip/{id}")
    after = (await _only(owner)).due
    assert before is not None
    assert after is not None
    assert after.at > before.at
    assert "left out" in await owner.page(f"/schedules/{id}")
    await owner.act(f"/schedule/run/{id}")
    await world.shows("⏰ water the plants")
    await world.settled()
    page = await owner.page(f"/schedules/{id}")
    assert "run by hand by the operator" in page
    assert "on time" not in page
    await world.asks(f"/schedules run {id}", "⏰ water the plants")
    assert "run by hand in the chat" in await owner.page(f"/schedules/{id}")
    await owner.act(f"/schedule/remove/{id}")
    response = await owner.visitor.client.get(f"/schedules/{id}", headers={"accept": "text/html"})
    assert response.status_code == 404
    assert "Nothing is set here" in await world.asks("/schedules")
    changes = [one.action for one in await owner.actions() if one.action != "schedules.read"]
    assert changes == [f"schedules.{one}" for one in ("pause", "resume", "skip", "run", "remove")]


@pytest.mark.requirement("G-87")
async def test_each_press_counts(owner: Browsing) -> None:
    world = owner.world
    await world.asks("/remind every day at 9:00 water the plants")
    schedule = await _only(owner)
    for times in (1, 2, 3):
        await owner.act(f"/schedule/run/{schedule.id}")
        await until(lambda times=times: _reminded(world) == times)
    await world.settled()
    assert _reminded(world) == 3
    assert (await _only(owner)).due == schedule.due, "its own times stay as they are"
    for _ in range(2):
        await owner.act(f"/schedule/skip/{schedule.id}")
    assert schedule.next_at is not None
    assert (await _only(owner)).next_at == schedule.next_at + timedelta(days=2)
    for _ in range(2):
        await owner.act(f"/schedule/pause/{schedule.id}")
    assert (await _only(owner)).state == "paused"
    for _ in range(2):
        await owner.act(f"/schedule/resume/{schedule.id}")
    assert (await _only(owner)).state == "active"


@pytest.mark.requirement("G-106")
async def test_the_chat_is_told_of_what_an_operator_does_to_its_schedules(owner: Browsing) -> None:
    world = owner.world
    await world.asks(f"/remind every day at 9:00 {HOSTILE}", language="de")
    id = (await _only(owner)).id
    await owner.act(f"/schedule/pause/{id}")
    await world.shows(f"hat #{id} „{HOSTILE}“ angehalten. /schedules resume {id} lässt es weitergehen.")
    await owner.act(f"/schedule/pause/{id}")  # once more changes nothing
    await owner.act(f"/schedule/resume/{id}")
    await world.shows(f"lässt #{id} „{HOSTILE}“ weitergehen.\nevery day at 9:00 · nächstes Mal ")
    await owner.act(f"/schedule/remove/{id}")
    await world.shows(f"hat #{id} „{HOSTILE}“ gelöscht.")
    told = [text for text in world.texts() if text.startswith("Der Betreiber (")]
    assert len(told) == 3


@pytest.mark.requirement("G-106")
async def test_moments_of_a_pause_are_not_made_up_for(owner: Browsing) -> None:
    world = owner.world
    await world.asks("/remind every 2h water the plants")
    id = (await _only(owner)).id
    await world.asks(f"/schedules late {id} all")
    await world.asks("/remind in 3 hours take the bread out", person=BOB)
    bread = (await _only(owner, "telegram:78")).id
    for one in (id, bread):
        await owner.act(f"/schedule/pause/{one}")
    world.clock.ahead_s += 86_400
    await owner.act(f"/schedule/resume/{id}")
    await world.shows(f"lets #{id} “water the plants” go on.")
    await world.settled()
    resumed = await _only(owner)
    assert resumed.next_at is not None
    assert resumed.next_at > world.clock.now()
    assert not any(text.startswith("⏰ water the plants") for text in world.texts())
    assert "It has not happened yet." in await owner.page(f"/schedules/{id}"), "nothing of the pause counts as missed"
    refused = await owner.post(f"/schedule/resume/{bread}")
    assert refused.status_code == 409, "its only moment has passed"
    world.clock.ahead_s += 7_200
    world.services.schedules.look()
    await world.shows("⏰ water the plants")


@pytest.mark.parametrize("number", ["404", "x", "9" * 30, "-1"])
async def test_a_schedule_that_there_is_not_is_said(owner: Browsing, number: str) -> None:
    response = await owner.visitor.client.get(f"/schedules/{number}", headers={"accept": "text/html"})
    assert response.status_code == 404
    assert f"There is no schedule {number}" in response.text
    assert (await owner.post(f"/schedule/pause/{number}")).status_code == 404


@pytest.mark.requirement("G-86")
async def test_who_may_not_read_words_sees_times_alone(owner: Browsing) -> None:
    world = owner.world
    await world.asks("/remind every day at 9:00 water the plants")
    id = (await _only(owner)).id
    async with looking(world, ["view"]) as client:
        for path in ("/schedules", f"/schedules/{id}"):
            page = (await client.get(path)).text
            assert "every day at 9:00" in page
            assert "water the plants" not in page
            assert "/schedule/pause" not in page
        assert "No schedule matches." in (await client.get("/schedules?find=plants")).text
        assert (await client.post(f"/schedule/pause/{id}")).status_code == 403
    assert (await _only(owner)).state == "active"
