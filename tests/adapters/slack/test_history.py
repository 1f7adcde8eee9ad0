"""Catch-up reads missed messages at start and after every reconnect, once, and in order."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import anyio
import pytest

from adapters.slack.history import FACTS
from gateway.channels.adapter import Place, State
from gateway.channels.inbound import Inbound, Mention
from gateway.channels.keys import ConversationKey
from gateway.channels.kit.catch_up import readings
from gateway.testing.harness import eventually
from tests.adapters.slack.world import DM, World, running, workspace
from tests.doubles.slack_api import BOT_USER, TEAM
from tests.fakes.clock import HastyClock

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def place(channel_id: str, last: str | None, at: datetime = NOW) -> Place:
    return Place(key=ConversationKey("slack", channel_id), last_message_id=last, last_at=at)


def ts_at(moment: datetime) -> str:
    return f"{moment.timestamp():.6f}"


def test_what_is_read_and_from_where_on() -> None:
    an_hour_ago = ts_at(NOW - timedelta(hours=1))
    plan = readings(
        [
            place("T1:D1", an_hour_ago),
            place("T1:C1:1767268000.000100", an_hour_ago),
            place("T1:C1:1767268111.000100", "trigger.1", NOW - timedelta(minutes=30)),
            place("T1:C2", None, NOW - timedelta(minutes=1)),
            place("T1:D2", ts_at(NOW - timedelta(days=6))),
        ],
        FACTS,
        NOW,
        timedelta(minutes=15),
    )
    assert [(reading.channel_id, reading.after.message_id or ts_at(reading.after.at)) for reading in plan.values()] == [
        ("T1:D1", an_hour_ago),
        ("T1:C1:1767268000.000100", an_hour_ago),
        ("T1:C1", ts_at(NOW - timedelta(minutes=15))),
        ("T1:C1:1767268111.000100", ts_at(NOW - timedelta(minutes=30))),
        ("T1:C2", ts_at(NOW - timedelta(minutes=15))),
        ("T1:D2", ts_at(NOW - timedelta(days=1))),
    ]


async def test_at_start_what_was_missed_is_read_after_the_last_stored_message(tmp_path: Path) -> None:
    async with workspace() as world:
        stored = world.hidden_from_history("stored")
        root = world.hidden_from_history("root", "C0GENERAL")
        world.hidden_from_history("missed one")
        world.hidden_from_history("in the thread", "C0GENERAL", thread_ts=root)
        world.hidden_from_history("in a thread of its own", thread_ts=stored)
        world.hidden_from_history(f"<@{BOT_USER}> a new question", "C0GENERAL")
        world.hidden_from_history("missed two")
        world.places = [place(DM, stored), place(f"{TEAM}:C0GENERAL:{root}", root)]
        async with running(world, tmp_path):
            await eventually(lambda: len(world.said()) >= 5)
            await world.write("live")
            found = world.said()
            assert all(said.from_history for said in found[:-1])
            direct = [said.text for said in found if said.key.channel_id == DM]
            assert direct == ["missed one", "missed two", "live"]
            threads = {said.text: said for said in found if said.place == f"{TEAM}:C0GENERAL"}
            assert threads["in the thread"].mention is Mention.IMPLICIT  # the conversation is known
            assert threads["a new question"].mention is Mention.DIRECT
            assert threads["root"].mention is Mention.IMPLICIT  # its key was stored already: a duplicate in the inbox


async def test_after_a_reconnect_what_came_in_between_is_read(tmp_path: Path) -> None:
    async with workspace() as world, running(world, tmp_path):
        heard = await world.write("heard")
        world.places = [place(DM, heard)]
        missed = world.hidden_from_history("missed")
        for link in list(world.double.sockets):
            await link.close()
        await eventually(lambda: len(world.said()) == 2)
        assert [said.message_id for said in world.said()] == [heard, missed]


async def test_pages_are_all_read(tmp_path: Path) -> None:
    async with workspace() as world:
        stored = world.hidden_from_history("stored")
        for number in range(450):
            world.hidden_from_history(f"{number}")
        world.places = [place(DM, stored)]
        async with running(world, tmp_path, look_up_people=False):
            await eventually(lambda: len(world.said()) == 450)
            assert [said.text for said in world.said()] == [str(number) for number in range(450)]
            assert len(world.calls("conversations.history")) == 3


async def test_what_is_too_old_is_listed_and_not_answered(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with workspace() as world:
        channel = world.double.channels["D0ANN"]
        now = datetime.now(UTC)
        for text, age in (("old", 3000), ("older", 1000), ("young", 60)):
            ts = ts_at(now - timedelta(seconds=age))
            world.double.store(channel, {"type": "message", "user": "U0ANN", "text": text, "ts": ts})
        world.places = [place(DM, ts_at(now - timedelta(seconds=4000)))]
        async with running(world, tmp_path):
            await eventually(lambda: len(world.said()) == 2)
            # The house refuses the newest of the old ones, for it is from the history and its time is told.
            assert [said.text for said in world.said()] == ["older", "young"]
        (record,) = [one for one in caplog.records if "too old" in one.message]
        assert (record.__dict__["place"], record.__dict__["messages"]) == (DM, 2)


async def test_a_question_in_a_thread_below_a_fresh_message_is_found(tmp_path: Path) -> None:
    async with workspace() as world:
        known = world.hidden_from_history("known", "C0GENERAL")
        fresh = world.hidden_from_history("fresh", "C0GENERAL")
        world.hidden_from_history(f"<@{BOT_USER}> and this?", "C0GENERAL", thread_ts=fresh)
        world.places = [place(f"{TEAM}:C0GENERAL:{known}", known)]
        async with running(world, tmp_path):
            await eventually(lambda: any(said.text == "and this?" for said in world.said()))
            (said,) = [said for said in world.said() if said.text == "and this?"]
            assert said.key.channel_id == f"{TEAM}:C0GENERAL:{fresh}"


async def test_an_answer_in_a_thread_of_a_direct_message_is_found(tmp_path: Path) -> None:
    async with workspace() as world:
        stored = world.hidden_from_history("a question")
        answer = world.hidden_from_history("the bot's answer", user=BOT_USER)
        world.hidden_from_history("and this?", thread_ts=answer)
        world.places = [place(DM, stored)]
        async with running(world, tmp_path):
            await eventually(lambda: texts(world) == ["and this?"])
            assert world.said()[0].key.channel_id == f"{DM}:{answer}"


async def test_what_cannot_be_read_in_the_history_is_left_out_and_nothing_else(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with workspace() as world:
        world.places = [place(DM, world.hidden_from_history("stored"))]
        odd = world.hidden_from_history("odd")
        world.double.messages["D0ANN", odd]["files"] = [None]
        world.hidden_from_history("good")
        async with running(world, tmp_path):
            await eventually(lambda: texts(world) == ["good"])
        assert "a message of the history cannot be read" in caplog.text


async def test_a_reading_that_a_defect_ends_is_made_again(tmp_path: Path) -> None:
    async with workspace() as world:
        world.places = [place(DM, world.hidden_from_history("stored"))]
        world.hidden_from_history("missed")
        world.broken_lookups = 2  # time to put the defect in
        async with running(world, tmp_path, clock=HastyClock(pace=5)):
            defects = [ZeroDivisionError(), ZeroDivisionError()]

            async def fail(inbound: Inbound) -> None:
                if defects:
                    raise defects.pop()

            world.on_admit = fail
            await eventually(lambda: texts(world)[-1:] == ["missed"])
            assert not defects


async def test_more_conversations_than_the_rate_limit_takes_at_once(tmp_path: Path) -> None:
    async with workspace() as world:
        stored = world.double.ts()
        for number in range(40):  # 30 fit, the rest waits its turn
            channel = {"id": f"D{number}", "is_im": True, "user": "U0ANN", "members": [BOT_USER, "U0ANN"]}
            world.double.channels[f"D{number}"] = channel
            world.hidden_from_history(f"{number}", f"D{number}")
            world.places.append(place(f"{TEAM}:D{number}", stored))
        async with running(world, tmp_path, look_up_people=False):
            await eventually(lambda: len(world.said()) >= 32, within_s=10)
            assert all(call.get("error") is None for call in world.calls("conversations.history"))


async def test_a_place_that_is_gone_does_not_stop_the_others(tmp_path: Path) -> None:
    async with workspace() as world:
        stored = world.double.ts()
        world.hidden_from_history("missed")
        world.places = [place(f"{TEAM}:C0NONE", stored), place(f"{TEAM}:C0GENERAL:1.000001", stored), place(DM, stored)]
        async with running(world, tmp_path):
            await eventually(lambda: [said.text for said in world.said()] == ["missed"])


def texts(world: World) -> list[str]:
    return [said.text for said in world.said()]


async def test_conversations_that_cannot_be_looked_up_are_looked_up_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with workspace() as world:
        world.places = [place(DM, world.hidden_from_history("stored"))]
        world.hidden_from_history("missed")
        world.broken_lookups = 3
        async with running(world, tmp_path, clock=HastyClock(), ping_every_s=60):
            await eventually(lambda: texts(world) == ["missed"])
            assert len(world.calls("apps.connections.open")) == 1
        assert "read later, the places are not known: the database is locked" in caplog.text


@pytest.mark.requirement("G-12")
async def test_what_is_live_comes_behind_what_was_missed_also_when_the_first_look_failed(tmp_path: Path) -> None:
    async with workspace() as world:
        world.places = [place(DM, world.hidden_from_history("stored"))]
        world.hidden_from_history("missed one")
        world.hidden_from_history("missed two")
        world.broken_lookups = 1
        async with running(world, tmp_path):
            await world.write("live")
            await eventually(lambda: len(world.said()) >= 3)
            assert texts(world) == ["missed one", "missed two", "live"]


async def test_what_was_stored_before_a_look_succeeds_hides_nothing(tmp_path: Path) -> None:
    async with workspace() as world:
        world.places = [place(DM, world.hidden_from_history("stored"))]
        world.hidden_from_history("missed")
        world.broken_lookups = 100
        async with running(world, tmp_path, clock=HastyClock()):
            world.places = [place(DM, await world.write("live"))]
            assert texts(world) == ["live"]  # it is not kept waiting either
            world.broken_lookups = 0
            await eventually(lambda: "missed" in texts(world))
            assert sorted(texts(world)) == ["live", "missed", "stored"]  # a repeat is nothing new to the house


async def test_a_look_that_hangs_makes_nobody_deaf(tmp_path: Path) -> None:
    async with workspace() as world:
        world.places = [place(DM, world.hidden_from_history("stored"))]
        world.hidden_from_history("missed")
        world.lookup_gate = anyio.Event()
        world.double.settings["ack_deadline"] = 60  # what is live waits some seconds for the look
        async with running(world, tmp_path, ready=False) as adapter:
            await eventually(lambda: adapter.health().state is State.CONNECTED)
            (delivery,) = await world.event(text="live")
            assert delivery["acked"]
            assert texts(world) == ["live"]
            world.lookup_gate.set()
            await eventually(lambda: "missed" in texts(world))


async def test_what_was_read_and_could_not_be_stored_is_read_again(tmp_path: Path) -> None:
    async with workspace() as world:
        world.places = [place(DM, world.hidden_from_history("stored"))]
        world.hidden_from_history("missed one")
        world.hidden_from_history("missed two")
        world.broken_admits = 2
        async with running(world, tmp_path, clock=HastyClock()):
            await eventually(lambda: len(world.said()) == 2)
            assert texts(world) == ["missed one", "missed two"]


async def test_what_is_live_waits_for_what_was_read_before_it_and_could_not_be_stored(tmp_path: Path) -> None:
    async with workspace() as world:
        world.places = [place(DM, world.hidden_from_history("stored"))]
        world.hidden_from_history("missed")
        world.broken_lookups, world.broken_admits = 1, 1
        async with running(world, tmp_path):
            (delivery,) = await world.event(text="live")
            assert delivery["acked"]
            assert [text for text in texts(world) if text != "stored"] == ["missed", "live"]


async def test_what_slack_had_no_room_for_is_read_from_where_it_began_after_a_reconnect_too(tmp_path: Path) -> None:
    async with workspace() as world:
        world.places = [place(DM, world.hidden_from_history("stored"))]
        world.hidden_from_history("missed")
        world.fault("conversations.history", "rate_limit", retry_after=8)
        async with running(world, tmp_path, clock=HastyClock(), ping_every_s=60):
            await eventually(lambda: bool(world.calls("conversations.history")))
            world.places = [place(DM, await world.write("live"))]
            for link in list(world.double.sockets):
                await link.close()
            await eventually(lambda: "missed" in texts(world))
            assert len(world.calls("apps.connections.open")) == 2


async def test_by_http_it_catches_up_at_start(tmp_path: Path) -> None:
    async with workspace() as world:
        stored = world.double.ts()
        world.hidden_from_history("missed")
        world.places = [place(DM, stored)]
        async with running(world, tmp_path, app_token=None, signing_secret="s3cret"):
            await eventually(lambda: [said.text for said in world.said()] == ["missed"])
