"""Socket Mode: acknowledged when stored and not before, in order, once, and heard again after every break."""

from pathlib import Path
from typing import Any

import anyio
import pytest

from adapters.slack.adapter import SlackAdapter
from adapters.slack.intake import MENTIONS_ALONE, Arrival, Twins
from agent.core.clock import SystemClock
from gateway.channels.adapter import State
from gateway.channels.document import Plain
from gateway.channels.errors import ChannelFatal
from gateway.channels.inbound import ButtonClicked, Deleted, Edited, Inbound, Membership, Mention, MessageReceived
from gateway.channels.keys import ConversationKey
from gateway.channels.outbound import Button, CommandSpec, Outbound
from gateway.testing.harness import eventually
from tests.adapters.slack.world import ANN, DM, SECRET, running, workspace
from tests.doubles.slack_api import BOT_ID, BOT_USER, TEAM
from tests.fakes.clock import HastyClock

MOST_WAITING = 1000  # jobs of an adapter's queue


def names_bot(text: str) -> str:
    return f"<@{BOT_USER}> {text}"


async def test_a_message_is_acknowledged_only_after_it_is_stored(tmp_path: Path) -> None:
    async with workspace() as world, running(world, tmp_path):
        world.gate = anyio.Event()
        world.double.settings["ack_deadline"] = 0.2
        world.double.settings["retry_delays"] = []
        (delivery,) = await world.event(text="hello")
        assert not delivery["acked"]  # 0.2 s long nothing was stored, so nothing was acknowledged
        world.gate.set()
        await eventually(lambda: len(world.said()) == 1)
        world.double.settings["ack_deadline"] = 60
        (delivery,) = await world.event(text="again")
        assert delivery["acked"]


@pytest.mark.requirement("G-12")
async def test_what_could_not_be_stored_is_not_overtaken_by_what_is_written_after_it(tmp_path: Path) -> None:
    async with workspace() as world, running(world, tmp_path):
        world.broken_admits = 1
        world.double.settings.update(ack_deadline=60, retry_delays=[])
        first = world.double.make_request({"text": "one"})
        (second,) = await world.event(text="two")
        assert second["acked"]
        assert [said.text for said in world.said()] == ["one", "two"]
        assert [(await task)["acked"] for task in first] == [True]


@pytest.mark.requirement("G-12")
@pytest.mark.parametrize("keys", [{}, {"app_token": None, "signing_secret": SECRET}], ids=["socket", "http"])
async def test_what_could_not_be_stored_is_stored_when_the_house_can_again(
    tmp_path: Path, keys: dict[str, Any]
) -> None:
    async with workspace() as world, running(world, tmp_path, clock=HastyClock(), **keys):
        world.broken_admits = 4
        world.double.settings.update(ack_deadline=0.01, retry_delays=[])  # Slack has given up long before
        await world.event(text="one")
        await eventually(lambda: [said.text for said in world.said()] == ["one"])


async def test_a_command_that_could_not_be_stored_is_not_done_later(tmp_path: Path) -> None:
    async with workspace() as world, running(world, tmp_path, clock=HastyClock()):
        world.broken_admits = 1
        world.double.settings["ack_deadline"] = 0.2
        (failed,) = await world.event(kind="slash", command="/status")
        assert not failed["acked"]  # so the person was told, and gives it again
        world.double.settings["ack_deadline"] = 60
        (again,) = await world.event(kind="slash", command="/status")
        assert again["acked"]
        assert len(world.said()) == 1


@pytest.mark.requirement("G-12")
@pytest.mark.parametrize("order", ["message first", "app_mention first", "app_mention alone", "message alone"])
async def test_a_mention_is_handed_over_once_whichever_twin_comes_first(tmp_path: Path, order: str) -> None:
    async with workspace() as world, running(world, tmp_path):
        ts = world.double.ts()
        twin: dict[str, Any] = {"user": ANN, "text": names_bot("hi"), "ts": ts, "channel": "C0GENERAL", "team": TEAM}
        message = twin | {"type": "message", "channel_type": "channel"}
        mention = twin | {"type": "app_mention"}
        events = {
            "message first": [message, mention],
            "app_mention first": [mention, message],
            "app_mention alone": [mention],
            "message alone": [message],
        }[order]
        for event in events:
            (delivery,) = await world.event(raw_event=event)
            assert delivery["acked"]
        (said,) = world.said()
        assert (said.text, said.mention, said.event_id) == ("hi", Mention.DIRECT, None)
        assert said.key == ConversationKey("slack", f"{TEAM}:C0GENERAL:{ts}")


