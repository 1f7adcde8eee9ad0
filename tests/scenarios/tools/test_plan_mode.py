"""Plan mode: only tools that look, until a person has approved the plan."""

from pathlib import Path

import anyio
import pytest

from agent.core.ids import PersonId
from agent.core.messages import ToolResult
from agent.storage import approval_rows
from agent.storage.database import Database
from agent.tools.approvals import Word
from tests.agent.world import ANN, World
from tests.fakes.provider import ScriptedProvider, calls, says
from tests.fakes.tools import FakeTool, named
from tests.fakes.waiting import until

PLAN = {"plan": "1. write\n2. look"}


# So few that none of them has to be looked for.
FEW = "---\nname: Test\ntools: [EnterPlanMode, ExitPlanMode, echo, write]\n---\n\nYou are a test agent.\n"


def planning(database: Database, home: Path, *scripts: object) -> tuple[World, ScriptedProvider, FakeTool]:
    provider = ScriptedProvider(scripts=list(scripts))  # type: ignore[arg-type]
    write = FakeTool(spec=named("write", category="edit"))
    return World(database, home, provider, tools=(FakeTool(), write), agent_md=FEW), provider, write


def tools_of(provider: ScriptedProvider) -> list[set[str]]:
    return [{spec.name for spec in request.tools.specs} for request in provider.requests]


async def answer(world: World, *, approve: bool, by: PersonId = ANN) -> None:
    async def asked() -> bool:
        return bool(await world.database.read(lambda conn: approval_rows.pending(conn, world.key)))

    await until(asked)
    (one,) = await world.database.read(lambda conn: approval_rows.pending(conn, world.key))
    assert one.shown == PLAN["plan"], "the person reads the plan itself"
    await world.approvals.answer(one.id, world.key, Word(by=by, name="Ann", approve=approve))


@pytest.mark.requirement("W-30", "W-31", "R-02", "R-10")
@pytest.mark.parametrize("restarted", [False, True], ids=["in one go", "after a restart"])
async def test_only_what_looks_is_there_until_the_plan_is_approved(
    sqlite_database: Database, tmp_path: Path, restarted: bool
) -> None:
    world, provider, write = planning(
        sqlite_database,
        tmp_path,
        calls("EnterPlanMode", id="1"),
        calls("write", {"text": "x"}, id="2", unoffered=True),
        says("still thinking"),
        calls("ExitPlanMode", PLAN, id="3"),
        says("now I begin"),
    )
    assert await world.say("do it") == ["still thinking"]
    if restarted:
        await world.restart()
    work = await world.admit("go on")
    async with anyio.create_task_group() as group:
        group.start_soon(world.run, work)
        await answer(world, approve=True)
    seen = tools_of(provider)
    assert "EnterPlanMode" in seen[0]
    assert "ExitPlanMode" not in seen[0]
    assert "write" in seen[0]
    for planned in seen[1:4]:
        assert {"echo", "ExitPlanMode"} <= planned
        assert not planned & {"write", "EnterPlanMode"}
    assert {"write", "EnterPlanMode"} <= seen[4], "approved: everything is back"
    assert [("## Plan mode" in request.system.volatile) for request in provider.requests] == [False, *[True] * 3, False]
    for request in provider.requests:
        named_tools = ", ".join(spec.name for spec in request.tools.specs)
        assert f"You may use these tools: {named_tools}." in request.system.stable, "the prompt names those of its step"
    assert write.calls == [], "what is not shown does not run either"


@pytest.mark.requirement("W-30")
async def test_tools_of_mcp_servers_wait_for_the_plan_too(sqlite_database: Database, tmp_path: Path) -> None:
    provider = ScriptedProvider(
        scripts=[
            calls("EnterPlanMode", id="1"),
            calls("mcp__notes__add", {"text": "x"}, id="2", unoffered=True),
            says("still thinking"),
        ]
    )
    add = FakeTool(spec=named("mcp__notes__add", category="mcp"))
    agent_md = FEW.replace("write", "mcp__notes__add")
    world = World(sqlite_database, tmp_path, provider, tools=(FakeTool(), add), agent_md=agent_md)
    assert await world.say("do it") == ["still thinking"]
    assert ["mcp__notes__add" in tools for tools in tools_of(provider)] == [True, False, False]
    assert add.calls == []


@pytest.mark.requirement("W-30")
async def test_a_plan_that_is_refused_changes_nothing(sqlite_database: Database, tmp_path: Path) -> None:
    world, provider, _ = planning(
        sqlite_database,
        tmp_path,
        calls("EnterPlanMode", id="1"),
        calls("ExitPlanMode", PLAN, id="2"),
        says("then not"),
    )
    work = await world.admit("do it")
    async with anyio.create_task_group() as group:
        group.start_soon(world.run, work)
        await answer(world, approve=False)
    assert "write" not in tools_of(provider)[2]
    results = [part for one in await world.transcript() for part in one.message.parts if isinstance(part, ToolResult)]
    assert "said no" in results[-1].content


@pytest.mark.requirement("W-30", "W-31")
async def test_a_new_session_begins_without_it(sqlite_database: Database, tmp_path: Path) -> None:
    world, provider, _ = planning(sqlite_database, tmp_path, calls("EnterPlanMode", id="1"), says("a"), says("b"))
    await world.say("do it")
    world.clock.advance(1)
    world.agent.session.id, world.agent.session.known = None, True
    world.agent.message.start_empty()
    await world.say("something else")
    assert "write" in tools_of(provider)[2]
    assert "ExitPlanMode" not in tools_of(provider)[2], "no plan is to be handed in"
