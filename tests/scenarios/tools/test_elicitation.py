"""Questions of a call to people during its work: answered, too late, stopped, across a crash."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import pytest

from agent.core.cancellation import first_error
from agent.core.ids import PersonId
from agent.core.messages import ToolResult
from agent.core.outbox import Question
from agent.core.tools import ToolContext, ToolSpec
from agent.inbox import Work
from agent.run.run import SHUTDOWN
from agent.run.settings import Settings, TimeoutSettings
from agent.storage import approval_rows
from agent.storage.approval_rows import Approval
from agent.storage.database import Database
from agent.tools.approvals import Finding, Word
from tests.agent.world import ANN, World
from tests.fakes.mortal import Crash
from tests.fakes.provider import ScriptedProvider, calls, says
from tests.fakes.tools import named
from tests.fakes.waiting import until

BOB = "telegram:78"
RED = Question(prompt="Which colour?", asked_of=ANN, choices=("red", "blue"), timeout_s=300)


@dataclass(kw_only=True)
class Asks:
    """A tool that asks before it gives back what it was told; `dies` instead of going on with that answer."""

    spec: ToolSpec = field(default_factory=lambda: named("echo"))
    dies: bool = False
    answers: list[str | None] = field(default_factory=list)

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> str:
        assert context.elicit is not None
        answer = await context.elicit(RED)
        self.answers.append(answer.choice)
        if self.dies:
            self.dies = False
            raise Crash
        return f"painted {answer.choice}"


def world_with(database: Database, home: Path, tool: Asks, **more: Any) -> World:
    provider = ScriptedProvider(scripts=[calls("echo", {"text": "x"}), says("done")])
    return World(database, home, provider, tools=(tool,), **more)


async def asked(world: World) -> Approval:
    async def waits() -> bool:
        return bool(await world.database.read(lambda conn: approval_rows.pending(conn, world.key)))

    await until(waits)
    return (await world.database.read(lambda conn: approval_rows.pending(conn, world.key)))[0]


async def answer(world: World, one: Approval, number: int, by: str = ANN) -> Finding:
    word = Word(by=PersonId(by), name="Ann", approve=False, choice=number)
    return (await world.approvals.answer(one.id, world.key, word)).finding


async def result(world: World) -> str:
    (found,) = [part for one in await world.transcript() for part in one.message.parts if isinstance(part, ToolResult)]
    return found.content


async def dies(world: World, work: Work) -> None:
    with suppress(Crash), first_error():
        await world.run(work)


@pytest.mark.requirement("G-18")
async def test_only_who_was_asked_answers_and_the_call_goes_on(sqlite_database: Database, tmp_path: Path) -> None:
    tool = Asks()
    world = world_with(sqlite_database, tmp_path, tool)
    work = await world.admit("go")
    async with anyio.create_task_group() as group:
        group.start_soon(world.run, work)
        one = await asked(world)
        (question,) = [say for say in await world.says() if say.buttons]
        assert question.text == "Which colour?"
        assert [button.action for button in question.buttons[0]] == [f"a:{one.id}:0", f"a:{one.id}:1"]
        assert await answer(world, one, 0, by=BOB) is Finding.NOT_YOURS
        assert await answer(world, one, 2) is Finding.NO_SUCH_ANSWER
        assert world.approvals.asks(world.key, ANN, " Blue ") == (one.id, 1), "in words"
        assert await answer(world, one, 1) is Finding.DONE
        assert await answer(world, one, 0) is Finding.OVER, "the first word counts"
    assert await result(world) == "painted blue"


@pytest.mark.requirement("G-18", "G-05")
async def test_the_words_before_a_question_of_a_call_are_kept_before_it(
    sqlite_database: Database, tmp_path: Path
) -> None:
    provider = ScriptedProvider(scripts=[calls("echo", {"text": "x"}, text="I need a colour."), says("done")])
    world = World(sqlite_database, tmp_path, provider, tools=(Asks(),))
    work = await world.admit("go")
    async with anyio.create_task_group() as group:
        group.start_soon(world.run, work)
        one = await asked(world)
        assert [say.text for say in await world.says()] == ["I need a colour.", "Which colour?"]
        await answer(world, one, 0)
    assert [say.text for say in await world.says()] == ["I need a colour.", "Which colour?", "done"]


async def test_what_a_person_takes_is_not_the_time_of_the_tool(sqlite_database: Database, tmp_path: Path) -> None:
    settings = Settings(timeouts=TimeoutSettings(tool_info=0.05))
    world = world_with(sqlite_database, tmp_path, Asks(), settings=settings)
    work = await world.admit("go")
    async with anyio.create_task_group() as group:
        group.start_soon(world.run, work)
        one = await asked(world)
        await anyio.sleep(0.1)  # twice the tool's time
        await answer(world, one, 0)
    assert await result(world) == "painted red"


@pytest.mark.parametrize("stopped", [False, True], ids=["in vain", "stopped"])
async def test_nobodys_answer_is_none(sqlite_database: Database, tmp_path: Path, stopped: bool) -> None:
    tool = Asks()
    world = world_with(sqlite_database, tmp_path, tool)
    work = await world.admit("go")
    async with anyio.create_task_group() as group:
        group.start_soon(world.run, work)
        one = await asked(world)
        if stopped:
            world.agent.stop("/stop")
        else:
            world.clock.advance(301)
            await world.approvals.reap()
    found = await world.database.read(lambda conn: approval_rows.find(conn, one.id))
    assert found is not None
    assert (found.status, found.answer) == ("cancelled" if stopped else "expired", None)
    assert tool.answers == ([] if stopped else [None])


@pytest.mark.requirement("G-18")
@pytest.mark.parametrize("early", [False, True], ids=["answered after the restart", "answered before it"])
@pytest.mark.parametrize("repeatable", [False, True], ids=["a call that is not repeated", "one that may be"])
async def test_the_question_survives_and_its_answer_is_used(
    sqlite_database: Database, tmp_path: Path, early: bool, repeatable: bool
) -> None:
    tool = Asks(spec=named("echo", retryable=repeatable), dies=early)
    world = world_with(sqlite_database, tmp_path, tool)
    work = await world.admit("go")
    async with anyio.create_task_group() as group:
        group.start_soon(dies, world, work)
        one = await asked(world)
        if early:
            await answer(world, one, 1)
        else:
            world.agent.stop(SHUTDOWN)
    await world.restart()
    async with anyio.create_task_group() as group:
        group.start_soon(world.run, await world.again(work))
        if not early:
            assert (await asked(world)).id == one.id, "the very same question"
            await until(lambda: world.approvals.asks(world.key, ANN, "blue") is not None)
            await answer(world, one, 1)
    if repeatable:
        assert await result(world) == "painted blue"
        assert tool.answers[-1] == "blue"
    else:
        assert 'Asked: Which colour?\nAnswered: "blue"' in await result(world)
    assert len([say for say in await world.says() if say.buttons]) == 1, "asked once"
