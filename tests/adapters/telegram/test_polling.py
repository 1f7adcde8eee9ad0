"""Listening by long polling: nothing is acknowledged before it is stored, no trouble ends it but a refused token."""

import asyncio
import logging
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.telegram.adapter import TelegramAdapter
from adapters.telegram.parse import Context, Me, Roles
from adapters.telegram.polling import Intake, Offset, look_again_s
from agent.core.clock import Clock
from gateway.channels.adapter import State
from gateway.channels.errors import ChannelFatal, GatewayUnavailable
from gateway.channels.inbound import Inbound, Membership, MessageReceived, Moved, Outcome, Receipt
from gateway.testing.harness import eventually
from tests.adapters.telegram.stage import (
    GROUP,
    PERSON,
    TOKEN,
    Stage,
    Telegram,
    acting,
    adapter_context,
    listening,
    settings_for,
    stage,
)
from tests.fakes.clock import FakeClock


async def texts_come(actor: Stage, *texts: str) -> None:
    await eventually(lambda: [said.text for said in actor.said] == list(texts))


async def advanced(clock: FakeClock, seconds: float) -> None:
    """Let somebody fall asleep, then let the time pass."""
    await eventually(lambda: clock.sleepers > 0)
    clock.advance(seconds)


# -- what is acknowledged


@pytest.mark.parametrize(
    ("answers", "asks_for"),
    [
        pytest.param([([5, 6], {5, 6})], 7, id="all stored"),
        pytest.param([([5, 6, 7], {6, 7})], 5, id="the first is not"),
        pytest.param([([5, 6, 7], {5, 7})], 6, id="one in between is not"),
        pytest.param([([5, 6], {6}), ([5, 6, 7], {7}), ([5, 6, 7], {5})], 8, id="what was stored meanwhile counts"),
        pytest.param([([5], set()), ([], set())], 5, id="what is under way is not acknowledged by silence"),
        pytest.param([([5], {5}), ([], set())], None, id="after silence no number is kept"),
        pytest.param([([5], {5}), ([], set()), ([2], {2})], 3, id="numbers may begin anew"),
    ],
)
@pytest.mark.requirement("G-12")
def test_offset(answers: list[tuple[list[int], set[int]]], asks_for: int | None) -> None:
    offset = Offset()
    for answer, stored in answers:
        offset.new_in(answer)
        for update_id in stored:
            offset.stored(update_id)
    assert offset.next == asks_for


class Queue:
    """A server that keeps what is not acknowledged, and the run that asks it; `kill` begins another run."""

    def __init__(self) -> None:
        self.came, self.waiting, self.stored = 0, list[int](), set[int]()
        self.kill()

    def kill(self) -> None:
        self.offset, self.under_way, self.begun = Offset(), list[int](), set[int]()

    def ask(self, come: int) -> None:
        self.waiting += range(self.came, self.came + come)
        self.came += come
        first = self.offset.next or 0
        assert self.stored.issuperset(update_id for update_id in self.waiting if update_id < first)
        self.waiting = [update_id for update_id in self.waiting if update_id >= first]
        new = self.offset.new_in(self.waiting[:10])
        assert not new & self.begun
        self.begun |= new
        self.under_way += sorted(new)

    def store(self, number: int) -> None:
        """One of those under way."""
        update_id = self.under_way.pop(number % len(self.under_way))
        self.stored.add(update_id)
        self.offset.stored(update_id)
        assert self.offset.all_stored == (not self.under_way)


@given(st.lists(st.tuples(st.integers(0, 4), st.lists(st.integers(0, 9), max_size=4), st.booleans()), max_size=12))
def test_nothing_is_acknowledged_unstored_nor_begun_twice_in_one_run(rounds: list[tuple[int, list[int], bool]]) -> None:
    queue = Queue()
    for come, ending, killed in [*rounds, *[(0, [0] * 10, False)] * 10]:
        queue.ask(come)
        for number in ending[: len(queue.under_way)]:
            queue.store(number)
        if killed:
            queue.kill()
    assert queue.stored == set(range(queue.came))


@pytest.mark.parametrize(("looks", "pause"), [(0, 0.5), (20, 1.0), (100, 3.0), (100_000, 10.0)])
def test_what_takes_long_is_looked_at_less_often(looks: int, pause: float) -> None:
    assert look_again_s(looks) == pause


