"""Events become traces and figures: added up as they come, written in batches, bounded, and lost without harm."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import pytest
from sqlalchemy import Connection, text

from agent.core.events import (
    ApprovalResumed,
    CallBilled,
    CompactComplete,
    CompactTriggered,
    ContextBuilt,
    DecisionCompleted,
    Event,
    EventBus,
    LoopEnded,
    LoopFailed,
    LoopStarted,
    MemorySearched,
    PersistStarted,
    ProviderFailedOver,
    RetryScheduled,
    SubagentEnded,
    SubagentStarted,
    ToolEnded,
)
from agent.core.ids import ConversationId, PersonId, RunId, SessionId
from agent.memory.records import Audience, Forgotten
from agent.storage.database import Database
from agent.storage.errors import StorageTrouble
from agent.storage.timestamps import to_timestamp
from gateway.traces import rows
from gateway.traces.figures import HOUR_US, Name
from gateway.traces.recorder import DELIVERED_WITHIN_S, FIGURES_EVERY_S, HEARD, MOST_OPEN, MOST_SPANS, Recorder
from gateway.traces.settings import TraceSettings
from gateway.traces.trace import Span, TurnTrace
from tests.fakes.clock import FakeClock
from tests.fakes.running import running
from tests.fakes.waiting import until

HERE, RUN, INNER = ConversationId("telegram:77"), RunId("run"), RunId("inner")
ANN = PersonId("telegram:77")


class Failing:
    """A database whose first writes fail after they were committed, as if the answer were lost."""

    def __init__(self, inner: Database, failures: int) -> None:
        self.inner, self.failures, self.dialect = inner, failures, inner.dialect

    async def write(self, work: Any) -> Any:
        result = await self.inner.write(work)
        if self.failures:
            self.failures -= 1
            raise StorageTrouble("the answer was lost")
        return result

    async def read(self, work: Any) -> Any:
        return await self.inner.read(work)

    async def aclose(self) -> None:
        await self.inner.aclose()


class Traced:
    """A recorder on a real bus and database, with a clock that the test moves."""

    def __init__(self, database: Database, clock: FakeClock) -> None:
        self.database, self.clock, self.settings = database, clock, TraceSettings()
        self.forgotten, self.errors = Forgotten(clock.monotonic), list[Exception]()
        self.bus = EventBus(lambda error, event: self.errors.append(error))
        self.recorder = Recorder(
            database, clock, settings=lambda: self.settings, forgotten=self.forgotten, writer="process"
        )
        self.bus.listen(self.recorder.listen, HEARD)

    def publish(self, *events: Event, after_ms: float = 0) -> None:
        self.clock.advance(after_ms / 1000)
        for event in events:
            self.bus.publish(event)
        assert not self.errors

    def begins(self, run: RunId = RUN, inbox: int = 1, **more: Any) -> None:
        values: dict[str, Any] = {"conversation": HERE, "session": SessionId("s"), "person": ANN}
        self.publish(LoopStarted(run=run, inbox_id=inbox, **values | more))

    def ends(self, run: RunId = RUN, messages: int = 0, **more: Any) -> None:
        self.publish(PersistStarted(conversation=HERE, run=run))
        ended: dict[str, Any] = {"conversation": HERE, "run": run, "success": True, "duration_ms": 1}
        self.publish(LoopEnded(**ended, messages=messages, **more))

    async def traces(self) -> tuple[TurnTrace, ...]:
        await self.recorder.write()
        return await self.database.read(rows.traces)

    async def trace(self) -> TurnTrace:
        (found,) = await self.traces()
        return found

    async def figure(self, name: Name) -> Mapping[str, float]:
        await self.recorder.write()
        at = to_timestamp(self.clock.now())
        points = await self.database.read(
            partial(rows.series, name=name, since=0, until=at + HOUR_US, step=24 * HOUR_US)
        )
        return points[0].values if points else {}


@pytest.fixture
def traced(sqlite_database: Database, clock: FakeClock) -> Traced:
    return Traced(sqlite_database, clock)


def billed(run: RunId | None = RUN, **more: Any) -> CallBilled:
    values: dict[str, Any] = {
        "purpose": "turn", "provider": "main", "model": "m", "prompt": 100, "output": 7, "cache_creation": 20,
        "cache_read": 300, "cost_usd": 0.25, "estimated": False, "elapsed_ms": 400,
    }  # fmt: skip
    return CallBilled(conversation=HERE, run=run, **values | more)


def decided(run: RunId = RUN) -> DecisionCompleted:
    return DecisionCompleted(
        conversation=HERE, run=run, provider="main", model="m", stop_reason="end_turn", tool_calls=0, elapsed_ms=400,
        first_token_ms=150,
    )  # fmt: skip


def tool(name: str = "shell", run: RunId = RUN, *, exists: bool = True) -> ToolEnded:
    return ToolEnded(
        conversation=HERE, run=run, tool_name=name, tool_call_id="c", elapsed_ms=30, is_error=True,
        result_summary="what nobody keeps", exists=exists, result_chars=1234,
    )  # fmt: skip


def of_kind(trace: TurnTrace, kind: str) -> list[Span]:
    return [span for span in trace.spans if span.kind == kind]


@pytest.mark.requirement("G-63")
async def test_a_turn_is_told_in_its_parts_with_their_begin_length_and_cost(traced: Traced) -> None:
    traced.begins(waited_ms=70, inbox=5)
    traced.publish(
        MemorySearched(conversation=HERE, run=RUN, strategy="hybrid", results=4, elapsed_ms=8),
        ContextBuilt(conversation=HERE, run=RUN, token_estimate=900, window=9000),
        after_ms=10,
    )
    traced.publish(RetryScheduled(conversation=HERE, run=RUN, provider="main", attempt=1, after_s=0.5, reason="Busy"))
    traced.publish(billed(), decided(), after_ms=900)
    traced.publish(tool(), after_ms=30)
    traced.publish(
        ApprovalResumed(conversation=HERE, run=RUN, correlation="q", status="approved", waited_ms=40), after_ms=50
    )
    traced.publish(billed(), decided(), after_ms=400)
    traced.publish(PersistStarted(conversation=HERE, run=RUN))
    committed = to_timestamp(traced.clock.now())
    ended: dict[str, Any] = {"conversation": HERE, "run": RUN, "success": True, "duration_ms": 1}
    traced.publish(LoopEnded(**ended, messages=1), after_ms=6)
    traced.clock.advance(0.03)
    traced.recorder.settled("telegram", 5, committed_at=committed, sent=True)

    trace = await traced.trace()
    call = {"name": "main", "model": "m", "purpose": "turn", "tokens_in": 420, "tokens_cached": 300, "tokens_out": 7}
    known: dict[str, Any] = call | {"cost_usd": 0.25, "first_token_ms": 150, "outcome": "end_turn"}
    assert trace.spans == (
        Span(kind="queue", start_ms=-70, ms=70),
        Span(kind="recall", start_ms=2, ms=8, name="hybrid", size=4),
        Span(kind="context", start_ms=0, ms=10, size=900),
        Span(kind="retry", start_ms=10, ms=500, name="main", outcome="Busy"),
        Span(kind="model", start_ms=510, ms=400, retries=1, **known),
        Span(kind="tool", start_ms=910, ms=30, name="shell", is_error=True, size=1234),
        Span(kind="approval", start_ms=950, ms=40, outcome="approved"),
        Span(kind="model", start_ms=990, ms=400, **known),
        Span(kind="commit", start_ms=1390, ms=6),
        Span(kind="delivery", start_ms=1390, ms=36, size=1),
    )
    assert (trace.run, trace.attempt, trace.conversation, trace.inbox_id, trace.person) == (RUN, 1, HERE, 5, ANN)
    assert (trace.outcome, trace.waited_ms, trace.elapsed_ms, trace.first_token_ms) == ("answered", 70, 1396, 660)
    assert (trace.model_calls, trace.tool_calls, trace.delivered_ms) == (2, 1, 36)
    assert (trace.tokens_in, trace.tokens_cached, trace.tokens_out, trace.cost_usd) == (840, 600, 14, 0.5)
    assert trace.ended_at - trace.started_at == 1_396_000


@pytest.mark.requirement("G-63")
async def test_an_unknown_price_makes_the_cost_of_the_turn_unknown_and_never_nothing(traced: Traced) -> None:
    traced.begins()
    traced.publish(billed(), billed(cost_usd=None))
    traced.ends()
    trace = await traced.trace()
    assert (trace.cost_usd, trace.unpriced) == (None, 1)


@pytest.mark.requirement("G-63")
async def test_what_subagents_do_is_of_the_turn_and_marked(traced: Traced) -> None:
    traced.begins()
    traced.publish(SubagentStarted(conversation=HERE, run=RUN, request=INNER, agent="reader", steps=5))
    traced.publish(billed(INNER), decided(INNER), tool(run=INNER))
    ended = SubagentEnded(conversation=HERE, run=RUN, request=INNER, steps=1, elapsed_ms=20, is_error=False)
    traced.publish(ended, after_ms=20)
    traced.publish(tool(run=INNER))
    traced.ends()
    trace = await traced.trace()
    assert [span.subagent for span in trace.spans if span.kind in ("model", "tool")] == [True, True]
    assert (trace.model_calls, trace.tool_calls, trace.first_token_ms) == (1, 1, None)
    assert of_kind(trace, "subagent") == [Span(kind="subagent", start_ms=0, ms=20, size=1)]


@pytest.mark.requirement("G-63")
async def test_tries_stand_with_the_caller_that_made_them(traced: Traced) -> None:
    traced.begins()
    traced.publish(SubagentStarted(conversation=HERE, run=RUN, request=INNER, agent="reader", steps=5))
    again = {"conversation": HERE, "provider": "main", "attempt": 1, "after_s": 0.5, "reason": "Busy"}
    traced.publish(RetryScheduled(run=INNER, **again), RetryScheduled(run=INNER, **again))  # type: ignore[arg-type]
    traced.publish(billed(), decided())
    traced.publish(billed(INNER), decided(INNER))
    traced.ends()
    calls = of_kind(await traced.trace(), "model")
    assert {call.subagent: call.retries for call in calls} == {False: 0, True: 2}


@pytest.mark.requirement("G-63")
async def test_side_calls_count_where_a_compaction_of_the_turn_makes_them_and_else_stand_beside(traced: Traced) -> None:
    traced.begins()
    traced.publish(CompactTriggered(conversation=HERE, run=RUN, stage="hard", tokens_before=900))
    traced.publish(billed(None, purpose="compaction"), after_ms=60)
    done = CompactComplete(
        conversation=HERE, run=RUN, stage="hard", messages=3, tokens_before=900, tokens_after=200, mechanical=False,
        at_ms=1,
    )  # fmt: skip
    traced.publish(done)
    traced.publish(billed(None, purpose="graph"))
    traced.ends()
    trace = await traced.trace()
    assert [(span.purpose, span.beside) for span in of_kind(trace, "model")] == [("compaction", False), ("graph", True)]
    assert (trace.model_calls, trace.cost_usd) == (1, 0.25)
    assert of_kind(trace, "compaction") == [Span(kind="compaction", start_ms=0, ms=60, name="hard", size=700)]
    assert await traced.figure("model_calls") == {"main/m": 2.0}


async def test_who_stood_in_is_told_with_the_call(traced: Traced) -> None:
    traced.begins()
    traced.publish(ProviderFailedOver(conversation=HERE, run=RUN, provider="b", model="m", instead_of="main"))
    traced.publish(billed(provider="b"), billed(provider="b"))
    traced.ends()
    assert [span.instead_of for span in of_kind(await traced.trace(), "model")] == ["main", ""]


@pytest.mark.requirement("G-63")
async def test_names_that_a_model_made_up_and_words_are_not_kept(traced: Traced) -> None:
    traced.begins()
    traced.publish(tool("tell_ann_her_code_is_4711", exists=False))
    traced.ends()
    assert of_kind(await traced.trace(), "tool")[0].name == "unknown"
    held = await traced.database.read(lambda conn: str(conn.execute(text("SELECT * FROM turn_trace")).all()))
    assert "nobody keeps" not in held


@pytest.mark.requirement("G-63")
async def test_each_attempt_at_a_run_has_a_trace_of_its_own(traced: Traced) -> None:
    traced.begins()
    traced.publish(PersistStarted(conversation=HERE, run=RUN))
    traced.publish(LoopFailed(conversation=HERE, run=RUN, error="shut down", verdict="suspended"))
    traced.begins(attempt=2)
    traced.ends()
    assert [(one.attempt, one.outcome) for one in await traced.traces()] == [(2, "answered"), (1, "suspended")]


@pytest.mark.requirement("G-63")
async def test_the_delivery_is_that_of_the_end_and_is_waited_for_a_while(traced: Traced) -> None:
    traced.begins()
    said_before = to_timestamp(traced.clock.now())
    traced.clock.advance(1)
    traced.ends(messages=2)
    committed = to_timestamp(traced.clock.now())
    traced.recorder.settled("telegram", 1, committed_at=said_before, sent=True)
    traced.recorder.settled("telegram", None, committed_at=committed, sent=True)
    traced.recorder.settled("telegram", 1, committed_at=committed, sent=True)
    assert await traced.traces() == ()
    traced.clock.advance(2)
    traced.recorder.settled("telegram", 1, committed_at=committed, sent=False)
    assert (await traced.trace()).delivered_ms == 0, "the second one was given up"
    assert await traced.figure("sent") == {"telegram": 3.0}
    assert await traced.figure("dead_letters") == {"telegram": 1.0}


async def test_a_message_that_does_not_leave_costs_the_trace_its_delivery_only(traced: Traced) -> None:
    traced.begins()
    traced.ends(messages=1)
    traced.clock.advance(DELIVERED_WITHIN_S - 1)
    assert await traced.traces() == ()
    traced.clock.advance(2)
    trace = await traced.trace()
    assert trace.delivered_ms is None
    traced.recorder.settled("telegram", 1, committed_at=to_timestamp(traced.clock.now()), sent=True)
    assert await traced.trace() == trace


@pytest.mark.requirement("G-64")
async def test_a_share_is_kept_and_figures_count_every_turn(traced: Traced) -> None:
    traced.settings = TraceSettings(sample=0.0)
    for number, verdict in enumerate(("answered", "failed", "answered")):
        traced.begins(RunId(f"r{number}"), inbox=number)
        if number == 2:
            traced.clock.advance(31)
        traced.ends(RunId(f"r{number}"), verdict=verdict)
    assert sorted(one.run for one in await traced.traces()) == ["r1", "r2"]
    assert (await traced.figure("turns"), await traced.figure("failed_turns")) == ({"": 3.0}, {"": 1.0})


@pytest.mark.requirement("G-64")
async def test_a_turn_that_waited_long_in_the_queue_is_slow_however_quick_it_was(traced: Traced) -> None:
    traced.settings = TraceSettings(sample=0.0, always_slower_s=30)
    for number, waited_ms in enumerate((31_000, 10)):
        traced.begins(RunId(f"r{number}"), inbox=number, waited_ms=waited_ms)
        traced.ends(RunId(f"r{number}"))
    assert [one.run for one in await traced.traces()] == ["r0"]


@pytest.mark.requirement("G-64")
async def test_nothing_is_noted_where_it_is_switched_off(traced: Traced) -> None:
    traced.begins()
    traced.settings = TraceSettings(enabled=False)
    traced.publish(billed())
    traced.ends()
    traced.begins(RunId("later"))
    traced.ends(RunId("later"))
    traced.recorder.received("telegram")
    traced.recorder.settled("telegram", 1, committed_at=0, sent=True)
    assert await traced.traces() == ()
    assert await traced.figure("turns") == {}
    assert await traced.figure("received") == {}


@pytest.mark.requirement("G-65")
async def test_figures_of_a_turn(traced: Traced) -> None:
    traced.begins(waited_ms=70)
    traced.publish(billed(), decided(), after_ms=450)
    traced.publish(billed(provider="b", cost_usd=None))
    traced.ends()
    traced.recorder.received("telegram")
    expected: dict[Name, Mapping[str, float]] = {
        "turns": {"": 1}, "failed_turns": {}, "model_calls": {"main/m": 1, "b/m": 1},
        "tokens_in": {"main/m": 420, "b/m": 420}, "tokens_cached": {"main/m": 300, "b/m": 300},
        "tokens_out": {"main/m": 7, "b/m": 7}, "cost_usd": {"main/m": 0.25}, "unpriced_calls": {"b/m": 1},
        "waiting_ms": {"100": 1, "sum": 70}, "first_token_ms": {"200": 1, "sum": 200},
        "turn_ms": {"500": 1, "sum": 450}, "received": {"telegram": 1},
    }  # fmt: skip
    for name, values in expected.items():
        assert await traced.figure(name) == values, name


@pytest.mark.requirement("G-65")
async def test_a_turn_that_is_taken_up_again_counts_once(traced: Traced) -> None:
    traced.begins(waited_ms=70)
    traced.publish(PersistStarted(conversation=HERE, run=RUN))
    traced.publish(LoopFailed(conversation=HERE, run=RUN, error="shut down", verdict="suspended"))
    traced.begins(attempt=2, waited_ms=4_000)
    traced.ends()
    assert await traced.figure("turns") == {"": 1}
    assert await traced.figure("waiting_ms") == {"5000": 1, "sum": 4_000}
    assert len(await traced.traces()) == 2


@pytest.mark.requirement("G-64")
async def test_a_trace_of_what_is_forgotten_meanwhile_is_not_written(traced: Traced) -> None:
    traced.begins()
    traced.ends()
    traced.forgotten.tell(Audience("private:telegram:77"), (HERE,))
    assert await traced.traces() == ()
    traced.begins(RunId("during"))
    traced.ends(RunId("during"))
    with traced.forgotten.going_on((HERE,)):
        assert await traced.traces() == ()
    traced.begins(RunId("later"))
    traced.ends(RunId("later"))
    assert (await traced.trace()).run == "later"


@pytest.mark.requirement("G-65")
async def test_a_commit_whose_answer_was_lost_is_given_again_and_counts_once(
    sqlite_database: Database, clock: FakeClock
) -> None:
    traced = Traced(Failing(sqlite_database, 2), clock)
    traced.begins()
    traced.ends()
    await traced.recorder.write()
    traced.begins(RunId("next"), inbox=2)
    traced.ends(RunId("next"))
    await traced.recorder.write()
    assert len(await traced.traces()) == 2
    assert await traced.figure("turns") == {"": 2.0}


async def test_a_batch_that_no_database_takes_is_lost_alone(traced: Traced) -> None:
    def rename(conn: Connection, old: str, new: str) -> None:
        conn.execute(text(f"ALTER TABLE {old} RENAME TO {new}"))

    traced.begins()
    traced.ends()
    await traced.database.write(partial(rename, old="turn_trace", new="gone"))
    await traced.recorder.write()
    await traced.database.write(partial(rename, old="gone", new="turn_trace"))
    traced.begins(RunId("next"))
    traced.ends(RunId("next"))
    assert (await traced.trace()).run == "next"


async def test_turns_and_parts_have_a_bound(traced: Traced) -> None:
    traced.begins()
    for _ in range(MOST_SPANS + 5):
        traced.publish(tool())
    traced.ends()
    trace = await traced.trace()
    assert (len(trace.spans), trace.tool_calls) == (MOST_SPANS, MOST_SPANS + 5)
    for number in range(MOST_OPEN + 1):
        traced.begins(RunId(f"r{number}"), inbox=number)
    traced.ends(RunId("r0"))
    assert await traced.trace() == trace, "the oldest of too many has left none"


async def test_it_writes_by_itself_and_what_waits_at_the_end_with_flush(traced: Traced) -> None:
    async def written() -> int:
        return len(await traced.database.read(rows.traces))

    async with running(traced.recorder.run):
        for number in range(50):  # so many do not wait for the second
            traced.begins(RunId(f"r{number}"), inbox=number)
            traced.ends(RunId(f"r{number}"))
        await until(lambda: traced.database.read(lambda conn: bool(rows.traces(conn))))
    assert await written() == 50
    traced.begins(RunId("last"))
    traced.ends(RunId("last"), messages=1)
    await traced.recorder.flush()
    assert await written() == 50
    assert (await traced.database.read(rows.traces))[0].run == "last"


async def test_figures_wait_a_while_for_a_trace_that_takes_them_along(traced: Traced) -> None:
    traced.recorder.received("telegram")
    await traced.recorder.write(figures=False)
    assert await traced.database.read(partial(rows.series, name="received", since=0, until=2**60, step=HOUR_US)) == ()
    traced.begins()
    traced.ends()
    await traced.recorder.write(figures=False)
    assert await traced.database.read(partial(rows.series, name="received", since=0, until=2**60, step=HOUR_US))
    async with running(traced.recorder.run):
        traced.recorder.received("slack")
        traced.clock.advance(FIGURES_EVERY_S)
        read = partial(rows.series, name="received", since=0, until=2**60, step=HOUR_US)

        async def both() -> bool:
            return len((await traced.database.read(read))[0].values) == 2

        await until(both)
