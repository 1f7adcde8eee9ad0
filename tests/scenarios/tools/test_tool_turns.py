"""Whole turns with tools: dispatch, recording, limits, endings."""

from dataclasses import replace
from pathlib import Path

import anyio
import pytest
from sqlalchemy import select

from agent.core.errors import ProviderRefused, ToolError
from agent.core.events import StepCompleted, ToolEnded, ToolStarted
from agent.core.messages import ToolResult
from agent.providers.provider import Done, Prices, TextDelta, ToolCallDelta, ToolCallDone, ToolCallStart
from agent.run.settings import AgentSettings, BudgetSettings, Settings, ToolSettings
from agent.sessions import store
from agent.storage import audit_rows
from agent.storage.database import Database
from agent.storage.tables import memory
from tests.agent.world import World, offering
from tests.fakes.provider import Script, ScriptedProvider, calls, calls_all, fails, says
from tests.fakes.tools import FakeTool, named
from tests.fakes.waiting import until


def results(world_request: object) -> list[ToolResult]:
    messages = getattr(world_request, "messages")  # noqa: B009
    return [result for message in messages for result in message.tool_results]


@pytest.mark.requirement("B-30", "B-31", "R-32", "R-33", "B-71", "B-72", "B-90", "W-44")
async def test_a_call_is_run_and_its_result_goes_back(database: Database, tmp_path: Path) -> None:
    provider = ScriptedProvider(scripts=[calls("echo", {"text": "pong"}, text="Let me see. "), says("It said pong.")])
    tool = FakeTool()
    world = World(database, tmp_path, provider, tools=(tool,))
    assert await world.say("ping") == ["Let me see. \n\nIt said pong."]
    assert world.outbox.preview_text == "Let me see. \n\nIt said pong."
    assert results(provider.requests[1]) == [ToolResult(tool_use_id="call_1", content="pong")]
    assert await world.texts() == [
        ("user", "ping"),
        ("assistant", "Let me see. \n[tool_use: echo(call_1)]"),
        ("user", "[tool_result: call_1]\npong"),
        ("assistant", "It said pong."),
    ]
    started = next(event for event in world.events if isinstance(event, ToolStarted))
    ended = next(event for event in world.events if isinstance(event, ToolEnded))
    assert (started.tool_name, started.tool_call_id) == ("echo", "call_1")
    assert (ended.tool_name, ended.is_error, ended.result_summary, ended.elapsed_ms) == ("echo", False, "pong", 0)
    assert started in world.outbox.shown


@pytest.mark.requirement("B-30")
@pytest.mark.parametrize("count", [1, 2])
async def test_calls_to_which_the_service_gives_no_id_are_run_and_answered_each(
    sqlite_database: Database, tmp_path: Path, count: int
) -> None:
    wanted = [("echo", {"text": f"pong {number}"}, "") for number in range(count)]
    provider = ScriptedProvider(scripts=[calls_all(wanted), says("ok")])
    world = World(sqlite_database, tmp_path, provider, tools=(FakeTool(),))
    assert await world.say("ping") == ["ok"]
    asked, answered = provider.requests[1].messages[-2:]
    ids = [use.id for use in asked.tool_uses]
    assert all(ids)
    assert len(set(ids)) == count
    assert [(one.tool_use_id, one.content) for one in answered.tool_results] == [
        (id, f"pong {number}") for number, id in enumerate(ids)
    ]


@pytest.mark.requirement("B-72", "R-33")
async def test_the_duration_of_a_call_is_told_in_milliseconds(sqlite_database: Database, tmp_path: Path) -> None:
    class Slow(FakeTool):
        async def run(self, arguments: object, context: object) -> str:
            world.clock.advance(1.5)
            return "done"

    world = World(sqlite_database, tmp_path, ScriptedProvider(scripts=[calls("echo", {"text": "a"})]), tools=(Slow(),))
    await world.say("go")
    (ended,) = [event for event in world.events if isinstance(event, ToolEnded)]
    assert ended.elapsed_ms == 1_500


