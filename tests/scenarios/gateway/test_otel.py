"""Turns of a whole gateway reach a collector as spans; a collector that fails costs spans and nothing else."""

from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from email.utils import format_datetime

import anyio
import pytest
from sqlalchemy import select

from agent.storage.tables import turn
from gateway.channels.errors import ChannelRejected
from gateway.otel.exporter import MOST_WITH_CONTENT
from gateway.otel.work import context_of_work
from tests.fakes.otlp_collector import KEY, OtlpCollector, SeenSpan, otlp_collector
from tests.fakes.waiting import until
from tests.gateway.otel.examples import ended
from tests.gateway.traces.examples import trace
from tests.gateway.world import World, calling, slowly

CONFIG = """
[otel]
endpoint = "{url}"
headers = {{ x-api-key = "{key}" }}
metrics = false
{more}
"""
SUB = "You are a sub-agent"
TURN = "invoke_agent default"
CALLER = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

Worlds = Callable[..., World]


def configured(collector: OtlpCollector, more: str = "") -> str:
    return CONFIG.format(url=collector.url, key=KEY, more=more)


@pytest.fixture
async def collector() -> AsyncIterator[OtlpCollector]:
    async with otlp_collector(key=KEY) as listening:
        yield listening


async def seen(world: World, collector: OtlpCollector, *names: str, times: int = 1) -> None:
    """Wait until spans with these names are there: a message is sent a moment before that is noted."""

    async def all_there() -> bool:
        await world.services.otel.traces.send()
        found = [span.name for span in collector.spans]
        return all(found.count(name) >= times for name in names)

    await until(all_there)


def told(world: World) -> list[str]:
    """The open troubles with the collector."""
    return [trouble.text for trouble in world.troubles.open if trouble.kind == "otel"]


# -- spans


@pytest.mark.requirement("G-124")
async def test_a_turn_with_a_tool_is_a_tree_of_spans(world_of: Worlds, collector: OtlpCollector) -> None:
    async with world_of(config=configured(collector)).process() as world:
        world.script(*calling("how much is it", "calculate", expression="6 * 7"))
        await world.answered("how much is it", "Done: how much is it")
        await seen(world, collector, TURN, "delivery")
    whole = collector.named(TURN)
    parts = [name for name in collector.children(whole) if name != "delivery"]  # as early as the commit, to the ms
    assert parts == ["queue", "context", "recall", "chat model-a", "execute_tool calculate", "chat model-a", "commit"]
    assert collector.named("delivery").parent == whole.id
    assert (whole.parent, whole.kind, whole.failed) == ("", "internal", False)
    assert {span.trace for span in collector.spans} == {whole.trace}
    assert len({span.id for span in collector.spans}) == len(collector.spans)
    assert whole.attributes["gen_ai.operation.name"] == "invoke_agent"
    assert whole.attributes["gen_ai.agent.name"] == "default"
    assert whole.attributes["tieline.outcome"] == "answered"
    call = next(span for span in collector.spans if span.name == "chat model-a")
    assert call.kind == "client"
    assert whole.begun <= call.begun < call.ended <= whole.ended
    expected = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "a",
        "gen_ai.request.model": "model-a",
        "gen_ai.conversation.id": "telegram:77",
        "gen_ai.usage.output_tokens": 5,
        "gen_ai.response.finish_reasons": ["tool_use"],
    }
    assert {key: call.attributes[key] for key in expected} == expected
    assert call.attributes["gen_ai.usage.input_tokens"] > 1000
    tool = collector.named("execute_tool calculate")
    assert tool.attributes["gen_ai.tool.name"] == "calculate"
    delivery = collector.named("delivery")
    assert delivery.attributes["tieline.platform"] == "telegram"
    assert collector.resources[0]["service.name"] == "tieline"


@pytest.mark.requirement("G-124")
async def test_a_tool_that_failed_has_the_status_of_an_error(world_of: Worlds, collector: OtlpCollector) -> None:
    async with world_of(config=configured(collector)).process() as world:
        world.script(*calling("how much", "calculate", expression="6 *"))
        await world.answered("how much", "Done: how much")
        await seen(world, collector, TURN)
    tool = collector.named("execute_tool calculate")
    assert (tool.failed, tool.attributes["error.type"]) == (True, "_OTHER")
    assert not collector.named(TURN).failed, "the turn went on with that"


