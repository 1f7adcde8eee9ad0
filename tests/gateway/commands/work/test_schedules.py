"""Reminders and schedules in the chat: /remind /loop /heartbeat /schedules /timezone."""

import re
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import select

from agent.assembly import built_in_tools
from agent.storage.tables import message
from agent.tools.output_files import Outputs
from gateway.channels.inbound import Mention
from gateway.scheduler import ledger
from tests.fakes.calls import mistakes
from tests.fakes.clock import FakeClock
from tests.fakes.schedules import FakeSchedules
from tests.fakes.waiting import until
from tests.gateway.world import ANN, BOB, GROUP, World


async def test_what_comes_next_is_listed_first_and_all_of_it_can_be_reached(world: World) -> None:
    for number in range(1, 23):
        await world.asks(f"/remind in {60 - number} min thing{number}", f"thing{number}")
    first = await world.asks("/schedules", "Set here: 22")
    assert [line.split()[2] for line in first.splitlines() if line.startswith("▸")][:2] == ["thing22", "thing21"]
    assert "… and 2 more: /schedules list 2" in first
    assert "c:/schedules 22" in world.screen().shown[-1].actions
    last = await world.asks("/schedules list 2", "thing1\n")
    assert [line.split()[2] for line in last.splitlines() if line.startswith("▸")] == ["thing2", "thing1"]
    assert "more" not in last
    assert await world.asks("/schedules list 99") == last


async def test_a_word_that_there_is_not_is_answered_with_those_there_are(world: World) -> None:
    said = await world.asks("/schedules frobnicate", "There is no frobnicate here")
    assert "a number, list, pause, resume, run, skip, delete, edit, late, quiet." in said
    assert "lists what is set" in await world.asks("/schedules 7", "There is no 7 here")


async def test_what_happens_once_is_told_by_its_date_on_every_day(world: World) -> None:
    """ "Tomorrow" is wrong tomorrow, and a time alone is wrong once its day is over."""
    day = (world.clock.now() + timedelta(days=1)).date()
    set_ = await world.asks("/remind tomorrow 9:00 pay the rent", "I will remind you")
    assert f"{day} 09:00 UTC" in set_
    soon = await world.asks("/remind in 1 min tea", "tea")
    assert re.search(r"\((Mon|Tue|Wed|Thu|Fri|Sat|Sun) \d{4}-\d\d-\d\d \d\d:\d\d(:\d\d)? UTC\)", soon)
    for command in ("/schedules", "/schedules 1", "/schedules pause 1", "/schedules 1"):
        told = await world.asks(command, "pay the rent")
        assert "tomorrow" not in told
        assert command == "/schedules pause 1" or f"{day} 09:00 UTC" in told, told
    how = await world.asks("/schedules edit 1", "Write the new time")
    typed = how.splitlines()[-1]
    assert typed == f"/schedules edit 1 {day}T09:00 pay the rent"
    assert f"{day} 09:00 UTC" in await world.asks(typed, "I will remind you")
    assert "every day 9:00" in await world.asks("/remind every day 9:00 pills", "pills")


async def test_without_words_it_shows_how(world: World) -> None:
    for command in ("/remind", "/loop", "/heartbeat"):
        assert f"{command} " in await world.asks(command)


async def test_what_is_wrong_is_said_with_examples(world: World) -> None:
    assert "every weekday 8:30" in await world.asks("/remind buy milk")
    assert "25:00 is no time of the day" in await world.asks("/remind at 25:00 wake")
    assert "And what shall I say then?" in await world.asks("/remind in 20 min")
    assert "happens only once" in await world.asks("/loop look in 20 min")
    assert "0 is no time to wait" in await world.asks("/remind me in 0 min tea", "0 is no time")
    assert "in 20 min" in await world.asks("/loop look every 0 s", "every 10 min")
    assert "Darin fand ich keine Zeit" in await world.asks("/remind Milch", language="de")


