"""Questions: only the person asked may answer, and silence is a no."""

from dataclasses import replace
from pathlib import Path

import pytest

from agent.core.outbox import Answer, Question
from agent.storage.database import Database
from gateway.channels.channel import Capabilities
from gateway.channels.errors import ChannelGone
from gateway.delivery.ephemeral.questions import Finding
from tests.fakes.channel import DEFAULT
from tests.fakes.clock import FakeClock
from tests.fakes.running import running
from tests.gateway.delivery.world import ANN, BOB, World, ask, key

TERMS = "Without an answer within 2 min nothing is done."
QUESTION = Question(prompt="Delete **everything**?", asked_of=ANN)


class Asked:
    """A question under way."""

    def __init__(self, world: World, question: Question = QUESTION) -> None:
        self.world = world
        self.question = question
        self.answers: list[Answer] = []

    async def run(self) -> None:
        self.answers.append(await ask(self.world.delivery, self.question))

    @property
    def shown(self) -> str:
        return self.world.screen().texts[-1]

    def action(self, number: int) -> str:
        return self.world.screen().shown[-1].actions[number]


@pytest.fixture
def world(sqlite_database: Database, clock: FakeClock, tmp_path: Path) -> World:
    return World(sqlite_database, clock, tmp_path, replace(DEFAULT, typing=False, reactions=False))


@pytest.mark.parametrize(("number", "choice", "label"), [(0, "yes", "Yes"), (1, "no", "No")])
async def test_a_press_answers_and_the_buttons_go(world: World, number: int, choice: str, label: str) -> None:
    async with world.process() as delivery:
        asked = Asked(world)
        async with running(asked.run):
            await world.until(lambda: bool(world.screen().shown))
            await world.still()
            assert asked.shown == f"Delete everything?\n\n{TERMS}"
            assert await world.notes() == 1
            action = asked.action(number)
            assert len(action.encode()) <= 64
            assert delivery.questions.press(action, ANN).finding is Finding.ANSWERED
            await world.until(lambda: bool(asked.answers))
            await world.until(lambda: world.screen().shown[0].actions == ())
            await world.still()
        assert asked.answers == [Answer(choice, ANN)]
        assert asked.shown == f"Delete everything?\n\nAnswered: {label}"
        assert await world.notes() == 0
        assert delivery.questions.press(action, ANN).finding is Finding.OVER


@pytest.mark.requirement("G-35")
async def test_somebody_else_may_not_answer_and_gains_no_time(world: World) -> None:
    async with world.process() as delivery:
        asked = Asked(world)
        async with running(asked.run):
            await world.until(lambda: bool(world.screen().shown))
            await world.still()
            action = asked.action(0)
            await world.pass_time(110)
            verdict = delivery.questions.press(action, BOB)
            assert verdict.finding is Finding.NOT_YOURS
            assert verdict.text == "Only the person who was asked can answer that."
            assert not delivery.questions.text(key(), BOB, "yes")
            assert not asked.answers
            await world.pass_time(9)
            assert not asked.answers
            await world.pass_time(2)
            await world.still()
            assert asked.answers == [Answer(None)]


@pytest.mark.requirement("G-35")
@pytest.mark.parametrize("action", ["q:guess:0", "q:guess:9", "q:", "q:::", "q:guess:yes"])
async def test_a_guessed_button_answers_nothing(world: World, action: str) -> None:
    async with world.process() as delivery:
        asked = Asked(world)
        async with running(asked.run):
            await world.until(lambda: bool(world.screen().shown))
            token = asked.action(0).split(":")[1]
            assert len(token) >= 20
            assert delivery.questions.press(action, ANN).finding is Finding.OVER
            assert delivery.questions.press(f"q:{token}:7", ANN).finding is Finding.OVER
            assert not asked.answers
    assert delivery.questions.press("cmd:help", ANN).finding is Finding.NO_QUESTION


@pytest.mark.parametrize(
    ("text", "choice"),
    [
        (" YES\n", "yes"),
        ("no", "no"),
        ("Ja.", "yes"),
        ("nein", "no"),
        ("ja bitte", None),
        ("yes please", None),
        ("why?", None),
        ("", None),
    ],
)
async def test_the_person_asked_may_type_the_answer(world: World, text: str, choice: str | None) -> None:
    async with world.process() as delivery:
        asked = Asked(world)
        async with running(asked.run):
            await world.until(lambda: bool(world.screen().shown))
            await world.still()
            assert not delivery.questions.text(key("2"), ANN, text)
            assert delivery.questions.text(key(), ANN, text) is (choice is not None)
            if choice is not None:
                await world.until(lambda: bool(asked.answers))
                assert asked.answers == [Answer(choice, ANN)]


