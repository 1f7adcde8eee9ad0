"""A jump of the wall clock by an hour while the gateway runs: nothing waits for it, nothing happens twice."""

from collections.abc import Callable

import pytest

from gateway.channels.errors import ChannelBusy
from tests.fakes.waiting import until
from tests.gateway.world import World, slowly

HOUR_S = 3600.0
steps = pytest.mark.parametrize(
    "step_s", [pytest.param(HOUR_S, id="an hour ahead"), pytest.param(-HOUR_S, id="an hour back")]
)


@steps
async def test_a_turn_under_way_is_answered_once_and_the_next_one_too(world: World, step_s: float) -> None:
    await world.answered("before")
    world.script(slowly("slow"))
    await world.say("slow please")
    await world.until_asked(2)
    world.clock.stepped_s = step_s
    await world.say("behind it")
    world.go_on()
    await world.shows("behind it")
    await world.settled()
    assert [text for text in world.texts() if "slow answer" in text] == ["the slow answer"]
    await world.answered("after")
    assert {status for status, _ in await world.rows()} == {"done"}


@steps
async def test_what_the_platform_put_off_does_not_wait_for_the_clock(world: World, step_s: float) -> None:
    await world.answered("before")
    screen = world.screen()
    screen.fail("send", ChannelBusy("slow down", after_s=0.5))
    await world.say("put off")
    await until(lambda: not any(fault.times for fault in screen.faults))
    world.clock.stepped_s = step_s
    await world.shows("put off")
    await world.settled()
    assert sum("put off" in text for text in world.texts()) == 1


@steps
async def test_a_repeat_is_a_repeat_whatever_the_clock_says(world: World, step_s: float) -> None:
    said = world.said("only once")
    await world.hears(said)
    world.clock.stepped_s = step_s
    assert (await world.hears(said)).outcome == "duplicate"
    await world.shows("only once")


@steps
async def test_a_crash_before_the_step_is_taken_up_after_it(world_of: Callable[..., World], step_s: float) -> None:
    world = world_of()
    async with world.process():
        await world.answered("before")
        world.script(slowly("slow"))
        await world.say("slow please")
        await world.until_asked(2)
    world.clock.stepped_s = step_s
    world.script()
    async with world.process():
        await world.shows("slow please")
        await world.answered("after")
