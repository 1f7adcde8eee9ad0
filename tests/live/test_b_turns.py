"""One turn from its first to its last event: what it takes in, asks, runs, stores and tells."""

import json
import logging
import sqlite3
import uuid
from collections.abc import Callable
from contextlib import closing
from typing import Any, TypeVar

import pytest
from sqlalchemy import text as sql

from agent.core.events import (
    ContextBuilt,
    Event,
    ExecuteStarted,
    LoopEnded,
    LoopFailed,
    LoopStarted,
    RetryScheduled,
    StreamDelta,
    TokensUsed,
    ToolEnded,
    ToolStarted,
)
from agent.core.ids import ConversationId
from agent.memory.notes import path_of
from tests.fakes.waiting import until
from tests.gateway.world import ANN, World, calling, slowly

LOOP = (
    "loop:start",
    "loop:context",
    "loop:execute",
    "tool:start",
    "tool:end",
    "loop:persist",
    "loop:end",
    "loop:error",
)


def names(world: World) -> list[str]:
    return [event.name for event in world.events if event.name in LOOP]


E = TypeVar("E", bound=Event)


def the(world: World, kind: type[E]) -> E:
    """The newest of that kind."""
    return next(event for event in reversed(world.events) if isinstance(event, kind))


async def exported(world: World) -> list[dict[str, Any]]:
    """The conversation as /export writes it."""
    await world.asks("/export", "messages")
    await until(lambda: bool(world.screen().shown[-1].message.files))
    (file,) = world.screen().shown[-1].message.files
    return [json.loads(line) for line in file.path.read_text("utf-8").splitlines()]


async def rows(world: World, statement: str) -> list[tuple[Any, ...]]:
    return await world.database.read(lambda conn: [tuple(row) for row in conn.execute(sql(statement))])


@pytest.mark.requirement("B-51")
async def test_its_end_says_that_the_memory_was_written_whatever_came_after(world: World) -> None:
    calls = [("remember", {"fact": "Ann likes tea."}), ("recall", {"query": "tea"})]
    world.script(
        *({"match": {}, "times": 1, "reply": {"blocks": [{"type": "tool_use", "name": name, "input": given}]}}
          for name, given in calls),
        {"match": {}, "reply": {"text": "Kept."}},
    )  # fmt: skip
    await world.answered("note that I like tea", "Kept.")
    assert the(world, LoopEnded).memory_updated