async def test_a_zone_is_asked_for_once_and_what_was_set_follows_it(world: World) -> None:
    set_ = await world.asks("/remind every day 9:00 pills", "I will remind you")
    assert "I do not know your time zone and took UTC" in set_
    assert "time zone" not in await world.asks("/remind every day 10:00 tea", "tea")
    await world.press("c:/timezone Europe/London")
    assert "Moved with it: 2" in await world.shows("Your time zone: Europe/London")
    assert "Europe/London" in await world.asks("/schedules 1", "Zone:")
    assert "the largest city near you" in await world.asks("/timezone Narnia", "no time zone Narnia")
    assert "Did you mean Europe/Berlin" in await world.asks("/timezone Berln", "no time zone Berln")
    assert "Europe/Berlin" in await world.asks("/timezone berlin", "Berlin")
    assert "Your time zone: UTC+2." in await world.asks("/timezone UTC+2", "UTC+2")
    assert "/timezone reset" in await world.asks("/timezone", "Your time zone")
    await world.asks("/timezone reset", "no longer keep")
    assert "I do not know your time zone; I take UTC" in await world.asks("/timezone", "I take UTC")


async def test_a_list_is_in_one_zone_and_so_is_why(world: World) -> None:
    await world.asks("/remind at 23:59 tea", "I will remind you")
    await world.asks("/timezone Tokyo", "Asia/Tokyo")
    await world.asks("/remind every day 9:00 UTC pills", "pills")
    listed = await world.asks("/schedules", "Set here: 2")
    assert listed.count(" JST") == 2
    await world.say("not meant", chat=GROUP, mention=Mention.NONE)
    assert " JST, telegram:77" in await world.asks("/why", chat=GROUP)


async def test_one_schedule_is_told_in_the_zone_of_the_list(world: World) -> None:
    await world.asks("/remind in 60 min pills", "pills")
    await world.asks("/timezone Tokyo", "Asia/Tokyo")
    assert " JST" in await world.asks("/schedules 1", "pills")
    await world.asks("/schedules pause 1", "Paused")
    assert " JST" in await world.asks("/schedules resume 1", "Goes on")


async def test_a_list_says_how_those_without_a_button_are_reached(world: World) -> None:
    for number in range(1, 10):
        listed = await world.asks(f"/remind in {60 - number} min thing{number}", f"thing{number}")
        if number == 8:
            assert "Buttons are there" not in await world.asks("/schedules", "Set here: 8")
    listed = await world.asks("/schedules", "Set here: 9")
    assert "Buttons are there for the first 8; /schedules and a number shows any other." in listed


async def test_a_member_is_told_whose_a_schedule_is_and_which_part_is_for_admins(world: World) -> None:
    await world.asks("/remind in 20 min tea", "tea", chat=GROUP)
    said = await world.asks("/schedules delete 1", "was set by somebody else here", chat=GROUP, person=BOB)
    assert "admin may change or remove it" in said
    assert await world.asks("/queue clear", "/queue clear is for admins", chat=GROUP, person=BOB)
    assert await world.asks("/memory export", "/memory export is for admins", chat=GROUP, person=BOB)


async def test_loops_and_heartbeats_alone_show_those_that_are_set(world: World) -> None:
    assert "No loop that could be stopped" in await world.asks("/loop stop")
    await world.asks("/loop look at the build every 30 min", "#1")
    await world.asks("/heartbeat every 40 min is it green?", "#2")
    loops = await world.asks("/loop", "Set here: 1")
    assert "#1 look at the build" in loops
    assert "/loop stop ends it" in loops
    assert "#2" not in loops
    assert "#2" in await world.asks("/heartbeat", "Set here: 1")
    assert "Loops stopped: 1." in await world.asks("/loop stop")
    assert "Set here" not in await world.asks("/loop", "Tell me what to do")