class Reluctant(Stage):
    """Stores nothing of a place in `held` until it is let go, and fails as often as `failures` and `defects` say."""

    def __init__(self, telegram: Telegram, adapter: TelegramAdapter) -> None:
        super().__init__(telegram, adapter)
        self.held: dict[str, anyio.Event] = {}
        self.failures: dict[str, int] = {}
        self.defects: dict[str, int] = {}
        self.begun: list[str] = []

    async def admit(self, inbound: Inbound) -> Receipt:
        text = inbound.text if isinstance(inbound, MessageReceived) else ""
        self.begun.append(text)
        if self.failures.get(text):
            self.failures[text] -= 1
            raise GatewayUnavailable("disk full")
        if self.defects.get(text):
            self.defects[text] -= 1
            raise KeyError(text)
        if inbound.place in self.held:
            await self.held[inbound.place].wait()
        return await super().admit(inbound)


def reluctant(telegram: Telegram, tmp_path: Path, clock: Clock | None = None) -> Reluctant:
    return Reluctant(telegram, TelegramAdapter(settings_for(telegram), adapter_context(tmp_path, clock)))


def pending(telegram: Telegram) -> int:
    return len(telegram.double.bots[TOKEN].queue)


async def test_an_update_is_acknowledged_only_when_it_is_stored(tmp_path: Path) -> None:
    async with Telegram().running() as telegram:
        actor = reluctant(telegram, tmp_path)
        actor.held["77"] = anyio.Event()
        async with listening(actor):
            await telegram.update(text="hello")
            await eventually(lambda: actor.begun == ["hello"])
            assert pending(telegram) == 1
            actor.held["77"].set()
            await eventually(lambda: pending(telegram) == 0)
            await texts_come(actor, "hello")


async def test_a_kill_before_storing_brings_it_again_and_after_it_does_not(tmp_path: Path) -> None:
    async with Telegram().running() as telegram:
        first = reluctant(telegram, tmp_path)
        first.held["77"] = anyio.Event()
        async with listening(first):
            await telegram.update(text="hello")
            await eventually(lambda: first.begun == ["hello"])
        async with acting(telegram, tmp_path) as second:
            await texts_come(second, "hello")
            await eventually(lambda: pending(telegram) == 0)
        async with acting(telegram, tmp_path) as third:
            await telegram.update(text="more")
            await texts_come(third, "more")


async def test_a_kill_brings_again_what_was_under_way_and_all_behind_it(tmp_path: Path) -> None:
    async with Telegram().running() as telegram:
        first = reluctant(telegram, tmp_path)
        first.held["77"] = anyio.Event()
        async with listening(first):
            await telegram.update(text="a slow file")
            await telegram.update(user={"id": 5}, text="b1")
            await texts_come(first, "b1")
            assert pending(telegram) == 2
        async with acting(telegram, tmp_path) as second:
            await eventually(lambda: {said.text for said in second.said} == {"a slow file", "b1"})
            await eventually(lambda: pending(telegram) == 0)
        ids = {(said.event_id, said.message_id, said.key) for said in [*first.said, *second.said] if said.text == "b1"}
        assert len(ids) == 1


async def test_many_places_are_admitted_at_once_one_place_in_order(tmp_path: Path) -> None:
    async with Telegram().running() as telegram:
        specs: list[dict[str, Any]] = [{"user": PERSON, "text": "a1"}, {"user": {"id": 5}, "text": "b1"}]
        specs += [{"user": PERSON, "text": "a2"}, {"user": PERSON, "chat": GROUP, "text": "g1"}]
        await telegram.control("updates", updates=specs)
        actor = reluctant(telegram, tmp_path)
        actor.held["77"] = anyio.Event()
        async with listening(actor):
            await eventually(lambda: {said.text for said in actor.said} == {"b1", "g1"})
            assert actor.begun.count("a2") == 0
            actor.held["77"].set()
            await eventually(lambda: [said.text for said in actor.said if said.place == "77"] == ["a1", "a2"])


