"""Work without a person on the dashboard: goals, plans, sub-agents; paused, resumed, cleared, stopped, cancelled."""

import json
from collections.abc import AsyncIterator, Callable, Mapping
from functools import partial
from typing import Any

import pytest
from sqlalchemy import Connection, update

from agent.core.ids import ConversationId
from agent.goals import store
from agent.goals.goal import Auto, Limits, Owner, rested
from agent.storage.tables import goal
from agent.storage.timestamps import to_timestamp
from tests.fakes.waiting import until
from tests.gateway.dashboard.conftest import Browsing, browsing
from tests.gateway.dashboard.looking import looking
from tests.gateway.world import World

HOSTILE = "<script>alert(1)</script>"
AUTO = """
[agent.goal]
autonomous_enabled = true
supervisor_provider = "b"
verify_interval = 2
autonomous_turn_delay_ms = 20
"""
WORKS = {"match": {"contains": "[autonomous]"}, "reply": {"text": "A slow step.", "hold": "step"}}


@pytest.fixture
async def owner(world_of: Callable[..., World]) -> AsyncIterator[Browsing]:
    async with world_of(config=AUTO).process() as world, browsing(world) as there:
        yield there


def _plans(*titles: str) -> Mapping[str, Any]:
    tasks = [
        {"id": id, "title": title, "description": f"Please {title} now.", "depends_on": []}
        for id, title in enumerate(titles, 1)
    ]
    return {"match": {"contains": "Make the plan."}, "reply": {"text": json.dumps({"tasks": tasks})}}


@pytest.mark.requirement("G-92")
async def test_a_goal_is_shown_paused_resumed_and_cleared(owner: Browsing) -> None:
    world = owner.world
    assert "Nobody has set a goal." in await owner.page("/goals")
    world.script(WORKS)
    await world.asks(f"/goal create tidy up {HOSTILE} --auto --tokens 50000", "I start now")
    await world.until_asked()
    page = await owner.page("/goals")
    assert HOSTILE not in page
    assert "tidy up &lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "50,000 tokens" in page
    assert "running" in page
    assert "tidy up &lt;script&gt;" in await owner.page("/")
    async with looking(world, ["view"]) as client:
        page = (await client.get("/goals")).text
        assert "Goal 1" in page
        assert "tidy up" not in page
        assert "/goal/pause" not in page
        assert (await client.post("/goal/pause/1")).status_code == 403
        page = (await client.get("/")).text
        assert "Goal 1" in page
        assert "tidy up" not in page
    assert await owner.act("/goal/pause/1") == f"Goal 1 (tidy up {HOSTILE}) is paused."
    await world.settled()
    assert len(world.llm.calls) == 1, "the turn that worked on it has ended"
    page = await owner.page("/goals?status=paused")
    assert "Resume" in page
    assert "No goal is in that state." in await owner.page("/goals?status=active")
    refused = await owner.post("/goal/pause/1")
    assert refused.status_code == 409
    assert await owner.act("/goal/resume/1") == f"Goal 1 (tidy up {HOSTILE}) goes on."
    await world.until_asked(2)
    assert await owner.act("/goal/clear/1") == f"Goal 1 (tidy up {HOSTILE}) is cleared."
    await world.settled()
    assert "1 · gone" in await world.asks("/goal 1")
    done = [one.action for one in await owner.actions()]
    assert [one for one in done if one != "goals.read"] == ["goals.pause", "goals.resume", "goals.clear"]
    assert done[0] == "goals.read", "texts of goals are words of others"


async def test_a_goal_that_only_people_work_on_stands_there_too(owner: Browsing) -> None:
    world = owner.world
    await world.asks("/goal create plan the party", "Goal 1")
    page = await owner.page("/goals?status=active")
    assert "plan the party" in page
    assert "worked on when somebody writes" in page
    assert "/goal/pause/1" in page
    assert "/goal/resume/1" not in page, "it goes on already"
    assert await owner.act("/goal/pause/1") == "Goal 1 (plan the party) is paused."
    page = await owner.page("/goals?status=paused")
    assert "/goal/resume/1" in page
    assert await owner.act("/goal/resume/1") == "Goal 1 (plan the party) goes on."
    assert "plan the party" in await owner.page("/goals?status=active")
    assert await owner.act("/goal/clear/1") == "Goal 1 (plan the party) is cleared."
    assert "over: nothing to change" in await owner.page("/goals")


@pytest.mark.requirement("G-92")
async def test_a_goal_at_its_limit_may_have_as_much_again(owner: Browsing) -> None:
    world = owner.world
    world.script(WORKS)
    await world.asks("/goal create tidy up --auto --tokens 50000", "I start now")
    await world.until_asked()
    await owner.act("/goal/pause/1")
    await world.settled()
    await world.database.write(lambda conn: conn.execute(update(goal).values(tokens=50_000)))
    assert "Allow as much again" in await owner.page("/goals")
    refused = await owner.post("/goal/resume/1")
    assert refused.status_code == 409
    assert "limit" in refused.json()["error"]
    assert await owner.act("/goal/raise/1") == "Goal 1 (tidy up) goes on."
    await world.until_asked(2)
    await owner.act("/goal/pause/1")
    await world.settled()


