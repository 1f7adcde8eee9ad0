"""Goals through the whole gateway: commands, the message that follows the work, sub-agents, a death."""

import json
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, select, update

from agent.core.ids import ConversationId
from agent.goals import store
from agent.goals.goal import Auto, Limits, Owner
from agent.storage.tables import inbox
from agent.storage.timestamps import from_timestamp, to_timestamp
from gateway.channels.errors import ChannelFatal
from gateway.storage.grants import Grant
from tests.fakes.channel import Act
from tests.fakes.llm_server import LlmServer
from tests.fakes.waiting import until
from tests.gateway.world import ANN, BOB, GROUP, World, slowly

AUTO = """
[agent.goal]
autonomous_enabled = true
supervisor_provider = "b"
verify_interval = 2
autonomous_turn_delay_ms = 20
"""


CALLS: tuple[Act, ...] = (
    "send",
    "edit",
    "delete",
    "whisper",
    "typing",
    "react",
)
FOLLOWED = "[agent.goal]\ntrack_in_system_prompt = true\n"


def judged(achieved: bool, reason: str = "seen") -> Mapping[str, Any]:
    """A rule: what the supervisor says."""
    text = json.dumps({"achieved": achieved, "reason": reason})
    return {"match": {"contains": "Is the goal reached?"}, "reply": {"text": text}}


def works(text: str, **more: Any) -> Mapping[str, Any]:
    """A rule: what a turn by itself answers."""
    return {"match": {"contains": "[autonomous]"}, "reply": {"text": text, **more}}


def once(rule: Mapping[str, Any]) -> Mapping[str, Any]:
    """The same rule for one request alone."""
    return {**rule, "times": 1}


def turns_by_itself(world: World) -> Sequence[Mapping[str, Any]]:
    """Requests of turns without a person."""
    newest = ((body, json.dumps(body["messages"][-1])) for body in world.llm.bodies)
    return [body for body, text in newest if "[autonomous]" in text and "Is the goal reached?" not in text]


@pytest.fixture
def world(tmp_path: Path, sqlite_template: Path, llm: LlmServer) -> World:
    return World(tmp_path, sqlite_template, llm, config=AUTO)


@pytest.mark.requirement("Z-93", "Z-145")
async def test_a_reached_goal_is_a_status_that_goes(world: World) -> None:
    world.config = FOLLOWED
    world.script({"match": {"contains": "sea"}, "reply": {"text": "It is done."}})
    async with world.process():
        await world.answered("write a poem about the sea", "It is done.")
        await world.shows("Goal reached: write a poem about the sea")
        await world.say("and another remark")
        await until(lambda: not any("Goal reached" in text for text in world.texts()))


@pytest.mark.requirement("Z-115", "Z-118", "Z-129", "Z-131")
async def test_it_works_by_itself_with_one_message_until_it_is_reached(world: World) -> None:
    world.script(judged(True, "all pages are there"), works("Every page is tidy."))
    async with world.process():
        await world.asks("/goal create tidy up the wiki --auto --turns 4", "I start now")
        await world.shows("is reached: tidy up the wiki")
        await until(lambda: not any("Working on" in text for text in world.texts()))
        assert world.texts().count("Every page is tidy.") == 1
        assert "all pages are there" in await world.asks("/agents", "Autonomous Goals")
        assert "reached" in await world.asks("/goal list", "Goals of this chat")
        overview = await world.services.overview.overview()
        assert [(goal.text, goal.state, goal.turns) for goal in overview.goals] == [("tidy up the wiki", "achieved", 2)]


@pytest.mark.requirement("Z-115")
async def test_it_takes_no_more_turns_than_it_was_told_to(world: World) -> None:
    world.script(judged(False, "pages are missing"), *(once(works(f"Page {number} is tidy.")) for number in range(9)))
    async with world.process():
        started = await world.asks("/goal create tidy up the wiki --auto --turns 3", "I start now")
        assert "with at most 3 turns" in started
        await world.shows("The limit of 3 turns")
        await world.settled()
        assert len(turns_by_itself(world)) == 3
        assert "turn 3/3" in await world.asks("/agents", "Autonomous Goals")


@pytest.mark.requirement("Z-131")
async def test_agents_counts_the_turns_since_the_newest_check_too(world: World) -> None:
    world.script(judged(False, "pages are missing"), works("Still looking."))
    async with world.process():
        await world.asks("/goal create tidy up the wiki --auto", "I start now")
        await world.shows("No progress in 3 turns")
        told = await world.asks("/agents", "Autonomous Goals")
        assert "turn 3/50" in told
        assert "checked after turn 2: pages are missing" in told