@pytest.mark.requirement("B-72", "R-33")
async def test_the_duration_of_a_call_that_fails_is_told_too(sqlite_database: Database, tmp_path: Path) -> None:
    class Failing(FakeTool):
        async def run(self, arguments: object, context: object) -> str:
            world.clock.advance(1.5)
            raise ToolError("no such row")

    provider = ScriptedProvider(scripts=[calls("echo", {"text": "a"})])
    world = World(sqlite_database, tmp_path, provider, tools=(Failing(),))
    await world.say("go")
    (ended,) = [event for event in world.events if isinstance(event, ToolEnded)]
    assert (ended.is_error, ended.result_summary, ended.elapsed_ms) == (True, "no such row", 1_500)


@pytest.mark.requirement("B-71", "B-72", "R-33")
async def test_a_call_that_is_not_run_begins_and_ends_for_who_listens(
    sqlite_database: Database, tmp_path: Path
) -> None:
    first = calls_all([("echo", {"txt": 1}, "c1"), ("hidden", {}, "c2")], unoffered=True)
    provider = ScriptedProvider(scripts=[first, says("I see.")])
    tools = (FakeTool(), FakeTool(spec=named("hidden")))
    world = World(sqlite_database, tmp_path, provider, tools=tools, agent_md=offering("echo"))
    await world.say("go")
    started = [event for event in world.events if isinstance(event, ToolStarted)]
    ended = [event for event in world.events if isinstance(event, ToolEnded)]
    assert [(one.tool_call_id, one.runs) for one in started] == [("c1", False), ("c2", False)]
    assert [(one.tool_call_id, one.tool_name, one.is_error) for one in ended] == [
        ("c1", "echo", True),
        ("c2", "hidden", True),
    ]
    assert "not among the tools of this agent" in ended[1].result_summary


@pytest.mark.requirement("B-93")
async def test_a_tool_that_is_taken_away_is_not_run_though_the_list_names_it(
    sqlite_database: Database, tmp_path: Path
) -> None:
    provider = ScriptedProvider(scripts=[calls("echo", {"text": "a"}, unoffered=True), says("I see.")])
    md, tool = offering("echo", "calculate").replace("tools:", "disallowed_tools: [echo]\ntools:"), FakeTool()
    world = World(sqlite_database, tmp_path, provider, tools=(tool,), agent_md=md)
    assert await world.say("go") == ["I see."]
    assert tool.calls == []
    assert "echo" not in {spec.name for spec in provider.requests[0].tools.specs}
    assert "not among the tools of this agent" in results(provider.requests[1])[0].content


@pytest.mark.requirement("B-90")
async def test_a_search_for_a_tool_is_recorded_like_every_call(sqlite_database: Database, tmp_path: Path) -> None:
    wanted = [("tool_search", {"tool_name": "task_create"}, "c1"), ("tool_search", {"tool_name": "nothing"}, "c2")]
    world = World(sqlite_database, tmp_path, ScriptedProvider(scripts=[calls_all(wanted), says("ok")]))
    assert await world.say("go") == ["ok"]
    records = {one.call: one for one in await sqlite_database.read(lambda conn: audit_rows.newest(conn))}
    assert [(records[id].tool, records[id].verdict) for id in ("c1", "c2")] == [
        ("tool_search", "ran"),
        ("tool_search", "refused"),
    ]
    assert "task_create is loaded" in records["c1"].result


@pytest.mark.requirement("B-90")
async def test_a_call_is_recorded_before_it_runs(sqlite_database: Database, tmp_path: Path) -> None:
    provider = ScriptedProvider(scripts=[calls("echo", {"text": "a"})])
    seen: list[list[str]] = []

    class Looking(FakeTool):
        async def run(self, arguments: object, context: object) -> str:
            seen.append([content for _, content in await world.texts()])
            return "done"

    world = World(sqlite_database, tmp_path, provider, tools=(Looking(),))
    await world.say("go")
    assert seen == [["go", "[tool_use: echo(call_1)]"]]