@pytest.mark.requirement("G-12")
@pytest.mark.parametrize("mention_first", [True, False])
@pytest.mark.parametrize("thread", [True, False], ids=["in a thread", "opening one"])
async def test_a_file_is_never_lost_to_the_twin_that_has_none(
    tmp_path: Path, mention_first: bool, thread: bool
) -> None:
    async with workspace() as world, running(world, tmp_path):
        root = {"thread_ts": world.hidden_from_history("root", "C0GENERAL")} if thread else {}
        world.double.settings["ack_deadline"] = 60
        files = [{"name": "plan.txt", "text": "the plan"}]
        deliveries = await world.event(
            channel="C0GENERAL", text="<@U0DOUBLE> read it", files=files, mention_first=mention_first, **root
        )
        assert [delivery["acked"] for delivery in deliveries] == [True, True]
        (said,) = world.said()
        assert ([file.name for file in said.attachments], said.text) == (["plan.txt"], "read it")


async def test_a_mention_whose_message_is_not_told_of_is_looked_up_for_its_files(tmp_path: Path) -> None:
    async with workspace() as world, running(world, tmp_path):
        world.double.settings["subscriptions"] = ["app_mention"]
        await world.event(channel="C0GENERAL", text="<@U0DOUBLE> read", files=[{"name": "plan.txt"}])
        (said,) = world.said()
        assert [file.name for file in said.attachments] == ["plan.txt"]


async def test_a_mention_does_not_wait_for_messages_that_slack_never_tells_of() -> None:
    twins, clock = Twins(), SystemClock()
    mention = {"type": "app_mention", "channel": "C0GENERAL", "ts": "1.000001"}

    async def waits() -> bool:
        with anyio.CancelScope() as scope:
            scope.cancel()
            await twins.of(mention)
        return scope.cancelled_caught

    assert await waits()
    for _ in range(MENTIONS_ALONE):
        await twins.of(mention)
    assert not await waits()
    event = {"type": "message", "channel": "C0GENERAL", "channel_type": "channel", "ts": "2.000001"}
    twins.note(Arrival(kind="events_api", payload={"event": event}, received_at=clock.now()))
    assert await waits(), "now one may come"
    assert await twins.of(mention | {"ts": "2.000001"}) == event


async def test_a_mention_is_taken_though_its_message_cannot_be_looked_up(tmp_path: Path) -> None:
    async with workspace() as world, running(world, tmp_path):
        world.double.settings["subscriptions"] = ["app_mention"]
        world.double.settings["ack_deadline"] = 60
        world.fault("conversations.replies", "error", error="missing_scope")
        (delivery,) = await world.event(channel="C0GENERAL", text="<@U0DOUBLE> hi")
        assert [said.text for said in world.said()] == ["hi"]
        assert len(delivery["attempts"]) == 1


@pytest.mark.parametrize("forwarded", [True, False], ids=["forwarded", "its own"])
async def test_a_file_of_slack_connect_gets_its_name_kind_and_size(tmp_path: Path, forwarded: bool) -> None:
    """Slack tells no more than its id."""
    picture = {"name": "cat.png", "mimetype": "image/png", "text": "not a cat", "connect": True}
    async with workspace() as world, running(world, tmp_path) as adapter:
        spec: dict[str, Any] = {"forward": {"files": [picture]}} if forwarded else {"files": [picture]}
        await world.event(text="", **spec)
        (said,) = world.said()
        (file,) = said.quoted.attachments if said.quoted is not None else said.attachments
        assert (file.kind, file.name, file.mime_type, file.size) == ("image", "cat.png", "image/png", 9)
        assert (said.quoted is not None) is forwarded
        assert await adapter.channel(DM).files.fetch(file, tmp_path / "cat.png", limit=100) == 9


