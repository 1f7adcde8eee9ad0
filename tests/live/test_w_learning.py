"""Learning from turns in the running gateway: hinted skills, recurring requests, style of writing."""

from collections.abc import Callable

import pytest
from sqlalchemy import text as sql

from agent.core.events import LoopFailed, SkillDrafted, SkillPicked
from agent.skills.bandit import Arm
from tests.fakes.waiting import until
from tests.gateway.world import World
from tests.live.test_r_turns import call, of, steps

WorldOf = Callable[..., World]
SKILL = "---\nname: {}\ndescription: Names plovers on pencil sketches by their bills\n---\nLook at the bill."
PLOVERS = "name plovers on pencil sketches by their bills"


def with_skills(made: World, *names: str) -> World:
    for name in names:
        folder = made.home / "skills" / name
        folder.mkdir(parents=True)
        (folder / "SKILL.md").write_text(SKILL.format(name))
    return made


def arm(world: World, name: str) -> Arm:
    """The successes and failures that are counted for a skill."""
    return world.services.learning.router.kept(name).arm


@pytest.mark.requirement("W-54", "W-55", "W-06")
async def test_how_a_turn_ends_counts_for_the_skill_that_was_called_up(world_of: WorldOf) -> None:
    made = with_skills(world_of(config="[agent]\nmax_turns = 2\n"), "plover")
    words = "@@skill=plover look at this one"
    async with made.process() as world:
        await world.answered(words, "look at this one")
        assert arm(world, "plover") == Arm(successes=1), "an answer"
        world.script({"match": {}, "reply": {"blocks": [call("current_time")]}})
        await world.say(words)
        await until(lambda: len(of(world, LoopFailed)) == 1)
        await world.settled()
        assert arm(world, "plover") == Arm(successes=1, failures=1), "too many calls"
        world.script({"match": {}, "reply": {"text": "never", "hold": "gate"}})
        calls = len(world.llm.calls)
        await world.say(words)
        await world.until_asked(calls + 1)
        await world.say("/stop")
        await world.settled()
        assert arm(world, "plover") == Arm(successes=1, failures=2), "a person has stopped it"
        world.script({"match": {}, "reply": {"text": "no", "stop_reason": "refusal"}})
        await world.say(words)
        await world.settled()
        assert arm(world, "plover") == Arm(successes=1, failures=2), "what the model declines says nothing of it"


@pytest.mark.requirement("W-09", "W-06")
@pytest.mark.parametrize("router", [True, False])
async def test_a_skill_is_drawn_of_those_that_fit_and_none_without_a_router(world_of: WorldOf, *, router: bool) -> None:
    config = "" if router else "[skills.learning]\nrouter = false\n"
    async with with_skills(world_of(config=config), "one", "two", "three").process() as world:
        for _ in range(8):
            await world.answered(PLOVERS, PLOVERS)
        picked = [event.skill for event in of(world, SkillPicked)]
        assert len(picked) == (8 if router else 0)
        assert (len(set(picked)) > 1) is router, "drawn, not taken in turn"
        assert ('The skill "' in str(world.llm.bodies[-1]["messages"])) is router


@pytest.mark.requirement("W-56", "W-58", "W-61")
async def test_three_requests_of_one_kind_that_go_well_in_a_row_are_drafted(world: World) -> None:
    async def asks(words: str, *, fails: bool = False) -> int:
        world.script(*steps({"blocks": [call("calculate", expression="6*7")]}, {"text": "Here it is."}))
        if fails:
            world.llm.fails(kind="error", status=400, message="no", times=9)
        await world.say(words)
        await world.shows("Here it is.") if not fails else None
        await world.settled()
        world.llm.double.faults.clear()
        return len(of(world, SkillDrafted))

    for words in ("Summarise the quarterly invoices", "please summarise quarterly INVOICES!"):
        assert await asks(words) == 0
    await asks("summarise the quarterly invoices", fails=True)
    for words in ("Invoices, quarterly: summarise", "summarise my quarterly invoices"):
        assert await asks(words) == 0, "a failure begins the row anew"
    await asks("summarise quarterly invoices")
    await until(lambda: bool(of(world, SkillDrafted)))
    assert [event.skill for event in of(world, SkillDrafted)] == ["invoices-quarterly-summarise"]


@pytest.mark.requirement("W-04")
async def test_a_style_that_cannot_be_read_is_logged_and_costs_no_turn(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    await world.answered("hello", "hello")
    await world.database.write(lambda conn: conn.execute(sql("DROP TABLE user_model")) and None)
    await world.answered("is anybody there", "is anybody there")
    assert "user model (database) failed" in caplog.text
    assert not of(world, LoopFailed)
