"""A reply grows before the person's eyes and becomes the final message; nothing of it stays behind."""

from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.core.outbox import OutgoingMessage
from agent.storage.database import Database
from gateway.channels.document import CodeBlock, Plain, is_blank
from gateway.channels.errors import ChannelBusy, ChannelGone, ChannelRejected, ChannelUnsure
from gateway.channels.outbound import Outbound, SentRef
from gateway.delivery.egress import Guard
from gateway.delivery.ephemeral.messages import Shown, decode, encode
from gateway.delivery.rendering.growing import Growing
from gateway.delivery.rendering.markdown import parse
from tests.fakes.channel import DEFAULT, Act
from tests.fakes.clock import FakeClock
from tests.fakes.readable import readable, utf16_length
from tests.gateway.delivery.rendering.documents import markdown_texts
from tests.gateway.delivery.world import QUIET, World, audience, key

SILENT = replace(DEFAULT, typing=False, reactions=False)


@pytest.fixture(params=[False, True], ids=["by editing", "native stream"])
def world(request: pytest.FixtureRequest, sqlite_database: Database, clock: FakeClock, tmp_path: Path) -> World:
    return World(sqlite_database, clock, tmp_path, SILENT, streams=request.param)


@pytest.mark.requirement("G-11")
async def test_the_first_frame_comes_at_once_the_others_at_the_platforms_pace(world: World) -> None:
    async with world.process() as delivery:
        voice = delivery.outbox_for(key())
        voice.begin(audience())
        started = world.clock.monotonic()
        voice.preview("The cat")
        await world.until(lambda: world.screen().texts == ["The cat"], step_s=0.01)
        assert world.clock.monotonic() - started < 0.1
        voice.preview(" sat")
        voice.preview(" down")
        await world.still()
        assert world.screen().texts == ["The cat"]
        await world.until(lambda: world.screen().texts == ["The cat sat down"], step_s=0.05)
        assert 1.0 <= world.clock.monotonic() - started < 1.3
        await world.commit(OutgoingMessage(text="The cat sat down.", kind="reply", reply_to="m1"))
        await world.until_idle()
        await voice.end()
        assert world.screen().texts == ["The cat sat down."]
    assert await world.notes() == 0
    assert len(world.screen().calls) == 3


async def test_a_reply_that_is_done_at_once_is_sent_once(world: World) -> None:
    async with world.process() as delivery:
        voice = delivery.outbox_for(key())
        voice.begin(audience())
        voice.preview("Yes")
        await world.commit(OutgoingMessage(text="Yes.", kind="reply", reply_to="m1"))
        await world.until_idle(step_s=0.001)
        await voice.end()
        await world.still()
    assert [call.act for call in world.screen().calls] == ["send"]
    assert world.screen().texts == ["Yes."]


@pytest.mark.parametrize("seen", [True, False], ids=["was on the screen", "was not"])
async def test_an_answer_goes_on_below_what_a_person_was_asked(world: World, seen: bool) -> None:
    async with world.process() as delivery:
        voice = delivery.outbox_for(key())
        voice.begin(audience(inbox_id=2))
        voice.preview("I will write it.")
        if seen:
            await world.until(lambda: world.screen().texts == ["I will write it."])
        with voice.awaiting():
            await world.commit(OutgoingMessage(text="May I?", kind="notice"))
            await world.until(lambda: world.screen().texts[-1:] == ["May I?"])
            await world.still()
            assert world.screen().texts == [*(["I will write it."] if seen else []), "May I?"]
        voice.preview(" Done")
        await world.until(lambda: world.screen().texts == ["May I?", "I will write it. Done"])
        await world.commit(OutgoingMessage(text="I will write it. Done.", kind="reply", reply_to="m1"))
        await world.until_idle()
        await voice.end()
        assert world.screen().texts == ["May I?", "I will write it. Done."]
    assert await world.notes() == 0


async def test_nothing_stands_there_while_there_is_nothing_to_see(world: World) -> None:
    """A stream of the platform that began with a placeholder could not go on with the answer."""
    asked: list[str] = []

    def begun(text: str) -> int:
        asked.append(text)
        return len(text) if "." in text else 0  # what may become a secret waits

    world.guard = Guard(begun=begun)
    async with world.process() as delivery:
        voice = delivery.outbox_for(key())
        voice.begin(audience())
        voice.preview("Not yet")
        await world.until(lambda: asked == ["Not yet"])
        voice.preview(", now.")
        await world.until(lambda: world.screen().texts == ["Not yet, now."])
        await voice.end()
    assert world.screen().calls[0].text == "Not yet, now."


