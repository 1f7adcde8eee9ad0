"""The workflow gate within one turn: however it ends, no plan is left that nobody goes on with."""

import json
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from agent.plans.plan import Plan
from agent.plans.service import PlanService
from agent.plans.settings import PlanSettings, WorkflowSettings
from agent.run.settings import Settings
from agent.storage.database import Database
from tests.agent.world import World
from tests.fakes.provider import ScriptedProvider, says
from tests.fakes.waiting import until

WORDS = "audit every file of the wiki"
MADE = says(json.dumps({"tasks": [{"id": 1, "title": "read A", "description": "Read A.", "depends_on": []}]}))
LIVE = Settings(plans=PlanSettings(workflow=WorkflowSettings(mode="live")))


class BrokenOverview(PlanService):
    """Something in it is not as it should be."""

    async def decided(self, plan: Plan, within_s: float) -> Plan:
        raise RuntimeError("a defect")


class RestingService(PlanService):
    """A stop came between the word and what follows from it."""

    async def decided(self, plan: Plan, within_s: float) -> Plan:
        return replace(plan, status="interrupted", ticks=1)


@pytest.fixture
def world(sqlite_database: Database, tmp_path: Path) -> World:
    return World(sqlite_database, tmp_path, ScriptedProvider(aside=MADE), settings=LIVE)


async def statuses(world: World) -> list[str]:
    return [plan.status for plan in await world.plans.all_of(world.key)]


async def test_after_a_defect_nobody_is_asked_any_more(world: World) -> None:
    world.plans = BrokenOverview(world.database, world.clock, lambda: world.settings.plans)
    await world.restart()
    await world.say(WORDS)
    assert await statuses(world) == ["cancelled"]


async def test_no_plan_is_offered_by_an_agent_that_is_retired(world: World) -> None:
    path = world.agent.instruction.notes.path
    path.parent.mkdir(parents=True)
    path.write_text("AGENT_STATUS: terminated\n", "utf-8")
    (said,) = await world.say(WORDS)
    assert "no longer serve" in said
    assert not await statuses(world)


@pytest.mark.parametrize("before", [True, False], ids=["before it was asked", "while it waits"])
async def test_who_writes_something_else_does_not_wait_for_a_word(world: World, before: bool) -> None:
    work = await world.admit(WORDS)

    async def asked() -> bool:
        return await statuses(world) == ["proposed"]

    async def another() -> None:
        if not before:
            await until(asked)
        await world.admit("what time is it?", begins=False)
        world.agent.give_way()

    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            if before:
                await another()
            else:
                group.start_soon(another)
            await world.run(work)
    assert await statuses(world) == ["cancelled"]
    assert [say.text for say in await world.says(work)] == ["ok"]


async def test_of_a_plan_that_rests_it_is_not_said_that_it_begins(world: World) -> None:
    world.plans = RestingService(world.database, world.clock, lambda: world.settings.plans)
    await world.restart()
    (said,) = await world.say(WORDS)
    assert "rests" in said
    assert "carry it out" not in said
