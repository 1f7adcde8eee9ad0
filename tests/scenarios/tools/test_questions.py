"""A run that asks the person something goes on with their next message, whatever happens between."""

from contextlib import suppress
from pathlib import Path

import pytest
from sqlalchemy import select

from agent.run.settings import AgentSettings, Settings
from agent.storage.database import Database
from agent.storage.tables import turn
from tests.agent.world import World, offering
from tests.fakes.mortal import Crash, MortalDatabase
from tests.fakes.provider import ScriptedProvider, calls, says
from tests.fakes.tools import FakeTool

TWO_ROUNDS = Settings(agent=AgentSettings(max_tool_iterations=2))


def asking(database: Database, home: Path) -> World:
    """An agent that works a little, asks, works a little and would go on for ever."""
    provider = ScriptedProvider(
        scripts=[
            calls("echo", {"text": "a"}, id="1"),
            calls("ask_user", {"question": "Which colour?"}, id="2"),
            calls("echo", {"text": "b"}, id="3"),
            says("done"),
        ]
    )
    return World(
        database, home, provider, settings=TWO_ROUNDS, tools=(FakeTool(),), agent_md=offering("echo", "ask_user")
    )


async def states(world: World) -> list[str]:
    query = select(turn.c.state).order_by(turn.c.id)
    return await world.database.read(lambda conn: list(conn.execute(query).scalars()))


@pytest.mark.requirement("G-18", "R-25")
@pytest.mark.parametrize("restarted", [False, True], ids=["at once", "after a restart"])
async def test_the_loop_goes_on_where_it_asked(sqlite_database: Database, tmp_path: Path, restarted: bool) -> None:
    world = asking(sqlite_database, tmp_path)
    assert await world.say("paint it") == ["Which colour?"]
    assert await states(world) == ["waiting"]
    if restarted:
        await world.restart()
    (said,) = await world.say("blue")
    assert "2 rounds" in said, "the round before the question counts"
    assert await states(world) == ["done", "failed"]
    texts = await world.texts()
    assert ("assistant", "Which colour?") in texts
    assert ("user", "blue") in texts
    await world.say("go on")
    assert (await states(world))[-1] == "done", "what comes later begins anew"


@pytest.mark.requirement("G-01", "G-18")
@pytest.mark.parametrize("writes", [1, 3], ids=["right after its words are stored", "after a round of calls"])
async def test_a_crash_in_the_run_that_goes_on_forgets_nothing(
    sqlite_database: Database, tmp_path: Path, writes: int
) -> None:
    mortal = MortalDatabase(sqlite_database)
    world = asking(mortal, tmp_path)
    await world.say("paint it")
    await world.restart()
    work = await world.admit("blue")
    mortal.writes_left = writes
    with suppress(Crash):
        await world.run(work)
    mortal.writes_left = None
    assert await states(world) == ["done", "running"]
    await world.restart()
    await world.run_through(await world.again(work))
    assert "2 rounds" in (await world.says(work))[-1].text


@pytest.mark.requirement("G-18")
async def test_only_a_person_answers_and_only_in_that_session(sqlite_database: Database, tmp_path: Path) -> None:
    world = asking(sqlite_database, tmp_path)
    await world.say("paint it")
    await world.say("tick", kind="reminder")
    assert (await states(world))[0] == "waiting", "a reminder is no answer"
    world.agent.operations.new_session()
    world.agent.session.id, world.agent.session.known = None, True
    world.agent.message.start_empty()
    await world.say("something else")
    assert (await states(world))[0] == "waiting"