@pytest.mark.requirement("G-24")
async def test_a_retried_stream_starts_over_in_the_same_message(world: World) -> None:
    async with world.process() as delivery:
        voice = delivery.outbox_for(key())
        voice.begin(audience())
        voice.preview("Half an ans")
        await world.until(lambda: world.screen().texts == ["Half an ans"])
        voice.reset_preview()
        await world.until(lambda: world.screen().texts == ["…"])
        voice.preview("A new one")
        await world.until(lambda: world.screen().texts == ["A new one"])
        await world.commit(OutgoingMessage(text="A new one.", kind="reply", reply_to="m1"))
        await world.until_idle()
        await voice.end()
    assert world.screen().texts == ["A new one."]
    assert not any("Half" in text and "new" in text for call in world.screen().calls for text in [call.text])


async def test_a_turn_that_says_nothing_leaves_nothing(world: World) -> None:
    async with world.process() as delivery:
        voice = delivery.outbox_for(key())
        voice.begin(audience())
        voice.preview("Half an ans")
        await world.until(lambda: world.screen().texts == ["Half an ans"])
        await voice.end()
        await world.until(lambda: world.screen().texts == [])
        await world.still()
    assert await world.notes() == 0


async def test_a_notice_does_not_take_the_reply_s_place(world: World) -> None:
    async with world.process() as delivery:
        voice = delivery.outbox_for(key())
        voice.begin(audience())
        voice.preview("Half an ans")
        await world.until(lambda: world.screen().texts == ["Half an ans"])
        await world.commit(OutgoingMessage(text="Stopped.", kind="notice", reply_to="m1"))
        await voice.end()
        await world.until_idle()
        await world.until(lambda: world.screen().texts == ["Stopped."])


@pytest.mark.parametrize("reply_to", [None, "m2"], ids=["in a direct chat", "in a group"])
async def test_what_was_said_before_comes_first_and_takes_no_later_turn_s_preview(
    world: World, reply_to: str | None
) -> None:
    world.screen().fail("send", ChannelBusy("flood", after_s=3.0))
    async with world.process() as delivery:
        await world.commit(OutgoingMessage(text="first answer", kind="reply", reply_to=reply_to and "m1"))
        await world.still()
        voice = delivery.outbox_for(key())
        voice.begin(audience(reply_to=reply_to, inbox_id=2))
        voice.preview("second")
        await world.pass_time(1)
        assert world.screen().texts == []
        await world.until(lambda: world.screen().texts == ["first answer", "second"])
        await world.commit(OutgoingMessage(text="second answer", kind="reply", reply_to=reply_to))
        await world.until_idle()
        await voice.end()
        await world.still()
    assert world.screen().texts == ["first answer", "second answer"]


@pytest.mark.requirement("B-52")
@pytest.mark.parametrize("restarts", [False, True], ids=["the same process", "after a kill"])
async def test_a_reply_that_may_have_arrived_is_looked_for_and_takes_no_other_preview(
    sqlite_database: Database, clock: FakeClock, tmp_path: Path, restarts: bool
) -> None:
    """A preview of the next turn would look like a place to put it, and it would be there twice."""
    capabilities = replace(SILENT, idempotent_send="lookup")
    world = World(sqlite_database, clock, tmp_path, capabilities)
    world.screen().fail("send", ChannelUnsure("cut"), carried_out=True)
    async with world.process() as delivery:
        await world.commit("first answer")
        await world.until(lambda: world.screen().texts == ["first answer"])
        await world.still()
        if restarts:  # the next turn of an earlier process had shown something already
            shown = await world.channel(key()).send(Outbound(document=(Plain("second"),)))  # type: ignore[union-attr]
            await delivery.ephemera.note(key(), "preview", Shown(shown, of=2))
        else:
            voice = delivery.outbox_for(key())
            voice.begin(audience(reply_to=None, inbox_id=2))
            voice.preview("second")
            await world.until(lambda: world.screen().texts == ["first answer", "second"])
    if restarts:
        async with world.process():
            await world.until_idle()
            await world.until(lambda: world.screen().texts == ["first answer"])
    assert world.screen().texts.count("first answer") == 1


