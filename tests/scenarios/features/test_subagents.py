"""Sub-agents in whole turns: what they get, what comes back, what they may not, how they end."""

from collections.abc import AsyncGenerator
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from sqlalchemy import select

from agent.compaction.settings import TacoSettings
from agent.core.events import StepCompleted, SubagentEnded, SubagentStarted, ToolStarted
from agent.core.messages import ToolResult
from agent.core.tools import SubagentTask
from agent.providers.provider import Chunk, Prices, Request
from agent.run.settings import AgentSettings, Settings, ToolSettings
from agent.storage.database import Database
from agent.storage.tables import tool_call
from agent.subagent.runner import SubagentRunner
from tests.agent.world import World, offering
from tests.fakes.provider import Script, ScriptedProvider, calls, calls_all, says
from tests.fakes.tools import FakeTool, named
from tests.fakes.waiting import until


class Two(ScriptedProvider):
    """Plays `scripts` for the conversation, and for sub-agents those of the task that they begin with."""

    def __init__(self, *scripts: Script, tasks: dict[str, list[Script]] | None = None, **more: Any) -> None:
        super().__init__(scripts=list(scripts), **more)
        self.tasks = tasks or {}
        self.subagent_tasks: list[Request] = []

    async def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        if "You are a sub-agent" not in request.system.stable:
            async for chunk in super().stream(request):
                yield chunk
            return
        self.subagent_tasks.append(request)
        task = request.messages[0].content
        mine = ScriptedProvider(scripts=[self.tasks[task].pop(0)])
        async for chunk in mine.stream(request):
            yield chunk


def a_world(database: Database, home: Path, provider: Two, **more: Any) -> World:
    """Its agent has few tools, so that the model is shown them all."""
    mine = sorted(tool.spec.name for tool in more.get("tools", ()))
    return World(database, home, provider, **{"agent_md": offering("Agent", "calculate", "remember", *mine), **more})


def hand(task: str, *, id: str = "a", **more: Any) -> Script:
    return calls("Agent", {"task": task, **more}, id=id)


async def results(world: World) -> list[ToolResult]:
    return [part for one in await world.transcript() for part in one.message.parts if isinstance(part, ToolResult)]


async def audit(world: World) -> list[Any]:
    return list(await world.database.read(lambda conn: conn.execute(select(tool_call).order_by(tool_call.c.id)).all()))


def profile(world: World, name: str, text: str) -> None:
    (world.home / "agents" / f"{name}.md").write_text(text, "utf-8")


@pytest.mark.requirement("R-36", "R-31")
async def test_it_has_its_own_history_and_gives_back_one_answer(database: Database, tmp_path: Path) -> None:
    provider = Two(
        hand("count the cups"),
        says("There are four."),
        tasks={"count the cups": [calls("echo", {"text": "in the cupboard"}, id="x"), says("four cups")]},
        prices=Prices(input=1, output=1),
    )
    tool = FakeTool()
    world = a_world(database, tmp_path, provider, tools=(tool,))
    assert await world.say("how many cups are there, my secret is 42") == ["There are four."]
    first, second = provider.subagent_tasks
    assert [message.content for message in first.messages] == ["count the cups"], "nothing of the conversation"
    assert second.messages[-1].tool_results[0].content == "in the cupboard"
    assert "Agent" not in {spec.name for spec in first.tools.specs}
    (result,) = await results(world)
    assert result.content == '<untrusted source="Agent">\nfour cups\n</untrusted>', "framed, and nothing else of it"
    assert "cupboard" not in "".join(text for _, text in await world.texts())
    assert tool.calls[0][1].run.endswith("-sub")
    assert tool.calls[0][1].execution.workspace == world.agent.tool.workspace
    attributions = await world.usage_rows()
    assert sorted(row.purpose for row in attributions) == ["subagent", "subagent", "turn", "turn"]
    assert len({(row.inbox_id, row.session_id, row.person) for row in attributions}) == 1, "on its parent's account"
    recorded = [(row.tool, row.run_id.endswith("-sub"), row.verdict) for row in await audit(world)]
    assert recorded == [("echo", True, "ran"), ("Agent", False, "ran")]
    started = next(event for event in world.events if isinstance(event, SubagentStarted))
    ended = next(event for event in world.events if isinstance(event, SubagentEnded))
    assert (started.request, started.steps, ended.steps, ended.is_error) == (f"{started.run}-sub", 10, 2, False)


