"""The goal of a session, over whole turns: followed only where the operator wants the model to read it."""

from pathlib import Path

import pytest
from sqlalchemy import select

from agent.built_ins import CommandResult
from agent.core.events import GoalCompleted
from agent.goals.goal import Limits
from agent.goals.settings import GoalSettings
from agent.inbox import Work
from agent.operations import Operations
from agent.run.settings import AgentSettings, Settings
from agent.storage.database import Database
from agent.storage.tables import session_goal
from tests.agent.goals.world import OWNER, GoalWorld
from tests.agent.world import World
from tests.fakes.provider import ScriptedProvider, calls, says


def tracking(**goal: object) -> Settings:
    return Settings(agent=AgentSettings(goal=GoalSettings(**goal)))  # type: ignore[arg-type]


FOLLOWED = tracking(track_in_system_prompt=True)


async def done(work: Work, agent: Operations) -> CommandResult:
    await agent.complete_goal()
    return CommandResult()


async def clear(work: Work, agent: Operations) -> CommandResult:
    await agent.clear()
    return CommandResult()


async def new(work: Work, agent: Operations) -> CommandResult:
    agent.new_session()
    return CommandResult()


async def resume(work: Work, agent: Operations) -> CommandResult:
    await agent.resume()
    return CommandResult()


@pytest.mark.requirement("Z-83", "Z-84", "Z-85", "Z-86", "Z-93", "Z-145")
async def test_it_is_active_then_completed_then_the_next(database: Database, tmp_path: Path) -> None:
    provider = ScriptedProvider(scripts=[says("I look at it."), says("It is done."), says("Sure.")])
    world = World(database, tmp_path, provider, settings=FOLLOWED)
    await world.say("write a poem about the sea")
    assert (await world.agent.operations.session_goal()).state == "active"
    assert await world.say("how is it going") == ["It is done."]  # no word of it in the chat
    goal = await world.agent.operations.session_goal()
    assert (goal.state, goal.text) == ("completed", "write a poem about the sea")
    assert [event.name for event in world.events if isinstance(event, GoalCompleted)] == ["goal_completed"]
    assert world.outbox.status_line == "🎯 Goal reached: write a poem about the sea"
    assert not any("🎯" in text for _, text in await world.texts())
    await world.restart()  # it is kept with the session
    await world.say("translate this letter")
    goal = await world.agent.operations.session_goal()
    assert (goal.state, goal.text) == ("active", "translate this letter")
    assert world.outbox.statuses.count("🎯 Goal reached: write a poem about the sea") == 1


@pytest.mark.requirement("Z-83")
async def test_a_new_session_starts_without_it(sqlite_database: Database, tmp_path: Path) -> None:
    provider = ScriptedProvider()
    world = World(sqlite_database, tmp_path, provider, settings=FOLLOWED)
    world.built_ins.commands["/new"] = new
    await world.say("write a poem about the sea")
    assert "write a poem about the sea" in provider.requests[-1].system.volatile
    await world.say("/new")
    await world.say("hello")
    assert "poem" not in provider.requests[-1].system.volatile
    assert (await world.agent.operations.session_goal()).text != "write a poem about the sea"


@pytest.mark.requirement("Z-83")
async def test_work_that_no_person_has_just_asked_for_does_not_change_it(
    sqlite_database: Database, tmp_path: Path
) -> None:
    provider = ScriptedProvider()
    world = World(sqlite_database, tmp_path, provider, settings=FOLLOWED)
    await world.say("write a poem about the sea")
    await world.say("translate the report of yesterday", kind="reminder", person=None, display="")
    await world.say("how is it going")
    assert (await world.agent.operations.session_goal()).text == "write a poem about the sea"
    assert "report of yesterday" not in provider.requests[-1].system.volatile


@pytest.mark.requirement("Z-93")
async def test_what_nobody_asked_for_is_completed_without_a_line(sqlite_database: Database, tmp_path: Path) -> None:
    scripts = [says("I am the bot. All done.")]
    world = World(sqlite_database, tmp_path, ScriptedProvider(scripts=scripts), settings=FOLLOWED)
    await world.say("hello there, who are you")
    assert (await world.agent.operations.session_goal()).state == "completed"
    assert [event.name for event in world.events if isinstance(event, GoalCompleted)] == ["goal_completed"]
    assert world.outbox.status_line == ""


@pytest.mark.requirement("Z-89")
async def test_a_denial_does_not_complete_it(sqlite_database: Database, tmp_path: Path) -> None:
    scripts = [says("No, nothing is done yet.")]
    world = World(sqlite_database, tmp_path, ScriptedProvider(scripts=scripts), settings=FOLLOWED)
    await world.say("write a poem about the sea")
    assert (await world.agent.operations.session_goal()).state == "active"
    assert world.outbox.status_line == ""


@pytest.mark.requirement("Z-89")
async def test_a_turn_with_tools_does_not_complete_it(sqlite_database: Database, tmp_path: Path) -> None:
    provider = ScriptedProvider(scripts=[calls("current_time"), says("All done.")])
    world = World(sqlite_database, tmp_path, provider, settings=FOLLOWED)
    await world.say("what time is it")
    assert (await world.agent.operations.session_goal()).state == "active"
    assert not [event for event in world.events if isinstance(event, GoalCompleted)]


@pytest.mark.requirement("Z-92", "Z-93")
async def test_done_completes_it(sqlite_database: Database, tmp_path: Path) -> None:
    world = World(sqlite_database, tmp_path, ScriptedProvider(), settings=FOLLOWED)
    world.built_ins.commands["/done"] = done
    await world.say("write a poem about the sea")
    await world.say("/done")
    await world.restart()
    assert (await world.agent.operations.session_goal()).state == "completed"
    assert world.outbox.statuses[-1] == "🎯 Goal reached: write a poem about the sea"


