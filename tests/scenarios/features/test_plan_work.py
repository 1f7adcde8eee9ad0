"""Turns that work on plans: whom they give way to, and what ends them before they begin."""

import json
from dataclasses import replace
from pathlib import Path

import anyio
import pytest
from sqlalchemy import Connection

from agent.goals.goal import Owner
from agent.goals.settings import GoalSettings
from agent.inbox import Work
from agent.plans import store as plan_store
from agent.plans.plan import Plan
from agent.plans.settings import PlanSettings
from agent.run.settings import AgentSettings, Settings
from agent.sessions import store
from agent.storage import inbox_rows
from agent.storage.database import Database
from agent.storage.timestamps import to_timestamp
from tests.agent.world import ANN, World
from tests.fakes.provider import Script, ScriptedProvider, says
from tests.fakes.waiting import until

GOAL = "compare the three offers in the workspace"
MADE = says(json.dumps({"tasks": [{"id": 1, "title": "read A", "description": "Read A.", "depends_on": []}]}))


class PlanWorld(World):
    def __init__(self, database: Database, home: Path, *, settings: Settings | None = None) -> None:
        self.provider = ScriptedProvider(aside=MADE)
        super().__init__(database, home, self.provider, settings=settings)

    async def drafted(self, goal: str = GOAL) -> None:
        if not self.epoch:
            await self.own()
        await self.plans.draft(self.key, Owner(person=ANN, display="Ann"), goal, origin="plan:1")

    async def due(self) -> Work:
        """The wake-up that is due."""

        def take(conn: Connection) -> Work:
            (row,) = [
                row for row in inbox_rows.due(conn, self.key, now=to_timestamp(self.clock.now())) if row.incoming.plan
            ]
            inbox_rows.begin(conn, row, row.incoming)
            return Work(inbox_ids=(row.id,), kind=row.kind, incoming=row.incoming, attempt=1, epoch=self.epoch)

        return await self.database.write(take)

    async def plan(self) -> Plan:
        return await self.plans.meant(self.key, None)


@pytest.fixture
def world(sqlite_database: Database, tmp_path: Path) -> PlanWorld:
    return PlanWorld(sqlite_database, tmp_path)


async def test_an_agent_that_is_retired_makes_no_plan(world: PlanWorld) -> None:
    path = world.agent.instruction.notes.path
    path.parent.mkdir(parents=True)
    path.write_text("AGENT_STATUS: terminated\n", "utf-8")
    await world.drafted()
    await world.run(await world.due())
    assert (await world.plan()).status == "failed"
    assert not world.provider.asides
    assert any("serves here no longer" in say.text for say in await world.says())


async def test_where_no_turn_can_begin_the_plan_ends_and_its_owner_is_told(world: PlanWorld) -> None:
    await world.say("hello")
    session = await world.session()
    await world.database.write(lambda conn: store.set_state(conn, session, "terminated"))
    await world.drafted()
    await world.run(await world.due())
    assert (await world.plan()).status == "failed"
    assert any("No turn could be begun" in say.text for say in await world.says())


async def test_a_goal_longer_than_a_message_may_be_becomes_a_plan(sqlite_database: Database, tmp_path: Path) -> None:
    settings = Settings(agent=AgentSettings(max_message_chars=1_000))
    world = PlanWorld(sqlite_database, tmp_path, settings=settings)
    await world.drafted(f"{GOAL} " * 100)
    await world.run(await world.due())
    assert (await world.plan()).status == "proposed"


@pytest.mark.requirement("Z-91")
async def test_the_goal_that_a_plan_has_completed_is_completed_after_a_restart_too(
    sqlite_database: Database, tmp_path: Path
) -> None:
    goal = GoalSettings(track_in_system_prompt=True)
    world = PlanWorld(sqlite_database, tmp_path, settings=Settings(agent=AgentSettings(goal=goal)))
    await world.say(GOAL)
    await world.drafted()
    await world.run(await world.due())
    plan = await world.plan()
    read = tuple(replace(task, state="completed", result="A is dear") for task in plan.tasks)
    await world.database.write(lambda conn: plan_store.save(conn, replace(plan, tasks=read), 1))
    await world.plans.confirm(world.key, plan.id, "Ann")
    assert (await world.agent.operations.session_goal()).state == "active"
    world.provider.aside = says("A is dear.")
    await world.run(await world.due())
    await world.restart()
    assert (await world.agent.operations.session_goal()).state == "completed"


@pytest.mark.requirement("Z-36")
async def test_no_model_is_paid_for_a_plan_in_a_chat_whose_login_is_refused(world: PlanWorld) -> None:
    await world.drafted()
    world.agent.goal.deps = replace(world.agent.goal.deps, reachable=lambda conversation: False)
    await world.run(await world.due())
    plan = await world.plan()
    assert (plan.status, plan.why and plan.why.key) == ("failed", "goal_why_login")
    assert (world.provider.asides, world.provider.requests) == ([], [])


async def test_who_writes_does_not_wait_for_the_planner(sqlite_database: Database, tmp_path: Path) -> None:
    world = PlanWorld(sqlite_database, tmp_path, settings=Settings(plans=PlanSettings(give_way_secs=0.01)))
    world.provider.aside = Script(stalls=True)
    await world.drafted()
    for times in (1, 2):
        await interrupted(world, times)
        assert (await world.plan()).status == "drafting"
    world.provider.aside = MADE
    await world.run(await world.due())
    assert (await world.plan()).status == "proposed"


async def test_who_writes_does_not_wait_for_the_results_to_be_put_together(
    sqlite_database: Database, tmp_path: Path
) -> None:
    world = PlanWorld(sqlite_database, tmp_path, settings=Settings(plans=PlanSettings(give_way_secs=0.01)))
    await world.drafted()
    await world.run(await world.due())
    plan = await world.plan()
    read = tuple(replace(task, state="completed", result="A is dear") for task in plan.tasks)
    await world.database.write(lambda conn: plan_store.save(conn, replace(plan, tasks=read), 1))
    await world.plans.confirm(world.key, plan.id, "Ann")
    world.provider.aside = Script(stalls=True)
    await interrupted(world, 2)
    assert (await world.plan()).status == "running"
    world.provider.aside = says("A it is.")
    await world.run(await world.due())
    assert (await world.plan()).status == "completed"
    assert "A it is." in [say.text for say in await world.says()]


async def interrupted(world: PlanWorld, asked: int) -> None:
    """A person writes while the planner is asked; the plan's turn ends for their sake."""
    work = await world.due()
    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            group.start_soon(world.run, work)
            await until(lambda: len(world.provider.asides) == asked)
            world.agent.give_way()
