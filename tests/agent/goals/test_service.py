"""Kept goals: one active in a conversation, limits, moves."""

from pathlib import Path

import anyio
import pytest

from agent.goals.goal import Goal, Limits
from agent.goals.service import GoalRefused
from agent.storage.database import Database
from tests.agent.goals.world import OWNER, GoalWorld


async def test_of_two_made_at_once_one_is_active(database: Database, tmp_path: Path) -> None:
    world = GoalWorld(database, tmp_path)

    async def create(text: str) -> None:
        await world.goals.create(world.key, OWNER, text)

    async with anyio.create_task_group() as group:
        for text in ("one", "another", "a third"):
            group.start_soon(create, text)
    assert sorted(goal.status for goal in await world.goals.all_of(world.key)) == ["active", "paused", "paused"]


async def test_the_same_message_twice_makes_one(database: Database, tmp_path: Path) -> None:
    world = GoalWorld(database, tmp_path)
    made = [await world.start(origin="telegram:77:5") for _ in range(2)]
    assert made[0].id == made[1].id
    await world.own()
    assert await world.due() is not None
    assert len(await world.goals.all_of(world.key)) == 1


@pytest.mark.parametrize(
    ("steps", "refused"),
    [
        (["pause", "pause"], "goal_rests"),
        (["complete", "resume"], "goal_none"),
        (["pause", "complete"], "goal_rests"),
        (["pause", "clear", "resume"], "goal_none"),
        (["pause", "resume", "complete", "clear"], "goal_none"),
        (["resume"], "goal_none"),
    ],
)
async def test_only_these_moves_are_made(
    steps: list[str], refused: str, sqlite_database: Database, tmp_path: Path
) -> None:
    world = GoalWorld(sqlite_database, tmp_path)
    await world.goals.create(world.key, OWNER, "tidy up")

    async def make(step: str) -> Goal:
        if step == "resume":
            return await world.goals.resume(world.key, None)
        change = {"pause": world.goals.pause, "complete": world.goals.complete, "clear": world.goals.clear}[step]
        return await change(world.key)

    for step in steps[:-1]:
        await make(step)
    with pytest.raises(GoalRefused, match=refused):
        await make(steps[-1])


async def test_what_cannot_be_kept_is_refused(sqlite_database: Database, tmp_path: Path) -> None:
    world = GoalWorld(sqlite_database, tmp_path)
    with pytest.raises(GoalRefused, match="goal_long"):
        await world.goals.create(world.key, OWNER, "x" * 2001)
    with pytest.raises(GoalRefused, match="goal_usage"):
        await world.goals.create(world.key, OWNER, "  ")
    goal = await world.goals.create(world.key, OWNER, "tidy up", Limits(turns=5))
    with pytest.raises(GoalRefused, match="goal_unknown"):
        await world.goals.pause(type(world.key)("telegram:78"), goal.id)  # another chat's
    await world.goals.pause(world.key)
    resumed = await world.goals.resume(world.key, None, limits=Limits(tokens=9))
    assert (resumed.limits, resumed.why) == (Limits(turns=5, tokens=9), None)