@pytest.mark.requirement("Z-87")
@pytest.mark.parametrize("command", ["/clear", "/new"])
async def test_clear_and_reset_forget_it(command: str, sqlite_database: Database, tmp_path: Path) -> None:
    world = World(sqlite_database, tmp_path, ScriptedProvider(), settings=FOLLOWED)
    world.built_ins.commands |= {"/clear": clear, "/new": new}
    await world.say("write a poem about the sea")
    await world.say(command)
    assert (await world.agent.operations.session_goal()).state == "idle"
    await world.restart()
    assert (await world.agent.operations.session_goal()).state == "idle"


@pytest.mark.requirement("Z-87")
async def test_who_goes_back_to_a_session_that_was_left_for_a_fresh_one_finds_no_goal_in_it(
    sqlite_database: Database, tmp_path: Path
) -> None:
    provider = ScriptedProvider()
    world = World(sqlite_database, tmp_path, provider, settings=FOLLOWED)
    world.built_ins.commands |= {"/new": new, "/resume": resume}
    await world.say("write a poem about the sea")
    await world.say("/new")
    await world.say("translate this letter")
    await world.say("/resume")
    assert (await world.agent.operations.session_goal()).state == "idle"
    await world.say("paint the fence in the garden")
    assert "write a poem about the sea" in str(provider.requests[-1].messages), "it is the session that was left"
    assert "<current_goal>\npaint the fence in the garden\n</current_goal>" in provider.requests[-1].system.volatile


@pytest.mark.requirement("Z-94", "Z-95")
@pytest.mark.parametrize(
    "settings",
    [
        pytest.param(tracking(enabled=False, track_in_system_prompt=True), id="goals are switched off"),
        pytest.param(Settings(), id="as it is shipped, a goal is what somebody has set"),
    ],
)
async def test_where_it_is_not_followed_there_is_none_and_the_turn_is_the_same(
    sqlite_database: Database, tmp_path: Path, settings: Settings
) -> None:
    assert GoalSettings().enabled is True
    provider = ScriptedProvider(scripts=[says("It is done.")])
    world = World(sqlite_database, tmp_path, provider, settings=settings)
    assert await world.say("write a poem about the sea") == ["It is done."]
    assert (await world.agent.operations.session_goal()).state == "idle"
    assert await world.agent.operations.complete_goal() is None
    assert not [event for event in world.events if isinstance(event, GoalCompleted)]
    assert world.outbox.status_line == ""
    assert not await sqlite_database.read(lambda conn: conn.execute(select(session_goal)).all())


@pytest.mark.requirement("Z-88", "Z-95", "Z-96", "Z-97")
async def test_a_model_reads_its_text_only_where_that_is_wanted(sqlite_database: Database, tmp_path: Path) -> None:
    assert GoalSettings().track_in_system_prompt is False
    provider = ScriptedProvider(scripts=[says("Yes."), says("It is done."), says("Bye.")])
    world = World(sqlite_database, tmp_path, provider, settings=tracking(track_in_system_prompt=True))
    await world.say("write a poem about the sea")
    await world.say("and make it rhyme")
    await world.say("thanks")
    prompts = [request.system.volatile for request in provider.requests]
    assert "<current_goal>\nwrite a poem about the sea\n</current_goal>" in prompts[0]
    assert "<current_goal>\nwrite a poem about the sea\nand make it rhyme\n</current_goal>" in prompts[1]
    assert "current_goal" not in prompts[2]  # it is reached; the model is not told that
    sent = [request.system.stable + request.system.volatile for request in provider.requests]
    assert not any(state in text for text in sent for state in ("idle", "active", "completed"))
    world.settings = Settings()
    await world.say("write another poem please")
    assert "current_goal" not in provider.requests[-1].system.volatile


@pytest.mark.requirement("Z-96")
async def test_an_identity_that_names_the_goal_is_told_its_text_alone(
    sqlite_database: Database, tmp_path: Path
) -> None:
    provider = ScriptedProvider(scripts=[says("Yes."), says("It is done."), says("Bye.")])
    named = "---\nname: T\n---\nYou are after: {current_goal}. So much for that."
    world = World(sqlite_database, tmp_path, provider, settings=FOLLOWED, agent_md=named)
    await world.say("write a poem about the sea")
    await world.say("and make it rhyme")
    await world.say("thanks")
    sent = [request.system.stable + request.system.volatile for request in provider.requests]
    assert "You are after: <current_goal>\nwrite a poem about the sea\n</current_goal>. So much" in sent[0]
    assert "You are after: (none). So much" in sent[2], "it is reached"
    assert not any(state in text for text in sent for state in ("idle", "active", "completed"))


async def test_turns_of_people_count_for_the_kept_goal(sqlite_database: Database, tmp_path: Path) -> None:
    world = GoalWorld(sqlite_database, tmp_path)
    await world.goals.create(world.key, OWNER, "tidy up", Limits(turns=2))
    await world.say("begin please")
    assert (await world.goal()).used.turns == 1
    await world.admit("go on please", kind="reminder")
    assert await world.say("and on please") == ["ok"]
    goal = await world.goal()
    assert (goal.status, goal.why and goal.why.key) == ("paused", "goal_why_turns")
    assert "limit of 2 turns" in (await world.told())[-1].text
    await world.say("something else entirely")
    assert (await world.goal()).used.turns == 2
