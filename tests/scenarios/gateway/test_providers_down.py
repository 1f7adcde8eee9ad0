"""A chat whose model service is down: one provider alone, as most people have it."""

import logging
from collections.abc import Callable

import pytest

from tests.fakes.waiting import until
from tests.gateway.world import ANN, World

DOWN = {"kind": "error", "status": 503, "times": 100}
FEW = "[retry]\nmax_retries = 0\n"
WAIT = FEW + "[timeouts]\nno_providers_backoff = 30.0\n"
SKIPPED = "context not prepared: no provider could answer just now"


@pytest.mark.requirement("Z-25")
async def test_after_the_only_provider_has_failed_the_turn_waits(world_of: "Callable[..., World]") -> None:
    async with world_of(config=FEW, providers=("a",)).process() as world:
        world.llm.fails(**DOWN)
        began = world.clock.monotonic()
        said = await world.asks("hello", "not answering just now")
        assert "a" in said
        assert world.clock.monotonic() - began >= 2.0


@pytest.mark.requirement("Z-25", "Z-26")
async def test_a_message_within_the_back_off_is_tried_with_the_context_at_hand(
    world_of: "Callable[..., World]", caplog: pytest.LogCaptureFixture
) -> None:
    """The wait is stopped, as a person may: nothing is prepared for a service that is away."""
    caplog.set_level(logging.INFO, "tieline")
    async with world_of(config=WAIT, providers=("a",)).process() as world:
        await world.answered("good morning", "good morning")
        world.llm.fails(**DOWN)
        await world.say("hello")
        await world.until_asked(2)
        await until(lambda: "nobody answers, waiting 30 s" in caplog.text)
        await world.say("/stop")
        await until(lambda: not world.services.dispatcher.running)
        assert SKIPPED not in caplog.text
        world.llm.double.faults.clear()
        await world.answered("are you there?", "are you there?")
        assert SKIPPED in caplog.text
        assert "good morning" in str(world.llm.bodies[-1]["messages"]), "the history that it has goes along"
        world.clock.ahead_s += 31
        caplog.clear()
        await world.answered("and now?", "and now?")
        assert SKIPPED not in caplog.text
        assert world.texts(ANN)