@pytest.mark.requirement("G-124")
async def test_a_message_that_was_given_up_has_the_status_of_an_error(
    world_of: Worlds, collector: OtlpCollector
) -> None:
    async with world_of(config=configured(collector)).process() as world:
        world.screen().fail("send", ChannelRejected("bad request"), times=2)
        await world.say("the first of all words")
        await seen(world, collector, TURN, "delivery")
    given_up = next(span for span in collector.spans if span.name == "delivery")
    assert (given_up.failed, given_up.attributes["error.type"]) == (True, "dead_letter")
    assert not collector.named(TURN).failed, "the turn itself went well"


@pytest.mark.requirement("G-124")
async def test_a_sub_agents_calls_stand_below_it(world_of: Worlds, collector: OtlpCollector) -> None:
    async with world_of(config=configured(collector)).process() as world:
        block = {"type": "tool_use", "name": "calculate", "input": {"expression": "2*21"}}
        world.script(
            {"match": {"system_contains": SUB, "tool_result": False}, "reply": {"blocks": [block]}},
            {"match": {"system_contains": SUB, "tool_result": True}, "reply": {"text": "It is 42."}},
        )
        await world.answered("/agent researcher how much is 2*21?", "It is 42.")
        await seen(world, collector, TURN, "invoke_agent")
    inner = collector.named("invoke_agent")
    assert collector.children(inner) == ["chat model-a", "execute_tool calculate", "chat model-a"]
    assert inner.name in collector.children(collector.named(TURN))


@pytest.mark.requirement("G-124")
async def test_a_turn_without_a_trace_has_no_span(world_of: Worlds, collector: OtlpCollector) -> None:
    world = world_of(config=configured(collector) + "[traces]\nsample = 0.0\n")
    async with world.process():
        await world.answered("nobody keeps this one", "nobody keeps")
        world.config = configured(collector)
        assert world.reload() == ()
        await world.answered("but this one", "but this")
        await seen(world, collector, TURN, "delivery")
    assert [span.name for span in collector.spans].count(TURN) == 1
    assert [span.name for span in collector.spans].count("delivery") == 1


@pytest.mark.requirement("G-124")
async def test_nothing_is_sent_until_a_collector_is_named(world_of: Worlds, collector: OtlpCollector) -> None:
    world = world_of()
    async with world.process():
        await world.answered("the first of all words", "the first")
        world.config = configured(collector)
        assert world.reload() == ()
        await world.answered("the second of all words", "the second")
        await seen(world, collector, TURN)
    assert [span.name for span in collector.spans].count(TURN) == 1


# -- words


WORDS = ("umbrella", "heron-answer", "5041")


@pytest.mark.requirement("G-125")
async def test_no_word_of_anybody_reaches_the_collector(world_of: Worlds, collector: OtlpCollector) -> None:
    async with world_of(config=configured(collector)).process() as world:
        await _talk(world)
        await seen(world, collector, TURN, "delivery")
    sent = b"".join(collector.bodies)
    assert b"execute_tool calculate" in sent
    assert not [word for word in WORDS if word.encode() in sent]
    assert not [key for span in collector.spans for key in span.attributes if key.endswith((".messages", ".arguments"))]


@pytest.mark.requirement("G-125")
async def test_texts_go_along_where_the_operator_wants_that(world_of: Worlds, collector: OtlpCollector) -> None:
    async with world_of(config=configured(collector, "capture_content = true")).process() as world:
        await _talk(world)
        await seen(world, collector, TURN)
    first, last = (span for span in collector.spans if span.name == "chat model-a")
    assert "umbrella" in first.attributes["gen_ai.input.messages"]
    assert '"type": "tool_call"' in first.attributes["gen_ai.output.messages"]
    assert "heron-answer" in last.attributes["gen_ai.output.messages"]
    assert "5041" in last.attributes["gen_ai.input.messages"]
    tool = collector.named("execute_tool calculate")
    assert "71 * 71" in tool.attributes["gen_ai.tool.call.arguments"]
    assert "5041" in tool.attributes["gen_ai.tool.call.result"]
    sent = b"".join(collector.bodies)
    assert b"sk-double" not in sent, "secrets of the configuration are taken out"
    assert KEY.encode() not in sent