@pytest.mark.requirement("R-32")
async def test_it_reads_the_result_of_each_of_its_calls(sqlite_database: Database, tmp_path: Path) -> None:
    both = calls_all([("echo", {"text": "four cups"}, "c"), ("echo", {"text": "no spoons"}, "s")])
    provider = Two(hand("count"), says("ok"), tasks={"count": [both, says("done")]})
    world = a_world(sqlite_database, tmp_path, provider, tools=(FakeTool(),))
    await world.say("go")
    told = provider.subagent_tasks[1].messages[-1]
    assert told.role == "user"
    assert [(one.tool_use_id, one.content) for one in told.tool_results] == [("c", "four cups"), ("s", "no spoons")]


@pytest.mark.requirement("R-31", "R-50")
async def test_its_task_list_is_that_of_the_session(database: Database, tmp_path: Path) -> None:
    task = [
        calls("task_create", {"description": "count the cups"}),
        calls("task_update", {"task_id": 1, "status": "completed", "output": "four"}, id="u"),
        calls("task_list", {}, id="l"),
        says("it is on the list"),
    ]
    provider = Two(hand("keep a list"), says("ok"), tasks={"keep a list": task})
    tools = offering("Agent", "task_create", "task_update", "task_list")
    world = a_world(database, tmp_path, provider, agent_md=tools)
    assert await world.say("have a list made") == ["ok"]
    told = [request.messages[-1].tool_results[0].content for request in provider.subagent_tasks[1:]]
    assert told == ["Task 1 is on the list, pending.", "Task 1 is completed.", "1 [completed] count the cups"]
    kept = await world.agent.operations.tasks()
    assert [(one.description, one.status) for one in kept] == [("count the cups", "completed")]


@pytest.mark.requirement("R-35")
async def test_each_step_is_noted_counted_and_told(sqlite_database: Database, tmp_path: Path) -> None:
    provider = Two(
        hand("t"), says("ok"), tasks={"t": [calls("echo", {"text": "1"}), calls("move", id="m"), says("done")]}
    )
    seen: list[tuple[int, int, tuple[str, ...], Path]] = []
    there = tmp_path / "there"

    class Move(FakeTool):
        async def run(self, arguments: Any, context: Any) -> str:
            context.move(there)
            return "moved"

    world = a_world(sqlite_database, tmp_path, provider, tools=(FakeTool(), Move(spec=named("move", schema=NOTHING))))

    def look(published: Any) -> None:
        event = published.event
        run = world.agent.context.run
        if isinstance(event, StepCompleted) and run is not None and event.run == run.id:
            step = run.steps[-1]
            seen.append((event.step_index, event.remaining_steps, step.tool_calls, step.cwd))

    world.bus.listen(look)
    steps: list[StepCompleted] = []
    world.bus.listen(
        lambda published: steps.append(published.event) if isinstance(published.event, StepCompleted) else None
    )
    await world.say("go")
    workspace = world.agent.tool.workspace
    assert seen == [(4, 196, ("Agent",), workspace), (5, 195, (), workspace)], "with the three steps of its errand"
    of_subagent_task = [(one.step_index, one.remaining_steps) for one in steps if str(one.run).endswith("-sub")]
    assert of_subagent_task == [(1, 9), (2, 8), (3, 7)]
    assert world.agent.lifecycle.cwd is None, "where it has moved to is its own business"


NOTHING = {"type": "object", "properties": {}, "additionalProperties": False}