@pytest.mark.requirement("Z-122")
@pytest.mark.parametrize(
    "fault",
    [{"kind": "error", "status": 401}, {"kind": "error", "status": 500}, {"kind": "drop"}],
    ids=["it refuses", "it breaks", "it hangs up"],
)
async def test_while_the_supervisor_is_out_of_order_the_model_at_work_is_not_its_own_judge(
    world: World, fault: Mapping[str, Any]
) -> None:
    world.script(judged(True), *(once(works(f"Page {number} is tidy.")) for number in range(20)))
    world.llm.fails(**fault, model="model-b", times=99)
    async with world.process():
        await world.asks("/goal create tidy up the wiki --auto", "I start now")
        await world.shows("It could not be checked 3 times in a row.")
        await world.settled()
        assert not any("is reached" in text for text in world.texts())
        checked_by = {body["model"] for body in world.llm.bodies if "Is the goal reached?" in json.dumps(body)}
        assert checked_by == {"model-b"}


@pytest.mark.requirement("Z-118")
async def test_a_person_is_answered_during_the_pause_between_two_turns(world: World) -> None:
    """However long the pause: it is waited for beside everything else."""
    world.config = AUTO.replace("_delay_ms = 20", "_delay_ms = 10000")
    world.script(works("A step."))
    due = select(inbox.c.not_before).where(inbox.c.kind == "system", inbox.c.status == "new")
    async with world.process():

        async def next_turn() -> datetime | None:
            at = await world.database.read(lambda conn: conn.execute(due).scalar_one_or_none())
            return from_timestamp(at) if at is not None else None

        async def rests() -> bool:
            return len(turns_by_itself(world)) == 1 and await next_turn() is not None

        await world.asks("/goal create tidy up the wiki --auto", "I start now")
        await until(rests)
        await world.asks("hello there", "hello there")
        resumes_at = await next_turn()
        assert resumes_at is not None
        assert world.clock.now() < resumes_at
        assert len(turns_by_itself(world)) == 1


@pytest.mark.requirement("Z-117")
async def test_work_that_is_resumed_waits_for_the_turn_that_goes_on_and_is_taken_up_after_it(world: World) -> None:
    world.script(judged(True), slowly("something slow"), works("Every page is tidy."))
    async with world.process():
        await world.asks("/goal create tidy up the wiki", "Goal 1")
        await world.say("something slow")
        await world.until_asked()
        await world.asks("/goal resume 1 --auto", "I go on")
        assert not turns_by_itself(world)
        world.go_on("something slow")
        await world.shows("is reached: tidy up the wiki")
        assert turns_by_itself(world)


@pytest.mark.requirement("Z-129", "Z-131")
async def test_the_owner_sees_the_goals_of_all_chats_and_a_group_its_own(world: World) -> None:
    world.script(judged(True, "all pages are there"), works("Every page is tidy."))
    world.grants = (Grant(subject=f"telegram:{ANN}", kind="person", role="owner", granted_by="operator", at=1),)
    async with world.process():
        await world.asks("/goal create tidy up the wiki --auto --turns 4", "I start now", chat=GROUP)
        await world.shows("is reached: tidy up the wiki", GROUP)
        assert "tidy up the wiki" in await world.asks("/agents", "Autonomous Goals")
        await world.asks("/goal create write a poem --auto --turns 4", "I start now")
        await world.shows("is reached: write a poem")
        assert "write a poem" not in await world.asks("/agents", "Autonomous Goals", chat=GROUP)


@pytest.mark.requirement("Z-119")
@pytest.mark.parametrize("how", ["button", "/goal pause", "/stop"])
async def test_it_is_stopped(world: World, how: str) -> None:
    world.script(judged(False), works("A slow step.", hold="step"))
    async with world.process():
        await world.asks("/goal create tidy up the wiki --auto", "I start now")
        await world.until_asked()
        await world.shows("Working on: tidy up the wiki")
        if how == "button":
            await world.press("c:/goal pause 1")
        else:
            await world.say(how)
        await world.shows("Goal 1 is paused")
        await world.settled()
        await until(lambda: not any("Working on" in text for text in world.texts()))
        assert len(world.llm.calls) == 1
        assert "stopped" in await world.asks("/agents", "Autonomous Goals")
        told = await world.asks("/goal 1", "1 · paused")
        assert re.search(r"^By myself: turn \d+/\d+ · 0 min$", told, re.MULTILINE)
        assert (told.count("tidy up the wiki"), "stopped" in told) == (1, False), "each thing once"


async def test_a_person_is_answered_in_between(world: World) -> None:
    world.script(judged(False), works("A step.", ttft=0.05))
    async with world.process():
        await world.asks("/goal create tidy up the wiki --auto", "I start now")
        await world.until_asked()
        await world.say("hello there")
        await world.shows("hello there")
        await world.say("/stop")
        await world.shows("Goal 1 is paused")
        await world.settled()