async def test_the_model_is_told_the_time_where_each_writer_lives(world: World) -> None:
    """Of a group, the zone of who writes is told; an unknown one is that of `[scheduler]`."""
    await world.asks("/timezone Tokyo", "Asia/Tokyo")
    for chat in (ANN, GROUP):
        await world.answered("plovers", chat=chat)
        assert "where this person lives (Asia/Tokyo)" in results(world)
    await world.answered("herons", chat=GROUP, person=BOB)
    assert "UTC." in results(world)
    assert "Tokyo" not in results(world)
    world.llm.replies({"blocks": [{"type": "tool_use", "name": "current_time", "input": {}}]}, {"text": "There it is."})
    await world.answered("what time is it", "There it is.")
    assert "Asia/Tokyo, JST" in results(world)


async def test_a_span_needs_no_zone(world: World) -> None:
    assert "time zone" not in await world.asks("/remind in 20 min tea")


async def test_it_lists_shows_and_changes_by_buttons(world: World) -> None:
    assert "Nothing is set here" in await world.asks("/schedules")
    await world.asks("/remind every day 9:00 pills", "I will remind you")
    listed = await world.asks("/schedules", "Set here: 1")
    assert "▸ #1 pills" in listed
    assert "every day 9:00 · next" in listed
    await world.press("c:/schedules 1")
    assert "missed times: within" in await world.shows("Reminder: pills")
    await world.press("c:/schedules pause 1", id="p2")
    await world.shows("Paused: #1 pills")
    assert "paused" in await world.asks("/schedules late 1 once", "Noted for missed times")
    await world.press("c:/schedules resume 1", id="p3")  # it stands below what was said of the pause
    await world.shows("Goes on: #1 pills")
    await world.asks("/schedules 1", "▸ #1 Reminder")
    await world.press("c:/schedules skip 1", id="p4")
    await world.shows("Left out once: #1 pills")
    await world.press("c:/schedules run 1", id="p5")
    await world.shows("⏰ pills")
    await world.settled()
    assert "Write the new time" in await world.asks("/schedules edit 1", "Write the new")
    assert "every weekday 7:30" in await world.asks("/schedules edit 1 every weekday 7:30 vitamins", "vitamins")
    assert "Noted for missed times" in await world.asks("/schedules late 1 all", "Noted")
    assert "Say what becomes of missed times" in await world.asks("/schedules late 1", "missed times")
    assert "no way to treat" in await world.asks("/schedules late 1 maybe")
    shown = await world.asks("/schedules 1", "Last times:")
    assert "missed times: all" in shown
    assert "left out" in shown
    assert "on time" in shown
    await world.press("c:/schedules delete 1", id="p6")
    await world.shows("Deleted: #1")
    assert "There is no 1 here" in await world.asks("/schedules 1", "There is no 1")
    assert "Which one?" in await world.asks("/schedules pause")


async def test_what_wakes_the_model_more_often_than_each_minute_is_told_to_cost(world: World) -> None:
    for command in ("/loop look every 5 s", "/remind ask every 20 sec look"):
        often = await world.asks(command, "is paid for")
        assert ("every 5 s, that is 720 times an hour" if "/loop" in command else "180 times") in often
    for command in ("/loop look every 1 min", "/remind every 20 sec drink"):
        assert "is paid for" not in await world.asks(command, "I will" if "remind" in command else None)


async def test_in_a_group_members_change_their_own_and_admins_all(world: World) -> None:
    await world.asks("/remind every day 9:00 ann's", "I will", chat=GROUP)
    await world.asks("/remind every day 9:00 bob's", "bob's", person=BOB, chat=GROUP)
    assert "was set by somebody else" in await world.asks("/schedules delete 1", person=BOB, chat=GROUP)
    assert "Deleted: #2" in await world.asks("/schedules delete 2", "Deleted: #2", person=BOB, chat=GROUP)
    assert "is for admins" in await world.asks("/schedules quiet 22-7", person=BOB, chat=GROUP)
    for command in ("/loop look every 10 min", "/heartbeat every 10 min look"):
        assert "is for admins" in await world.asks(command, person=BOB, chat=GROUP)
    for command in ("/remind ask every 5 sec tell a joke", "/schedules edit 3 every 5 sec"):
        await world.asks("/remind every day 9:00 bob's", "bob's", person=BOB, chat=GROUP)
        assert "too often for a group" in await world.asks(command, "too often", person=BOB, chat=GROUP)
    assert "every 5 sec" in await world.asks("/schedules edit 3 every 5 sec", "every 5 sec", chat=GROUP)
    assert "There is no 1 here" in await world.asks("/schedules 1", "There is no 1", chat=ANN)