async def test_a_slow_file_in_one_chat_keeps_no_other_waiting(tmp_path: Path) -> None:
    async with Telegram().running() as telegram:
        actor = reluctant(telegram, tmp_path)
        actor.held["77"] = anyio.Event()
        async with listening(actor):
            await telegram.update(text="a slow file")
            await eventually(lambda: actor.begun == ["a slow file"])
            await telegram.update(user={"id": 5}, text="/stop")
            await telegram.update(text="behind the file")
            await texts_come(actor, "/stop")
            await telegram.update(user={"id": 5}, text="more")
            await texts_come(actor, "/stop", "more")
            assert actor.adapter.health().hears
            assert actor.begun == ["a slow file", "/stop", "more"]
            assert pending(telegram) == 4
            actor.held["77"].set()
            await texts_come(actor, "/stop", "more", "a slow file", "behind the file")
            await eventually(lambda: pending(telegram) == 0)


async def test_what_waits_behind_a_slow_file_counts_from_when_it_came(tmp_path: Path) -> None:
    """A stop that waits for a file must not end what began meanwhile."""
    clock = FakeClock()
    came_at = clock.now()
    async with Telegram().running() as telegram:
        actor = reluctant(telegram, tmp_path, clock)
        actor.held["77"] = anyio.Event()
        async with listening(actor):
            await telegram.update(text="a slow file")
            await telegram.update(text="/stop")
            await telegram.update(user={"id": 5}, text="last")
            await texts_come(actor, "last")
            clock.advance(20.0)
            actor.held["77"].set()
            await texts_come(actor, "last", "a slow file", "/stop")
            assert [said.received_at for said in actor.said] == [came_at] * 3