@pytest.mark.requirement("B-34", "R-32", "R-40", "Z-34")
async def test_a_failing_tool_is_told_to_the_model(sqlite_database: Database, tmp_path: Path) -> None:
    provider = ScriptedProvider(scripts=[calls("echo", {"text": "a"}), says("It did not work.")])
    world = World(sqlite_database, tmp_path, provider, tools=(FakeTool(errors=[ToolError("no such place")]),))
    assert await world.say("go") == ["It did not work."]
    assert results(provider.requests[1]) == [ToolResult(tool_use_id="call_1", content="no such place", is_error=True)]


@pytest.mark.requirement("B-31")
async def test_wrong_arguments_and_foreign_tools_are_told_to_the_model(
    sqlite_database: Database, tmp_path: Path
) -> None:
    broken = Script(
        chunks=(
            ToolCallStart(0, "c3", "echo"), ToolCallDelta(0, '{"text": '), ToolCallDone(0), Done("tool_use"),
        )
    )  # fmt: skip
    first = calls_all([("echo", {"txt": 1}, "c1"), ("hidden", {}, "c2")], unoffered=True)
    provider = ScriptedProvider(scripts=[first, broken, says("I see.")])
    tool, hidden = FakeTool(), FakeTool(spec=named("hidden"))
    agent_md = "---\nname: T\ntools: [echo]\n---\nHi."
    world = World(sqlite_database, tmp_path, provider, tools=(tool, hidden), agent_md=agent_md)
    assert await world.say("go") == ["I see."]
    said = [result.content for result in results(provider.requests[2])]
    assert "text: missing" in said[0]
    assert "not among the tools of this agent" in said[1]
    assert "not valid JSON" in said[2]
    assert (tool.calls, hidden.calls) == ([], [])
    assert [spec.name for spec in provider.requests[0].tools.specs] == ["echo"]


async def test_safe_calls_run_side_by_side_and_results_keep_the_order(
    sqlite_database: Database, tmp_path: Path
) -> None:
    wanted = [("echo", {"text": str(number)}, f"c{number}") for number in range(5)]
    provider = ScriptedProvider(scripts=[calls_all(wanted), says("ok")])
    tool = FakeTool()
    world = World(
        sqlite_database, tmp_path, provider, tools=(tool,), settings=Settings(tools=ToolSettings(max_parallel=3))
    )
    await world.say("go")
    assert tool.most_running == 3
    assert [result.content for result in results(provider.requests[1])] == ["0", "1", "2", "3", "4"]


async def test_an_unsafe_call_runs_alone(sqlite_database: Database, tmp_path: Path) -> None:
    wanted = [("echo", {"text": str(number)}, f"c{number}") for number in range(3)]
    provider = ScriptedProvider(scripts=[calls_all(wanted), says("ok")])
    tool = FakeTool(spec=named("echo", concurrency_safe=False))
    world = World(sqlite_database, tmp_path, provider, tools=(tool,))
    await world.say("go")
    assert (tool.most_running, len(tool.calls)) == (1, 3)


async def test_a_call_repeated_too_often_is_answered_with_a_warning(sqlite_database: Database, tmp_path: Path) -> None:
    same = [calls("echo", {"text": "a"}, id=f"c{number}") for number in range(4)]
    provider = ScriptedProvider(scripts=[*same, says("ok")])
    tool = FakeTool()
    world = World(sqlite_database, tmp_path, provider, tools=(tool,))
    await world.say("go")
    assert len(tool.calls) == 2
    assert "call number 3 of echo" in results(provider.requests[4])[2].content