async def test_a_loop_runs_until_it_is_stopped(world: World) -> None:
    assert "Again and again: every 5 min" in await world.asks("/loop look at the build every 5 min", "Again")
    assert "too often" in await world.asks("/loop look every 1 sec")
    await world.press("c:/schedules delete 1")
    await world.shows("Deleted: #1")
    assert "#2" in await world.asks("/loop look at the build every hour", "every hour")  # no number is used again
    await world.asks("/loop stop", "Loops stopped: 1")
    assert "Nothing is set here" in await world.asks("/schedules", "Nothing is set")


async def test_quiet_hours_are_set_shown_and_ended(world: World) -> None:
    assert "no quiet hours" in await world.asks("/schedules quiet")
    assert "22:00-07:00 UTC" in await world.asks("/schedules quiet 22-7", "Quiet hours from now")
    assert "22:00-07:00" in await world.asks("/schedules quiet", "Quiet hours: ")
    assert "do not understand" in await world.asks("/schedules quiet night", "do not understand")
    assert "No more quiet" in await world.asks("/schedules quiet off", "No more")


@pytest.mark.requirement("B-89")
async def test_a_heartbeat_says_nothing_when_there_is_nothing_to_say(world: World) -> None:
    world.script({"match": {"contains": "[Heartbeat]"}, "reply": {"text": "*NOTHING TO REPORT*"}})
    await world.asks("/heartbeat every 30 min between 0 and 23 is the build green?", "I will look after this")
    before = world.texts()
    await world.say("/schedules run heartbeat")
    await world.shows("Started: #1")
    await world.until_asked()
    await world.settled()
    assert [text for text in world.texts() if text not in before] == ["Started: #1 heartbeat"]
    assert not world.screen().made("typing")
    await until(lambda: ended(world))
    assert "nothing to say" in await world.asks("/schedules 1", "Model calls: 1")  # its cost is in the ledger

    world.script({"match": {"contains": "[Heartbeat]"}, "reply": {"text": "The build is red."}})
    await world.say("/schedules run heartbeat")
    await world.shows("The build is red.")
    await world.settled()
    await world.answered("and now?")
    history = str(world.llm.bodies[-1]["messages"])
    assert "The build is red." in history
    assert "*NOTHING TO REPORT*" not in history  # what nobody heard is not sent with every call
    assert "*NOTHING TO REPORT*" in str(await kept(world)), "and yet it is stored"
    assert "off" in await world.asks("/heartbeat off", "The heartbeat is off")
    assert "no heartbeat" in await world.asks("/heartbeat off", "no heartbeat")


