"""Queued and running work: /queue /clear-queue /drop-last-queued /stop."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest
from sqlalchemy import update

from agent.storage.tables import inbox
from agent.storage.timestamps import to_timestamp
from tests.fakes.waiting import until
from tests.gateway.world import ANN, BOB, GROUP, World, file, slowly


async def busy(world: World, chat: str = ANN) -> None:
    """A turn is under way until the world is told to go on."""
    world.script(slowly("slow"))
    calls = len(world.llm.calls)
    await world.say("slow please", chat=chat)
    await world.until_asked(calls + 1)


async def test_it_shows_what_waits_and_the_mode(world: World) -> None:
    assert "Nothing is waiting. Mode: queue." in await world.asks("/queue")
    await busy(world)
    await world.say("first *thing*\nand more")
    await world.say("", attachments=(file("a.txt"),))
    assert await world.asks("/queue", "Waiting: 2.") == "Waiting: 2. Mode: queue.\n\n1. first *thing*\n2. a.txt"


async def test_a_mode_is_set_for_this_chat_and_outlives_a_restart(world_of: Callable[..., World]) -> None:
    world = world_of()
    async with world.process():
        assert "loud is no mode" in await world.asks("/queue loud")
        assert "From now on: drop." in await world.asks("/queue drop")
    async with world.process():
        assert "Mode: drop." in await world.asks("/queue", "Mode: drop")
        assert "Mode: queue." in await world.asks("/queue", chat=GROUP)
        await busy(world)
        assert (await world.say("and this")).outcome == "refused"
        await world.shows("I am still working")


async def test_in_a_group_all_may_look_and_admins_may_set_and_clear(world: World) -> None:
    assert "Nothing is waiting" in await world.asks("/queue", person=BOB, chat=GROUP)
    for command in ("/queue drop", "/queue clear", "/clear-queue", "/drop-last-queued"):
        assert "is for admins" in await world.asks(command, person=BOB, chat=GROUP)
    assert "Mode: queue" in await world.asks("/queue", chat=GROUP)


@pytest.mark.parametrize("command", ["/clear-queue", "/queue clear", "/clear_queue"])
async def test_clearing_refuses_what_waits_and_leaves_what_runs(world: World, command: str) -> None:
    assert "Dropped: 0" in await world.asks(command)
    await busy(world)
    await world.say("one")
    await world.say("two")
    assert "Dropped: 2 waiting messages." in await world.asks(command, "Dropped: 2")
    world.go_on()
    await world.shows("the slow answer")
    assert [row for row in await world.rows() if row[0] == "refused"] == [("refused", "cleared by telegram:77")] * 2


async def test_the_newest_is_dropped_alone(world: World) -> None:
    assert "Dropped: 0" in await world.asks("/drop-last-queued")
    await busy(world)
    await world.say("one")
    await world.say("two")
    await world.asks("/drop-last-queued", "Dropped the newest")
    world.go_on()
    await world.shows("one")
    assert [status for status, _ in await world.rows()].count("refused") == 1
    assert not any("two" in text for text in world.texts())


@pytest.mark.requirement("G-05", "R-53")
async def test_stop_never_queues_and_its_repeat_does_nothing(world: World) -> None:
    assert "Nothing is running" in await world.asks("/stop")
    await busy(world)
    stop = world.said("/cancel")
    assert (await world.hears(stop)).reason == "command"
    await world.shows("Stopped.")
    await busy(world)
    assert (await world.hears(stop)).outcome == "duplicate"
    world.go_on()
    await world.shows("the slow answer")
    assert world.texts().count("Stopped.") == 1


@pytest.mark.requirement("G-05")
async def test_a_stop_does_not_end_a_turn_that_began_after_it(world: World) -> None:
    """It was meant for the one before, and took its time."""
    stop = replace(world.said("/stop"), received_at=world.clock.now())
    await busy(world)
    await world.hears(stop)
    await world.shows("Nothing is running")
    world.go_on()
    await world.shows("the slow answer")
    assert "Stopped." not in world.texts()


@pytest.mark.requirement("G-05")
async def test_a_stop_right_behind_its_message_ends_the_turn_that_is_about_to_begin(world: World) -> None:
    for number in range(3):
        world.script(slowly(f"never {number}"))
        await world.say(f"never {number}")
        await world.say("/stop")
        await until(lambda number=number: world.texts().count("Stopped.") == number + 1)
    assert not any("Nothing is running" in text for text in world.texts())


@pytest.mark.requirement("G-05")
async def test_who_stops_twice_while_the_first_still_ends_means_the_next_turn_too(world: World) -> None:
    await busy(world)
    world.script(slowly("never"))
    await world.say("never")
    await world.say("/stop")
    await world.say("/stop")
    await until(lambda: world.texts().count("Stopped.") == 2)
    await world.settled()
    assert world.texts() == ["Stopped.", "Stopped."]


@pytest.mark.requirement("G-05")
async def test_a_stop_ends_what_does_not_begin_in_time(world: World) -> None:
    """An album waits for more parts, and a run that failed for its next try."""
    later = to_timestamp(world.clock.now() + timedelta(hours=1))
    await world.say("regretted", album="g1", attachments=(file("a.txt"),))
    await world.database.write(lambda conn: conn.execute(update(inbox).values(not_before=later)))
    await world.say("/stop")
    await world.shows("Stopped.")
    assert await world.rows() == [("refused", "stopped by telegram:77"), ("done", "command")]
    await world.settled()
    assert world.texts() == ["Stopped."]
    assert world.llm.bodies == []


@pytest.mark.requirement("G-05")
async def test_a_stop_means_what_is_about_to_begin_in_its_own_place_and_no_topic(world: World) -> None:
    topic = f"{GROUP}:7"
    await busy(world, topic)
    world.script(slowly("never"), slowly("slow"))
    await world.say("never", chat=GROUP)
    await world.say("/stop", chat=GROUP)
    await world.shows("Stopped.", GROUP)
    world.go_on()
    await world.shows("the slow answer", topic)


@pytest.mark.requirement("G-05")
async def test_a_stop_of_a_turn_that_is_over_ends_no_topic(world: World) -> None:
    topic = f"{GROUP}:7"
    await busy(world, topic)
    stop = replace(world.said("/stop", chat=GROUP), received_at=world.clock.now())
    world.script(slowly("slow"), slowly("newer", "the newer answer"))
    calls = len(world.llm.calls)
    await world.say("newer", chat=GROUP)
    await world.until_asked(calls + 1)
    await world.hears(stop)
    await world.shows("Nothing is running", GROUP)
    world.go_on()
    world.go_on("newer")
    await world.shows("the slow answer", topic)
    await world.shows("the newer answer", GROUP)


@pytest.mark.requirement("G-05")
async def test_a_stop_where_nothing_was_said_ends_the_topics(world: World) -> None:
    """A Slack command cannot be given in a thread."""
    topic = f"{GROUP}:7"
    await busy(world, topic)
    await world.say("/stop", chat=GROUP)
    await world.shows("Stopped.", topic)


@pytest.mark.parametrize("chat", [pytest.param(ANN, id="alone"), pytest.param(GROUP, id="in a group")])
async def test_a_stop_leaves_one_word(world: World, chat: str) -> None:
    await busy(world, chat)
    await world.say("/stop", chat=chat)
    await world.shows("Stopped.", chat)
    await world.settled()
    assert world.texts(chat) == ["Stopped."]


async def test_a_stop_button_stops_too_and_gets_its_answer(world: World) -> None:
    await busy(world)
    said = world.said("/stop", id="b1", interaction="b1", interaction_id="b1")
    assert (await world.hears(said)).outcome == "accepted"
    await world.shows("Stopping.")
    await world.shows("Stopped.")
    assert (await world.hears(said)).outcome == "duplicate"


async def test_what_waits_behind_a_turn_is_told_for_a_while(world: World) -> None:
    await busy(world)
    await world.say("one more")
    await until(lambda: "Waiting: 1" in world.texts())
    world.go_on()
    await world.shows("one more")
    await until(lambda: "Waiting: 1" not in world.texts())