async def _talk(world: World) -> None:
    """A turn in which everybody says something of note, a secret among it."""
    block = {"type": "tool_use", "name": "calculate", "input": {"expression": "71 * 71"}}
    world.script(
        {"match": {"contains": "umbrella", "tool_result": False}, "reply": {"blocks": [block]}},
        {"match": {"contains": "umbrella", "tool_result": True}, "reply": {"text": "The heron-answer."}},
    )
    await world.answered(f"my umbrella cost sk-double and {KEY}", "heron-answer")


@pytest.mark.requirement("G-125")
async def test_what_is_forgotten_meanwhile_is_not_sent(world_of: Worlds, collector: OtlpCollector) -> None:
    collector.status = 503
    async with world_of(config=configured(collector, "capture_content = true")).process() as world:
        await world.answered("the first of all words", "the first")
        await world.services.otel.traces.send()  # it is made, and waits for the collector
        await world.answered("I like herons.", "herons")
        await world.hears(world.said("/memory forget herons"))
        await world.shows("Forget this for good?")
        await world.hears(world.said("yes"))
        await world.shows("Forgotten.")
        await world.settled()
        collector.status = 200
        await seen(world, collector, TURN)
    assert b"the first of all words" in b"".join(collector.bodies)
    assert b"I like herons" not in b"".join(collector.bodies)


# -- contexts


@pytest.mark.requirement("G-126")
async def test_a_delivery_after_a_restart_is_a_part_of_its_turn(world_of: Worlds, collector: OtlpCollector) -> None:
    world = world_of(config=configured(collector))
    world.screen().gates["send"] = anyio.Event()
    async with world.process():
        await world.hears(world.said("say it later", traceparent=CALLER))
        await seen(world, collector, TURN)
    assert "delivery" not in [span.name for span in collector.spans]
    world.screen().gates.clear()
    async with world.process():
        await world.shows("say it later")
        await seen(world, collector, "delivery")
        await _is_context(world, collector.named(TURN))
    delivery, whole = collector.named("delivery"), collector.named(TURN)
    assert (delivery.trace, delivery.parent) == (whole.trace, whole.id)
    assert delivery.begun < delivery.ended
    assert len(collector.resources) >= 2
    instances = {resource["service.instance.id"] for resource in collector.resources}
    assert len(instances) == 2, "two processes have told it"


async def _is_context(world: World, whole: SeenSpan) -> None:
    """The work in the inbox gives the context of that turn to whoever asks for it."""
    inbox_id = await world.database.read(lambda conn: conn.execute(select(turn.c.inbox_id)).scalar_one())
    context = await world.database.read(lambda conn: context_of_work(conn, inbox_id))
    assert context is not None
    assert (context.trace_id.hex(), context.turn_id.hex()) == (whole.trace, whole.id)


@pytest.mark.requirement("G-126")
async def test_a_callers_context_is_gone_on_with(world_of: Worlds, collector: OtlpCollector) -> None:
    async with world_of(config=configured(collector)).process() as world:
        await world.answered("called by a program", "called by", traceparent=CALLER)
        await seen(world, collector, TURN, "delivery")
        await world.answered("with a broken header", "broken header", traceparent="00-zz-yy-01")
        await seen(world, collector, TURN, times=2)
    called, alone = (span for span in collector.spans if span.name == TURN)
    assert (called.trace, called.parent, called.kind) == (CALLER[3:35], CALLER[36:52], "server")
    assert "delivery" in collector.children(called)
    assert (alone.parent, alone.kind) == ("", "internal")


@pytest.mark.requirement("G-126")
async def test_a_turn_that_is_taken_up_again_stays_in_its_callers_trace(
    world_of: Worlds, collector: OtlpCollector
) -> None:
    world = world_of(config=configured(collector))
    async with world.process():
        world.script(slowly("wait"))
        await world.hears(world.said("wait for it", traceparent=CALLER))
        await world.until_asked(1)
    world.script()
    async with world.process():
        await world.shows("wait for it")
        await seen(world, collector, "delivery")
    *before, last = (span for span in collector.spans if span.name == TURN)
    assert last.attributes["tieline.attempt"] == 2
    assert {span.trace for span in (*before, last)} == {CALLER[3:35]}
    assert last.id not in {span.id for span in before}
    assert collector.named("delivery").parent == last.id


