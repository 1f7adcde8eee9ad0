"""Limits nobody set, a disk that is full, the steps and tools of sub-agents, and the order of compaction's stages."""

import json
import resource
from collections.abc import Callable
from typing import Any

import anyio
import pytest

from agent.core.events import (
    CompactComplete,
    ContextBuilt,
    Event,
    LoopStarted,
    MicrocompactRan,
    MidCompactLayer1Ran,
    MidCompactLayer2Ran,
    RetryScheduled,
    SubagentStarted,
)
from tests.gateway.world import World
from tests.program import configs
from tests.program.conftest import Start
from tests.program.doubles import Doubles, until
from tests.program.people import OnTelegram

SUB = "You are a sub-agent"


class Timed(list[Event]):
    """The events as they are published; `left_s` is the time its run had left when its context was built."""

    left_s = float("inf")

    def append(self, event: Event, /) -> None:
        if isinstance(event, ContextBuilt):
            self.left_s = anyio.current_effective_deadline() - anyio.current_time()
        super().append(event)


@pytest.mark.requirement("B-40", "B-81")
async def test_a_run_has_ten_minutes_unless_set(world: World) -> None:
    events = world.events = Timed()
    await world.answered("hello", "hello")
    assert 590 < events.left_s <= 600


@pytest.mark.requirement("B-86", "B-87")
async def test_a_busy_model_is_asked_three_times_more_with_growing_waits_unless_set(
    world_of: Callable[..., World],
) -> None:
    world = world_of(providers=("a",))
    async with world.process():
        world.llm.fails(kind="error", status=503, message="busy", times=3)
        await world.answered("hello", "hello")
        assert len(world.llm.calls) == 4
        first, second, third = [event.after_s for event in world.events if isinstance(event, RetryScheduled)]
        assert 0.5 <= first <= 1.5, "a second, and some chance"
        assert first < second < third
        world.llm.fails(kind="error", status=503, message="busy", times=9)
        await world.asks("and now", "is not answering just now")
        await world.settled()
        assert len(world.llm.calls) == 8, "three times more and no oftener"


ROOM = 40_000  # bytes that any file may have; the answer takes more wherever the write-ahead log begins


async def asked(doubles: Doubles, count: int) -> bool:
    return len((await doubles.llm.get("calls"))["calls"]) >= count


@pytest.mark.requirement("B-48")
async def test_a_turn_that_a_full_disk_cannot_store_is_tried_again_told_and_kept(
    doubles: Doubles, program: Start
) -> None:
    """Four attempts at the commit, then the message waits; it is answered once when there is room."""
    tieline = program(configs.ACCESS + configs.models(doubles, "a") + configs.telegram(doubles))
    slow = {"match": {"contains": "slow"}, "reply": {"text": "the slow answer " * 1_500, "hold": "gate"}}
    await doubles.llm.post("script", [slow])
    async with tieline:
        ann = OnTelegram(doubles)
        await ann.say("slow please")
        await until(lambda: asked(doubles, 1), what="the model call")
        assert tieline.process is not None
        before = resource.prlimit(tieline.process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(tieline.process.pid, resource.RLIMIT_FSIZE, (ROOM, before[1]))
        await doubles.llm.post("release", {"name": "gate"})
        await ann.hears("I could not save this conversation just now; your message is kept")
        log = tieline.log.read_text()
        assert "the database failed (3 of 4)" in log
        assert "the database failed 4 times" in log
        assert tieline.rows("select status from inbox") == [("new",)]
        assert not any("the slow answer" in text for text in await ann.texts()), "nobody reads what is not stored"
        resource.prlimit(tieline.process.pid, resource.RLIMIT_FSIZE, before)
        await ann.hears("the slow answer")
        await tieline.settled()
        assert tieline.rows("select status from inbox") == [("done",)]
        assert tieline.rows("select count(*) from message where role = 'assistant'") == [(1,)]


def call(name: str, **given: object) -> dict[str, Any]:
    return {"type": "tool_use", "name": name, "input": given}


@pytest.mark.requirement("G-23")
async def test_steps_a_sub_agent_leaves_come_back_and_it_has_the_tools_it_was_given(
    world_of: Callable[..., World],
) -> None:
    world = world_of(config="[agent]\nstep_budget = 14\n")
    async with world.process():
        world.llm.double.settings["offered_only"] = False
        world.script(
            {"match": {"system_contains": SUB, "tool_result": False},
             "reply": {"blocks": [call("calculate", expression="6*7"), call("current_time")]}},
            {"match": {"system_contains": SUB}, "reply": {"text": "it is 42"}},
            {"match": {"contains": "count twice"}, "times": 2,
             "reply": {"blocks": [call("Agent", task="count", tools=["calculate", "nosuch"])]}},
            {"match": {"contains": "count twice"}, "reply": {"text": "Twice 42."}},
        )  # fmt: skip
        await world.answered("count twice", "Twice 42.")
        assert [event.steps for event in world.events if isinstance(event, SubagentStarted)] == [10, 10], "8 came back"
        below = [body for body in world.llm.bodies if SUB in json.dumps(body["messages"][0])]
        assert [[tool["function"]["name"] for tool in body["tools"]] for body in below] == [["calculate"]] * 4
        sums, clock = below[1]["messages"][-2:]
        assert sums["content"] == "42"
        assert "is not among the tools" in clock["content"]


# In the order in which their stages come; clearing comes first where results are many.
STAGES = (MicrocompactRan, MidCompactLayer1Ran, MidCompactLayer2Ran, CompactComplete)
EARLY = (
    "[memory]\nsoft_compaction_threshold = 0.3\nhigh_compaction_threshold = 0.45\nhard_compaction_threshold = 0.7\n"
    "[memory.flush]\nenabled = false\n[context]\noutput_reserve = 1000\nemergency_buffer = 100\n"
)


@pytest.mark.requirement("G-31")
async def test_in_every_turn_the_stages_keep_their_order_and_one_summary_is_asked_at_most(
    world_of: Callable[..., World],
) -> None:
    """A conversation of results and long messages, as chance has it, in a window that is always too small."""
    world = world_of(window=16_000, providers=("a",), config=EARLY)
    async with world.process():
        summary = "<summary>\nGoal: g\nAccomplished: a\nKey Decisions: k\nRelevant Files: none\n</summary>"
        world.script(
            {"match": {"system_contains": "You write the memory"}, "reply": {"text": summary}},
            {"match": {"contains": "sum", "tool_result": False},
             "reply": {"blocks": [call("calculate", expression=f"{n}+7**900") for n in range(3)]}},
            {"match": {}, "reply": {"text": "fine"}},
        )  # fmt: skip
        for number in range(24):
            words = "sum it " if number % 3 == 0 else "a bird "
            await world.answered(f"{number}: " + words + "and a little more of it " * (number * 97 % 400), "fine")
    turns: list[list[Event]] = []
    for event in world.events:
        if isinstance(event, LoopStarted):
            turns.append([])
        elif turns:
            turns[-1].append(event)
    ran = [[STAGES.index(type(event)) for event in turn if isinstance(event, STAGES)] for turn in turns]
    assert all(stages == sorted(stages) for stages in ran), ran
    assert len({stage for stages in ran for stage in stages}) >= 2, "several stages came"
