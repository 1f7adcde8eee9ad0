"""Calls that the platform carries out after their time-out: the message appears, and it goes."""

from dataclasses import replace
from pathlib import Path

import pytest

from agent.core.outbox import Answer, OutgoingMessage, Question
from agent.storage.database import Database
from gateway.channels.errors import ChannelBusy, ChannelUnsure
from gateway.delivery.conversation_outbox import ConversationOutbox
from gateway.delivery.outbox.delivery import Delivery
from tests.fakes.channel import DEFAULT, Act, Screen
from tests.fakes.clock import FakeClock
from tests.fakes.running import running
from tests.gateway.delivery.world import ANN, World, ask, audience, key

SILENT = replace(DEFAULT, typing=False, reactions=False)
KEYED = replace(SILENT, idempotent_send="lookup")

CUT = ChannelUnsure("no answer in time")


@pytest.fixture
def world(sqlite_database: Database, clock: FakeClock, tmp_path: Path) -> World:
    """A platform that finds messages by their keys: Discord, Slack."""
    return World(sqlite_database, clock, tmp_path, KEYED)


@pytest.fixture
def keyless(sqlite_database: Database, clock: FakeClock, tmp_path: Path) -> World:
    """A platform that does not: Telegram."""
    return World(sqlite_database, clock, tmp_path, SILENT)


def is_given_up(screen: Screen) -> bool:
    return bool(screen.under_way)


async def with_a_late_preview(world: World, delivery: Delivery) -> ConversationOutbox:
    """The voice of a turn whose preview nobody waits for any more."""
    voice = delivery.outbox_for(key())
    voice.begin(audience())
    voice.preview("Half an ans")
    await world.until(lambda: is_given_up(world.screen()))
    return voice


@pytest.mark.requirement("B-52", "G-08")
@pytest.mark.parametrize("after_s", [0.0, 3.0, 25.0, 50.0])
async def test_a_preview_that_arrives_after_its_final_goes(world: World, after_s: float) -> None:
    screen = world.screen()
    screen.delay("send", CUT)
    async with world.process() as delivery:
        voice = await with_a_late_preview(world, delivery)
        await world.commit(OutgoingMessage(text="A whole answer.", kind="reply", reply_to="m1"))
        await world.until_idle()
        await voice.end()
        await world.pass_time(after_s, step_s=0.5)
        assert screen.texts == ["A whole answer."]
        screen.catch_up()
        assert screen.texts == ["A whole answer.", "Half an ans"]
        await world.until(lambda: screen.texts == ["A whole answer."])
        await world.until_forgotten()


async def test_one_that_arrives_before_the_final_becomes_the_final(world: World) -> None:
    screen = world.screen()
    screen.delay("send", CUT)
    async with world.process() as delivery:
        voice = await with_a_late_preview(world, delivery)
        screen.catch_up()
        await world.commit(OutgoingMessage(text="A whole answer.", kind="reply", reply_to="m1"))
        await world.until_idle()
        await voice.end()
        assert await world.notes() == 0
        await world.pass_time(70, step_s=1)
    assert screen.texts == ["A whole answer."]
    assert len(screen.made("send")) == 0
    assert len(screen.made("edit")) == 1


async def test_one_that_arrives_between_two_tries_of_the_final_does_not_become_a_second_one(world: World) -> None:
    screen = world.screen()
    screen.delay("send", CUT)
    async with world.process() as delivery:
        voice = await with_a_late_preview(world, delivery)
        screen.fail("send", CUT, carried_out=True)
        await world.commit(OutgoingMessage(text="A whole answer.", kind="reply", reply_to="m1"))
        await world.until(lambda: screen.texts == ["A whole answer."])
        screen.catch_up()
        await world.until_idle()
        await voice.end()
        await world.until(lambda: screen.texts == ["A whole answer."])
        await world.until_forgotten()
    assert screen.texts == ["A whole answer."]


async def test_it_goes_too_when_a_later_part_of_the_answer_has_to_wait(world: World) -> None:
    screen = world.screen()
    text = "\n".join(f"line {number}" for number in range(700))
    screen.delay("send", CUT)
    async with world.process() as delivery:
        voice = delivery.outbox_for(key())
        voice.begin(audience())
        voice.preview("line 0")
        await world.until(lambda: is_given_up(screen))
        screen.fail("send", ChannelBusy("flood", after_s=1.0), skip=1)
        await world.commit(OutgoingMessage(text=text, kind="reply", reply_to="m1"))
        await world.until_idle()
        await voice.end()
        screen.catch_up()
        await world.until(lambda: "line 0" not in screen.texts)
        await world.until_forgotten()
    assert "".join(screen.texts) == text