async def test_a_file_that_slack_will_not_describe_keeps_its_message(tmp_path: Path) -> None:
    async with workspace() as world, running(world, tmp_path):
        world.fault("files.info", "error", error="file_not_found")
        await world.event(text="look", files=[{"name": "cat.png", "connect": True}])
        (said,) = world.said()
        (file,) = said.attachments
        assert file.handle == f"file:{file.name}"


async def test_the_files_and_the_words_of_a_forwarded_message_come_with_it(tmp_path: Path) -> None:
    async with workspace() as world, running(world, tmp_path):
        await world.event(text="see", forward={"text": "the plan", "files": [{"name": "plan.txt"}]})
        (said,) = world.said()
        assert (said.text, said.attachments) == ("see", ())
        assert said.quoted is not None
        assert (said.quoted.text, [file.name for file in said.quoted.attachments]) == ("the plan", ["plan.txt"])
        assert said.quoted.sender is not None
        assert (said.quoted.sender.id, said.quoted.message_id) == ("U0BEN", None)


# -- commands and buttons have three seconds


@pytest.mark.parametrize("kind", ["slash", "action"])
async def test_a_command_that_takes_long_is_acknowledged_before_slack_calls_it_failed(
    tmp_path: Path, kind: str
) -> None:
    async with workspace() as world, running(world, tmp_path) as adapter:
        button = Outbound(document=(Plain("?"),), buttons=((Button(label="Go", action="go"),),))
        sent = await adapter.channel(DM).send(button)
        world.gate = anyio.Event()
        spec = {"command": "/cost"} if kind == "slash" else {"ts": sent.id, "action_id": "go"}
        (delivery,) = await world.event(kind=kind, **spec)
        assert delivery["acked"]
        assert world.admitted == []
        world.gate.set()
        await eventually(lambda: len(world.admitted) == 1)


async def test_a_command_that_was_acknowledged_and_is_lost_all_the_same_is_told_to_its_person(tmp_path: Path) -> None:
    async with workspace() as world, running(world, tmp_path):
        world.gate, world.broken_admits, world.not_taken = anyio.Event(), 1, "That is lost."
        (delivery,) = await world.event(kind="slash", command="/cost")
        assert delivery["acked"]
        world.gate.set()
        await eventually(lambda: [one["text"] for one in world.double.ephemeral] == ["That is lost."])


@pytest.mark.requirement("G-12")
async def test_a_repeated_delivery_is_handed_over_once(tmp_path: Path) -> None:
    async with workspace() as world, running(world, tmp_path):
        deliveries = await world.event(text="hello", duplicate=1)
        assert [delivery["acked"] for delivery in deliveries] == [True, True]
        assert [said.text for said in world.said()] == ["hello"]


async def test_messages_out_of_order_are_all_there(tmp_path: Path) -> None:
    async with workspace() as world, running(world, tmp_path):
        first, second = world.double.ts(), world.double.ts()
        await world.event(text="second", ts=second)
        await world.event(text="first", ts=first)
        assert [(said.text, said.message_id) for said in world.said()] == [("second", second), ("first", first)]


async def test_one_slow_place_holds_up_no_other(tmp_path: Path) -> None:
    async with workspace() as world, running(world, tmp_path, look_up_people=False):
        hold = anyio.Event()

        async def slow(inbound: Inbound) -> None:
            if inbound.place == DM:
                await hold.wait()

        world.on_admit = slow
        tasks = [world.double.make_request({"text": text}) for text in ("one", "two", "three")]
        await world.event(text=names_bot("four"), channel="C0GENERAL")
        assert [said.text for said in world.said()] == ["four"]
        hold.set()
        await eventually(lambda: len(world.said()) == 4)
        assert [said.text for said in world.said()] == ["four", "one", "two", "three"]
        assert len(tasks) == 3


