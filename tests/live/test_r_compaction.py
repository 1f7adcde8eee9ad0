"""Compaction in the running gateway: its occasions, its stages, and its failures."""

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from sqlalchemy import select

from agent.core.events import (
    AutoCompactCircuitBreakerTripped,
    CompactComplete,
    CompactTriggered,
    LoopFailed,
    MidCompactLayer1Ran,
    MidCompactLayer2Ran,
    Published,
)
from agent.storage.tables import message
from gateway.telemetry.metrics import Metrics
from tests.gateway.world import World
from tests.live.scenes import SUMMARY, asides, asked_aside, rule, turns_of
from tests.live.test_r_turns import of
from tests.live.test_w_turns import hooks, noted

WorldOf = Callable[..., World]
WINDOW = 40_000
CONFIG = """
[agent]
max_message_chars = 200000
[context]
output_reserve = 1000
emergency_buffer = 100
{context}
[memory.flush]
enabled = false
[memory.recall]
enabled = false
[skills]
enabled = false
"""
KEPT = rule(
    "<summary>\nGoal: birds\nAccomplished: seen HAT-4471\nKey Decisions: none\nRelevant Files: none\n</summary>",
    system_contains=SUMMARY,
)
SHORT = (0.04,) * 10  # a summary spares the newest eight messages
USELESS = rule("I would rather not.", system_contains=SUMMARY)
ANSWER = rule("fine")


def share(part: float) -> str:
    """Words that fill about so much of the window: six tokens are 24 characters."""
    return "and a little more of it " * int(part * WINDOW / 6)


def sized(made: World, *, context: str = "", more: str = "") -> World:
    made.config, made.window, made.providers = CONFIG.format(context=context) + more, WINDOW, ("a",)
    return made


async def tell(world: World, *parts: float, summary: Mapping[str, Any] = KEPT) -> None:
    """Messages of so much of the window each; what must be held in there as well takes 0.07 of it."""
    world.script(summary, ANSWER)
    for part in parts:
        await world.answered(f"bird {part}: {share(part)}", "fine")


@pytest.mark.requirement("R-09", "R-08")
async def test_a_model_writes_a_summary_above_three_quarters_and_not_below(world_of: WorldOf) -> None:
    for part, summarised in ((0.26, False), (0.36, True)):
        made = sized(world_of())
        async with made.process() as world:
            await world.asks("/new")
            await tell(world, *SHORT, part)
            assert not of(world, MidCompactLayer1Ran), "the shipped level leaves nothing out without a model"
            assert bool(of(world, CompactTriggered)) is summarised
    (began,) = of(world, CompactTriggered)
    assert began.stage == "high"
    assert 0.75 * WINDOW < began.tokens_before < 0.9 * WINDOW
    (done,) = of(world, CompactComplete)
    assert not done.mechanical
    assert done.tokens_after < done.tokens_before
    assert "HAT-4471" in str(turns_of(world)[-1]["messages"])


@pytest.mark.requirement("R-08", "W-63")
@pytest.mark.parametrize("level", ["off", "safe", "full"])
async def test_what_gives_way_without_being_asked_for_follows_from_the_level(world_of: WorldOf, level: str) -> None:
    made = sized(world_of(), context="" if level == "safe" else f'compaction = "{level}"')
    assert made.settings().context.compaction == level, "what is shipped is safe"
    async with made.process() as world:
        await tell(world, *SHORT)
        assert not of(world, MidCompactLayer1Ran), "half of the window"
        await tell(world, 0.2 if level == "full" else 0.36)
        assert bool(of(world, MidCompactLayer1Ran)) is (level == "full"), "above three fifths, and no model is asked"
        assert bool(of(world, CompactTriggered)) is (level == "safe")


@pytest.mark.requirement("R-49", "R-08")
async def test_a_summary_that_is_there_already_takes_the_place_of_the_oldest_part(world_of: WorldOf) -> None:
    async with sized(world_of()).process() as world:
        await tell(world, *SHORT, 0.09)
        await asked_aside(world, SUMMARY)
        assert not of(world, MidCompactLayer2Ran), "made ahead, and not needed yet"
        assert "HAT-4471" not in str(turns_of(world)[-1]["messages"])
        await tell(world, 0.14)
        assert len(of(world, MidCompactLayer2Ran)) == 1
        assert "HAT-4471" in str(turns_of(world)[-1]["messages"])
        assert len(asides(world, SUMMARY)) == 1, "no model is waited for"
        assert not of(world, CompactTriggered)


@pytest.mark.requirement("R-45")
async def test_an_operator_sees_that_summaries_are_given_up(world_of: WorldOf) -> None:
    async with sized(world_of()).process() as world:
        while (failures := len(asides(world, SUMMARY))) < 3:
            assert not of(world, AutoCompactCircuitBreakerTripped), f"{failures} failures do not trip it"
            await tell(world, *SHORT, summary=USELESS)
            await world.asks("/compact")
            await world.settled()
        (tripped,) = of(world, AutoCompactCircuitBreakerTripped)
        assert tripped.failures == 3
        metrics = Metrics()
        for number, event in enumerate(world.events):
            metrics.listen(Published(number, event))
        assert metrics.sum("tieline_compaction_breaker_trips") == 1