@pytest.mark.requirement("R-35")
async def test_a_sub_agent_goes_on_where_it_has_moved_to(sqlite_database: Database, tmp_path: Path) -> None:
    there = tmp_path / "there"

    class Move(FakeTool):
        async def run(self, arguments: Any, context: Any) -> str:
            context.move(there)
            return "moved"

    echo = FakeTool()
    provider = Two(hand("t"), says("ok"), tasks={"t": [calls("move"), calls("echo", {"text": "1"}, id="2"), says("d")]})
    world = a_world(sqlite_database, tmp_path, provider, tools=(echo, Move(spec=named("move", schema=NOTHING))))
    await world.say("go")
    assert echo.calls[0][1].execution.cwd == there


@pytest.mark.requirement("R-37")
async def test_nobody_below_it_and_nobody_to_ask(sqlite_database: Database, tmp_path: Path) -> None:
    nested = calls_all([("Agent", {"task": "deeper"}, "n"), ("ask_user", {"question": "which?"}, "q")], unoffered=True)
    asked = calls("ask_user", {"question": "really?"}, id="r", unoffered=True)
    provider = Two(hand("t"), says("ok"), tasks={"t": [nested, asked, says("done by myself")]})
    world = a_world(sqlite_database, tmp_path, provider)
    assert await world.say("go") == ["ok"]
    first = provider.subagent_tasks[1].messages[-1].tool_results
    assert [(one.content, one.is_error) for one in first] == [
        ("Agent was not run: a sub-agent cannot begin another one; do the task yourself", True)
    ]
    (second,) = provider.subagent_tasks[2].messages[-1].tool_results
    assert second.is_error
    assert "cannot ask anybody" in second.content
    assert [event.request for event in world.events if isinstance(event, SubagentStarted)] == [
        f"{next(event.run for event in world.events if isinstance(event, SubagentStarted))}-sub"
    ]
    assert "done by myself" in (await results(world))[0].content


async def test_the_port_refuses_a_second_level_as_well(sqlite_database: Database, tmp_path: Path) -> None:
    provider = Two(hand("t"), says("ok"), tasks={"t": [calls("echo", {"text": "1"}), says("done")]})
    found: list[Any] = []

    class Deeper(FakeTool):
        async def run(self, arguments: Any, context: Any) -> str:
            subagent_runner = world.agent.tool.subagent_runner
            assert isinstance(subagent_runner, SubagentRunner)
            parent = world.agent.context.run
            assert parent is not None
            below = replace_parent(parent)
            found.append(
                await subagent_runner.of(below).run(SubagentTask(text="x"), request="r", cancel=context.cancel)
            )
            assert context.subagents is None
            return "ok"

    world = a_world(sqlite_database, tmp_path, provider, tools=(Deeper(),))
    await world.say("go")
    assert (found[0].is_error, found[0].text) == (True, "a sub-agent cannot begin another one; do the task yourself")


def replace_parent(run: Any) -> Any:
    return replace(run, parent=run)


@pytest.mark.requirement("R-39")
async def test_too_long_is_an_error_for_its_parent(sqlite_database: Database, tmp_path: Path) -> None:
    provider = Two(hand("t", agent="slow"), says("then not"), tasks={"t": [Script(stalls=True)]})
    world = a_world(sqlite_database, tmp_path, provider)
    profile(world, "slow", "---\ntimeout_s: 0.05\n---\n\nYou are slow.\n")
    assert await world.say("go") == ["then not"]
    (result,) = await results(world)
    assert result.is_error
    assert "was stopped after 0.05 s" in result.content
    assert SubagentTask(text="x").timeout_s == 120.0, "what holds without a definition"
    assert provider.subagent_tasks[0].system.stable.startswith("You are slow.\n\n## Your task")