@pytest.mark.parametrize("restarts", [False, True])
async def test_a_turn_that_says_nothing_leaves_nothing_that_comes_late(world: World, restarts: bool) -> None:
    """After a restart the note is all that is known, and it is not forgotten too soon."""
    screen = world.screen()
    screen.delay("send", CUT)
    async with world.process() as delivery:
        voice = await with_a_late_preview(world, delivery)
        await voice.end()
        await world.pass_time(5)
        if not restarts:
            screen.catch_up()
            await world.until(lambda: screen.texts == [])
    async with world.process():
        await world.pass_time(5)
        screen.catch_up()
        await world.until(lambda: screen.texts == [])
        await world.until_forgotten()


async def test_what_never_arrives_is_looked_for_a_few_times_and_forgotten(world: World) -> None:
    world.screen().fail("send", CUT)
    async with world.process() as delivery:
        voice = delivery.outbox_for(key())
        voice.begin(audience())
        voice.preview("Half an ans")
        await world.until(lambda: world.screen().faults[0].times == 0)
        await voice.end()
        began = world.clock.monotonic()
        await world.pass_time(55, step_s=0.5)
        assert await world.notes() == 1
        await world.until_forgotten()
        assert world.clock.monotonic() - began < 80
    assert len([call for call in world.screen().calls if call.act == "find"]) < 12


@pytest.mark.requirement("G-08")
async def test_a_status_that_arrives_late_goes_and_the_next_does_not_wait_for_it(world: World) -> None:
    screen = world.screen()
    screen.delay("whisper", CUT)
    async with world.process() as delivery:
        voice = delivery.outbox_for(key())
        voice.begin(audience())
        voice.status("one")
        await world.until(lambda: is_given_up(screen))
        voice.status("two")
        await world.until(lambda: screen.texts == ["two"])
        screen.catch_up()
        await world.until(lambda: screen.texts == ["two"])
        await voice.end()
        await world.until(lambda: screen.texts == [])
        await world.until_forgotten()


async def test_a_question_that_arrives_late_has_no_buttons_for_long(world: World) -> None:
    screen = world.screen()
    screen.delay("send", CUT)
    async with world.process() as delivery:
        answer = await ask(delivery, Question(prompt="Delete it?", asked_of=ANN))
        assert answer.choice is None
        screen.catch_up()
        assert screen.shown[0].actions
        await world.until(lambda: not screen.shown[0].actions)
        await world.until_forgotten()


@pytest.mark.requirement("G-08")
@pytest.mark.parametrize(
    ("kind", "made_by", "ended_by"),
    [("preview", "send", "delete"), ("native stream", "open", "drop"), ("status", "whisper", "delete")],
)
async def test_without_keys_the_late_answer_tells_what_must_go(
    sqlite_database: Database, clock: FakeClock, tmp_path: Path, kind: str, made_by: Act, ended_by: Act
) -> None:
    world = World(sqlite_database, clock, tmp_path, SILENT, streams=kind == "native stream")
    screen = world.screen()
    gate = screen.hold(made_by)
    async with world.process() as delivery:
        voice = delivery.outbox_for(key())
        voice.begin(audience())
        if kind == "status":
            voice.status("working")
        else:
            voice.preview("Half an ans")
        await world.pass_time(12)
        screen.gates.clear()  # what is under way waits on
        await world.commit(OutgoingMessage(text="A whole answer.", kind="reply", reply_to="m1"))
        await world.until_idle()
        await voice.end()
        assert screen.texts == ["A whole answer."]
        gate.set()
        await world.until(lambda: ended_by in [call.act for call in screen.calls])
        await world.until_forgotten()
    assert screen.texts == ["A whole answer."]
    assert len(screen.made(made_by)) == (2 if kind == "preview" else 1)  # it had arrived


async def test_without_keys_a_question_whose_answer_is_late_loses_its_buttons(keyless: World) -> None:
    screen = keyless.screen()
    gate = screen.hold("send")
    answers: list[Answer] = []
    async with keyless.process() as delivery:

        async def asking() -> None:
            answers.append(await ask(delivery, Question(prompt="Delete it?", asked_of=ANN)))

        async with running(asking):
            await keyless.pass_time(12)
            assert [answer.choice for answer in answers] == [None]
            gate.set()
            await keyless.until(lambda: bool(screen.made("edit")))
            await keyless.until_forgotten()
    assert not any(shown.actions for shown in screen.shown)
