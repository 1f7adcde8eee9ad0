"""The workflow gate through the whole gateway: offered, approved, declined, failed, off."""

import json
from pathlib import Path

import pytest
from sqlalchemy import select

from agent.storage.tables import message
from tests.fakes.llm_server import LlmServer
from tests.fakes.waiting import until
from tests.gateway.world import GROUP, World
from tests.scenarios.gateway.test_group_context import AMBIENT, SILENT, TOLD, chat
from tests.scenarios.gateway.test_plans import does, planned, task, together

LIVE = '[plans.workflow]\nmode = "live"\n'
WORDS = "audit every file of the wiki"


@pytest.fixture
def world(tmp_path: Path, sqlite_template: Path, llm: LlmServer) -> World:
    return World(tmp_path, sqlite_template, llm, config=LIVE)


def turns(world: World) -> int:
    """The calls of the normal loop that the person's words led to."""
    of_plans = ("Make the plan.", "Please read A now.", "Put the results together.")
    last = [json.dumps(body["messages"][-1]) for body in world.llm.bodies]
    return sum(WORDS in one and not any(words in one for words in of_plans) for one in last)


@pytest.mark.requirement("W-16", "W-18", "Z-91")
async def test_approved_it_is_carried_out_in_place_of_the_loop(world: World) -> None:
    world.config += "[agent.goal]\ntrack_in_system_prompt = true\n"
    made = planned(task(1, "read A"))
    world.script(
        together("All pages are sound."), {**made, "reply": {**made["reply"], "hold": "plan"}}, does("read A", "fine")
    )
    async with world.process():
        await world.say(WORDS)
        await world.until_asked()
        stored = await world.database.read(lambda conn: conn.execute(select(message.c.parts)).scalars().all())
        assert any(WORDS in one for one in stored)  # before the gate asks anybody
        world.go_on("plan")
        await world.shows("This sounds like work in several steps")
        await world.press("c:/plan confirm 1")
        await world.shows("I carry it out now")
        await world.shows("All pages are sound.")
        await world.shows("Goal reached: audit every file of the wiki")
        await world.settled()
        assert turns(world) == 0


@pytest.mark.requirement("W-16")
async def test_after_a_restart_it_still_waits_for_the_word(world: World) -> None:
    world.script(together("All pages are sound."), planned(task(1, "read A")), does("read A", "fine"))
    async with world.process():
        await world.say(WORDS)
        await world.shows("This sounds like work in several steps")
    async with world.process():
        await world.shows("Still waits for your word.")
        await world.press("c:/plan confirm 1")
        await world.shows("All pages are sound.")
        await world.settled()
        assert turns(world) == 0
        assert sum("Make the plan." in json.dumps(body) for body in world.llm.bodies) == 1


@pytest.mark.requirement("W-19")
async def test_declined_it_is_a_normal_turn(world: World) -> None:
    world.script(planned(task(1, "read A")))
    async with world.process():
        await world.say(WORDS)
        await world.shows("This sounds like work in several steps")
        await world.press("c:/plan cancel 1")
        await world.shows("echo: ")
        await world.settled()
        assert turns(world) == 1


@pytest.mark.requirement("W-17", "W-19", "R-55")
@pytest.mark.parametrize("why", ["nobody answers", "no plan", "no plan in time", "off", "no such words"])
async def test_without_an_approved_plan_it_is_a_normal_turn(world: World, why: str) -> None:
    if why == "nobody answers":
        world.config += "approval_secs = 0.05\n"
    elif why == "no plan in time":
        world.config += "synthesis_timeout_secs = 0.05\n"
    elif why == "off":
        world.config = ""
    made = planned(task(1, "read A", [1] if why == "no plan" else []))
    world.script({**made, "reply": {**made["reply"], "hold": "plan"}} if why == "no plan in time" else made)
    words = "hello there" if why == "no such words" else WORDS
    async with world.process():
        await world.answered(words, "echo: ")
        await until(lambda: not any(shown.actions for shown in world.screen().shown))
        asked = [json.dumps(body) for body in world.llm.bodies]
        if why != "no plan in time":  # the time may be over before the question has reached the server
            assert sum("Make the plan." in one for one in asked) == (0 if why in ("off", "no such words") else 1)
        if why == "off":
            assert len(asked) == 1


@pytest.mark.requirement("W-16")
async def test_a_turn_in_the_middle_of_its_loop_is_asked_nothing(world: World) -> None:
    """The gate was switched on while the gateway was down."""
    world.config = ""
    call = {"type": "tool_use", "name": "current_time", "input": {}}
    world.script(
        planned(task(1, "read A")),
        {"match": {"contains": WORDS, "tool_result": False}, "reply": {"blocks": [call]}},
        {"match": {"contains": WORDS, "tool_result": True}, "reply": {"text": "All are sound.", "hold": "end"}},
    )
    async with world.process():
        await world.say(WORDS)
        await world.until_asked(2)
    world.config = LIVE
    world.go_on("end")
    async with world.process():
        await world.shows("All are sound.")
        await world.settled()
        assert not any("Make the plan." in json.dumps(body) for body in world.llm.bodies)


@pytest.mark.requirement("W-17")
async def test_nobody_is_asked_where_nobody_has_asked_for_anything(world: World) -> None:
    world.config = AMBIENT + LIVE
    world.script(planned(task(1, "read A")), {"match": {}, "reply": {"blocks": [SILENT]}})
    async with world.process():
        await chat(world, WORDS)
        await world.settled()
        (asked,) = [json.dumps(body) for body in world.llm.bodies]
        assert "Nobody has asked you" in asked
        assert [text for text in world.texts(GROUP) if TOLD not in text] == []
