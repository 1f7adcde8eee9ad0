"""Admission of a message: once, in order, within bounds, and never in silence."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import anyio
import pytest

from gateway.channels.errors import ChannelGone
from gateway.channels.inbound import Deleted, Edited, Mention, MessageReceived
from tests.fakes.waiting import until
from tests.gateway.world import ANN, BOB, GROUP, World, file, slowly


async def busy(world: World, chat: str = ANN) -> None:
    """A turn is under way until the world is told to go on."""
    world.script(slowly("slow"))
    calls = len(world.llm.calls)
    await world.say("slow please", chat=chat)
    await world.until_asked(calls + 1)


class TestOnce:
    @pytest.mark.requirement("G-12")
    async def test_a_message_is_known_by_its_id_and_by_its_event(self, world: World) -> None:
        said = world.said("only once", event_id="u1")
        assert (await world.hears(said)).outcome == "accepted"
        assert (await world.hears(said)).outcome == "duplicate"
        assert (await world.hears(replace(said, message_id="another", event_id="u1"))).outcome == "duplicate"
        assert (await world.hears(replace(said, event_id="u2"))).outcome == "duplicate"
        await world.answered("and now")
        assert len(world.llm.calls) == 2

    @pytest.mark.requirement("G-12")
    async def test_also_after_a_restart(self, world_of: Callable[..., World]) -> None:
        world = world_of()
        said = world.said("only once", event_id="u1")
        async with world.process():
            assert (await world.hears(said)).outcome == "accepted"
            await world.settled()
        async with world.process():
            assert (await world.hears(said)).outcome == "duplicate"

    @pytest.mark.requirement("G-12")
    async def test_twins_that_come_together_are_one(self, world: World) -> None:
        said = world.said("twins")
        outcomes: list[str] = []

        async def hear() -> None:
            outcomes.append((await world.hears(said)).outcome)

        async with anyio.create_task_group() as tasks:
            for _ in range(5):
                tasks.start_soon(hear)
        assert sorted(outcomes) == ["accepted", *["duplicate"] * 4]

    async def test_the_same_id_elsewhere_is_another_message(self, world_of: Callable[..., World]) -> None:
        async with world_of(accounts=("telegram", "telegram@work")).process() as world:
            assert (await world.say("here", id="7")).outcome == "accepted"
            assert (await world.say("there", id="7", person=BOB)).outcome == "accepted"
            assert (await world.say("at work", id="7", on="telegram@work")).outcome == "accepted"


class TestTheQueue:
    @pytest.mark.requirement("B-61", "B-65")
    async def test_messages_wait_and_are_answered_in_order(self, world: World) -> None:
        await busy(world)
        for text in ("one", "two", "three"):
            assert (await world.say(text)).outcome == "accepted"
        world.go_on()
        await world.settled()
        answers = [text for text in world.texts() if text != "the slow answer"]
        assert [answer.splitlines()[-1] for answer in answers] == ["one", "two", "three"]
        assert world.texts()[0] == "the slow answer"

    @pytest.mark.requirement("B-62", "B-84", "G-13")
    async def test_the_eleventh_that_waits_is_refused_and_its_sender_told_once(self, world: World) -> None:
        await busy(world)
        for number in range(10):
            assert (await world.say(f"number {number}")).outcome == "accepted"
        refused = world.said("one too many")
        assert (await world.hears(refused)).outcome == "refused"
        told = await world.shows("with 10 earlier messages")
        assert "did not take “one too many”" in told
        assert "/clear-queue" in told
        assert (await world.hears(refused)).outcome == "duplicate"
        await world.asks("/why", "queue full")
        assert sum("earlier messages" in text for text in world.texts()) == 1
        assert (await world.say("elsewhere", chat=GROUP)).outcome == "accepted"

    @pytest.mark.requirement("B-84")
    async def test_so_many_wait_as_are_configured(self, world_of: Callable[..., World]) -> None:
        world = world_of()
        world.queue = "max_depth = 2"
        async with world.process():
            await busy(world)
            outcomes = [(await world.say(f"number {number}")).outcome for number in range(3)]
            assert outcomes == ["accepted", "accepted", "refused"]
            await world.shows("with 2 earlier messages")

    async def test_in_a_group_the_refusal_is_below_the_message_and_for_its_sender(self, world: World) -> None:
        await busy(world, chat=GROUP)
        for number in range(10):
            await world.say(f"number {number}", chat=GROUP)
        await world.say("one too many", chat=GROUP, id="555", person=BOB)
        await world.shows("earlier messages", GROUP)
        assert world.screen(GROUP).shown[-1].message.reply_to == "555"

    @pytest.mark.requirement("G-06")
    async def test_other_conversations_do_not_wait(self, world: World) -> None:
        await busy(world)
        await world.say("quick", person=BOB)
        await world.shows("quick", BOB)
        assert "the slow answer" not in world.texts()


class TestModes:
    @pytest.mark.requirement("B-66")
    async def test_drop_refuses_while_a_turn_runs_and_while_one_waits(self, world: World) -> None:
        await world.asks("/queue drop", "drop")
        world.script(slowly("slow"))
        first, second = world.said("slow please"), world.said("at the same moment")
        outcomes: list[str] = []

        async def hear(said: MessageReceived) -> None:
            outcomes.append((await world.hears(said)).outcome)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(hear, first)
            tasks.start_soon(hear, second)
        assert sorted(outcomes) == ["accepted", "refused"]
        await world.until_asked()
        third = world.said("and this")
        assert (await world.hears(third)).outcome == "refused"
        assert (await world.hears(third)).outcome == "duplicate"
        world.go_on()
        await world.settled()
        assert sum("I am still working on the last message" in text for text in world.texts()) == 2
        assert (await world.say("now?")).outcome == "accepted"

    @pytest.mark.requirement("B-66")
    async def test_in_mode_drop_commands_for_at_once_still_work(self, world: World) -> None:
        await world.asks("/queue drop", "drop")
        await busy(world)
        assert "Working" in await world.asks("/status", "Status")
        await world.asks("/stop", "Stop")
        await world.shows("Stopped.")

    @pytest.mark.requirement("B-67")
    async def test_interrupt_stops_the_turn_and_begins_the_new_one(self, world: World) -> None:
        await world.asks("/queue interrupt", "interrupt")
        await busy(world)
        newer = world.said("rather this")
        assert (await world.hears(newer)).outcome == "accepted"
        assert (await world.hears(newer)).outcome == "duplicate"
        assert await world.shows("rather this")
        assert "Stopped." in world.texts()
        await world.settled()
        assert world.texts().count("Stopped.") == 1, "the repeat stopped nothing, least of all its own turn"

    @pytest.mark.requirement("B-67")
    async def test_interrupting_never_stops_the_newer_turn(self, world: World) -> None:
        """A turn that ends just when the next message comes: that message is answered."""
        await world.asks("/queue interrupt", "interrupt")
        for number in range(15):
            world.script({"match": {"contains": "begin"}, "reply": {"text": f"begun {number}", "ttft": 0.01}})
            await world.say("begin")
            await world.until_asked(2 * number + 1)
            await anyio.sleep(0.002 * (number % 8))  # another moment of the turn each time
            await world.answered(f"newer {number}")
            await world.until_asked(2 * number + 2)


class TestFlood:
    async def test_who_writes_too_much_is_told_once_and_may_go_on_later(self, world_of: Callable[..., World]) -> None:
        world = world_of()
        world.access = "messages_per_minute = 4"
        async with world.process():
            for _ in range(4):
                assert (await world.say("/whoami")).outcome == "accepted"
            assert [(await world.say("too much")).outcome for _ in range(3)] == ["refused"] * 3
            assert (await world.say("/whoami")).outcome == "refused"
            assert "did not take “too much”" in await world.shows("I take 4 messages a minute")
            assert (await world.say("/stop")).outcome == "accepted", "stopping is always possible"
            await world.shows("Nothing is running")
            assert (await world.say("mine", person=BOB)).outcome == "accepted"
            assert (await world.say("another chat", chat=GROUP)).outcome == "accepted"
            await world.settled()
            assert sum("messages a minute" in text for text in world.texts()) == 1
            world.clock.ahead_s += 60
            assert (await world.say("later")).outcome == "accepted"

    async def test_what_a_history_repeats_costs_nothing(self, world_of: Callable[..., World]) -> None:
        world = world_of()
        world.access = "messages_per_minute = 2"
        async with world.process():
            first = world.said("/whoami")
            assert (await world.hears(first)).outcome == "accepted"
            repeats = [await world.hears(replace(first, from_history=True)) for _ in range(5)]
            assert [receipt.outcome for receipt in repeats] == ["duplicate"] * 5
            assert (await world.say("/whoami")).outcome == "accepted"


class TestBeforeTheTurn:
    def changed(self, world: World, said: MessageReceived, **fields: Any) -> Mapping[str, Any]:
        """The fields that a change of this message shares with it."""
        names = ("key", "place", "message_id", "sender", "received_at", "chat_type")
        return {name: getattr(said, name) for name in names} | fields

    async def test_an_edited_message_is_answered_as_it_reads_then(self, world: World) -> None:
        await busy(world)
        said = world.said("wat time is it")
        await world.hears(said)
        edited = Edited(**self.changed(world, said, text="what time is it", version="2"))
        assert (await world.hears(edited)).outcome == "accepted"
        world.go_on()
        await world.shows("what time is it")
        assert not any("wat time" in str(body) for body in world.llm.bodies)
        await world.settled()
        same = Edited(**self.changed(world, said, text="what time is it", version="3"))
        assert (await world.hears(same)).outcome == "ignored"
        late = Edited(**self.changed(world, said, text="too late", version="4"))
        assert (await world.hears(late)).outcome == "ignored"
        await world.answered("something else")
        assert "too late" not in str(world.llm.bodies[-1])

    async def test_the_first_edit_that_comes_too_late_is_told_so(self, world: World) -> None:
        said = world.said("what is the weather in Rome")
        assert (await world.hears(said)).outcome == "accepted"
        await world.shows("weather in Rome")
        await world.settled()
        stranger = world.said("never heard", person="99", chat=GROUP)
        edits = [(said, "weather in Rome, please"), (said, "weather in Paris"), (stranger, "or this")]
        same = Edited(**self.changed(world, said, text=said.text, version="2"))
        assert (await world.hears(same)).outcome == "ignored"
        await world.settled()
        assert not any("the change" in text for text in world.texts()), "nothing changed"
        for version, (message, text) in enumerate(edits, 3):
            edited = Edited(**self.changed(world, message, text=text, version=str(version)))
            assert (await world.hears(edited)).outcome == "ignored"
        await world.shows("I had read your message already")
        await world.settled()
        assert sum("I had read your message already" in text for text in world.texts()) == 1
        assert world.texts(GROUP) == []

    async def test_a_deleted_message_is_not_answered(self, world: World) -> None:
        await busy(world)
        said = world.said("never mind")
        await world.hears(said)
        assert (await world.hears(Deleted(**self.changed(world, said)))).outcome == "accepted"
        world.go_on()
        await world.answered("go on")
        assert not any("never mind" in str(body) for body in world.llm.bodies)
        assert (await world.hears(said)).outcome == "duplicate"
        assert (await world.hears(Deleted(**self.changed(world, said)))).outcome == "ignored"


@pytest.mark.requirement("G-05")
async def test_a_stop_is_for_the_message_before_it_however_long_its_file_took(world: World) -> None:
    for number in range(3):
        world.script(slowly(f"never {number}"))
        file_and_words, stop = world.said(f"never {number}", attachments=(file("a.txt"),)), world.said("/stop")
        world.clock.ahead_s += 20
        await world.hears(file_and_words)
        await world.hears(stop)
        await until(lambda number=number: world.texts().count("Stopped.") == number + 1)
    assert not any("Nothing is running" in text for text in world.texts())


class TestCatchingUp:
    def late(self, world: World, text: str, minutes: float, **fields: Any) -> MessageReceived:
        """Read from the history, so long after it was written."""
        return world.said(text, sent_at=world.clock.now() - timedelta(minutes=minutes), from_history=True, **fields)

    async def test_what_is_young_is_answered_and_what_is_old_told_to_the_owner(self, world: World) -> None:
        assert (await world.hears(self.late(world, "young", 14, person=BOB))).outcome == "accepted"
        old = self.late(world, "an ancient one", 16, person=BOB)
        receipt = await world.hears(old)
        assert (receipt.outcome, receipt.reason) == ("refused", "older than catch-up reaches")
        assert (await world.hears(old)).outcome == "duplicate"
        await world.shows("young", BOB)
        await world.settled()
        assert not any("ancient" in str(body) for body in world.llm.bodies)
        await world.shows("messages older than the catch-up time")
        assert "older than catch-up reaches" in await world.asks("/why", person=BOB)

    @pytest.mark.requirement("R-53")
    async def test_an_old_stop_stops_nothing(self, world: World) -> None:
        await busy(world)
        assert (await world.hears(self.late(world, "/stop", 20))).outcome == "refused"
        world.go_on()
        await world.shows("the slow answer")

    @pytest.mark.requirement("G-05")
    async def test_a_stop_is_for_what_went_on_when_it_was_written(self, world: World) -> None:
        await busy(world)
        await world.hears(self.late(world, "/stop", 5))
        await world.shows("Nothing is running")
        world.go_on()
        await world.shows("the slow answer")

    @pytest.mark.requirement("G-05")
    @pytest.mark.parametrize("begun", [False, True])
    async def test_a_stop_is_for_what_was_written_before_it(self, begun: bool, world: World) -> None:
        for number in range(3):
            world.script(slowly("never"))
            await world.hears(self.late(world, f"never {number}", 6))
            if begun:
                await until(lambda number=number: len(world.models_asked) == number + 1)
            await world.hears(self.late(world, "/stop", 5))
            await until(lambda number=number: world.texts().count("Stopped.") == number + 1)
        assert not any("Nothing is running" in text for text in world.texts())


class TestComingBack:
    async def test_whoever_writes_from_a_closed_place_is_answered_there(self, world: World) -> None:
        """The person had blocked the bot; that they are back is told by nobody but themselves."""
        world.screen(BOB).fail("send", ChannelGone("bot was blocked by the user"))
        await world.say("/whoami", person=BOB)
        await until(lambda: any(call.act == "send" for call in world.screen(BOB).calls))
        await world.shows("removed from or blocked in telegram:78")
        assert world.texts(BOB) == []
        await world.say("I am back", person=BOB)
        await world.shows("I am back", BOB)
        assert "You are telegram:78" in world.texts(BOB)[0], "what had waited comes first"


class TestGroups:
    @pytest.mark.requirement("G-12")
    async def test_without_a_mention_nothing_happens(self, world: World) -> None:
        receipt = await world.say("nobody is meant", person=BOB, chat=GROUP, mention=Mention.NONE)
        assert (receipt.outcome, receipt.reason) == ("ignored", "no mention of the bot")
        assert await world.rows() == []

    @pytest.mark.requirement("G-12")
    async def test_other_bots_are_ignored(self, world_of: Callable[..., World]) -> None:
        world = world_of()
        bot = {"sender": replace(world.said("x").sender, is_bot=True)}
        async with world.process():
            assert (await world.say("beep", chat=GROUP, **bot)).reason == "a bot wrote it"

    async def test_bots_that_talk_among_themselves_do_not_use_up_our_answers(
        self, world_of: Callable[..., World]
    ) -> None:
        world = world_of()
        world.access = 'bots = "mentions"\nmessages_per_minute = 1000'
        bot = {"sender": replace(world.said("x").sender, is_bot=True), "chat": GROUP}
        async with world.process():
            for _ in range(40):
                assert (await world.say("beep", mention=Mention.NONE, **bot)).outcome == "ignored"
            assert (await world.say("/whoami", **bot)).outcome == "accepted"
            outcomes = [(await world.say("/whoami", **bot)).reason for _ in range(40)]
            assert "bot loop guard" in outcomes