@pytest.mark.requirement("Z-130", "Z-131")
async def test_after_a_death_it_rests_and_its_owner_is_told_once(world: World) -> None:
    world.script(judged(False), works("A slow step.", hold="step"))
    async with world.process():
        await world.asks("/goal create tidy up the wiki --auto", "I start now")
        await world.until_asked()
        await world.shows("Working on: tidy up the wiki")
    asked = len(world.llm.calls)
    async with world.process():
        await world.shows("The gateway was restarted while I worked on it")
        await world.settled()
        await until(lambda: not any("Working on" in text for text in world.texts()))
        assert "orphaned" in await world.asks("/agents", "Autonomous Goals")
    world.script(judged(True), works("Every page is tidy."))
    async with world.process():
        assert sum("was restarted" in text for text in world.texts()) == 1
        assert len(world.llm.calls) == asked
        await world.press("c:/goal resume 1 --auto")
        await world.shows("is reached: tidy up the wiki")


@pytest.mark.requirement("Z-128")
async def test_where_it_is_not_allowed_auto_is_refused_before_anything_changes(world: World) -> None:
    world.config = ""
    async with world.process():
        await world.asks("/goal create tidy up the wiki --tokens 1000", "Limits: 1,000 tokens")
        await world.asks("/goal create something else --auto", "switched off here; nothing was changed")
        assert "tidy up the wiki" in await world.asks("/goal", "▸ 1 · active")


@pytest.mark.requirement("Z-92")
async def test_done_and_the_other_words(world: World) -> None:
    async with world.process():
        await world.asks("/done", "no goal that could be reached")
        await world.answered("write a poem about the sea")
        await world.asks("/done", "nobody has set one here")
        await world.asks("/goal tidy up the wiki", "🎯 Goal 1: tidy up the wiki")
        await world.asks("/goal pause", "Goal 1 is paused")
        for word in ("complete", "pause", "complete 1"):
            assert "/goal resume 1 goes on" in await world.asks(f"/goal {word}", "Goal 1 is paused. /goal")
        assert "/goal resume 1 goes on" in await world.asks("/done", "Goal 1 is paused. /goal")
        await world.asks("/goal resume", "Goal 1 is active again")
        await world.asks("/goal create another one --usd 1,50 --turns 3", "Limits: 3 turns · 1.5 USD")
        await world.asks("/goal status 1", "Another goal took its place")
        await world.asks("/done", "Goal 2 is reached")
        await world.asks("/goal 1", "1 · paused")
        await world.asks("/goal #7", "There is no goal 7 here")
        await world.asks(f"/goal {'7' * 30}", "There is no goal 777")
        await world.asks("/goal clear 1", "Goal 1 is gone")
        await world.asks("/goal resume 1", "it is gone")
        await world.asks("/goal create x --speed 9", "I do not understand “--speed”")
        await world.asks("/goal create x --turns 0", "--turns takes a whole number of at least 1")
        await world.asks("/goal create x --turns many", "I do not understand “--turns many”")
        await world.asks("/goal pause 77", "There is no goal 77 here")
        assert "Goal" not in await world.asks("/status", "Status")


async def test_at_a_limit_the_button_gives_as_much_again(world: World) -> None:
    async with world.process():
        await world.asks("/goal create tidy up the wiki --turns 1", "Limits: 1 turn")
        await world.answered("begin with the first page")
        await world.shows("The limit of 1 turn is reached.")
        refused = await world.asks("/goal resume 1", "Goal 1: ")
        assert refused == "Goal 1: The limit of 1 turn is reached. Give it more: /goal resume 1 --turns 2"
        await world.press("c:/goal resume 1 --turns 2")
        await world.shows("Goal 1 is active again")
        await world.asks("/goal", "Limits: 2 turns")


async def test_what_nobody_has_set_is_no_goal(world: World) -> None:
    world.script({"match": {"contains": "picture"}, "reply": {"text": "It is done."}})
    async with world.process():
        await world.answered("hello there")
        await world.answered("What is in the picture?", "It is done.")
        await world.asks("/goal", "There is no goal here")
        assert "hello there" not in await world.asks("/status", "Status")
        assert "picture" not in await world.asks("/done", "nobody has set one here")
        assert "niemand" in await world.asks("/done", "kein Ziel", language="de")
        assert not any("🎯" in text for text in world.texts())


async def test_status_goal_and_done_tell_of_one_goal(world: World) -> None:
    world.config = FOLLOWED
    async with world.process():
        await world.asks("/goal", "There is no goal here")
        await world.answered("write a poem about the sea")
        assert "This session is after: write a poem" in await world.asks("/goal", "This session")
        assert "• This session is after: write a poem" in await world.asks("/status", "Status")
        await world.asks("/goal tidy up the wiki", "🎯 Goal 1: tidy up the wiki")
        assert "• Goal 1: tidy up the wiki" in await world.asks("/status", "Status")
        assert "poem" not in await world.asks("/goal", "1 · active")
        await world.asks("/goal pause", "Goal 1 is paused")
        assert "write a poem" in await world.asks("/goal", "1 · paused")
        assert "• This session is after: write a poem" in await world.asks("/status", "Status")
        await world.asks("/done", "Reached: write a poem")
        assert "poem" not in await world.asks("/goal", "1 · paused")