async def test_a_slow_message_holds_up_no_command_and_no_button_of_its_channel(tmp_path: Path) -> None:
    async with workspace() as world, running(world, tmp_path) as adapter:
        sent = await adapter.channel(DM).send(
            Outbound(document=(Plain("?"),), buttons=((Button(label="Go", action="go"),),))
        )
        hold, begun = anyio.Event(), anyio.Event()

        async def slow(inbound: Inbound) -> None:
            if isinstance(inbound, MessageReceived) and inbound.interaction_id is None:
                begun.set()
                await hold.wait()  # as with a file that takes its time

        world.on_admit = slow
        world.double.make_request({"text": "look at this"})
        await begun.wait()
        (command,) = await world.event(kind="slash", command="/status")
        (press,) = await world.event(kind="action", ts=sent.id, action_id="go")
        assert command["acked"]
        assert press["acked"]
        assert [type(inbound) for inbound in world.admitted] == [MessageReceived, ButtonClicked]
        hold.set()
        await eventually(lambda: [said.text for said in world.said()] == ["/status", "look at this"])


@pytest.mark.parametrize("keys", [{}, {"app_token": None, "signing_secret": SECRET}], ids=["socket", "http"])
async def test_it_is_received_when_it_comes_not_when_its_turn_comes(tmp_path: Path, keys: dict[str, Any]) -> None:
    async with workspace() as world, running(world, tmp_path, **keys):
        hold, begun = anyio.Event(), anyio.Event()

        async def slow(inbound: Inbound) -> None:
            if inbound.place == DM:
                begun.set()
                await hold.wait()

        world.on_admit = slow
        world.double.settings["retry_delays"] = []
        world.double.make_request({"text": "slow"})
        await begun.wait()
        world.double.make_request({"text": "/stop"})
        await world.event(text=names_bot("elsewhere"), channel="C0GENERAL")  # it comes behind the two
        later = SystemClock().now()
        hold.set()
        await eventually(lambda: len(world.said()) == 3)
        assert [said.text for said in world.said()] == ["elsewhere", "slow", "/stop"]
        assert all(said.received_at <= later for said in world.said())


async def test_words_in_a_thread_the_bot_takes_part_in_are_for_it(tmp_path: Path) -> None:
    async with workspace() as world, running(world, tmp_path):
        root = await world.write(names_bot("hi"), channel="C0GENERAL")
        await world.write("and more", channel="C0GENERAL", thread_ts=root)
        other = await world.write("not for it", channel="C0GENERAL")
        await world.write("nor this", channel="C0GENERAL", thread_ts=other)
        found = [(said.text, said.mention) for said in world.said()]
        assert found == [
            ("hi", Mention.DIRECT),
            ("and more", Mention.IMPLICIT),
            ("not for it", Mention.NONE),
            ("nor this", Mention.NONE),
        ]


async def test_edits_deletions_and_membership(tmp_path: Path) -> None:
    async with workspace() as world, running(world, tmp_path):
        ts = await world.write("wrnog")
        await world.event(kind="edit", ts=ts, text="right")
        await world.event(kind="delete", ts=ts)
        await world.event(raw_event={"type": "member_left_channel", "user": BOT_USER, "channel": "C0GENERAL"})
        _, edited, deleted, left = world.admitted
        assert isinstance(edited, Edited)
        assert (edited.text, edited.message_id) == ("right", ts)
        assert isinstance(deleted, Deleted)
        assert deleted.message_id == ts
        assert isinstance(left, Membership)
        assert not left.present


async def test_a_slash_command(tmp_path: Path) -> None:
    async with workspace() as world, running(world, tmp_path) as adapter:
        await adapter.publish([CommandSpec(name="provider", description="x")])
        for command, text in (("/tieline", "provider main"), ("/tieline", "why is that?"), ("/status", "")):
            (delivery,) = await world.event(kind="slash", command=command, text=text, channel="C0GENERAL")
            assert delivery["acked"]
        found = world.said()
        assert [said.text for said in found] == ["/provider main", "why is that?", "/status"]
        assert len({said.interaction_id for said in found}) == 3
        assert all(said.key.channel_id == f"{TEAM}:C0GENERAL" for said in found)