@pytest.mark.requirement("G-23")
async def test_steps_are_reserved_and_what_is_left_comes_back(sqlite_database: Database, tmp_path: Path) -> None:
    seen: list[int] = []

    class Looking(FakeTool):
        async def run(self, arguments: Any, context: Any) -> str:
            assert world.agent.context.run is not None
            seen.append(world.agent.context.run.progress.steps)
            return "seen"

    provider = Two(
        hand("t"), hand("u", id="b"), says("ok"),
        tasks={
            "t": [calls("echo", {"text": "1"}), says("done")],
            "u": [calls("echo", {"text": str(n)}, id=f"c{n}") for n in range(9)],
        },
    )  # fmt: skip
    settings = Settings(agent=AgentSettings(step_budget=12))
    world = a_world(sqlite_database, tmp_path, provider, tools=(Looking(),), settings=settings)
    await world.say("go")
    assert seen[:2] == [10, 13 - 1], "ten are taken at first; then what is left: 12 - 3 = 9"
    run = world.agent.context.run
    assert run is not None
    first, second = await results(world)
    assert not first.is_error
    assert "used up its 9 steps" in second.content
    assert "last step" in provider.subagent_tasks[-1].reminder
    assert "last step" not in provider.subagent_tasks[-2].reminder


@pytest.mark.requirement("G-23", "B-93")
@pytest.mark.parametrize(
    ("asked", "defined", "given"),
    [
        pytest.param(None, "", {"echo", "other", "third"}, id="all that the parent has"),
        pytest.param(["echo", "nosuch"], "", {"echo"}, id="only what was asked for, of that"),
        pytest.param(["echo", "other"], "tools: [other, third]", {"other"}, id="and of that what the definition has"),
        pytest.param(None, "without: [other]", {"echo", "third"}, id="without what the definition forbids"),
        pytest.param([], "", set(), id="none at all"),
    ],
)
async def test_tools_are_an_intersection(
    sqlite_database: Database, tmp_path: Path, asked: list[str] | None, defined: str, given: set[str]
) -> None:
    more: dict[str, Any] = {} if asked is None else {"tools": asked}
    wanted = calls("other", unoffered="other" not in given)
    provider = Two(hand("t", agent="d", **more), says("ok"), tasks={"t": [wanted, says("done")]})
    mine = [FakeTool(spec=named(name)) for name in ("echo", "other", "third")]
    persona = "---\nname: T\ntools: [Agent, echo, other, third]\n---\n\nYou are a test.\n"
    world = a_world(sqlite_database, tmp_path, provider, tools=tuple(mine), agent_md=persona)
    profile(world, "d", f"---\ndescription: x\n{defined}\n---\n\nYou are D.\n")
    await world.say("go")
    assert {spec.name for spec in provider.subagent_tasks[0].tools.specs} == given
    ran = provider.subagent_tasks[1].messages[-1].tool_results[0]
    assert ("other" in given) == ("is not among the tools" not in ran.content)


async def test_a_call_that_needs_a_person_is_refused_and_a_rule_lets_it_pass(
    sqlite_database: Database, tmp_path: Path
) -> None:
    write = FakeTool(spec=named("write", risk="write", category="edit"))
    provider = Two(hand("t"), says("ok"), tasks={"t": [calls("write", {"text": "x"}), says("done")] * 2})
    world = a_world(sqlite_database, tmp_path, provider, tools=(write,))
    await world.say("go")
    (refused,) = provider.subagent_tasks[1].messages[-1].tool_results
    assert "needs a person's approval, and a sub-agent cannot ask for one" in refused.content
    assert write.calls == []
    world.settings = Settings(approvals=replace(world.settings.approvals, auto_approve=True))
    provider.scripts = [hand("t", id="again"), says("ok")]
    await world.say("go")
    assert len(write.calls) == 1


async def test_several_work_side_by_side_three_at_most(sqlite_database: Database, tmp_path: Path) -> None:
    gate = anyio.Event()
    tool = FakeTool(gate=gate)
    tasks = {f"t{n}": [calls("echo", {"text": str(n)}), says(f"found {n}")] for n in range(5)}
    wanted = calls_all([("Agent", {"task": f"t{n}"}, f"id{n}") for n in range(5)])
    world = a_world(sqlite_database, tmp_path, provider := Two(wanted, says("ok"), tasks=tasks), tools=(tool,))
    work = await world.admit("go")
    async with anyio.create_task_group() as group:
        group.start_soon(world.run, work)
        await until(lambda: tool.running == 3)
        await anyio.wait_all_tasks_blocked()
        assert len(provider.subagent_tasks) == 3
        gate.set()
    found = [result.content.split("\n")[1] for result in await results(world)]
    assert found == [f"found {n}" for n in range(5)], "in the order of the calls"
    assert tool.most_running == 3
    ids = [event.request.rpartition("-sub")[2] for event in world.events if isinstance(event, SubagentStarted)]
    assert sorted(ids) == ["", "-2", "-3", "-4", "-5"]
    assert len({row.call_id for row in await audit(world)}) == 10, "every call stands in the record"


