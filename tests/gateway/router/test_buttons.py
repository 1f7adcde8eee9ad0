"""Buttons: answers to questions, commands, and what is left of earlier times."""

from dataclasses import replace

import pytest

from agent.core.ids import PersonId
from agent.core.outbox import Question
from gateway.channels.document import Plain
from gateway.channels.errors import ChannelRejected
from gateway.channels.inbound import Mention
from gateway.channels.outbound import Button, Outbound
from tests.fakes.channel import Shown
from tests.fakes.running import running
from tests.fakes.waiting import until
from tests.gateway.world import ANN, BOB, GROUP, World

ANSWERS: list[str | None] = []


async def asking(world: World, chat: str = GROUP, person: str = ANN) -> None:
    """Ask, and note what was answered."""
    key = world.said("", chat=chat).key
    question = Question(prompt="Delete it?", asked_of=PersonId(f"telegram:{person}"), timeout_s=60)
    channel = world.services.delivery.channel_for(key)
    assert channel is not None
    ANSWERS.append((await world.services.delivery.questions.ask(channel, question, "en")).choice)


@pytest.fixture(autouse=True)
def no_answers() -> None:
    ANSWERS.clear()


def buttons(world: World, chat: str = GROUP) -> tuple[str, ...]:
    return next((shown.actions for shown in world.screen(chat).shown if shown.actions), ())


@pytest.mark.requirement("G-35")
async def test_a_question_is_answered_by_the_one_who_was_asked(world: World) -> None:
    async with running(lambda: asking(world)):
        await until(lambda: bool(buttons(world)))
        yes, _ = buttons(world)
        await world.press(yes, person=BOB, chat=GROUP, id="p1")
        assert world.screen(GROUP).notes == ["Only the person who was asked can answer that."]
        assert (await world.say("yes", person=BOB, chat=GROUP)).reason != "answered a question"
        assert ANSWERS == []
        await world.press(yes, chat=GROUP, id="p2")
        await until(lambda: ANSWERS == ["yes"])
        assert world.screen(GROUP).notes[-1] == "Yes"


async def test_a_question_is_past_the_queue(world: World) -> None:
    world.script({"match": {"contains": "slow"}, "reply": {"text": "done", "hold": "for ever"}})
    await world.say("slow please", chat=GROUP)
    await world.until_asked()
    async with running(lambda: asking(world)):
        await until(lambda: bool(buttons(world)))
        assert (await world.say("yes", chat=GROUP)).reason == "answered a question"
        await until(lambda: ANSWERS == ["yes"])


async def test_a_repeated_yes_does_not_answer_the_next_question(world: World) -> None:
    answer = world.said("yes", chat=GROUP)
    async with running(lambda: asking(world)):
        await until(lambda: bool(buttons(world)))
        await world.hears(answer)
        await until(lambda: ANSWERS == ["yes"])
    await until(lambda: not buttons(world))
    async with running(lambda: asking(world)):
        await until(lambda: bool(buttons(world)))
        assert (await world.hears(answer)).outcome == "duplicate"
        assert ANSWERS == ["yes"]
        assert (await world.say("no", chat=GROUP)).reason == "answered a question"
        await until(lambda: ANSWERS == ["yes", "no"])


async def test_without_a_question_yes_is_a_message(world: World) -> None:
    assert (await world.say("yes")).reason == ""
    await world.until_asked()


async def test_a_button_of_earlier_times_says_so(world: World) -> None:
    old = Outbound(document=(Plain("old"),), buttons=((Button(label="x", action="something:else"),),))
    world.screen().shown.append(Shown("1", old))
    assert (await world.press("something:else")).outcome == "ignored"
    assert world.screen().notes == ["That button no longer works here."]
    gone = replace(old, buttons=((Button(label="x", action="q:token:0"),),))
    world.screen().shown.append(Shown("2", gone))
    await world.press("q:token:0")
    assert world.screen().notes[-1] == "That question is closed."


async def test_a_press_that_cannot_be_acknowledged_counts_all_the_same(world: World) -> None:
    await world.asks("/provider", "Providers")
    world.screen().fail("acknowledge", ChannelRejected("too late"))
    assert (await world.press("c:/provider b")).outcome == "accepted"
    await world.shows("now uses")


@pytest.mark.requirement("G-35")
async def test_in_a_group_the_asked_person_answers_without_a_mention(world: World) -> None:
    quiet = {"chat": GROUP, "mention": Mention.NONE}
    assert (await world.say("yes", **quiet)).reason == "no mention of the bot", "nothing is asked"
    async with running(lambda: asking(world)):
        await until(lambda: bool(buttons(world)))
        for words, person in (("yes", BOB), ("yes please", ANN), ("so what", ANN)):
            assert (await world.say(words, person=person, **quiet)).outcome == "ignored"
        assert (await world.say("yes", chat="-1006", mention=Mention.NONE)).outcome == "ignored", "asked elsewhere"
        assert ANSWERS == []
        yes = world.said("Yes", chat=GROUP, mention=Mention.NONE)
        assert (await world.hears(yes)).reason == "answered a question"
        await until(lambda: ANSWERS == ["yes"])
        assert (await world.hears(yes)).outcome in ("duplicate", "ignored")
    assert (await world.say("yes", **quiet)).reason == "no mention of the bot", "it was answered"
    await world.settled()
    assert world.llm.bodies == [], "no word became a message to the model"