@pytest.mark.requirement("G-09")
async def test_a_platform_that_is_busy_gets_fewer_frames_and_still_the_final(world: World) -> None:
    world.screen().fail("edit", ChannelBusy("flood", after_s=5.0))
    world.screen().fail("update", ChannelBusy("flood", after_s=5.0))
    async with world.process() as delivery:
        voice = delivery.outbox_for(key())
        voice.begin(audience())
        voice.preview("one")
        await world.until(lambda: world.screen().texts == ["one"])
        voice.preview(" two")
        await world.pass_time(3)
        refused = len(world.screen().calls)
        voice.preview(" three")
        await world.pass_time(2)
        assert len(world.screen().calls) == refused == 2  # left alone as long as it asked
        await world.until(lambda: world.screen().texts == ["one two three"])
        await world.commit(OutgoingMessage(text="one two three.", kind="reply", reply_to="m1"))
        await world.until_idle()
        await voice.end()
    assert world.screen().texts == ["one two three."]


async def test_frames_never_queue_up_behind_each_other(world: World) -> None:
    act: Act = "update" if world.streams else "edit"
    async with world.process() as delivery:
        voice = delivery.outbox_for(key())
        voice.begin(audience())
        voice.preview("0")
        await world.until(lambda: world.screen().texts == ["0"])
        gate = world.screen().hold(act)
        for number in range(1, 30):
            voice.preview(f" {number}")
            await world.pass_time(1, step_s=0.5)
        gate.set()
        await world.until(lambda: world.screen().texts[0].endswith(" 29"))
        await voice.end()
    assert len(world.screen().made(act)) == 2


async def test_a_frame_under_way_never_overwrites_the_final(world: World) -> None:
    act: Act = "update" if world.streams else "edit"
    async with world.process() as delivery:
        voice = delivery.outbox_for(key())
        voice.begin(audience())
        voice.preview("one")
        await world.until(lambda: world.screen().texts == ["one"])
        gate = world.screen().hold(act)
        voice.preview(" two")
        await world.pass_time(1.5)
        await world.commit(OutgoingMessage(text="final", kind="reply", reply_to="m1"))
        await world.still()
        gate.set()
        del world.screen().gates[act]
        await world.until_idle()
        await voice.end()
    assert world.screen().texts == ["final"]


async def test_a_preview_that_somebody_deleted_becomes_a_new_message(world: World) -> None:
    """A 404 on the edit."""
    async with world.process() as delivery:
        voice = delivery.outbox_for(key())
        voice.begin(audience())
        voice.preview("one")
        await world.until(lambda: world.screen().texts == ["one"])
        world.screen().shown.clear()
        await world.commit(OutgoingMessage(text="final", kind="reply", reply_to="m1"))
        await world.until_idle()
        await voice.end()
    assert world.screen().texts == ["final"]
    assert await world.statuses() == ["sent"]
    assert await world.notes() == 0


async def test_a_preview_deleted_while_it_grows_ends_the_preview_only(world: World) -> None:
    async with world.process() as delivery:
        voice = delivery.outbox_for(key())
        voice.begin(audience())
        voice.preview("one")
        await world.until(lambda: world.screen().texts == ["one"])
        world.screen().shown.clear()
        voice.preview(" two")
        await world.pass_time(3)
        voice.preview(" three")
        await world.pass_time(3)
        assert world.screen().texts == []
        await world.commit(OutgoingMessage(text="final", kind="reply", reply_to="m1"))
        await world.until_idle()
        await voice.end()
    assert world.screen().texts == ["final"]


async def test_a_busy_final_keeps_its_preview(world: World) -> None:
    world.screen().fail("edit", ChannelBusy("flood", after_s=2.0), times=2)
    world.screen().fail("finish", ChannelBusy("flood", after_s=2.0), times=2)
    async with world.process() as delivery:
        voice = delivery.outbox_for(key())
        voice.begin(audience())
        voice.preview("one")
        await world.until(lambda: world.screen().texts == ["one"])
        await world.commit(OutgoingMessage(text="final", kind="reply", reply_to="m1"))
        await voice.end()
        await world.until_idle()
    assert world.screen().texts == ["final"]
    assert await world.notes() == 0


@pytest.mark.parametrize("carried_out", [True, False])
@pytest.mark.parametrize("how", ["nonce", "lookup"])
@pytest.mark.parametrize("streams", [True, False])
async def test_an_unsure_final_over_a_preview_is_one_message(
    sqlite_database: Database,
    clock: FakeClock,
    tmp_path: Path,
    carried_out: bool,
    how: Literal["nonce", "lookup"],
    streams: bool,
) -> None:
    capabilities = replace(DEFAULT, idempotent_send=how)
    world = World(sqlite_database, clock, tmp_path, capabilities, streams=streams)
    async with world.process() as delivery:
        voice = delivery.outbox_for(key())
        voice.begin(audience())
        voice.preview("one")
        await world.until(lambda: world.screen().texts == ["one"])
        world.screen().fail("finish" if streams else "edit", ChannelUnsure("cut"), carried_out=carried_out)
        await world.commit(OutgoingMessage(text="final", kind="reply", reply_to="m1"))
        await voice.end()
        await world.until_idle()
    assert world.screen().texts == ["final"]