@pytest.mark.requirement("G-92")
async def test_a_plan_and_its_sub_agents_are_shown_stopped_and_cancelled(owner: Browsing) -> None:
    world = owner.world
    world.script(
        _plans("read A", "read B"), {"match": {"contains": "Please read"}, "reply": {"text": "A", "hold": "both"}}
    )
    await world.say("/plan compare the offers")
    await world.shows("It may take about")
    assert "proposed" in await owner.page("/goals")
    refused = await owner.post("/plan/stop/1")
    assert refused.json() == {"error": "Nobody works on plan 1 now."}
    await world.press("c:/plan confirm 1")
    await until(lambda: len(world.llm.calls) >= 3)
    page = await owner.page("/goals")
    assert "compare the offers" in page
    assert "0 of 2 tasks over" in page
    assert "Please read A now." in page
    async with looking(world, ["view"]) as client:
        page = (await client.get("/goals")).text
        assert "Plan 1" in page
        assert "compare the offers" not in page
        assert "Please read" not in page
    assert await owner.act("/plan/stop/1") == "Plan 1 (compare the offers) is stopped."
    await until(lambda: not world.services.packages.turns.subagent_registry.working(None))
    await world.settled()
    assert "interrupted" in await owner.page("/goals")
    assert await owner.act("/plan/cancel/1") == "Plan 1 (compare the offers) is cancelled."
    refused = await owner.post("/plan/resume/1")
    assert refused.status_code == 409
    assert "compare the offers" not in await owner.page("/goals")


@pytest.mark.parametrize("what", ["goal/pause", "goal/raise", "plan/cancel"])
@pytest.mark.parametrize("number", ["404", "x", "9" * 30])
async def test_what_there_is_not_is_said(owner: Browsing, what: str, number: str) -> None:
    refused = await owner.post(f"/{what}/{number}")
    assert refused.status_code == 404
    assert refused.json()["error"] == f"There is no {what.partition('/')[0]} {number}."


@pytest.mark.requirement("G-92")
async def test_nothing_is_changed_that_the_configuration_switches_off(world_of: Callable[..., World]) -> None:
    config = "[agent.goal]\nenabled = false\n\n[plans]\nenabled = false\n"
    async with world_of(config=config).process() as world, browsing(world) as owner:
        assert "Open plans" in await owner.page("/goals")
        for path, what in (("/goal/resume/1", "Goals"), ("/plan/cancel/1", "Plans")):
            refused = await owner.post(path)
            assert refused.json()["error"].startswith(f"{what} are switched off in the configuration.")


@pytest.mark.requirement("G-105")
async def test_the_page_says_what_is_switched_off_and_where_it_is_switched_on(world_of: Callable[..., World]) -> None:
    config = "[agent.goal]\nenabled = false\n\n[plans]\nenabled = false\n"
    async with world_of(config=config).process() as world, browsing(world) as owner:
        page = await owner.page("/goals")
        assert "Goals are switched off: nobody works on them" in page
        assert '<code>enabled = true</code> stands in <a href="/settings/agent.goal">[agent.goal]</a>' in page
        assert "Plans are switched off: those below rest" in page
        assert '<a href="/settings/plans">[plans]</a>' in page
        for path in ("/settings/agent.goal", "/settings/plans"):
            assert "enabled" in await owner.page(path)
        async with looking(world, ["view"]) as client:
            page = (await client.get("/goals")).text
            assert "stands in [agent.goal] of the configuration" in page


@pytest.mark.requirement("G-105")
async def test_the_page_says_that_nothing_is_worked_on_alone(world_of: Callable[..., World]) -> None:
    world = world_of(config="[agent.goal]\nautonomous_enabled = false\n")
    async with world.process(), browsing(world) as owner:
        page = await owner.page("/goals")
        assert "Working without a person is switched off" in page
        assert "<code>autonomous_enabled = true</code>" in page
        assert "Goals are switched off" not in page
        world.config = "[agent.goal]\nautonomous_enabled = true\n"
        world.reload()
        assert "is switched off" not in await owner.page("/goals"), "it counts from the next look on"


@pytest.mark.requirement("G-105")
async def test_a_goal_is_not_about_to_start_while_that_is_switched_off(world_of: Callable[..., World]) -> None:
    world = world_of(config="[agent.goal]\nautonomous_enabled = false\n")
    async with world.process(), browsing(world) as owner:

        def add(conn: Connection) -> None:
            at = to_timestamp(world.clock.now())
            here, ann = ConversationId("telegram:77"), Owner(display="Ann")
            add_goal = partial(store.add, conn, conversation=here, origin=None, owner=ann, limits=Limits(), at=at)
            over = add_goal(text="count the eggs", auto=Auto(most=50))
            assert over is not None
            store.save(conn, rested(over, "completed", "achieved", None), at)
            add_goal(text="tidy up", auto=Auto(most=50))

        await world.database.write(add)
        page = await owner.page("/goals")
        assert "about to start" not in page
        assert "does not run: switched off" in page
        assert "none goes on by itself" in page
        assert "over: nothing to change" in page, "a goal that is over has no buttons"
        page = await owner.page("/")
        assert "does not run: switched off" in page
        assert ">pending " not in page
        world.config = "[agent.goal]\nautonomous_enabled = true\n"
        world.reload()
        assert "about to start" in await owner.page("/goals")