async def test_in_a_group_only_admins_let_it_work_by_itself(world: World) -> None:
    async with world.process():
        await world.asks("/goal create tidy up --auto", "admin", person=BOB, chat=GROUP)
        await world.asks("/goal create tidy up", "Goal 1", person=ANN, chat=GROUP)
        await world.asks("/goal pause", "Only who set it", person=BOB, chat=GROUP)
        await world.asks("/done", "Only who set it", person=BOB, chat=GROUP)
        await world.asks("/goal pause", "Goal 1 is paused", person=ANN, chat=GROUP)
        await world.asks("/goal clear", "Only who set it", person=BOB, chat=GROUP)


async def test_in_a_group_who_set_a_goal_goes_on_with_it(world: World) -> None:
    async with world.process():
        await world.asks("/goal pause", "There is no goal here", person=BOB, chat=GROUP)
        await world.asks("/goal create tidy up", "Goal 1", person=BOB, chat=GROUP)
        await world.asks("/goal pause", "Goal 1 is paused", person=BOB, chat=GROUP)
        await world.asks("/goal resume", "Goal 1 is active again", person=BOB, chat=GROUP)


async def test_a_wake_up_that_is_given_up_puts_its_goal_down(world: World) -> None:
    slow = {"match": {"contains": "something slow"}, "reply": {"text": "slow", "hold": "slow"}}
    world.script(slow, judged(False), works("A step."))

    def worn_out(conn: Connection) -> None:
        conn.execute(update(inbox).where(inbox.c.kind == "system").values(attempts=5))

    async with world.process():
        await world.say("something slow")
        await world.until_asked()
        await world.asks("/goal create tidy up the wiki --auto", "I start now")  # its first turn waits for the answer
        await world.database.write(worn_out)
        world.llm.release("slow")
        await world.shows("Its turns failed again and again")
        assert "failed" in await world.asks("/agents", "Autonomous Goals")


@pytest.mark.requirement("Z-36")
@pytest.mark.parametrize("by", ["sending", "its adapter"])
async def test_nobody_is_paid_for_work_into_a_refused_login(world: World, by: str) -> None:
    """The goal rests until its owner can read what is done. The adapter may not notice that nothing can be sent."""
    world.script(judged(False), *({**works(f"Step {step} is taken."), "times": 1} for step in range(200)))
    screen = world.screen()
    async with world.process():
        await world.asks("/goal create tidy up the wiki --auto --turns 40", "I start now")
        await world.until_asked(4)
        if by == "sending":
            for act in CALLS:
                screen.fail(act, ChannelFatal("token revoked"), times=10_000)
        else:
            world.accounts["telegram"].refuse_login()

        # A preview or a status line that is due meets the refusal: until then nobody can know of it.
        services = world.services
        await until(lambda: services.delivery.is_refused("telegram") or services.accounts.is_refused("telegram"))
        known = len(world.llm.bodies)

        async def rests() -> bool:
            return [goal.state for goal in (await world.services.overview.overview()).goals] == ["paused"]

        await until(rests)
        paid = len(world.llm.bodies)
        assert paid - known <= 3, "no more than the turn that had begun, its verdict, and one on the way"
    screen.faults.clear()
    async with world.process():
        await world.shows("The platform refused my login")
        assert len(world.llm.bodies) == paid
        await world.asks("/goal resume 1 --auto", "I go on")
        await until(lambda: len(world.llm.bodies) > paid)


@pytest.mark.requirement("Z-131")
async def test_where_it_was_switched_off_a_chat_reads_no_start_that_does_not_come(world: World) -> None:
    world.config = "[agent.goal]\nautonomous_enabled = false\n"
    async with world.process():
        await world.answered("hello", "hello")

        def add(conn: Connection) -> None:  # of when it was allowed
            here, ann, at = ConversationId("telegram:77"), Owner(display="Ann"), to_timestamp(world.clock.now())
            store.add(
                conn, conversation=here, origin=None, owner=ann, limits=Limits(), at=at, text="tidy", auto=Auto(most=9)
            )

        await world.database.write(add)
        for asked in ("/agents", "/goal status"):
            told = await world.asks(asked, "does not run: switched off")
            assert "about to start" not in told
        world.config = "[agent.goal]\nautonomous_enabled = true\n"
        world.reload()
        assert "about to start" in await world.asks("/goal status", "about to start")
