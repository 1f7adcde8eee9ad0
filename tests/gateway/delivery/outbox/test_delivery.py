"""The outbox on a real database: every message once, in order, whatever the platform does."""

import gc
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import text as sql

from agent.core.outbox import Button, FileRef, OutgoingMessage
from agent.storage.database import Database
from gateway.channels.channel import Capabilities
from gateway.channels.errors import (
    ChannelBusy,
    ChannelFatal,
    ChannelGone,
    ChannelRejected,
    ChannelUnsure,
)
from gateway.delivery.conversation_outbox import ConversationOutbox
from gateway.delivery.ephemeral.drafts import Draft
from gateway.delivery.outbox.delivery import REFUSED_PAUSE_S
from gateway.delivery.settings import Settings
from tests.fakes.channel import DEFAULT
from tests.fakes.clock import FakeClock
from tests.gateway.delivery.world import ANN, QUIET, World, audience, key

NONCE = replace(DEFAULT, idempotent_send="nonce")
LOOKUP = replace(DEFAULT, idempotent_send="lookup")


@pytest.fixture
def world(sqlite_database: Database, clock: FakeClock, tmp_path: Path) -> World:
    return World(sqlite_database, clock, tmp_path)


async def test_rows_arrive_in_order_on_both_databases(database: Database, clock: FakeClock, tmp_path: Path) -> None:
    world = World(database, clock, tmp_path)
    async with world.process():
        await world.commit("one", "two")
        await world.commit("three")
        await world.until_idle()
    assert world.screen().texts == ["one", "two", "three"]
    assert await world.statuses() == ["sent", "sent", "sent"]


@pytest.mark.requirement("G-10")
async def test_a_long_text_arrives_whole_in_parts_that_fit(world: World) -> None:
    text = "\n".join(f"line {number} 😀" for number in range(2000))
    async with world.process():
        await world.commit(text)
        await world.until_idle()
    assert len(world.screen().texts) > 5
    assert "".join(world.screen().texts) == text


