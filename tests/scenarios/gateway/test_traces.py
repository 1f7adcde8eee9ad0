"""Turns of a whole gateway leave traces and figures, and these go when they should."""

from collections.abc import Callable, Mapping
from functools import partial

import pytest
from sqlalchemy import insert

from agent.core.ids import ConversationId, PersonId
from agent.storage.timestamps import to_timestamp
from agent.storage.watch_tables import turn_trace
from gateway.traces import rows
from gateway.traces.figures import HOUR_US, Name
from gateway.traces.trace import TurnTrace
from tests.fakes.waiting import until
from tests.gateway.world import BOB, GROUP, World, calling

DAY_S = 86_400.0
DAY_US = 24 * HOUR_US


async def kept(world: World, most: int = 50) -> tuple[TurnTrace, ...]:
    """The traces in the database, the newest first."""
    await world.services.traces.flush()
    return await world.database.read(partial(rows.traces, most=most))


async def traced(world: World, count: int = 1) -> tuple[TurnTrace, ...]:
    """The traces, when there are so many that are whole: a message is sent a moment before that is noted."""

    async def whole() -> bool:
        await world.services.traces.write()
        return len(await world.database.read(rows.traces)) >= count

    await until(whole)
    return await world.database.read(rows.traces)


async def figure(world: World, name: Name) -> Mapping[str, float]:
    await world.services.traces.write()
    now = to_timestamp(world.clock.now())
    points = await world.database.read(
        partial(rows.series, name=name, since=now - DAY_US, until=now + DAY_US, step=3 * DAY_US)
    )
    return points[0].values if points else {}


def kinds(trace: TurnTrace) -> list[str]:
    return [span.kind for span in sorted(trace.spans, key=lambda span: span.start_ms)]


@pytest.mark.requirement("G-63", "G-65")
async def test_a_turn_with_a_tool_leaves_its_trace_and_figures(world: World) -> None:
    world.script(*calling("how much is it", "calculate", expression="6 * 7"))
    await world.answered("how much is it", "Done: how much is it")
    (trace,) = await traced(world)
    assert set(kinds(trace)) >= {"recall", "context", "model", "tool", "commit", "delivery"}
    assert kinds(trace).count("model") == 2
    (tool,) = (span for span in trace.spans if span.kind == "tool")
    assert (tool.name, tool.is_error) == ("calculate", False)
    assert tool.size > 0
    call = next(span for span in trace.spans if span.kind == "model")
    assert (call.name, call.model, call.purpose, call.outcome) == ("a", "model-a", "turn", "tool_use")
    assert call.first_token_ms is not None
    assert call.tokens_in > 0
    assert (trace.conversation, trace.person, trace.outcome) == ("telegram:77", "telegram:77", "answered")
    assert (trace.model_calls, trace.tool_calls, trace.attempt) == (2, 1, 1)
    assert trace.delivered_ms is not None
    assert all(-trace.waited_ms <= span.start_ms for span in trace.spans)
    assert all(span.start_ms + span.ms <= trace.elapsed_ms + 5 for span in trace.spans if span.kind != "delivery")
    assert await world.database.read(partial(rows.trace_of, run=trace.run)) == (trace,)
    assert await figure(world, "turns") == {"": 1.0}
    assert await figure(world, "received") == await figure(world, "sent") == {"telegram": 1.0}
    assert await figure(world, "unpriced_calls") == {"a/model-a": 2.0}


@pytest.mark.requirement("G-63")
async def test_a_turn_that_fails_says_so(world_of: Callable[..., World]) -> None:
    async with world_of(providers=("a",)).process() as world:
        world.script({"match": {"contains": "break"}, "reply": {"status": 400, "error": "no"}})
        await world.asks("break")
        await world.settled()
        (trace,) = await traced(world)
        assert trace.outcome == "failed"
        assert await figure(world, "failed_turns") == {"": 1.0}


@pytest.mark.requirement("G-63")
async def test_a_turn_that_is_taken_up_again_says_which_attempt_it_is(world_of: Callable[..., World]) -> None:
    world = world_of()
    async with world.process():
        world.script({"match": {"contains": "wait"}, "reply": {"text": "Here.", "hold": "wait"}})
        await world.hears(world.said("wait for it"))
        await world.until_asked(1)
    world.script()
    async with world.process():
        await world.shows("wait for it")
        await world.settled()
        found = await traced(world)
        assert len({one.run for one in found}) == len(found), "an attempt is a run of its own"
        attempts = [(one.attempt, one.outcome) for one in found]
        assert attempts[0] == (2, "answered")
        assert all(number == 1 and outcome in ("broken", "suspended") for number, outcome in attempts[1:])