@pytest.mark.requirement("B-50")
async def test_notes_that_cannot_be_written_are_logged_and_cost_no_turn(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    path_of(world.home, ConversationId(f"telegram:{ANN}")).mkdir(parents=True)
    world.script(*calling("note it", "write_notes", text="tea at four"))
    with caplog.at_level(logging.WARNING, logger="tieline"):
        await world.answered("note it", "Done: note it")
    assert the(world, ToolEnded).is_error
    assert "notes not written" in caplog.text


@pytest.mark.requirement("B-28", "B-30")
async def test_words_and_every_call_of_a_reply_count(world: World) -> None:
    calls = [{"type": "tool_use", "name": "calculate", "input": {"expression": sum_}} for sum_ in ("6*7", "40+3")]
    world.script(
        {"match": {"tool_result": False}, "reply": {"blocks": [{"type": "text", "text": "Let me count."}, *calls]}},
        {"match": {"tool_result": True}, "reply": {"text": "42 and 43."}},
    )
    await world.answered("count both", "Let me count.\n\n42 and 43.")
    assert [event.result_summary for event in world.events if isinstance(event, ToolEnded)] == ["42", "43"]
    asked, *results = world.llm.bodies[-1]["messages"][-3:]
    assert (asked["content"], len(asked["tool_calls"])) == ("Let me count.", 2), "the model sees what it said"
    assert [result["content"] for result in results] == ["42", "43"]


@pytest.mark.requirement(
    "B-01", "B-04", "B-14", "B-18", "B-28", "B-29", "B-30", "B-31", "B-38", "B-42", "B-46", "B-47", "B-51", "B-68",
    "B-69", "B-70", "B-71", "B-72", "B-73", "B-74", "B-75", "B-90", "B-92",
)  # fmt: skip
async def test_a_turn_with_a_tool_is_taken_in_asked_run_stored_and_told_in_order(world: World) -> None:
    world.script(*calling("count", "calculate", expression="6*7"))
    await world.answered("count it", "Done: count")
    assert names(world) == list(LOOP[:7]), "intake, context, execute with its call, persist, the end"
    started, ended = the(world, LoopStarted), the(world, LoopEnded)
    assert uuid.UUID(started.run)
    assert started.session
    assert (ended.run, ended.success) == (started.run, True)
    assert ended.duration_ms >= 0
    assert (ended.transcript_updated, ended.session_updated, ended.memory_updated) == (True, True, False)
    first, second = world.llm.bodies
    assert the(world, ExecuteStarted).tool_count == len(first["tools"])
    assert the(world, ContextBuilt).token_estimate > len(json.dumps(first["tools"])) // 10, "tools are counted"
    assert the(world, ToolStarted).tool_name == "calculate"
    done = the(world, ToolEnded)
    assert (done.tool_name, done.result_summary, done.is_error) == ("calculate", "42", False)
    assert "".join(event.content for event in world.events if isinstance(event, StreamDelta)) == "Done: count"
    used = [call["usage"] for call in world.llm.calls]
    told = the(world, TokensUsed)
    assert told.prompt == sum(one["input_tokens"] for one in used), "of both calls"
    assert told.output == sum(one["output_tokens"] for one in used)
    assert [message["role"] for message in first["messages"]] == ["system", "user"]
    assert second["messages"][-1] | {"tool_call_id": ""} == {"role": "tool", "tool_call_id": "", "content": "42"}

    lines = await exported(world)
    assert [line["role"] for line in lines] == ["user", "assistant", "tool", "assistant"]
    assert all(line["timestamp"] for line in lines)
    assert lines[0]["content"] == "count it"
    assert lines[1]["tool_calls"][0]["arguments"] == {"expression": "6*7"}
    assert lines[2]["tool_call_id"] == lines[1]["tool_calls"][0]["id"] == done.tool_call_id
    assert lines[3]["content"] == "Done: count"
    assert await rows(world, "select tool, verdict from tool_call") == [("calculate", "ran")]

    tokens = the(world, ContextBuilt).token_estimate
    await world.answered("and now " + "a longer message " * 1_800, "a longer message")
    assert the(world, ContextBuilt).token_estimate > tokens + 2_000, "history and message are counted"
    runs = [event.run for event in world.events if isinstance(event, LoopStarted)]
    assert len({uuid.UUID(run) for run in runs}) == 2, "each run has a name of its own"


@pytest.mark.requirement("B-01", "B-04")
async def test_a_turn_that_is_taken_up_after_a_kill_has_its_context_and_a_name_of_its_own(
    world_of: Callable[..., World],
) -> None:
    world = world_of()
    async with world.process():
        await world.answered("the plover", "the plover")
        world.script(slowly("the heron"))
        await world.say("the heron")
        await world.until_asked(2)
        killed = the(world, LoopStarted).run
    world.events.clear()
    async with world.process():
        await until(lambda: len(world.llm.bodies) == 3)
        assert "the plover" in str(world.llm.bodies[-1]["messages"]), "what was said before is its context"
        world.go_on("the heron")
        await world.shows("the slow answer")
        await world.settled()
        assert names(world) == ["loop:start", "loop:context", "loop:execute", "loop:persist", "loop:end"]
        again = the(world, LoopStarted).run
        assert uuid.UUID(again) != uuid.UUID(killed)
        assert (await rows(world, "select run_id from turn order by inbox_id desc limit 1")) == [(again,)]


@pytest.mark.requirement("B-01", "B-42", "B-43", "B-74", "B-76", "B-92")
async def test_a_turn_that_fails_is_told_and_what_was_said_stays(world: World) -> None:
    world.llm.fails(kind="error", status=400, message="nonsense", times=9)
    await world.asks("hello")
    await world.settled()
    assert names(world)[0] == "loop:start"
    assert names(world)[-2:] == ["loop:persist", "loop:error"]
    assert the(world, LoopFailed).error
    assert the(world, LoopFailed).run == the(world, LoopStarted).run
    assert (await exported(world))[0]["content"] == "hello"
    before = await rows(world, "select message_count, updated_at, prompt_tokens from session")
    world.llm.double.faults.clear()
    await world.answered("and again", "and again")
    ((count, at, tokens),) = await rows(world, "select message_count, updated_at, prompt_tokens from session")
    assert count == before[0][0] + 2
    assert at > before[0][1]
    assert tokens > before[0][2]


@pytest.mark.requirement("B-05")
async def test_a_message_must_not_be_empty_nor_endless(world: World) -> None:
    assert "nothing in that message that I could read" in await world.asks(" \n ", "nothing in that message")
    assert "32001 characters" in await world.asks("x" * 32_001, "too long: 32001 characters")
    assert not world.llm.calls
    assert names(world).count("loop:context") == 0
    await world.answered("x" * 10, "x" * 10)


@pytest.mark.requirement("B-06", "B-09", "B-10", "B-13", "B-36", "B-93")
async def test_the_definition_is_read_checked_and_bounds_the_tools(
    world_of: Callable[..., World], caplog: pytest.LogCaptureFixture
) -> None:
    world = world_of(config='[agent]\nname = "own"\n')
    folder = world.home / "agents" / "own"
    async with world.process():
        assert "“own” cannot be loaded" in await world.asks("hello", "cannot be loaded")
        folder.mkdir(parents=True)
        (folder / "AGENT.md").write_text("---\nname: Own\nmax_turns: some\nmax_tool_iterations: many\n---\nx")
        await world.asks("hello again", "cannot be loaded")
        assert not world.llm.calls, "no run began"
        assert "max_turns" in caplog.text
        assert "max_tool_iterations" in caplog.text, "all mistakes at once"
        (folder / "AGENT.md").write_text("---\nname: Own\ntools: [current_time]\n---\nSpeak like a sailor.")
        world.llm.double.settings["offered_only"] = False
        world.script(*calling("count", "calculate", expression="6*7"))
        await world.answered("count it", "Done: count")
        first, second = world.llm.bodies
        assert "Speak like a sailor." in str(first["messages"][0])
        assert [tool["function"]["name"] for tool in first["tools"]] == ["current_time"]
        denied = second["messages"][-1]["content"]
        assert "calculate is not among the tools of this agent" in denied, "the tool is there, this agent has it not"
        assert "42" not in second["messages"][-1]["content"]
        assert await rows(world, "select tool, verdict from tool_call") == [("calculate", "refused")]


@pytest.mark.requirement("B-09")
async def test_words_to_a_missing_agent_open_neither_a_run_nor_a_session(
    world_of: Callable[..., World],
) -> None:
    world = world_of(config='[agent]\nname = "own"\n')
    async with world.process():
        await world.asks("/new")  # from here on the session is known, and a run may be opened with the look for work
        await world.asks("hello", "cannot be loaded")
        await world.settled()
        assert await rows(world, "select count(*) from turn") == [(0,)], "no run was left behind"
        assert await rows(world, "select count(*) from session") == [(0,)], "and no words in a session"


@pytest.mark.requirement("B-34", "B-39", "B-80")
async def test_a_tools_error_goes_to_the_model_and_ten_rounds_are_the_most(world: World) -> None:
    world.script(*calling("break it", "calculate", expression="1/0"))
    await world.answered("break it", "Done: break it")
    assert "zero" in world.llm.bodies[-1]["messages"][-1]["content"]
    assert the(world, ToolEnded).is_error
    before = len(world.llm.calls)
    sums = [{"match": {"contains": "never ends"}, "times": 1,
             "reply": {"blocks": [{"type": "tool_use", "name": "calculate", "input": {"expression": f"{n}+1"}}]}}
            for n in range(20)]  # fmt: skip
    world.script(*sums)
    assert "after 10 rounds" in await world.asks("never ends", "I stopped after")
    assert len([event for event in world.events if isinstance(event, ToolEnded)]) == 1 + 10
    assert len(world.llm.calls) - before <= 11


@pytest.mark.requirement("B-40", "B-87")
async def test_a_retry_waits_a_second_and_a_run_ends_at_its_time_limit(world_of: Callable[..., World]) -> None:
    world = world_of(providers=("a",))
    async with world.process():
        world.llm.fails(kind="error", status=503, message="busy")
        await world.answered("hello", "hello")
        (retry,) = [event for event in world.events if isinstance(event, RetryScheduled)]
        assert 0.5 <= retry.after_s <= 1.5, "a second, and some chance"
    world.config = "[agent]\nexecution_timeout_ms = 700\n[retry]\nmax_retries = 3\nbackoff_ms = 1\n"
    async with world.process():
        world.script(slowly("slow"))
        await world.asks("slow one", "longer than 0.7 seconds")
        await world.settled()


@pytest.mark.requirement("B-52")
@pytest.mark.parametrize(
    ("table", "when"),
    [("outbox", "insert"), ("inbox", "update of status"), ("message", "insert"), ("usage", "insert")],
    ids=["what is to be sent", "the message is done", "the answer", "what it cost"],
)
async def test_of_a_turn_that_cannot_be_stored_nothing_is_stored(world: World, table: str, when: str) -> None:
    """The storage refuses one of the writes a turn ends with, until that is logged for the first time."""
    path = world.home / "tieline.db"
    halves: list[list[int]] = []

    def counts() -> list[int]:
        with closing(sqlite3.connect(path)) as conn:
            return [
                int(conn.execute(query).fetchone()[0])
                for query in (
                    "select count(*) from message where role = 'assistant'",
                    "select count(*) from outbox",
                    "select count(*) from inbox where status = 'done'",
                    "select count(*) from usage",
                )
            ]

    class Repair(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if "stuck" in f"{record.getMessage()} {record.exc_info}":
                halves.append(counts())
                with closing(sqlite3.connect(path)) as repaired:
                    repaired.execute("drop trigger if exists stuck")
                    repaired.commit()

    world.script(slowly("hello", "the answer"))
    await world.say("hello")
    await world.until_asked()
    with closing(sqlite3.connect(path)) as broken:
        broken.execute(f"create trigger stuck before {when} on {table} begin select raise(abort, 'stuck'); end")
        broken.commit()
    repair = Repair()
    logging.getLogger("tieline").addHandler(repair)
    try:
        world.go_on("hello")
        await world.shows("the answer")
        await world.settled()
    finally:
        logging.getLogger("tieline").removeHandler(repair)
    assert halves, "the write was refused"
    assert halves[0] == [0, 0, 0, 0], "neither answer nor sending nor end nor cost"
    assert counts()[:3] == [1, 1, 1], "then all of it, once"
    assert world.texts() == ["the answer"]
