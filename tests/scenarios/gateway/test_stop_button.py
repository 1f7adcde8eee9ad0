"""The Stop button below a running answer: there after some seconds, gone at the end, and it stops that turn."""

from dataclasses import replace

import pytest

from agent.core.events import LoopEnded
from gateway.delivery.conversation_outbox import STOP_ACTION, STOP_BUTTON_AFTER_S
from tests.fakes.waiting import until
from tests.gateway.world import ANN, World, slowly

LATE_S = STOP_BUTTON_AFTER_S + 40  # growing words have their share of what may be sent, on a busy machine all of it


def offers_stop(world: World) -> bool:
    return any(STOP_ACTION in shown.actions for shown in world.screen(ANN).shown)


def as_on_telegram(world: World) -> None:
    account = world.accounts["telegram"]
    account.capabilities = replace(account.capabilities, stop_button=True)


@pytest.mark.requirement("G-05", "B-46")
async def test_an_answer_that_takes_long_can_be_stopped_by_a_button(world: World) -> None:
    as_on_telegram(world)
    world.script(slowly("slow"))
    await world.say("slow please")
    await world.until_asked()
    assert not offers_stop(world), "most answers are there before it is due"
    await until(lambda: offers_stop(world), longest_s=LATE_S)
    await world.say("the next question")
    await world.press(STOP_ACTION)
    await world.shows("Stopped.")
    world.go_on()
    await world.settled()
    assert not offers_stop(world), "it goes with the turn"
    assert [text for text in world.texts() if text.startswith(("Stopping", "Nothing is running"))] == []
    assert any("the next question" in text for text in world.texts()), "it stops the turn that it stands below alone"
    ends = [event.success for event in world.events if isinstance(event, LoopEnded)]
    assert ends == [False, True], "a turn that was stopped has an end, too"


@pytest.mark.requirement("G-05")
async def test_an_answer_that_comes_takes_the_button_away(world: World) -> None:
    as_on_telegram(world)
    world.script(slowly("slow"))
    await world.say("slow please")
    await until(lambda: offers_stop(world), longest_s=LATE_S)
    world.go_on()
    await world.shows("the slow answer")
    await until(lambda: not offers_stop(world))
    assert world.texts() == ["the slow answer"]