@pytest.mark.requirement("G-07")
async def test_a_button_works_after_a_restart(tmp_path: Path) -> None:
    async with workspace() as world:
        async with running(world, tmp_path) as adapter:
            buttons = ((Button(label="Yes", action="q:1:yes"),),)
            sent = await adapter.channel(DM).send(Outbound(document=(Plain("well?"),), buttons=buttons))
        async with running(world, tmp_path) as adapter:
            (delivery,) = await world.event(kind="action", ts=sent.id, action_id="q:1:yes")
            assert delivery["acked"]
            (pressed,) = world.admitted
            assert isinstance(pressed, ButtonClicked)
            assert (pressed.action, pressed.message_id, pressed.sender.id) == ("q:1:yes", sent.id, ANN)
            assert pressed.interaction is not None
            interactions = adapter.channel(pressed.key.channel_id).interactions
            await interactions.acknowledge(pressed.interaction, "noted")
        assert [(one["to"], one["text"]) for one in world.double.ephemeral] == [(ANN, "noted")]
        assert next(m for m in world.by_bot() if m["ts"] == sent.id)["text"] == "well?"


@pytest.mark.parametrize("reason", ["abort", "refresh_requested", "warning"])
async def test_it_is_back_after_every_kind_of_goodbye(tmp_path: Path, reason: str) -> None:
    async with workspace() as world, running(world, tmp_path) as adapter:
        old = set(world.double.sockets)
        for link in list(world.double.sockets):
            if reason == "abort":
                world.double.transport_of(link).abort()
            else:
                await link.send_json({"type": "disconnect", "reason": reason, "debug_info": {}})
        await eventually(lambda: bool(set(world.double.sockets) - old))
        await eventually(lambda: adapter.health().state is State.CONNECTED)
        await eventually(lambda: not (old & set(world.double.sockets)))  # the old one is closed, not leaked
        (delivery,) = await world.event(text="still there?")
        assert delivery["acked"]
        assert [said.text for said in world.said()] == ["still there?"]


async def test_a_deaf_socket_is_noticed_and_replaced(tmp_path: Path) -> None:
    async with workspace() as world, running(world, tmp_path, ping_every_s=0.05) as adapter:
        (first,) = world.double.sockets
        transport = world.double.transport_of(first)
        transport.pause_reading()  # half-open: nothing comes back, nothing is closed
        await eventually(lambda: any(link is not first for link in world.double.sockets))
        await eventually(lambda: adapter.health().state is State.CONNECTED)
        transport.resume_reading()


@pytest.mark.slow
async def test_an_account_that_takes_nothing_in_says_so_and_comes_back(tmp_path: Path) -> None:
    async with workspace() as world, running(world, tmp_path, ping_every_s=0.5) as adapter:
        world.gate = anyio.Event()  # as with a database that does not answer
        world.double.settings["retry_delays"] = []
        for number in range(MOST_WAITING + 1):
            world.double.make_request({"text": f"number {number}"})
            await anyio.lowlevel.checkpoint()  # pings are answered meanwhile: the socket is not silent
        await eventually(lambda: "not taken in" in adapter.health().detail)
        assert adapter.health().state is State.RECONNECTING
        world.gate.set()
        await eventually(lambda: adapter.health().state is State.CONNECTED)
        (delivery,) = await world.event(text="three")
        assert delivery["acked"]


async def test_an_idle_socket_is_opened_anew_to_be_sure(tmp_path: Path) -> None:
    async with workspace() as world, running(world, tmp_path, ping_every_s=0.05, idle_refresh_s=0.2):
        world.double.settings["retry_delays"] = [0.05] * 1000  # what a closed socket took along comes again soon
        await eventually(lambda: len(world.calls("apps.connections.open")) >= 2)
        (delivery,) = await world.event(text="hello")
        assert delivery["acked"]


async def test_a_second_socket_of_the_same_app_is_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with workspace() as world, running(world, tmp_path), running(world, tmp_path, ready=False) as second:
        await eventually(lambda: second.health().state is State.CONNECTED)
        assert "2 sockets" in second.health().detail
        assert "another process takes a share" in caplog.text


async def test_the_last_sign_of_life_moves(tmp_path: Path) -> None:
    async with workspace() as world, running(world, tmp_path, ping_every_s=0.05) as adapter:
        before = adapter.health().last_event_at
        assert before is not None
        await eventually(lambda: (adapter.health().last_event_at or before) > before)