async def test_what_could_not_be_stored_is_tried_again_in_order(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock = FakeClock()
    async with Telegram().running() as telegram:
        specs: list[dict[str, Any]] = [{"user": PERSON, "text": "a1"}, {"user": PERSON, "text": "a2"}]
        await telegram.control("updates", updates=[*specs, {"user": {"id": 5}, "text": "b1"}])
        actor = reluctant(telegram, tmp_path, clock)
        actor.failures["a1"] = 1
        async with listening(actor):
            await eventually(lambda: actor.adapter.health().state is State.RECONNECTING)
            assert "could not be stored" in actor.adapter.health().detail
            assert not actor.adapter.health().hears
            assert [said.text for said in actor.said] == ["b1"]
            await telegram.update(user={"id": 5}, text="b2")
            await texts_come(actor, "b1", "b2")
            assert pending(telegram) == 4
            await advanced(clock, 1.0)
            await texts_come(actor, "b1", "b2", "a1", "a2")
            await eventually(lambda: pending(telegram) == 0)
            await eventually(lambda: actor.adapter.health().hears)
    assert "disk full" in caplog.text


async def test_storing_that_hangs_is_given_up_and_tried_again() -> None:
    async def hang(_: Inbound) -> Receipt:
        await anyio.sleep_forever()
        return Receipt(Outcome.ACCEPTED)

    def context() -> Context:
        return Context(channel_type="telegram", me=Me(id=1, username="bot"), received_at=FakeClock().now())

    chat = {"id": 77, "type": "private"}
    update = {"update_id": 1, "message": {"message_id": 1, "date": 1, "chat": chat, "from": PERSON, "text": "hi"}}

    async def nobody(_: str) -> Roles:
        return {}

    async def nothing() -> None:
        pass

    intake = Intake(hang, context, FakeClock(), administrators=nobody, look_around=nothing, within_s=0.01)
    with pytest.raises(GatewayUnavailable, match="not stored within"):
        await intake.take(update, context())


async def test_an_update_that_breaks_the_gateway_comes_again_and_stops_nothing(tmp_path: Path) -> None:
    clock = FakeClock()
    async with Telegram().running() as telegram:
        actor = reluctant(telegram, tmp_path, clock)
        actor.defects["odd"] = 1
        async with listening(actor):
            await telegram.update(text="odd")
            await telegram.update(text="behind it")
            await telegram.update(user={"id": 5}, text="elsewhere")
            await texts_come(actor, "elsewhere")
            await eventually(lambda: actor.adapter.health().state is State.RECONNECTING)
            await advanced(clock, 1.0)
            await texts_come(actor, "elsewhere", "odd", "behind it")
            await eventually(lambda: pending(telegram) == 0)


async def test_an_unreadable_update_does_not_hold_up_the_others(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with stage(tmp_path) as actor:
        await actor.telegram.update(raw={"message": {"text": "no chat, no date"}})
        await actor.telegram.update(text="fine")
        await texts_come(actor, "fine")
        await eventually(lambda: pending(actor.telegram) == 0)
    assert "unreadable update" in caplog.text


@pytest.mark.requirement("G-12")
async def test_an_update_that_comes_twice_is_begun_once(tmp_path: Path) -> None:
    async with stage(tmp_path) as actor:
        await actor.telegram.update(text="twice", duplicate=1)
        await texts_come(actor, "twice")
        await eventually(lambda: pending(actor.telegram) == 0)
        await actor.telegram.update(text="more")
        await texts_come(actor, "twice", "more")


async def test_what_was_written_while_we_were_away_comes_too(tmp_path: Path) -> None:
    async with Telegram().running() as telegram:
        await telegram.update(text="early", date=1_700_000_000)
        async with acting(telegram, tmp_path) as actor:
            await texts_come(actor, "early")
            (said,) = actor.said
            assert said.sent_at is not None
            assert said.sent_at.year == 2023
        assert not [
            call for call in telegram.double.calls if call.get("params", {}).get("drop_pending_updates") is True
        ]


async def test_a_webhook_in_the_way_is_removed_and_keeps_its_updates(tmp_path: Path) -> None:
    async with Telegram().running() as telegram:
        await telegram.settings(webhook_max_attempts=0)
        bot = telegram.double.bot(TOKEN)
        bot.webhook = {"url": "http://127.0.0.1:9/old"}
        async with acting(telegram, tmp_path) as actor:
            await eventually(lambda: actor.adapter.health().state is State.CONNECTED)
            await telegram.update(text="hi")
            await texts_come(actor, "hi")
        assert telegram.calls("deleteWebhook")[0]["params"]["drop_pending_updates"] is False


# -- trouble


async def test_health_shows_hearing_at_once_and_deafness_in_time(tmp_path: Path) -> None:
    clock = FakeClock()
    async with stage(tmp_path, clock) as actor:
        assert actor.adapter.health().hears
        assert actor.adapter.health().last_event_at == clock.now()
        await eventually(lambda: len(actor.telegram.calls("getUpdates")) >= 2)  # the long poll stands
        clock.advance(19)
        assert actor.adapter.health().hears
        clock.advance(2)
        health = actor.adapter.health()
        assert (health.state, health.hears) == (State.RECONNECTING, False)
        assert "21 s" in health.detail


async def test_a_second_poller_is_named_and_waited_for(tmp_path: Path) -> None:
    clock = FakeClock()
    async with Telegram().running() as telegram:
        fault = {"kind": "error", "status": 409, "description": "Conflict: terminated by other getUpdates request"}
        await telegram.control("faults", {"method": "getUpdates", **fault})
        async with acting(telegram, tmp_path, clock) as actor:
            await eventually(lambda: "409" in actor.adapter.health().detail)
            assert actor.adapter.health().state is State.RECONNECTING
            await advanced(clock, 30.0)
            await asyncio.sleep(0)
            assert len(telegram.calls("getUpdates")) == 1
            await advanced(clock, 10.0)
            await eventually(lambda: actor.adapter.health().hears)
            await telegram.update(text="hi")
            await texts_come(actor, "hi")


@pytest.mark.parametrize(
    "fault",
    [
        {"kind": "server_error", "status": 502},
        {"kind": "drop"},
        {"kind": "drop_after"},
        {"kind": "rate_limit", "retry_after": 1},
    ],
    ids=lambda fault: str(fault["kind"]),
)
@pytest.mark.parametrize("method", ["getMe", "getUpdates"])
async def test_trouble_passes(tmp_path: Path, method: str, fault: dict[str, Any]) -> None:
    async with Telegram().running() as telegram:
        await telegram.control("faults", {"method": method, **fault})
        async with acting(telegram, tmp_path) as actor:
            await telegram.update(text="hi")
            await texts_come(actor, "hi")
            await eventually(lambda: actor.adapter.health().hears)


async def test_an_unreachable_server_is_tried_again(tmp_path: Path) -> None:
    telegram = Telegram()
    telegram.url = "http://127.0.0.1:9"
    clock = FakeClock()
    async with acting(telegram, tmp_path, clock) as actor:
        assert actor.adapter.health().state is State.RECONNECTING
        assert "cannot reach" in actor.adapter.health().detail
        for seconds in (0.5, 1.0, 2.0):
            await advanced(clock, seconds)
        await eventually(lambda: clock.sleepers > 0)
        assert not actor.adapter.health().hears


@pytest.mark.requirement("Z-36", "G-28")
@pytest.mark.parametrize("status", [401, 404])
async def test_a_refused_token_is_fatal_and_never_shown(
    tmp_path: Path, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with Telegram().running() as telegram:
        words = {401: "Unauthorized", 404: "Not Found"}[status]
        await telegram.control("faults", {"method": "*", "kind": "error", "status": status, "description": words})
        actor = Stage(telegram, TelegramAdapter(settings_for(telegram), adapter_context(tmp_path)))
        with pytest.raises(ChannelFatal) as raised:
            await actor.adapter.run(actor.admit)
        assert actor.adapter.health().state is State.FAILED
        await actor.adapter.aclose()
    assert "@BotFather" in str(raised.value)
    assert "TEST-token" not in str(raised.value) + caplog.text + repr(actor.adapter.health())


@pytest.mark.requirement("Z-36")
async def test_a_token_revoked_while_running_is_fatal(tmp_path: Path) -> None:
    async with Telegram().running() as telegram:
        await telegram.control("faults", {"method": "getUpdates", "kind": "error", "status": 401, "after": 1})
        actor = Stage(telegram, TelegramAdapter(settings_for(telegram), adapter_context(tmp_path)))
        with pytest.raises(ChannelFatal):
            await actor.adapter.run(actor.admit)
        await actor.adapter.aclose()


@pytest.mark.requirement("Z-36")
@pytest.mark.parametrize(
    "page",
    [
        pytest.param({"status": 404, "text": "404 page not found"}, id="plain text"),
        pytest.param({"status": 401, "text": "<html>Authorization Required</html>"}, id="HTML"),
        pytest.param({"status": 404, "text": '{"message": "no Route matched"}'}, id="another server's JSON"),
        pytest.param({"status": 401, "text": "[]"}, id="no object"),
    ],
)
@pytest.mark.parametrize("method", ["getMe", "getUpdates"])
async def test_a_refusal_of_what_stands_before_the_server_passes(
    tmp_path: Path, method: str, page: dict[str, Any]
) -> None:
    clock = FakeClock()
    async with Telegram().running() as telegram:
        await telegram.fault(method, "page", **page)
        async with acting(telegram, tmp_path, clock) as actor:
            await eventually(lambda: f"({page['status']})" in actor.adapter.health().detail)
            assert actor.adapter.health().state is State.RECONNECTING
            await advanced(clock, 0.5)
            await telegram.update(text="hi")
            await texts_come(actor, "hi")


# -- other things that happen


async def test_a_blocked_bot_and_a_moved_group_are_told(tmp_path: Path) -> None:
    async with stage(tmp_path) as actor:
        member = {"user": {"id": 123456, "is_bot": True, "first_name": "D"}, "status": "kicked"}
        chat = {"id": 77, "type": "private"}
        await actor.telegram.update(
            raw={"my_chat_member": {"chat": chat, "from": PERSON, "date": 1, "new_chat_member": member}}
        )
        group = {"id": -4002, "type": "group", "title": "G"}
        move = {"message_id": 3, "from": PERSON, "chat": group, "date": 1, "migrate_to_chat_id": -1005}
        await actor.telegram.update(raw={"message": move})
        await eventually(lambda: len(actor.admitted) == 2)
        assert {type(inbound) for inbound in actor.admitted} == {Membership, Moved}


async def test_the_outcome_does_not_matter_for_the_receipt(tmp_path: Path) -> None:
    class Refusing(Stage):
        async def admit(self, inbound: Inbound) -> Receipt:
            await super().admit(inbound)
            return Receipt(Outcome.REFUSED, "not allowed")

    async with Telegram().running() as telegram:
        actor = Refusing(telegram, TelegramAdapter(settings_for(telegram), adapter_context(tmp_path)))
        async with listening(actor):
            await telegram.update(text="hi")
            await texts_come(actor, "hi")
            await eventually(lambda: pending(telegram) == 0)