async def test_the_parts_after_the_first_are_new_messages(world: World) -> None:
    text = "\n".join(f"line {number}" for number in range(1000))
    async with world.process() as delivery:
        voice = delivery.outbox_for(key())
        voice.begin(audience())
        for line in text.splitlines(keepends=True):
            voice.preview(line)
        await world.until(lambda: bool(world.screen().texts))
        assert world.screen().texts[0].startswith("…")
        assert world.screen().texts[0].endswith("line 999")
        await world.commit(OutgoingMessage(text=text, kind="reply", reply_to="m1"))
        await world.until_idle()
        await voice.end()
    assert "".join(world.screen().texts) == text


async def test_where_nothing_can_be_edited_nothing_is_previewed(
    sqlite_database: Database, clock: FakeClock, tmp_path: Path
) -> None:
    world = World(sqlite_database, clock, tmp_path, replace(DEFAULT, edits=False))
    async with world.process() as delivery:
        voice = delivery.outbox_for(key())
        voice.begin(audience())
        voice.preview("one")
        await world.pass_time(3)
        assert world.screen().texts == []
        await world.commit(OutgoingMessage(text="final", kind="reply", reply_to="m1"))
        await voice.end()
        await world.until_idle()
    assert world.screen().texts == ["final"]


async def test_previews_can_be_switched_off(sqlite_database: Database, clock: FakeClock, tmp_path: Path) -> None:
    world = World(sqlite_database, clock, tmp_path, SILENT, settings=replace(QUIET, stream=False))
    async with world.process() as delivery:
        voice = delivery.outbox_for(key())
        voice.begin(audience())
        voice.preview("one")
        await world.pass_time(3)
        await voice.end()
    assert world.screen().calls == []


@pytest.mark.requirement("Z-35")
@pytest.mark.parametrize("error", [ChannelGone("blocked"), ChannelRejected("no"), ZeroDivisionError("a defect")])
async def test_a_preview_that_fails_costs_nothing_but_itself(world: World, error: Exception) -> None:
    world.screen().fail("open" if world.streams else "send", error)
    async with world.process() as delivery:
        voice = delivery.outbox_for(key())
        voice.begin(audience())
        voice.preview("one")
        await world.pass_time(1)
        voice.preview(" two")
        await world.pass_time(3)
        await world.commit(OutgoingMessage(text="final", kind="reply", reply_to="m1"))
        await voice.end()
        await world.until_idle()
    assert world.screen().texts == ["final"]


# -- restarts


async def killed_with_half_an_answer(world: World) -> None:
    """The screen as the person then sees it."""
    async with world.process() as delivery:
        voice = delivery.outbox_for(key())
        voice.begin(audience())
        voice.preview("Half an ans")
        await world.until(lambda: world.screen().texts == ["Half an ans"])
        await world.still()


async def test_a_preview_left_by_a_kill_before_the_commit_is_removed(world: World) -> None:
    await killed_with_half_an_answer(world)
    assert await world.notes() == 1
    async with world.process():
        await world.until(lambda: world.screen().texts == [])
        await world.still()
    assert await world.notes() == 0


@pytest.mark.parametrize("arrived", [True, False])
async def test_a_preview_that_nobody_could_name_any_more_is_found_by_its_key(
    sqlite_database: Database, clock: FakeClock, tmp_path: Path, arrived: bool
) -> None:
    """Killed between its sending and the platform's answer."""
    world = World(sqlite_database, clock, tmp_path, replace(SILENT, idempotent_send="lookup"))
    async with world.process() as delivery:
        voice = delivery.outbox_for(key())
        voice.begin(audience())
        world.screen().fail("send", ChannelUnsure("killed here"), carried_out=arrived)
        world.screen().fail("find", ChannelUnsure("killed here"))
        voice.preview("Half an ans")
        await world.until(lambda: not any(fault.times for fault in world.screen().faults))
        await world.still()
    assert await world.notes() == 1
    await world.commit(OutgoingMessage(text="A whole answer.", kind="reply", reply_to="m1"))
    async with world.process():
        await world.until_idle()
        await world.until(lambda: world.screen().texts == ["A whole answer."])
        await world.until_forgotten()