async def test_a_call_may_be_repeated_after_one_that_may_have_changed_its_result(
    sqlite_database: Database, tmp_path: Path
) -> None:
    """Test, edit, test, edit, test: no call is refused; reading in between changes nothing."""
    test, look = FakeTool(spec=named("try_it", category="info", risk="safe")), FakeTool(spec=named("look", risk="safe"))
    edit = FakeTool(spec=named("change", category="edit", risk="safe"))
    wanted = [("try_it", "t"), ("change", "1"), ("try_it", "t"), ("change", "2"), ("try_it", "t"), ("look", "x"),
              ("try_it", "t"), ("look", "y"), ("try_it", "t")]  # fmt: skip
    same = [calls(name, {"text": text}, id=f"c{number}") for number, (name, text) in enumerate(wanted)]
    provider = ScriptedProvider(scripts=[*same, says("ok")])
    world = World(sqlite_database, tmp_path, provider, tools=(test, look, edit))
    await world.say("go")
    assert (len(test.calls), len(edit.calls)) == (4, 2)
    assert "call number 3 of try_it" in results(provider.requests[-1])[-1].content


@pytest.mark.requirement("R-01", "R-25")
@pytest.mark.parametrize(
    ("script", "said", "state", "success"),
    [
        pytest.param(calls("final_answer", {"message": "42"}), ["42"], "done", True, id="final_answer"),
        pytest.param(calls("fail", {"reason": "No way."}), ["No way."], "failed", None, id="fail"),
        pytest.param(calls("ask_user", {"question": "Which one?"}), ["Which one?"], "waiting", True, id="ask_user"),
    ],
)
async def test_pseudo_tools_end_the_loop(
    sqlite_database: Database, tmp_path: Path, script: Script, said: list[str], state: str, success: bool | None
) -> None:
    provider = ScriptedProvider(scripts=[script])
    world = World(sqlite_database, tmp_path, provider, agent_md=offering("final_answer", "fail", "ask_user"))
    work = await world.admit("go")
    await world.run(work)
    assert [say.text for say in await world.says(work)] == said
    assert await world.turn_state(work) == state
    assert (await world.texts())[-1] == ("assistant", said[0])
    ended = [event for event in world.events if event.name in ("loop:end", "loop:error")]
    assert [getattr(event, "success", None) for event in ended] == [success]
    await world.say("the left one")
    assert [message.content for message in provider.requests[1].messages] == ["go", said[0], "the left one"]


@pytest.mark.requirement("R-25")
async def test_pseudo_tools_are_offered_where_an_agent_lists_them(sqlite_database: Database, tmp_path: Path) -> None:
    provider = ScriptedProvider()
    world = World(sqlite_database, tmp_path, provider, agent_md="---\nname: T\ntools: [ask_user, calculate]\n---\nHi.")
    await world.say("go")
    assert [spec.name for spec in provider.requests[0].tools.specs] == ["ask_user", "calculate"]


@pytest.mark.requirement("R-01", "R-25")
async def test_ordinary_calls_run_before_the_answer_beside_them(sqlite_database: Database, tmp_path: Path) -> None:
    both = calls_all([("final_answer", {"message": "done"}, "c1"), ("echo", {"text": "a"}, "c2")])
    provider = ScriptedProvider(scripts=[both])
    tool = FakeTool()
    world = World(sqlite_database, tmp_path, provider, tools=(tool,), agent_md=offering("final_answer", "echo"))
    assert await world.say("go") == ["done"]
    assert (len(tool.calls), len(provider.requests)) == (1, 1)


SETTINGS = Settings()