# -- a collector that fails


@pytest.mark.requirement("G-127")
@pytest.mark.parametrize("status", [429, 502, 503, 504])
async def test_a_collector_that_is_away_holds_nothing_up(
    world_of: Worlds, collector: OtlpCollector, status: int
) -> None:
    async with world_of(config=configured(collector)).process() as world:
        collector.status, collector.retry_after = status, "7"
        await world.answered("the first of all words", "the first")
        pause_s = await world.services.otel.traces.send()
        assert pause_s == 7.0
        (text,) = told(world)
        assert f"status {status}" in text
        await world.answered("the second of all words", "the second")
        collector.status = 200
        await seen(world, collector, TURN, "delivery", times=2)
        assert told(world) == []


@pytest.mark.requirement("G-127")
async def test_the_moment_that_a_collector_names_is_waited_for(world_of: Worlds, collector: OtlpCollector) -> None:
    async with world_of(config=configured(collector)).process() as world:
        again_at = world.clock.now() + timedelta(seconds=200)
        collector.status, collector.retry_after = 503, format_datetime(again_at, usegmt=True)
        await world.answered("the first of all words", "the first")
        assert 100 < await world.services.otel.traces.send() <= 200


@pytest.mark.requirement("G-127")
@pytest.mark.parametrize(("status", "words"), [(400, "status 400"), (401, "status 401"), (307, "not followed")])
async def test_what_a_collector_refuses_is_dropped_and_told(
    world_of: Worlds, collector: OtlpCollector, status: int, words: str
) -> None:
    async with world_of(config=configured(collector)).process() as world:
        collector.status = status
        await world.answered("the first of all words", "the first")
        await until(lambda: _refused(world, words))
        assert await world.services.otel.traces.send() == 0.0
        assert world.metrics.sum("tieline_otel_dropped", signal="traces") >= 5
        collector.status = 200
        await world.answered("the second of all words", "the second")
        await seen(world, collector, TURN)
        assert told(world) == []
    assert [span.name for span in collector.spans].count(TURN) == 1
    assert collector.elsewhere == []


async def _refused(world: World, words: str) -> bool:
    await world.services.otel.traces.send()
    return any(words in text for text in told(world))


@pytest.mark.requirement("G-127")
async def test_a_slow_collector_does_not_hold_up_turns(world_of: Worlds, collector: OtlpCollector) -> None:
    async with world_of(config=configured(collector)).process() as world:
        collector.is_slow = True
        await world.answered("the first of all words", "the first")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(world.services.otel.traces.send)
            await until(lambda: collector.asked == 1)
            await world.answered("the second of all words", "the second")
            collector.is_slow = False
        await seen(world, collector, TURN, times=2)


@pytest.mark.requirement("G-127")
async def test_what_a_collector_leaves_out_is_counted(world_of: Worlds, collector: OtlpCollector) -> None:
    async with world_of(config=configured(collector)).process() as world:
        collector.rejects = 3
        await world.answered("the first of all words", "the first")
        await seen(world, collector, TURN)
        assert world.metrics.sum("tieline_otel_dropped", signal="traces") % 3 == 0
        (text,) = told(world)
        assert "left out 3 of a request" in text
        collector.rejects = 0
        await world.answered("the second of all words", "the second")
        await seen(world, collector, TURN, "delivery", times=2)
        assert told(world) == []


@pytest.mark.requirement("G-127")
async def test_what_comes_too_fast_for_a_collector_is_dropped_and_counted(
    world_of: Worlds, collector: OtlpCollector
) -> None:
    async with world_of(config=configured(collector)).process() as world:
        export = world.services.otel.traces
        for number in range(MOST_WITH_CONTENT + 3):
            export.ended(ended(trace(f"run {number}", inbox_id=number), contents={0: "a text"}))
        assert world.metrics.sum("tieline_otel_dropped", signal="traces") == 3 * 4
        await export.send()
    assert [span.name for span in collector.spans].count("invoke_agent") == MOST_WITH_CONTENT


@pytest.mark.requirement("G-127")
async def test_the_rest_is_sent_at_the_end(world_of: Worlds, collector: OtlpCollector) -> None:
    async with world_of(config=configured(collector)).process() as world:
        await world.answered("the last of all words", "the last")
    assert TURN in [span.name for span in collector.spans]