@pytest.mark.parametrize("at", ["the model", "a tool"])
async def test_stop_ends_it_at_once_and_the_history_is_sound(
    sqlite_database: Database, tmp_path: Path, at: str
) -> None:
    tool = FakeTool(gate=anyio.Event())
    first = Script(stalls=True) if at == "the model" else calls("echo", {"text": "x"})
    provider = Two(hand("t"), tasks={"t": [first]})
    world = a_world(sqlite_database, tmp_path, provider, tools=(tool,))
    work = await world.admit("go")
    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            group.start_soon(world.run, work)
            await until(lambda: bool(tool.running) if at == "a tool" else bool(provider.subagent_tasks))
            world.agent.stop("person")
    (result,) = await results(world)
    assert result.is_error
    assert "the person stopped this run" in result.content
    assert await world.turn_state(work) == "cancelled"
    if at == "a tool":
        assert [(row.tool, row.verdict) for row in await audit(world)] == [("echo", "stopped"), ("Agent", "stopped")]
    provider.scripts = [says("fine")]
    assert await world.say("and now?") == ["fine"]


@pytest.mark.requirement("W-13")
async def test_a_crash_in_the_middle_is_told_and_nothing_runs_twice(sqlite_database: Database, tmp_path: Path) -> None:
    tool = FakeTool(gate=anyio.Event())
    provider = Two(hand("t"), tasks={"t": [calls("echo", {"text": "x"}), says("never")]})
    world = a_world(sqlite_database, tmp_path, provider, tools=(tool,))
    work = await world.admit("go")
    async with anyio.create_task_group() as group:
        group.start_soon(world.run, work)
        await until(lambda: bool(tool.running))
        group.cancel_scope.cancel()
    provider.scripts = [says("It was cut off.")]
    await world.restart()
    await world.run(await world.again(work))
    (result,) = await results(world)
    assert result.content.startswith("Interrupted by a restart")
    assert (len(tool.calls), len(provider.subagent_tasks)) == (1, 1)
    assert [say.text for say in await world.says()] == ["It was cut off."]


@pytest.mark.requirement("R-36")
async def test_a_long_answer_is_cut_with_a_notice(sqlite_database: Database, tmp_path: Path) -> None:
    provider = Two(hand("t"), says("ok"), tasks={"t": [says("ü" * 4001)]})
    world = a_world(sqlite_database, tmp_path, provider)
    await world.say("go")
    (result,) = await results(world)
    _, kept, notice, _ = result.content.split("\n")
    assert kept == "ü" * 4000
    assert notice == "[cut here: the whole answer has 4001 characters]"


@pytest.mark.parametrize(
    ("script", "words"),
    [
        pytest.param(calls("fail", {"reason": "no cups"}, unoffered=True), "no cups", id="it gives up"),
        pytest.param(says(""), "without an answer", id="it says nothing"),
    ],
)
async def test_an_errand_without_an_answer_is_an_error(
    sqlite_database: Database, tmp_path: Path, script: Script, words: str
) -> None:
    provider = Two(hand("t"), says("ok"), tasks={"t": [script]})
    world = a_world(sqlite_database, tmp_path, provider)
    await world.say("go")
    (result,) = await results(world)
    assert result.is_error
    assert words in result.content