async def test_silence_is_a_no_after_two_minutes_and_is_shown(world: World) -> None:
    async with world.process():
        asked = Asked(world)
        started = world.clock.monotonic()
        async with running(asked.run):
            await world.until(lambda: bool(asked.answers))
            assert 120 <= world.clock.monotonic() - started < 122
            await world.until(lambda: world.screen().shown[0].actions == ())
        assert asked.answers == [Answer(None)]
        assert asked.shown == "Delete everything?\n\nNo answer in time."


async def test_anybody_may_answer_what_nobody_was_asked(world: World) -> None:
    async with world.process() as delivery:
        asked = Asked(world, Question(prompt="Which?", asked_of=None, choices=("red", "blue")))
        async with running(asked.run):
            await world.until(lambda: bool(world.screen().shown))
            await world.still()
            assert delivery.questions.press(asked.action(1), BOB).text == "blue"
            await world.until(lambda: bool(asked.answers))
        assert asked.answers == [Answer("blue", BOB)]


@pytest.mark.parametrize("error", [ChannelGone("blocked")])
async def test_a_question_that_cannot_be_asked_is_denied(world: World, error: Exception) -> None:
    world.screen().fail("send", error)
    async with world.process():
        asked = Asked(world)
        async with running(asked.run):
            await world.until(lambda: bool(asked.answers))
    assert asked.answers == [Answer(None)]


@pytest.mark.parametrize(
    "capabilities", [replace(DEFAULT, buttons=False), replace(DEFAULT, buttons=False, edits=False)]
)
async def test_without_buttons_the_question_says_what_to_type(
    sqlite_database: Database, clock: FakeClock, tmp_path: Path, capabilities: Capabilities
) -> None:
    world = World(sqlite_database, clock, tmp_path, capabilities)
    async with world.process() as delivery:
        asked = Asked(world)
        async with running(asked.run):
            await world.until(lambda: bool(world.screen().shown))
            await world.still()
            assert asked.shown == f"Delete everything?\n\n{TERMS}\n\nAnswer with Yes / No."
            assert delivery.questions.text(key(), ANN, "yes")
            await world.until(lambda: bool(asked.answers))
            await world.still()
            if capabilities.edits:
                assert asked.shown == "Delete everything?\n\nAnswered: Yes"
    assert asked.answers == [Answer("yes", ANN)]


async def test_a_long_question_has_its_buttons_at_the_end(world: World) -> None:
    async with world.process() as delivery:
        asked = Asked(world, replace(QUESTION, prompt="word " * 1000 + "?"))
        async with running(asked.run):
            await world.until(lambda: len(world.screen().shown) == 2)
            await world.still()
            assert [len(shown.actions) for shown in world.screen().shown] == [0, 2]
            delivery.questions.press(asked.action(0), ANN)
            await world.until(lambda: bool(asked.answers))


async def test_a_restart_closes_what_was_open(world: World) -> None:
    async with world.process():
        asked = Asked(world)
        async with running(asked.run):
            await world.until(lambda: bool(world.screen().shown))
            await world.still()
            action = asked.action(0)
            world.screen().hold("edit")
    world.screen().gates.clear()
    assert world.screen().shown[0].actions != ()
    async with world.process() as delivery:
        await world.until(lambda: world.screen().shown[0].actions == ())
        assert world.screen().texts == ["That question is closed."]
        assert delivery.questions.press(action, ANN).finding is Finding.OVER
        await world.still()
    assert await world.notes() == 0


async def test_an_answer_before_delivery_runs_takes_the_buttons_away(world: World) -> None:
    asked = Asked(world)
    async with running(asked.run):
        await world.until(lambda: bool(world.screen().shown))
        assert world.delivery.questions.text(key(), ANN, "yes")
        await world.until(lambda: bool(asked.answers))
    assert world.screen().shown[0].actions == ()
    assert asked.shown == "Delete everything?\n\nAnswered: Yes"
    assert await world.notes() == 0