@pytest.mark.requirement("B-39", "R-38", "W-22", "W-23", "R-40")
@pytest.mark.parametrize(
    ("settings", "phrase", "requests"),
    [
        pytest.param(
            replace(SETTINGS, agent=AgentSettings(max_tool_iterations=2)), "after 2 rounds of tool calls", 2,
            id="tool iterations",
        ),
        pytest.param(replace(SETTINGS, agent=AgentSettings(max_turns=3)), "after 3 calls of the model", 3, id="turns"),
        pytest.param(replace(SETTINGS, agent=AgentSettings(step_budget=1)), "the 1 steps", 1, id="steps"),
        pytest.param(
            replace(SETTINGS, agent=AgentSettings(recovery_budget=1)), "Too many tool calls failed", 2, id="failures"
        ),
        pytest.param(
            replace(SETTINGS, budget=BudgetSettings(max_tokens_in=25)), "budget of tokens", 3, id="tokens"
        ),
        pytest.param(
            replace(SETTINGS, budget=BudgetSettings(max_cost_usd=0.4)), "budget of 0.4 USD", 3, id="money"
        ),
    ],
)  # fmt: skip
async def test_a_model_that_never_stops_is_stopped(
    sqlite_database: Database, tmp_path: Path, settings: Settings, phrase: str, requests: int
) -> None:
    endless = [calls("echo", {"text": str(number)}, id=f"c{number}") for number in range(20)]
    fifteen_cents_a_call = Prices(input=10_000, output=10_000)
    provider = ScriptedProvider(scripts=endless, prices=fifteen_cents_a_call)
    tool = FakeTool(errors=[ToolError("no")] * 20 if "failed" in phrase else [])
    world = World(sqlite_database, tmp_path, provider, tools=(tool,), settings=settings)
    work = await world.admit("go")
    await world.run(work)
    said = await world.says(work)
    assert phrase in said[-1].text
    assert said[-1].kind == "notice"
    assert len(provider.requests) == requests
    assert await world.turn_state(work) == "failed"
    assert world.names()[-1] == "loop:error"


@pytest.mark.requirement("R-01")
@pytest.mark.parametrize(
    ("scripts", "state", "requests"),
    [
        pytest.param([calls("echo", {"text": "a"}), says("done")], "done", 2, id="a final answer"),
        pytest.param([calls("fail", {"reason": "no"}), says("more")], "failed", 1, id="the model gives up"),
        pytest.param([calls("echo", {"text": "a"}, id=f"c{n}") for n in range(9)], "failed", 3, id="its three steps"),
        pytest.param(
            [calls("echo", {"text": "a"}), fails(ProviderRefused("bad key")), says("more")], "failed", 2, id="an error"
        ),
    ],
)  # fmt: skip
async def test_the_loop_ends_by_an_answer_a_failure_its_budget_or_an_error(
    sqlite_database: Database, tmp_path: Path, scripts: list[Script], state: str, requests: int
) -> None:
    settings = replace(SETTINGS, agent=AgentSettings(step_budget=3))
    provider = ScriptedProvider(scripts=scripts)
    world = World(sqlite_database, tmp_path, provider, tools=(FakeTool(),), settings=settings)
    work = await world.admit("go")
    await world.run(work)
    assert await world.turn_state(work) == state
    assert len(provider.requests) == requests


@pytest.mark.requirement("W-22")
@pytest.mark.parametrize(
    ("limit", "phrase"),
    [
        pytest.param("max_tool_iterations: 1", "after 1 rounds of tool calls", id="tool iterations"),
        pytest.param("max_turns: 2", "after 2 calls of the model", id="turns"),
    ],
)
async def test_a_definition_sets_its_own_limits(
    sqlite_database: Database, tmp_path: Path, limit: str, phrase: str
) -> None:
    provider = ScriptedProvider(scripts=[calls("echo", {"text": str(number)}, id=f"c{number}") for number in range(9)])
    agent_md = f"---\nname: T\n{limit}\n---\nHi."
    world = World(sqlite_database, tmp_path, provider, tools=(FakeTool(),), agent_md=agent_md)
    assert phrase in (await world.say("go"))[-1]


@pytest.mark.requirement("R-35")
async def test_each_step_is_counted_and_published(sqlite_database: Database, tmp_path: Path) -> None:
    provider = ScriptedProvider(scripts=[calls("echo", {"text": "a"}), says("ok")])
    world = World(sqlite_database, tmp_path, provider, tools=(FakeTool(),))
    await world.say("go")
    steps = [event for event in world.events if isinstance(event, StepCompleted)]
    assert [(step.step_index, step.remaining_steps) for step in steps] == [(1, 199), (2, 198)]