@pytest.mark.requirement("G-16")
async def test_the_agent_sets_lists_and_cancels(world: World) -> None:
    def calls(name: str, arguments: Mapping[str, object]) -> dict[str, object]:
        return {"reply": {"blocks": [{"type": "tool_use", "name": name, "input": arguments}]}}

    periodic = {"name": "report", "cron": "30 8 * * 1-5", "kind": "custom", "config": {"text": "sum up the week"}}
    deferred = {"name": "tea", "run_at": "in 1 sec", "kind": "reminder", "task": "the tea is ready"}
    world.script(
        {"match": {"contains": "set both", "tool_result": False}, **calls("schedule_periodic", periodic)},
        {"match": {"tool_result_contains": "Set. #1"}, **calls("schedule_deferred", deferred)},
        {"match": {"tool_result_contains": "Set. #2"}, "reply": {"text": "Both are set."}},
        {"match": {"contains": "what is set", "tool_result": False}, **calls("list_schedules", {})},
        {"match": {"contains": "no more", "tool_result": False}, **calls("cancel_task", {"name": "report"})},
        {
            "match": {"contains": "set often", "tool_result": False},
            **calls("schedule_periodic", {**periodic, "cron": "* * * * * *"}),
        },
        {
            "match": {"contains": "set before", "tool_result": False},
            **calls("schedule_deferred", {**deferred, "run_at": "2020-01-01T09:00"}),
        },
    )
    await world.say("set both please")
    await world.shows("Both are set.")
    await world.shows("⏰ the tea is ready")
    assert "30 8 * * 1-5" in await world.asks("/schedules", "report")
    await world.answered("what is set?", "echo")
    assert "#1 report [custom] '30 8 * * 1-5' in UTC, next " in results(world)
    await world.answered("set often", "echo", id="500")
    assert "too often" in results(world)
    await world.answered("set before", "echo", id="501")
    assert "has passed already" in results(world)
    await world.answered("no more", "echo", id="502")
    assert "Removed: #1 report" in results(world)
    assert "Nothing is set here" in await world.asks("/schedules", "Nothing is set")


@pytest.mark.requirement("G-16")
@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("schedule_periodic", {"name": "x" * 129, "cron": "0 9 * * *", "kind": "custom"}),
        ("schedule_periodic", {"name": "x", "cron": "0 9 * * *" + " " * 60, "kind": "custom"}),
        ("schedule_periodic", {"name": "x", "cron": "0 9 * * *", "kind": "k" * 65}),
        ("schedule_periodic", {"name": "x", "cron": "0 9 * * *", "kind": "custom", "config": {"text": "x" * 513}}),
        ("schedule_deferred", {"name": "x", "run_at": "in 5 minutes", "kind": "k" * 65}),
        ("schedule_deferred", {"name": "x", "run_at": "in 5 minutes", "kind": "custom", "task": "x" * 513}),
        ("cancel_task", {"name": "x" * 129}),
    ],
)
def test_what_is_too_long_is_refused_before_it_runs(tool: str, arguments: dict[str, object]) -> None:
    tools = {one.spec.name: one for one in built_in_tools(FakeClock(), Outputs(Path()), FakeSchedules())}
    assert len(mistakes(tools[tool], arguments)) == 1


async def test_a_limit_for_jobs_holds_for_what_schedules_ask(world_of: Callable[..., World]) -> None:
    world = world_of(config='[[spending.limits]]\nscope = "job"\ntokens = 10\n')
    async with world.process():
        await world.asks("/remind ask every day 9:00 UTC what is new?", "I will do this")
        await world.say("/schedules run 1")
        await world.shows("This schedule may spend 10 tokens")
        assert not world.llm.calls
        await world.answered("people are not meant")


async def kept(world: World) -> list[str]:
    """All messages of all sessions as they are stored, hidden ones too."""
    return list(await world.database.read(lambda conn: conn.execute(select(message.c.parts)).scalars()))


async def ended(world: World) -> bool:
    """Every run of a schedule is over."""
    return not await world.database.read(lambda conn: ledger.open_runs(conn, most=1))


def results(world: World) -> str:
    """The newest result of a tool, as the model read it."""
    return str(world.llm.bodies[-1]["messages"][-1]["content"])


async def test_a_restart_keeps_what_is_set(world_of: Callable[..., World]) -> None:
    world = world_of()
    async with world.process():
        await world.asks("/remind in 2 sec tea", "I will remind you")
    async with world.process():
        await world.shows("⏰ tea")
        await world.settled()
        await until(lambda: sum("⏰ tea" in text for text in world.texts()) == 1)
