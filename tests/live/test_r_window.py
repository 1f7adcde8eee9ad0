"""The window of a conversation in the running gateway: what gives way, when, and what a person is told."""

from collections.abc import Callable
from typing import Any

import pytest

from agent.core.events import CompactTriggered, LoopFailed, MicrocompactRan, ReactiveCompactTriggered
from tests.gateway.world import World
from tests.live.test_r_turns import call, of, steps
from tests.live.test_w_turns import hooks, noted

WorldOf = Callable[..., World]
CLEARED = "[Old tool result content cleared]"
SMALL = """
[context]
output_reserve = 2000
emergency_buffer = 500
tokenizer = "bytes"
{context}
[memory.flush]
enabled = false
[memory.recall]
enabled = false
[memory.compression]
pruning_strategy = "reactive"
[skills]
enabled = false
{more}
[[llm.providers]]
name = "small"
type = "openai"
model = "model-small"
base_url = "{url}/v1"
api_key = "sk-double"
context_window = {window}
default = true
"""
YES = "[approvals]\nauto_approve = true\n"
WRITES = "You write the memory"  # how the summarising prompt begins
TEXT = "<summary>\nGoal: A summary of it all\nAccomplished: a\nKey Decisions: b\nRelevant Files: none\n</summary>"
SUMMARY = {"match": {"system_contains": WRITES}, "reply": {"text": TEXT}}


def small(made: World, *, window: int = 30_000, context: str = "", more: str = "") -> World:
    """With one small model; what the shipped agent shows of itself takes about 3,000 tokens of it."""
    made.config = SMALL.format(url=made.llm.url, window=window, context=context, more=more)
    return made


def words(turn: int, count: int = 2_000) -> str:
    return f"turn {turn}: " + "abc " * count


def results_in(body: dict[str, Any]) -> list[str]:
    return [one["content"] for one in body["messages"] if one["role"] == "tool"]


@pytest.mark.requirement("R-05", "R-06", "R-07", "R-48", "W-27", "R-45")
async def test_old_results_are_cleared_before_each_request_whatever_the_pressure(world_of: WorldOf) -> None:
    async with small(world_of()).process() as world:
        world.script(
            *steps(*({"blocks": [call("calculate", expression=f"{n}+10**60")]} for n in range(6)), {"text": "There."})
        )
        await world.answered("count", "There.")
        whole = [str(n + 10**60) for n in range(6)]
        assert results_in(world.llm.bodies[3]) == whole[:3], "three stay"
        assert results_in(world.llm.bodies[4]) == [CLEARED, *whole[1:4]], "before this very call"
        assert results_in(world.llm.bodies[6]) == [CLEARED] * 3 + whole[3:]
        assert sum(event.cleared for event in of(world, MicrocompactRan)) == 3
        assert of(world, CompactTriggered) == []


@pytest.mark.requirement("R-19", "R-20", "R-21")
async def test_a_request_that_is_too_long_is_made_shorter_once(world_of: WorldOf) -> None:
    async with small(world_of(), window=60_000).process() as world:
        world.script(SUMMARY, {"match": {}, "reply": {"text": "There."}})
        for turn in range(6):
            await world.answered(words(turn), "There.")
        largest = world.llm.calls[-1]["usage"]["input_tokens"]
        world.llm.double.settings["context_window"] = largest
        await world.answered(words(7), "There.")
        (event,) = of(world, ReactiveCompactTriggered)
        assert event.tokens_before < 0.6 * 60_000, "whatever the thresholds say"
        world.llm.double.settings["context_window"] = 100
        await world.say(words(8))
        await world.settled()
        assert of(world, LoopFailed), "what helps no more ends the run"
        assert len(of(world, ReactiveCompactTriggered)) <= 3


@pytest.mark.requirement("W-40")
async def test_hooks_hear_once_of_a_prompt_that_is_sent_again(world_of: WorldOf) -> None:
    async with small(world_of(), window=60_000, more=hooks("pre_prompt")).process() as world:
        world.script(SUMMARY, {"match": {}, "reply": {"text": "There."}})
        for turn in range(6):
            await world.answered(words(turn), "There.")
        world.llm.double.settings["context_window"] = world.llm.calls[-1]["usage"]["input_tokens"]
        await world.answered(words(7), "There.")
        assert len(of(world, ReactiveCompactTriggered)) == 1, "the prompt was sent again"
        assert noted(world.home) == ["pre_prompt"] * 7


@pytest.mark.requirement("W-23", "W-24")
async def test_what_does_not_fit_by_itself_is_told_to_the_person(world_of: WorldOf) -> None:
    async with small(world_of(), window=12_000).process() as world:
        await world.say("abc " * 7_500)
        await world.shows("no longer fits the model")
        assert of(world, LoopFailed)[0].error == "context_too_long"
        assert world.llm.bodies == []
