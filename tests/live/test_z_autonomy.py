"""Goals that the running gateway works on by itself: who checks them, how often, and what ends them."""

import json
from typing import Any

import pytest
from sqlalchemy import select

from agent.storage.tables import inbox
from tests.fakes.llm_server import LlmServer
from tests.fakes.waiting import until
from tests.gateway.world import World, slowly
from tests.live.scenes import CHAT, WorldOf

CHECK = "Is the goal reached?"
STEP = "[autonomous]"
SHIPPED = "\n[agent.goal]\nautonomous_enabled = true\nautonomous_turn_delay_ms = 5\n"


def steps(world: World) -> list[dict[str, Any]]:
    """Requests of turns by itself."""
    return [body for body in world.llm.bodies if STEP in json.dumps(body["messages"][-1]) and body.get("tools")]


def checks(world: World) -> list[dict[str, Any]]:
    """Requests to the supervisor."""
    return [body for body in world.llm.bodies if CHECK in json.dumps(body["messages"])]


def verdict(achieved: bool, **more: Any) -> dict[str, Any]:
    text = json.dumps({"achieved": achieved, "reason": "seen"})
    return {"match": {"contains": CHECK}, "reply": {"text": text}, **more}


def step(number: int) -> dict[str, Any]:
    """One turn's answer, other than all others."""
    words = ("alder", "birch", "cedar", "dogwood", "elm", "fir", "gum", "hazel", "ivy", "juniper", "kapok", "larch")
    return {"match": {"contains": STEP}, "times": 1, "reply": {"text": f"Counted the {words[number]} trees."}}


@pytest.mark.requirement("Z-120", "Z-121", "Z-122", "Z-127")
async def test_every_fifth_turn_is_checked_by_the_model_that_is_named(world_of: WorldOf) -> None:
    async with world_of(config=SHIPPED + 'supervisor_provider = "b"\n').process() as world:
        world.script(verdict(False, times=1), verdict(True), *map(step, range(12)))
        started = await world.asks("/goal create count the trees --auto", "I start now")
        assert "at most 50 turns" in started, "as many as a goal gets that names no number"
        assert "1 to 50" in await world.asks("/goal create count more --auto --turns 51", "By itself it may take")
        await world.shows("is reached: count the trees")
        await world.settled()
        assert len(checks(world)) == 2
        assert len(steps(world)) == 10
        order = [body["model"] for body in world.llm.bodies]
        assert order.index("model-b") == 5, "after the fifth turn"
        assert {body["model"] for body in checks(world)} == {"model-b"}
        assert {body["model"] for body in steps(world)} == {"model-a"}
        asked = json.dumps(checks(world)[0]["messages"])
        assert "achieved" in asked
        assert "reason" in asked


@pytest.mark.requirement("Z-126")
async def test_the_same_words_three_times_end_it(world_of: WorldOf) -> None:
    async with world_of(config=SHIPPED).process() as world:
        world.script(verdict(False), {"match": {"contains": STEP}, "reply": {"text": "Still looking."}})
        await world.asks("/goal create count the trees --auto", "I start now")
        await until(lambda: any("Still looking." in text for text in world.texts()), longest_s=20)
        await world.settled()
        assert len(steps(world)) == 3
        assert "stuck" in await world.asks("/agents", "Autonomous Goals")


@pytest.mark.requirement("Z-121", "Z-124", "Z-125")
@pytest.mark.parametrize(
    ("more", "slow"), [("", False), ("supervisor_timeout_secs = 1\n", True)], ids=["it refuses", "it is too slow"]
)
async def test_a_supervisor_that_fails_three_times_in_a_row_pauses_it(
    world_of: WorldOf, more: str, *, slow: bool
) -> None:
    config = SHIPPED + 'verify_interval = 1\nsupervisor_provider = "b"\n' + more
    async with world_of(config=config).process() as world:
        reply = {"text": "late", "hold": "for ever"} if slow else {"text": "looks good to me"}
        world.script({"match": {"contains": CHECK}, "reply": reply}, *map(step, range(12)))
        await world.asks("/goal create count the trees --auto", "I start now")
        await world.shows("It could not be checked 3 times in a row.")
        await world.settled()
        assert len(steps(world)) == 3, "after each of three failures in a row, and not once more"
        assert "paused" in await world.asks("/goal list", "Goals of this chat")


@pytest.mark.requirement("Z-123", "Z-132")
async def test_people_are_answered_while_a_busy_supervisor_is_waited_for(world_of: WorldOf, llm: LlmServer) -> None:
    config = SHIPPED + 'verify_interval = 1\nsupervisor_provider = "b"\n'
    async with world_of(config=config).process() as world:
        held = {
            "match": {"contains": CHECK},
            "reply": {"text": '{"achieved": true, "reason": "seen"}', "hold": "check"},
        }
        world.script(held, *map(step, range(12)))
        await world.asks("/goal create count the trees --auto", "I start now")
        await until(lambda: len(checks(world)) == 1)
        await world.asks("hello there", "hello there")
        assert not any("is reached" in text for text in world.texts()), "the check goes on meanwhile"
        world.go_on("check")
        await world.shows("is reached: count the trees")


@pytest.mark.requirement("Z-117")
async def test_a_start_is_left_pending_by_the_command_and_taken_up_by_the_loop_of_the_conversation(
    world_of: WorldOf,
) -> None:
    async def starts() -> list[str]:
        """The status of starts and wake-ups in the inbox, oldest first."""
        query = select(inbox.c.status).where(inbox.c.conv == CHAT, inbox.c.kind == "system").order_by(inbox.c.id)
        return list(await world.database.read(lambda conn: conn.execute(query).scalars().all()))

    async with world_of(config=SHIPPED).process() as world:
        world.script(verdict(True), slowly("slow one"), *map(step, range(12)))
        await world.say("slow one")
        await world.until_asked()
        await world.asks("/goal create count the trees --auto", "I start now")
        assert await starts() == ["new"], "it is answered while a turn goes on, and has begun nothing itself"
        await world.asks("/goal create count the birds --auto", "count the birds")
        assert sorted(await starts()) == ["new", "refused"], "a new start takes the place of the one that waits"
        assert not steps(world)
        world.go_on("slow one")
        await world.shows("is reached: count the birds")
        await world.settled()
        asked = [json.dumps(body["messages"][-1]) for body in steps(world)]
        assert asked, "the loop that was busy took it up"
        assert all("count the birds" in text for text in asked)
        order = [json.dumps(body["messages"][-1]) for body in world.llm.bodies]
        assert "slow one" in order[0]
        assert "paused" in await world.asks("/goal list", "Goals of this chat")