async def test_only_the_first_part_replies_and_only_the_last_has_buttons(world: World, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hello")
    say = OutgoingMessage(
        text="word " * 1000,
        kind="reply",
        reply_to="m1",
        interaction="i1",
        buttons=((Button(label="Go", action="go"),),),
        files=(FileRef(path="a.txt", name="a.txt", mime_type="text/plain"),),
    )
    async with world.process():
        await world.commit(say)
        await world.until_idle()
    first, last, file = [shown.message for shown in world.screen().shown]
    assert (first.reply_to, first.interaction, first.buttons) == ("m1", "i1", ())
    assert (last.reply_to, last.interaction, last.buttons[0][0].action) == (None, None, "go")
    assert (file.files[0].path, file.buttons) == (tmp_path / "a.txt", ())
    assert max(len(message.key) for message in (first, last, file)) <= 25
    assert len({first.key, last.key, file.key}) == 3


async def test_a_file_that_cannot_go_is_named(world: World, tmp_path: Path) -> None:
    (tmp_path / "big").write_bytes(b"x" * (DEFAULT.upload_limit + 1))
    files = (
        FileRef(path="big", name="big.bin", mime_type="application/octet-stream"),
        FileRef(path="none", name="none.txt", mime_type="text/plain"),
    )
    async with world.process():
        await world.commit(OutgoingMessage(text="see", kind="reply", files=files))
        await world.until_idle()
    (text,) = world.screen().texts
    assert text.startswith("see")
    assert "big.bin" in text
    assert "none.txt" in text


async def test_verbatim_text_is_not_read_as_markdown(world: World) -> None:
    async with world.process():
        await world.commit(OutgoingMessage(text="**not bold**", kind="reply", verbatim=True), "**bold**")
        await world.until_idle()
    assert world.screen().texts == ["**not bold**", "bold"]


async def test_a_private_word_is_whispered_where_the_platform_can(
    sqlite_database: Database, clock: FakeClock, tmp_path: Path
) -> None:
    world = World(sqlite_database, clock, tmp_path, replace(DEFAULT, ephemeral=True))
    async with world.process():
        await world.commit(OutgoingMessage(text="psst", kind="reply", private_to=ANN))
        await world.until_idle()
    (shown,) = world.screen().shown
    assert (shown.text, shown.private_to) == ("psst", "ann")


# -- the platform says no


@pytest.mark.requirement("G-09")
async def test_a_busy_platform_is_asked_again_after_its_time(world: World) -> None:
    world.screen().fail("send", ChannelBusy("flood", after_s=7.0))
    async with world.process():
        before = world.clock.monotonic()
        await world.commit("one", "two")
        await world.until_idle()
        assert world.clock.monotonic() - before >= 7.0
    assert world.screen().texts == ["one", "two"]
    assert [call.text for call in world.screen().calls] == ["one", "one", "two"]


@pytest.mark.requirement("G-09")
async def test_a_conversation_in_flood_wait_slows_no_other(world: World) -> None:
    world.screen("1").fail("send", ChannelBusy("flood", after_s=60.0), times=3)
    async with world.process():
        await world.commit("late", name="1")
        await world.commit("at once", name="2")
        await world.still()
        assert world.screen("2").texts == ["at once"]
        assert world.screen("1").texts == []
        await world.until_idle(step_s=5)
    assert world.screen("1").texts == ["late"]


async def test_a_hanging_place_slows_no_other(world: World) -> None:
    gate = world.screen("1").hold("send")
    async with world.process():
        await world.commit("late", name="1")
        await world.commit("at once", name="2")
        await world.still()
        assert world.screen("2").texts == ["at once"]
        gate.set()
        await world.until_idle()
    assert world.screen("1").texts == ["late"]


async def test_hours_of_outage_lose_nothing(world: World) -> None:
    world.screen().fail("send", ChannelBusy("connection refused", after_s=1.0), times=120)
    async with world.process():
        await world.commit("one", "two")
        await world.until_idle(step_s=30)
    assert world.screen().texts == ["one", "two"]
    assert world.reports.dead_rows == []


async def test_a_platform_that_is_away_for_a_day_is_given_up_visibly(
    sqlite_database: Database, clock: FakeClock, tmp_path: Path
) -> None:
    world = World(sqlite_database, clock, tmp_path, settings=replace(QUIET, give_up_after_s=3600.0))
    world.screen().fail("send", ChannelBusy("away", after_s=1.0), times=80)
    async with world.process():
        await world.commit("one")
        await world.until_idle(step_s=30)
    assert await world.statuses() == ["dead"]
    assert "away" in world.reports.dead_rows[0][2]


@pytest.mark.requirement("Z-35")
async def test_a_refused_message_is_dead_and_the_next_one_goes(world: World) -> None:
    world.screen().fail("send", ChannelRejected("bad request"))
    async with world.process():
        await world.commit("bad", "good")
        await world.until_idle()
    assert await world.statuses() == ["dead", "sent"]
    apology = "My answer could not be shown here: the platform refused it (bad request). Reference out-1."
    assert world.screen().texts == [apology, "good"]
    assert world.reports.dead_rows == [("fake:1", 1, "bad request")]


async def test_a_private_word_that_is_refused_is_no_news_for_the_others(
    sqlite_database: Database, clock: FakeClock, tmp_path: Path
) -> None:
    """A notice fails as well where the person has left, and nobody reads of it."""
    world = World(sqlite_database, clock, tmp_path, replace(DEFAULT, ephemeral=True))
    world.screen().fail("whisper", ChannelRejected("not there"), times=3)
    async with world.process():
        await world.commit(
            OutgoingMessage(text="psst", kind="reply", private_to=ANN),
            OutgoingMessage(text="psst", kind="reply", private_to=ANN),
        )
        await world.until_idle()
    assert await world.statuses() == ["dead", "dead"]
    (shown,) = world.screen().shown
    assert (shown.text.startswith("My answer could not be shown"), shown.private_to) == (True, "ann")


@pytest.mark.requirement("Z-35")
async def test_when_even_the_apology_fails_the_conversation_goes_on(world: World) -> None:
    """An error while telling of an error."""
    world.screen().fail("send", ChannelRejected("bad request"), times=2)
    async with world.process():
        await world.commit("bad", "good")
        await world.until_idle()
    assert await world.statuses() == ["dead", "sent"]
    assert world.screen().texts == ["good"]


async def test_a_closed_place_keeps_its_rows_until_the_bot_is_back(world: World) -> None:
    world.screen().fail("send", ChannelGone("blocked"), times=99)
    async with world.process():
        await world.commit("one")
        await world.until_idle()
        await world.commit("two")
        await world.until_idle()
        assert world.reports.gone_places == ["fake:1"]
        assert len(world.screen().calls) == 1
        assert await world.statuses() == ["new", "new"]
        world.screen().faults.clear()
        await world.set_gone(gone=False)
        await world.until_idle()
    assert world.screen().texts == ["one", "two"]


async def test_a_place_that_was_closed_before_is_not_tried(world: World) -> None:
    async with world.process():
        await world.commit("first")
        await world.until_idle()
        await world.set_gone(gone=True)
        await world.commit("one")
        await world.until_idle()
        assert world.screen().texts == ["first"]


async def test_an_account_without_a_login_keeps_its_rows(world: World) -> None:
    world.screen().fail("send", ChannelFatal("token revoked"))
    async with world.process():
        await world.commit("one")
        await world.until_idle()
        assert await world.statuses() == ["new"]
    async with world.process():
        await world.until_idle()
    assert world.screen().texts == ["one"]
    assert world.reports.gone_places == []


async def test_a_login_that_is_refused_at_sending_is_tried_again(world: World) -> None:
    """The adapter may not notice: its connection was made before."""
    world.screen().fail("send", ChannelFatal("token revoked"), times=2)
    async with world.process():
        await world.commit("one")
        await world.until_idle()
        assert world.reports.logins == [("fake", False)]
        await world.pass_time(REFUSED_PAUSE_S, step_s=1)
        await world.until_idle()
        assert world.screen().texts == []
        await world.pass_time(REFUSED_PAUSE_S, step_s=1)
        await world.until_idle()
        assert world.screen().texts == ["one"]
        await world.commit("two")
        await world.until_idle()
        assert world.reports.logins == [("fake", False), ("fake", False), ("fake", True)]


async def test_a_login_that_was_refused_is_taken_at_once_when_its_account_is_opened_anew(world: World) -> None:
    world.screen().fail("send", ChannelFatal("token revoked"))
    async with world.process() as delivery:
        await world.commit("one")
        await world.until_idle()
        assert delivery.is_refused("fake")
        delivery.account_closed("fake")
        assert not delivery.is_refused("fake"), "work there is due again"
        delivery.look_again()
        await world.until(lambda: world.screen().texts == ["one"])
        await world.until_idle()
        await world.pass_time(REFUSED_PAUSE_S, step_s=1)
    assert world.screen().texts == ["one"]


@pytest.mark.parametrize("told", [True, False], ids=["told", "not told"])
async def test_what_waits_for_its_account_goes_when_it_opens(world: World, told: bool) -> None:
    """At the start the database is there before the accounts are."""
    async with world.process() as delivery:
        voice = delivery.outbox_for(key("2"))
        voice.begin(audience())
        voice.preview("Half an ans")
        await world.until(lambda: world.screen("2").texts == ["Half an ans"])
        await world.still()
    world.absent |= {key("1"), key("2"), key("3")}
    await world.commit("one")
    async with world.process() as delivery:
        await world.commit("three", name="3")
        await world.pass_time(20)
        assert await world.statuses() == ["new", "new"]
        world.absent -= {key("1"), key("2")}
        if told:
            delivery.look_again()
            await world.still()
        else:
            await world.pass_time(31)
        assert world.screen("1").texts == ["one"]
        assert world.screen("2").texts == []
        assert await world.statuses() == ["sent", "new"]
        world.absent.clear()
        delivery.wake(key("3"))
        await world.until_idle()
        assert world.screen("3").texts == ["three"]
    assert await world.notes() == 0


async def test_an_adapter_that_fails_in_its_own_way_blocks_nothing(world: World) -> None:
    world.screen("1").fail("send", ZeroDivisionError("a defect"), times=2)
    async with world.process():
        await world.commit("one", "two", name="1")
        await world.commit("other", name="2")
        await world.until_idle()
    assert world.screen("2").texts == ["other"]
    assert world.screen("1").texts[-1] == "two"
    assert (await world.statuses())[1:] == ["sent", "sent"]


# -- nobody knows whether it arrived


@pytest.mark.requirement("B-52")
@pytest.mark.parametrize("carried_out", [True, False], ids=["it arrived", "it did not arrive"])
@pytest.mark.parametrize("capabilities", [NONCE, LOOKUP], ids=["nonce", "lookup"])
async def test_an_unsure_send_is_made_sure(
    sqlite_database: Database, clock: FakeClock, tmp_path: Path, capabilities: Capabilities, carried_out: bool
) -> None:
    world = World(sqlite_database, clock, tmp_path, capabilities)
    world.screen().fail("send", ChannelUnsure("cut"), carried_out=carried_out)
    async with world.process():
        await world.commit("one", "two")
        await world.until_idle()
    assert world.screen().texts == ["one", "two"]


@pytest.mark.parametrize("carried_out", [True, False], ids=["it arrived", "it did not arrive"])
async def test_without_any_help_it_is_repeated_once_and_says_so(world: World, carried_out: bool) -> None:
    world.screen().fail("send", ChannelUnsure("cut"), carried_out=carried_out)
    async with world.process():
        await world.commit("one", "two")
        await world.until_idle()
    flagged = "(This may be a repeat: the connection broke off while I was sending.)\none"
    assert world.screen().texts == [*(["one"] if carried_out else []), flagged, "two"]


async def test_a_second_unsure_send_is_not_repeated_again(world: World) -> None:
    world.screen().fail("send", ChannelUnsure("cut"), times=2, carried_out=True)
    async with world.process():
        await world.commit("one", "two")
        await world.until_idle()
    assert sum("one" in text for text in world.screen().texts) == 2
    assert world.screen().texts[-1] == "two"
    assert await world.statuses() == ["dead", "sent"]
    assert len(world.reports.dead_rows) == 1


async def test_a_busy_repeat_does_not_use_up_the_one_repeat(world: World) -> None:
    world.screen().fail("send", ChannelUnsure("cut"))
    world.screen().fail("send", ChannelBusy("flood", after_s=2.0))
    async with world.process():
        await world.commit("one")
        await world.until_idle()
    (text,) = world.screen().texts
    assert text.endswith("one")
    assert await world.statuses() == ["sent"]


async def test_a_look_up_that_fails_is_no_permission_to_repeat(
    sqlite_database: Database, clock: FakeClock, tmp_path: Path
) -> None:
    world = World(sqlite_database, clock, tmp_path, LOOKUP)
    world.screen().fail("send", ChannelUnsure("cut"), carried_out=True)
    world.screen().fail("find", ChannelBusy("history is slow", after_s=3.0), times=2)
    async with world.process():
        await world.commit("one")
        await world.until_idle()
    assert world.screen().texts == ["one"]


async def test_a_look_up_that_cannot_tell_makes_it_a_repeat_that_says_so(
    sqlite_database: Database, clock: FakeClock, tmp_path: Path
) -> None:
    """As on Discord, which forgets keys, when something of ours stands there that might be it."""
    world = World(sqlite_database, clock, tmp_path, LOOKUP)
    world.screen().fail("send", ChannelUnsure("cut"), carried_out=True)
    world.screen().fail("find", ChannelUnsure("nobody can tell"))
    async with world.process():
        await world.commit("one", "two")
        await world.until_idle()
    flagged = "(This may be a repeat: the connection broke off while I was sending.)\none"
    assert world.screen().texts == ["one", flagged, "two"]


async def test_no_answer_within_the_deadline_is_unsure(
    sqlite_database: Database, clock: FakeClock, tmp_path: Path
) -> None:
    world = World(sqlite_database, clock, tmp_path, LOOKUP)
    world.screen().fail("send", TimeoutError(), carried_out=True)
    async with world.process():
        await world.commit("one")
        await world.until_idle()
    assert world.screen().texts == ["one"]


# -- restarts


async def test_rows_of_an_earlier_process_are_sent_at_the_start(world: World) -> None:
    await world.commit("one", "two")
    async with world.process():
        await world.until_idle()
    assert world.screen().texts == ["one", "two"]


@pytest.mark.requirement("B-52", "W-13")
@pytest.mark.parametrize("arrived", [True, False], ids=["sent, not written down", "not yet sent"])
@pytest.mark.parametrize("capabilities", [NONCE, LOOKUP, DEFAULT], ids=["nonce", "lookup", "none"])
async def test_a_kill_during_a_send(
    sqlite_database: Database, clock: FakeClock, tmp_path: Path, capabilities: Capabilities, arrived: bool
) -> None:
    world = World(sqlite_database, clock, tmp_path, capabilities)
    if arrived:
        # The platform has it, but the answer never reaches us before the end.
        world.screen().fail("send", ChannelUnsure("killed here"), carried_out=True)
    else:
        world.screen().hold("send")
    async with world.process():
        await world.commit("one", "two")
        await world.still()
    world.screen().gates.clear()
    assert await world.statuses() == ["sending", "new"]
    async with world.process():
        await world.until_idle()
    texts = world.screen().texts
    if capabilities is DEFAULT:
        assert texts[-2].startswith("(This may be a repeat")
        assert len(texts) == (3 if arrived else 2)
    else:
        assert texts == ["one", "two"]


async def test_a_kill_between_two_parts_goes_on_with_the_next(
    sqlite_database: Database, clock: FakeClock, tmp_path: Path
) -> None:
    world = World(sqlite_database, clock, tmp_path, LOOKUP)
    text = "\n".join(f"line {number}" for number in range(1500))
    world.screen().fail("send", ChannelBusy("wait", after_s=500.0), skip=2)
    async with world.process():
        await world.commit(text)
        await world.until(lambda: len(world.screen().shown) == 2)
        await world.still()
    async with world.process():
        await world.until_idle(step_s=50)
    assert "".join(world.screen().texts) == text


async def test_waiting_times_survive_a_restart(world: World) -> None:
    world.screen().fail("send", ChannelBusy("flood", after_s=100.0))
    async with world.process():
        await world.commit("one")
        await world.still()
    async with world.process():
        await world.still()
        assert world.screen().texts == []
        await world.until_idle(step_s=10)
    assert world.screen().texts == ["one"]


def kept_for_conversations() -> list[object]:
    """All that delivery keeps for single conversations, in this process."""
    gc.collect()
    return [one for one in gc.get_objects() if type(one) in (ConversationOutbox, Draft)]


async def test_nothing_is_kept_for_an_idle_conversation(world: World) -> None:
    of_other_tests = kept_for_conversations()
    async with world.process() as delivery:
        for name in range(20):
            assert delivery.outbox_for(key(str(name))) is not None
            await world.commit("hello", name=str(name))
        await world.until_idle()
        assert not any(delivery.is_delivering(key(str(name))) for name in range(20))
        assert len(kept_for_conversations()) <= len(of_other_tests)
        assert world.clock.sleepers == 0


async def test_an_unreadable_row_is_set_aside(world: World) -> None:
    await world.commit("one", "two")
    await world.database.write(lambda conn: conn.execute(sql("update outbox set payload = '{}' where id = 1")))
    async with world.process():
        await world.until_idle()
    assert world.screen().texts == ["two"]
    assert await world.statuses() == ["dead", "sent"]


def test_the_settings_name_a_verbosity_for_each_account() -> None:
    settings = Settings(verbosity="verbose", verbosities={"fake": "quiet"})
    assert settings.verbosity_of(key()) == "quiet"


async def test_an_adapter_that_fails_at_the_apology_too_holds_nothing_up(world: World) -> None:
    world.screen().fail("send", RuntimeError("a defect"), times=3)
    async with world.process():
        await world.commit("one", "two")
        await world.pass_time(60, step_s=5)
        await world.until_idle()
    assert await world.statuses() == ["dead", "sent"]
    assert world.screen().texts == ["two"]