@pytest.mark.requirement("R-43", "W-29", "Z-31")
async def test_after_three_failures_no_model_is_asked_and_the_conversation_goes_on(world_of: WorldOf) -> None:
    async with sized(world_of()).process() as world:
        rounds = 0
        while not of(world, AutoCompactCircuitBreakerTripped):
            rounds += 1
            assert rounds <= 3
            await tell(world, *SHORT, summary=USELESS)
            await world.asks("/compact")
            await world.settled()
        assert of(world, AutoCompactCircuitBreakerTripped)[0].failures == 3
        assert all(one.mechanical for one in of(world, CompactComplete))
        asked, before = len(asides(world, SUMMARY)), len(of(world, CompactComplete))
        assert asked >= 3
        await tell(world, 0.3, 0.3, 0.3, summary=USELESS)
        assert len(of(world, CompactComplete)) > before, "it is made smaller all the same"
        assert of(world, CompactComplete)[-1].mechanical
        kept = await world.database.read(lambda conn: list(conn.execute(select(message.c.parts)).scalars()))
        records = [part for parts in kept for part in json.loads(parts) if part["kind"] == "compaction"]
        assert records[-1]["mechanical"], "each has its record"
        assert len(asides(world, SUMMARY)) == asked
        assert not of(world, LoopFailed), "no session ends of it"


@pytest.mark.requirement("W-26")
@pytest.mark.parametrize("then", ["", "exit 2"], ids=["well", "failing"])
async def test_hooks_hear_of_a_compaction_and_hold_nothing_up(world_of: WorldOf, then: str) -> None:
    async with sized(world_of(), more=hooks("pre_compact", then=then)).process() as world:
        await tell(world, *SHORT)
        assert noted(world.home) == []
        await tell(world, 0.36)
        assert noted(world.home) == ["pre_compact"]
        assert len(of(world, CompactComplete)) == 1


@pytest.mark.requirement("W-28")
async def test_a_first_turn_compacts_nothing(world_of: WorldOf) -> None:
    async with sized(world_of()).process() as world:
        await tell(world, 0.75)
        assert (of(world, CompactTriggered), of(world, MidCompactLayer1Ran)) == ([], [])
        assert len(turns_of(world)) == 1
        await tell(world, 0.05)
        assert of(world, CompactTriggered), "the second one does, so it was that full"


@pytest.mark.requirement("W-70")
@pytest.mark.parametrize(("reserve", "buffer"), [(2_000, 200), (9_000, 200), (2_000, 2_400)])
async def test_a_request_leaves_room_for_the_answer_and_for_a_mistake(
    world_of: WorldOf, reserve: int, buffer: int
) -> None:
    made = sized(world_of())
    kept = made.settings().context
    assert (kept.output_reserve, kept.emergency_buffer) == (1_000, 100), "as set above"
    made.config = made.config.replace("output_reserve = 1000", f"output_reserve = {reserve}")
    made.config = made.config.replace("emergency_buffer = 100", f"emergency_buffer = {buffer}")
    async with made.process() as world:
        world.script(ANSWER)
        await world.say(share(0.845))
        if reserve + buffer == 2_200:
            await world.shows("fine")
        else:
            await world.shows("no longer fits the model")
            assert turns_of(world) == []


@pytest.mark.requirement("W-70")
async def test_a_conversation_is_compacted_before_it_outgrows_what_the_reserves_leave(world_of: WorldOf) -> None:
    """They leave 0.69 of this window: less than the share of the window at which one is compacted otherwise."""
    made = sized(world_of())
    made.config = made.config.replace("output_reserve = 1000", "output_reserve = 10000")
    made.config = made.config.replace("emergency_buffer = 100", "emergency_buffer = 2500")
    async with made.process() as world:
        await tell(world, *SHORT, 0.275)
        assert not [text for text in world.texts() if "no longer fits" in text]
        (began,) = of(world, CompactTriggered)
        assert 0.69 * WINDOW < began.tokens_before < 0.75 * WINDOW
        assert "HAT-4471" in str(turns_of(world)[-1]["messages"])


@pytest.mark.requirement("W-70")
@pytest.mark.parametrize(("buffer", "compacted"), [(2_500, True), (100, False)])
async def test_what_is_kept_free_for_a_mistake_decides_when_a_conversation_is_compacted(
    world_of: WorldOf, buffer: int, compacted: bool
) -> None:
    """The same conversation of two thirds of the window: compaction begins at 0.63 of it, or at 0.69."""
    made = sized(world_of())
    made.config = made.config.replace("output_reserve = 1000", "output_reserve = 10000")
    made.config = made.config.replace("emergency_buffer = 100", f"emergency_buffer = {buffer}")
    async with made.process() as world:
        await tell(world, *SHORT, 0.215)
        assert bool(of(world, CompactTriggered)) is compacted
        for began in of(world, CompactTriggered):
            assert began.stage == "high"
            assert 0.64 * WINDOW < began.tokens_before < 0.68 * WINDOW