@pytest.mark.requirement("Z-36")
@pytest.mark.parametrize("method", ["auth.test", "apps.connections.open"])
async def test_a_refused_login_ends_the_account(tmp_path: Path, method: str) -> None:
    async with workspace() as world, running(world, tmp_path, ready=False) as adapter:
        world.fault(method, "error", error="invalid_auth", times=99)
        await eventually(lambda: adapter.health().state is State.FAILED)
        assert "invalid_auth" in adapter.health().detail
        assert not adapter.health().hears


async def test_run_raises_the_refusal_itself(tmp_path: Path) -> None:
    async with workspace() as world:
        adapter = SlackAdapter(world.settings(bot_token="xoxb-other"), world.adapter_context(tmp_path))
        world.double.bot_token = "xoxb-test"
        with pytest.raises(ChannelFatal, match="invalid_auth"):
            await adapter.run(world.admit)
        await adapter.aclose()


async def test_without_auth_test_it_still_knows_its_own_words(tmp_path: Path) -> None:
    async with workspace() as world:
        world.fault("auth.test", "server_error", status=503, times=4)
        async with running(world, tmp_path) as adapter:
            await world.write("hello")
            sent = await adapter.channel(DM).send(Outbound(document=(Plain("mine"),)))
            await world.write("more")
            assert [said.text for said in world.said()] == ["hello", "more"]
            assert sent.id
            assert all(said.key.channel_id == DM for said in world.said())


async def test_an_unreachable_slack_is_tried_again(tmp_path: Path) -> None:
    async with workspace() as world:
        world.fault("apps.connections.open", "drop", times=2)
        async with running(world, tmp_path) as adapter:
            assert adapter.health().state is State.CONNECTED
            assert len(world.calls("apps.connections.open")) == 3


@pytest.mark.requirement("G-28")
async def test_a_refused_socket_is_told_without_its_ticket(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    async with workspace() as world:
        world.double.settings["refused_links"] = 1
        async with running(world, tmp_path, ready=False) as adapter:
            await eventually(lambda: adapter.health().state is State.RECONNECTING)
            assert "Slack refused the socket: HTTP 503" in adapter.health().detail
            await eventually(lambda: adapter.health().state is State.CONNECTED)
    ours = [record for record in caplog.records if record.name.startswith("tieline")]  # a path may hold the word too
    told = [f"{record.getMessage()} {record.__dict__}" for record in ours]
    assert any("HTTP 503" in line for line in told)
    assert not any("ticket" in line for line in told)


async def test_an_uninstalled_app_ends_the_account(tmp_path: Path) -> None:
    async with workspace() as world, running(world, tmp_path) as adapter:
        world.double.bot_token = "xoxb-reinstalled"
        await world.event(raw_event={"type": "app_uninstalled"})
        (left,) = world.admitted
        assert isinstance(left, Membership)
        assert left.key.channel_id == TEAM
        await eventually(lambda: adapter.health().state is State.FAILED)


async def test_an_event_that_cannot_be_read_is_not_sent_again_and_again(tmp_path: Path) -> None:
    async with workspace() as world, running(world, tmp_path):
        (delivery,) = await world.event(raw_event={"type": "message", "channel": "C0GENERAL", "ts": "1.1", "files": 7})
        assert delivery["acked"]
        assert world.admitted == []


@pytest.mark.requirement("G-12")
async def test_its_own_words_come_back_from_slack_and_are_left_out(tmp_path: Path) -> None:
    async with workspace() as world, running(world, tmp_path) as adapter:
        sent = await adapter.channel(DM).send(Outbound(document=(Plain("mine"),)))
        await adapter.channel(DM).edit(sent, Outbound(document=(Plain("mine too"),)))
        await adapter.channel(DM).delete(sent)
        await world.event(raw_event={"type": "message", "channel": "D0ANN", "ts": "1.1", "bot_id": BOT_ID, "text": "x"})
        await world.write("a person's")
        assert [type(inbound) for inbound in world.admitted] == [MessageReceived]


async def test_a_slow_directory_does_not_hold_up_a_message(tmp_path: Path) -> None:
    async with workspace() as world, running(world, tmp_path):
        world.fault("users.info", "slow", delay=100)
        with anyio.fail_after(60):
            (delivery,) = await world.event(text="hello")
        assert delivery["acked"]
        assert world.said()[0].sender.display == ""