@pytest.mark.requirement("R-15")
async def test_its_calls_are_paid_from_the_same_purse(sqlite_database: Database, tmp_path: Path) -> None:
    provider = Two(hand("t"), says("ok"), tasks={"t": [says("done")]}, prices=Prices(input=1, output=1))
    world = a_world(sqlite_database, tmp_path, provider)
    settings = Settings(budget=replace(world.settings.budget, max_tokens_in=15))
    world.settings = settings
    await world.say("go")
    assert provider.requests[1:] == [], "what it took counts against the run's limit: 10 of the turn, 10 of its errand"
    provider.scripts, provider.tasks = [hand("t", id="b"), says("never")], {"t": [says("done")]}
    world.settings = Settings(budget=replace(settings.budget, max_tokens_in=10))
    await world.say("again")
    assert "the tokens of this run are used up" in (await results(world))[-1].content
    assert len(provider.subagent_tasks) == 1, "what nobody can pay for is not asked"


async def test_it_inherits_what_was_recalled_and_people_see_what_it_does(
    sqlite_database: Database, tmp_path: Path
) -> None:
    provider = Two(hand("t"), says("ok"), tasks={"t": [calls("echo", {"text": "x"}), says("done")]})
    world = a_world(sqlite_database, tmp_path, provider, tools=(FakeTool(),))
    world.agent.instruction.notes.text = ""
    await world.say("the kettle is blue")
    provider.scripts = [hand("t", id="b"), says("ok")]
    provider.tasks = {"t": [calls("echo", {"text": "x"}), says("done")]}
    await world.say("which kettle is it?")
    recalled = provider.requests[-1].reminder
    assert ("<memory>" in recalled) == ("<memory>" in provider.subagent_tasks[-1].reminder)
    shown = [event for event in world.outbox.shown if isinstance(event, ToolStarted)]
    assert [event.tool_name for event in shown if str(event.run).endswith("-sub")] == ["echo", "echo"]


@pytest.mark.requirement("Z-98", "Z-100")
async def test_a_long_result_is_shortened_for_it_too(sqlite_database: Database, tmp_path: Path) -> None:
    reading = [calls("echo", {"text": "word " * 3_000}, id="x"), says("done")]
    provider = Two(hand("read it"), says("ok"), aside=says("just words"), tasks={"read it": reading})
    settings = Settings(tools=ToolSettings(taco=TacoSettings(enabled=True, compressible_tools=("echo",))))
    world = a_world(sqlite_database, tmp_path, provider, tools=(FakeTool(),), settings=settings)
    await world.say("go")
    (result,) = provider.subagent_tasks[1].messages[-1].tool_results
    assert result.content.startswith("just words")
    assert result.taco is not None


@pytest.mark.requirement("W-36")
@pytest.mark.parametrize(("words", "tier"), [(10, "none"), (2_000, "1h")])
async def test_its_requests_too_are_cached_from_a_size_on(
    sqlite_database: Database, tmp_path: Path, words: int, tier: str
) -> None:
    task = "count " * words
    profile_of = "---\nname: bare\ndescription: Counts.\ntools: [calculate]\n---\nCount."
    provider = Two(hand(task, agent="bare"), says("ok"), tasks={task: [says("done")]})
    world = a_world(sqlite_database, tmp_path, provider)
    profile(world, "bare", profile_of)
    await world.say("go")
    assert [request.cache_tier for request in provider.subagent_tasks] == [tier]


@pytest.mark.requirement("R-06")
async def test_its_old_results_that_do_not_fit_are_cleared_with_the_usual_notice(
    sqlite_database: Database, tmp_path: Path
) -> None:
    long = "word " * 1_600
    task = [calls("echo", {"text": f"{number} {long}"}, id=f"x{number}") for number in range(4)]
    provider = Two(hand("read it"), says("ok"), tasks={"read it": [*task, says("done")]}, context_window=16_000)
    world = a_world(sqlite_database, tmp_path, provider, tools=(FakeTool(),))
    await world.say("go")
    newest = provider.subagent_tasks[-1]
    shown = [result.content for message in newest.messages for result in message.tool_results]
    assert shown[0] == "[Old tool result content cleared]"
    assert shown[-1].startswith("3 word"), "the newest stays"