@pytest.mark.requirement("G-64")
@pytest.mark.parametrize("what", ["herons", "all"])
async def test_traces_go_with_what_is_forgotten(world: World, what: str) -> None:
    await world.answered("I like herons.", "herons")
    await world.answered("and what of the ferry", "ferry")
    await traced(world, 2)
    await world.hears(world.said(f"/memory forget {what}"))
    await world.shows("Forget this for good?")
    await world.hears(world.said("yes"))
    await world.shows("Forgotten.")
    await world.settled()
    left = await kept(world)
    assert len(left) == (1 if what == "herons" else 0)


@pytest.mark.requirement("G-64")
async def test_in_a_group_a_member_takes_along_their_own_traces_only(world: World) -> None:
    await world.answered("@bot the deploy key is under the doormat", "doormat", chat=GROUP)
    await world.answered("@bot my umbrella stands there too", "umbrella", chat=GROUP, person=BOB)
    await traced(world, 2)
    await world.hears(world.said("/memory forget all", chat=GROUP, person=BOB))
    await world.shows("Forget this for good?", GROUP)
    await world.hears(world.said("yes", chat=GROUP, person=BOB))
    await world.shows("Forgotten.", GROUP)
    await world.settled()
    assert [one.person for one in await kept(world)] == ["telegram:77"]
    assert await world.database.read(partial(rows.traces, person=PersonId("telegram:78"))) == ()


@pytest.mark.requirement("G-64")
async def test_traces_go_with_a_conversation_that_is_deleted(world: World) -> None:
    await world.answered("the first of all words", "the first")
    await world.asks("/new", "kept")
    await world.answered("the second of all words", "the second")
    await traced(world, 2)
    await world.say("/delete")
    await world.shows("Erase this conversation")
    await world.say("yes")
    await world.shows("Erased:")
    await world.settled()
    assert len(await kept(world)) == 1


@pytest.mark.requirement("G-64")
async def test_traces_go_with_messages_that_expire(world_of: Callable[..., World]) -> None:
    async with world_of(config="[retention]\nconversation_days = 30\n[traces]\ndays = 365\n").process() as world:
        await world.answered("the first of all words", "the first")
        await traced(world)
        world.clock.ahead_s += 31 * DAY_S
        await world.services.upkeep.run_once()
        assert await kept(world) == ()


@pytest.mark.requirement("G-64")
async def test_old_and_too_many_traces_go_with_the_upkeep_and_settings_count_at_once(world: World) -> None:
    await world.answered("the first of all words", "the first")
    world.config = "[traces]\nsample = 0.0\n"
    assert "traces" not in world.reload()
    await world.answered("nobody keeps this one", "nobody keeps")
    assert len(await traced(world)) == 1
    assert await figure(world, "turns") == {"": 2.0}
    world.clock.ahead_s += 13 * DAY_S
    await world.services.upkeep.run_once()
    assert len(await kept(world)) == 1
    world.clock.ahead_s += 2 * DAY_S
    await world.services.upkeep.run_once()
    assert await kept(world) == ()
    now = to_timestamp(world.clock.now())
    since = now - 20 * DAY_US
    days = await world.database.read(partial(rows.series, name="turns", since=since, until=now, step=DAY_US))
    assert [dict(day.values) for day in days] == [{"": 2.0}], "figures stay"
    world.clock.ahead_s += 390 * DAY_S
    await world.services.upkeep.run_once()
    assert await world.database.read(partial(rows.series, name="turns", since=since, until=now, step=DAY_US)) == ()


@pytest.mark.requirement("G-64")
async def test_the_oldest_traces_go_where_they_are_too_many(world: World) -> None:
    await world.answered("the first of all words", "the first")
    await traced(world)
    (first,) = await kept(world)
    values = rows.values_of(first) | {"size": 90_000, "conv": ConversationId("telegram:1")}
    every = [values | {"run_id": f"r{number}"} for number in range(100)]
    await world.database.write(lambda conn: conn.execute(insert(turn_trace), every))
    world.config = "[traces]\nmax_mb = 1\n"
    world.reload()
    await world.services.upkeep.run_once()
    left = await kept(world, 1000)
    assert left[0].run == "r99"
    assert sum(90_000 for _ in left) <= 1024 * 1024
    assert len(left) == 11