async def test_what_cannot_be_taken_away_at_the_start_is_taken_away_later(world: World) -> None:
    await killed_with_half_an_answer(world)
    world.screen().fail("delete", ChannelBusy("not signed in yet", after_s=1.0), times=3)
    async with world.process():
        await world.until(lambda: world.screen().texts == [])
        await world.still()
    assert await world.notes() == 0


async def test_a_preview_left_by_a_kill_after_the_commit_becomes_final(world: World) -> None:
    await killed_with_half_an_answer(world)
    await world.commit(OutgoingMessage(text="A whole answer.", kind="reply", reply_to="m1"))
    async with world.process():
        await world.until_idle()
        await world.until(lambda: world.screen().texts == ["A whole answer."])
        await world.still()
    assert await world.notes() == 0


async def test_a_kill_while_the_final_takes_its_place_leaves_one_message(
    sqlite_database: Database, clock: FakeClock, tmp_path: Path
) -> None:
    """By editing this is sure on every platform: the same edit is made again."""
    world = World(sqlite_database, clock, tmp_path)
    async with world.process() as delivery:
        voice = delivery.outbox_for(key())
        voice.begin(audience())
        voice.preview("Half an ans")
        await world.until(lambda: world.screen().texts == ["Half an ans"])
        world.screen().fail("edit", ChannelUnsure("killed here"), carried_out=True)
        await world.commit(OutgoingMessage(text="A whole answer.", kind="reply", reply_to="m1"))
        await world.still()
    async with world.process():
        await world.until_idle()
        await world.still()
    assert world.screen().texts == ["A whole answer."]
    assert await world.notes() == 0


@pytest.mark.requirement("B-52", "G-09")
@pytest.mark.parametrize("way", ["message", "key"])
async def test_the_first_piece_stands_where_the_preview_stood_whenever_the_process_ends(
    sqlite_database: Database, clock: FakeClock, tmp_path: Path, way: str
) -> None:
    """The pieces after it take long, and the process dies before the last one: nothing of the answer goes again."""
    capabilities = SILENT if way == "message" else replace(SILENT, idempotent_send="lookup")
    world = World(sqlite_database, clock, tmp_path, capabilities)
    screen, answer = world.screen(), "\n".join(f"line {number}" for number in range(1500))
    async with world.process() as delivery:
        voice = delivery.outbox_for(key())
        voice.begin(audience())
        voice.preview("Half an ans")
        await world.until(lambda: screen.texts == ["Half an ans"])
        screen.fail("send", ChannelBusy("wait", after_s=500.0), skip=1)
        await world.commit(OutgoingMessage(text=answer, kind="reply", reply_to="m1"))
        await world.until(lambda: len(screen.shown) == 2)
        await world.still()
    assert await world.notes() == 0, "what has become a part of the answer is no preview any more"
    clock.advance(600)
    async with world.process():
        await world.until_idle()
        await world.still()
    assert "\n".join(screen.texts).split() == answer.split()


# -- what a frame shows


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        pytest.param("hello", "hello", id="plain"),
        pytest.param("**bo", "**bo", id="open emphasis is text"),
        pytest.param("", "", id="nothing yet"),
        pytest.param("x " * 100 + "end", "… x x x x x x x x x x x x x x x x x x end", id="the end of what outgrew it"),
    ],
)
def test_what_a_frame_shows(text: str, shown: str) -> None:
    frame = readable(Growing(60, utf16_length).frame(text))
    assert frame == shown or (len(frame) <= 60 and frame.startswith("…") and frame.endswith(shown[-10:]))


def test_an_open_fence_is_closed_in_a_frame() -> None:
    assert Growing(60, utf16_length).frame("```py\nx = 1") == (CodeBlock("x = 1", "py"),)


@settings(deadline=None, max_examples=40)
@given(markdown_texts, st.integers(0, 1500), st.integers(100, 400))
def test_every_frame_fits_and_shows_something(text: str, so_far: int, limit: int) -> None:
    frame = Growing(limit, utf16_length).frame(text[:so_far])
    assert utf16_length(frame) <= limit
    assert not is_blank(frame) or is_blank(parse(text[:so_far]))


@pytest.mark.parametrize(
    "shown", [Shown(SentRef("1")), Shown(SentRef("a|b:c", "draft"), "stream"), Shown(SentRef("x|y"), of=7)]
)
def test_a_reference_survives_the_table(shown: Shown) -> None:
    assert decode(encode(shown)) == shown


def test_a_foreign_reference_is_refused() -> None:
    with pytest.raises(ValueError, match="not the reference"):
        decode("fax|message|1")
