"""The task list of a session: kept, changed, looked at, and out of reach for every other."""

from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from sqlalchemy import Engine, event, insert, select

from agent.core.errors import ToolError
from agent.core.ids import ConversationId, SessionId
from agent.core.messages import ToolResult
from agent.core.tools import MOST_TASKS
from agent.storage.database import Database
from agent.storage.tables import task
from agent.tools.tasks import TASK_TOOLS, SessionTasks
from tests.agent.world import World, offering
from tests.fakes.clock import FakeClock
from tests.fakes.provider import Script, ScriptedProvider, calls, says

LISTS = offering("task_create", "task_update", "task_list", "task_get")


async def rows(world: World) -> list[tuple[int, str, str, str]]:
    statement = select(task.c.id, task.c.description, task.c.status, task.c.output).order_by(task.c.id)
    return [tuple(row) for row in await world.database.read(lambda conn: conn.execute(statement).all())]


async def results(world: World) -> list[ToolResult]:
    return [part for one in await world.transcript() for part in one.message.parts if isinstance(part, ToolResult)]


def play(*wanted: tuple[str, dict[str, Any]]) -> list[Script]:
    return [*(calls(name, arguments, id=str(n)) for n, (name, arguments) in enumerate(wanted)), says("ok")]


@pytest.mark.requirement("R-50", "R-31")
async def test_a_list_is_kept_changed_and_looked_at(database: Database, tmp_path: Path) -> None:
    wanted = play(
        ("task_create", {"description": "boil water"}),
        ("task_create", {"description": "drink", "status": "in_progress"}),
        ("task_update", {"task_id": 1, "status": "completed", "output": "98 degrees"}),
        ("task_list", {}),
        ("task_get", {"task_id": 1}),
    )
    world = World(database, tmp_path, ScriptedProvider(scripts=wanted), agent_md=LISTS)
    assert await world.say("make tea") == ["ok"]
    found = await results(world)
    assert [one.content for one in found] == [
        "Task 1 is on the list, pending.",
        "Task 2 is on the list, in_progress.",
        "Task 1 is completed.",
        "1 [completed] boil water\n2 [in_progress] drink",
        "1 [completed] boil water\n98 degrees",
    ]
    await world.restart()
    assert [one.status for one in await world.agent.operations.tasks()] == ["completed", "in_progress"]


@pytest.mark.requirement("R-50")
@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        pytest.param("task_update", {"task_id": 9, "status": "failed"}, "no task 9 in this session", id="unknown"),
        pytest.param("task_get", {"task_id": 9}, "no task 9 in this session", id="unknown, looked at"),
        pytest.param("task_update", {"task_id": 1}, "give the new status", id="nothing to change"),
        pytest.param("task_create", {"description": "x", "status": "done"}, "status", id="no such status"),
    ],
)
async def test_what_does_not_go_is_told(
    sqlite_database: Database, tmp_path: Path, name: str, arguments: dict[str, Any], words: str
) -> None:
    world = World(sqlite_database, tmp_path, ScriptedProvider(scripts=play((name, arguments))), agent_md=LISTS)
    await world.say("go")
    (result,) = await results(world)
    assert result.is_error
    assert words in result.content


async def test_a_full_list_takes_no_more(sqlite_database: Database) -> None:
    mine, session = ConversationId("a"), SessionId("s")
    kept = SessionTasks(database=sqlite_database, clock=FakeClock(), conversation=mine, session=session)
    one = {
        "conv": mine,
        "session_id": session,
        "description": "x",
        "status": "pending",
        "created_at": 1,
        "updated_at": 1,
    }
    many = [{**one, "dedup": str(number)} for number in range(MOST_TASKS)]
    await sqlite_database.write(lambda conn: conn.execute(insert(task), many))
    with pytest.raises(ToolError, match="holds 200 tasks"):
        await kept.create("x", "pending", call="more")
    assert len(await kept.all()) == MOST_TASKS


@pytest.mark.requirement("R-50")
async def test_a_new_session_and_another_chat_know_nothing_of_it(sqlite_database: Database, tmp_path: Path) -> None:
    provider = ScriptedProvider(scripts=play(("task_create", {"description": "mine"})))
    world = World(sqlite_database, tmp_path, provider, agent_md=LISTS)
    await world.say("go")
    there = World(sqlite_database, tmp_path, provider, key=ConversationId("telegram:88"), agent_md=LISTS)
    provider.scripts = play(
        ("task_list", {}), ("task_get", {"task_id": 1}), ("task_update", {"task_id": 1, "output": "!"})
    )
    await there.say("go")
    assert [one.content for one in await results(there)] == [
        "There are no tasks.",
        *["there is no task 1 in this session; task_list shows those there are"] * 2,
    ]
    world.agent.operations.new_session()
    staged = world.agent.operations.take_staged()
    assert staged.switch_session
    world.agent.session.id, world.agent.session.known = None, True
    world.agent.message.start_empty()
    provider.scripts = play(("task_list", {}))
    await world.say("again")
    assert (await results(world))[-1].content == "There are no tasks."
    assert await rows(world) == [(1, "mine", "pending", "")]


async def test_a_call_that_is_repeated_after_a_crash_adds_one_task(sqlite_database: Database, tmp_path: Path) -> None:
    world = World(
        sqlite_database,
        tmp_path,
        ScriptedProvider(scripts=play(("task_create", {"description": "one"}))),
        agent_md=LISTS,
    )
    work = await world.admit("go")
    async with anyio.create_task_group() as group:

        async def cut() -> None:
            while not await rows(world):
                await anyio.lowlevel.checkpoint()
            group.cancel_scope.cancel()

        group.start_soon(cut)
        await world.run(work)
    if not await world.says(work):
        await world.restart()
        await world.run(await world.again(work))
    assert [row[1] for row in await rows(world)] == ["one"]


async def test_nobody_is_shown_the_tools_who_has_not_asked_and_an_unused_list_is_not_read(
    sqlite_database: Database, tmp_path: Path
) -> None:
    provider = ScriptedProvider(scripts=[calls("tool_search", {"tool_name": "task_create"}), says("ok"), says("ok")])
    world = World(sqlite_database, tmp_path, provider)
    statements: list[str] = []

    def note(conn: Any, cursor: Any, statement: str, *more: Any) -> None:
        statements.append(statement)

    event.listen(Engine, "before_cursor_execute", note)
    await world.say("hello")
    event.remove(Engine, "before_cursor_execute", note)
    first, second = provider.requests
    shown = {spec.name for spec in first.tools.specs}
    assert not shown & (TASK_TOOLS | {"Agent"})
    search = next(spec for spec in first.tools.specs if spec.name == "tool_search")
    assert all(name in search.description for name in TASK_TOOLS | {"Agent"})
    assert "task_create" in {spec.name for spec in second.tools.specs}, "asked for by name"
    assert statements
    taken_over = "UPDATE task SET session_id"  # what `/new --keep-plan` left for the session that begins here
    assert not [one for one in statements if " task" in one and not one.startswith(taken_over)]