async def test_the_tools_of_the_house_work(sqlite_database: Database, tmp_path: Path) -> None:
    wanted = [("calculate", {"expression": "6*7"}, "c1"), ("current_time", {"zone": "Europe/Berlin"}, "c2")]
    provider = ScriptedProvider(scripts=[calls_all(wanted), says("ok")])
    world = World(sqlite_database, tmp_path, provider)
    await world.say("go")
    assert [result.content for result in results(provider.requests[1])] == [
        "42",
        "Thursday, 2026-01-01T13:00:00+01:00 (Europe/Berlin, CET)",
    ]


async def test_ids_that_a_server_repeats_are_told_apart(sqlite_database: Database, tmp_path: Path) -> None:
    provider = ScriptedProvider(
        scripts=[calls("echo", {"text": "a"}, id="call_0"), calls("echo", {"text": "b"}, id="call_0"), says("ok")]
    )
    world = World(sqlite_database, tmp_path, provider, tools=(FakeTool(),))
    await world.say("go")
    ids = [result.tool_use_id for result in results(provider.requests[2])]
    assert len(set(ids)) == 2


async def test_what_a_model_and_a_tool_give_can_be_stored(database: Database, tmp_path: Path) -> None:
    """Half an emoji has no bytes in UTF-8, and PostgreSQL takes no NUL: neither may cost a turn, or what was done."""
    halves = Script(chunks=(TextDelta("Off to the yacht \ud83d"), TextDelta("\ude80 \ud83d"), Done("end_turn")))
    bad = [("echo", {"text": "moored \ud83d"}, "a"), ("binary", {"text": ""}, "b"), ("broken", {"text": ""}, "c")]
    provider = ScriptedProvider(scripts=[calls_all(bad), halves])

    class Binary(FakeTool):
        async def run(self, arguments: object, context: object) -> str:
            return "\x7fELF\0\0 \udcff"

    broken = FakeTool(spec=named("broken"), errors=[ToolError("no such \0 file")])
    world = World(database, tmp_path, provider, tools=(FakeTool(), Binary(spec=named("binary")), broken))
    assert await world.say("go") == ["Off to the yacht \U0001f680 \ufffd"]
    given = ["moored \ufffd", "\x7fELF\ufffd\ufffd \ufffd", "no such \ufffd file"]
    assert [result.content for result in results(provider.requests[1])] == given
    records = {one.call: one for one in await database.read(lambda conn: audit_rows.newest(conn))}
    assert [records[call].result for call in "abc"] == given
    assert records["a"].arguments == '{"text":"moored \ufffd"}'
    kept = await database.read(lambda conn: [*conn.execute(select(memory.c.text)).scalars()])
    assert "Off to the yacht \U0001f680 \ufffd" in kept


async def test_stored_calls_are_in_pairs(sqlite_database: Database, tmp_path: Path) -> None:
    both = calls_all([("echo", {"text": "a"}, "a"), ("nope", {}, "b")], unoffered=True)
    provider = ScriptedProvider(scripts=[both, says("ok")])
    world = World(sqlite_database, tmp_path, provider, tools=(FakeTool(),))
    await world.say("go")
    session = await world.session()
    history = await sqlite_database.read(lambda conn: store.history(conn, session))
    assert [len(message.tool_uses) for message in history.messages] == [0, 2, 0, 0]
    assert [len(message.tool_results) for message in history.messages] == [0, 0, 2, 0]


async def test_a_parallel_group_survives_its_own_stop(sqlite_database: Database, tmp_path: Path) -> None:
    gate = anyio.Event()
    provider = ScriptedProvider(scripts=[calls_all([("echo", {}, "a"), ("echo", {"text": "b"}, "b")]), says("ok")])
    tool = FakeTool(spec=named("echo", schema={"type": "object"}), gate=gate)
    world = World(sqlite_database, tmp_path, provider, tools=(tool,))
    work = await world.admit("go")
    async with anyio.create_task_group() as group:
        group.start_soon(world.run, work)
        await until(lambda: tool.running == 2)
        assert world.agent.stop("stop")
    assert [say.text for say in await world.says(work)] == ["Stopped."]
    assert await world.turn_state(work) == "cancelled"
