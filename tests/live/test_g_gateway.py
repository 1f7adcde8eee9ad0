"""The gateway beside the loop: schedules, drain, sleep, suspension, breaker, and one model's chances."""

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import anyio
import pytest
from sqlalchemy import Connection, Update, update
from sqlalchemy import text as sql

from agent.core.events import AutoCompactCircuitBreakerTripped, CompactTriggered, LoopStarted
from gateway.storage.tables import schedule
from tests.fakes.waiting import until
from tests.gateway.world import World, calling, slowly

HOUR_US = 3_600_000_000


def _run(conn: Connection, *, statement: Update) -> None:
    conn.execute(statement)


async def rows(world: World, statement: str) -> list[tuple[Any, ...]]:
    return await world.database.read(lambda conn: [tuple(row) for row in conn.execute(sql(statement))])


@pytest.mark.requirement("G-14", "G-15")
async def test_a_task_needs_a_moment_to_fire_and_a_one_shot_is_removed(world_of: Callable[..., World]) -> None:
    world = world_of()
    async with world.process():
        await world.asks("/remind in 1 hour check the oven")
        await world.asks("/remind in 2 hours take it out")
        no_moment = update(schedule).where(schedule.c.id == 1).values(next_at=None, due_at=None)
        soon = update(schedule).where(schedule.c.id == 2).values(
            next_at=schedule.c.due_at - 2 * HOUR_US, due_at=schedule.c.due_at - 2 * HOUR_US
        )  # fmt: skip
        for statement in (no_moment, soon):
            await world.database.write(partial(_run, statement=statement))
    calls = len(world.llm.calls)
    async with world.process():
        await world.shows("take it out")
        await until(lambda: _gone(world, 2))
        assert not any("⏰ check the oven" in text for text in world.texts()), "nothing fires on boot without a moment"
        assert len(world.llm.calls) == calls, "a plain reminder asks no model"
        assert await rows(world, "select id from schedule where id = 1")


async def _gone(world: World, id: int) -> bool:
    return not await rows(world, f"select id from schedule where id = {id}")


@pytest.mark.requirement("G-27")
async def test_a_drain_lets_the_turn_end_and_begins_no_other(world_of: Callable[..., World]) -> None:
    world = world_of()
    async with world.process():
        world.script(slowly("slow"))
        await world.say("slow one")
        await world.until_asked()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(world.services.drain, 30.0)
            await anyio.wait_all_tasks_blocked()
            await world.database.write(lambda conn: None)
            world.go_on()
        await world.shows("the slow answer")
        assert not world.services.dispatcher.running
        assert [status for status, _ in await world.rows()] == ["done"]
    async with world.process():
        world.script(slowly("long"))
        await world.say("a long one")
        await world.until_asked(2)
        await world.services.drain(0.1)
        assert [status for status, _ in await world.rows()] == ["done", "new"], "cut off: it waits for the next start"
    async with world.process():
        world.go_on("long")
        await world.settled()
        assert [status for status, _ in await world.rows()] == ["done", "done"]


@pytest.mark.requirement("G-27")
async def test_a_message_that_comes_during_a_drain_stays_with_its_platform(world_of: Callable[..., World]) -> None:
    world = world_of()
    late, receipts = world.said("too late"), []

    async def hear() -> None:
        receipts.append(await world.hears(late))

    async with world.process():
        world.script(slowly("slow"))
        await world.say("slow one")
        await world.until_asked()
        async with anyio.create_task_group() as hearing:
            async with anyio.create_task_group() as draining:
                draining.start_soon(world.services.drain, 30.0)
                await anyio.wait_all_tasks_blocked()
                hearing.start_soon(hear)
                await anyio.wait_all_tasks_blocked()
                await world.database.write(lambda conn: None)
                world.go_on()
            await world.shows("the slow answer")
            assert receipts == [], "it is not acknowledged, so the platform keeps it"
            hearing.cancel_scope.cancel()
        assert [status for status, _ in await world.rows()] == ["done"], "and not stored"
    async with world.process():
        await hear()
        await world.shows("too late")
        assert [receipt.outcome for receipt in receipts] == ["accepted"]


@pytest.mark.requirement("G-33")
async def test_an_idle_agent_sleeps_and_wakes_with_its_provider_and_its_history(world_of: Callable[..., World]) -> None:
    world = world_of()
    async with world.process():
        await world.asks("/provider b", "This chat now uses")
        await world.answered("the plover", "plover")
        await until(world.nobody_works)
        world.clock.ahead_s += 29 * 60
        await world.services.conversations.tidy()
        assert world.services.conversations.awake
        world.clock.ahead_s += 3 * 60
        await world.services.conversations.tidy()
        assert not world.services.conversations.awake
        await world.answered("and now", "and now")
        assert world.models_asked == ["model-b", "model-b"]
        assert "the plover" in str(world.llm.bodies[-1]["messages"])


@pytest.mark.requirement("G-18")
async def test_a_question_of_the_model_survives_a_restart_and_the_next_message_answers_it(
    world_of: Callable[..., World],
) -> None:
    world = world_of()
    folder = world.home / "agents" / "default"
    folder.mkdir(parents=True)
    (folder / "AGENT.md").write_text("---\nname: Own\ntools: [ask_user, current_time]\n---\nBe brief.")
    async with world.process():
        world.script(*calling("order", "ask_user", question="Tea or coffee?"))
        await world.answered("order something", "Tea or coffee?")
    async with world.process():
        world.script({"match": {"contains": "tea please"}, "reply": {"text": "Tea it is."}})
        await world.answered("tea please", "Tea it is.")
        sent = json.dumps(world.llm.bodies[-1]["messages"])
        assert "order something" in sent
        assert "Tea or coffee?" in sent
        states = [state for (state,) in await rows(world, "select state from turn order by inbox_id")]
        assert states[-1] == "done"


@pytest.mark.requirement("G-20", "B-25")
async def test_the_breaker_opens_after_three_failures_and_tries_again_ten_turns_later(
    world_of: Callable[..., World],
) -> None:
    config = (
        "[memory]\nsoft_compaction_threshold = 0.5\nhigh_compaction_threshold = 0.52\n[context]\ncompaction = 'full'\n"
    )
    world = world_of(window=16_000, providers=("a",), config=config + "[memory.flush]\nenabled = false\n")
    async with world.process():
        world.script(
            {"match": {"system_contains": "You write the memory"}, "reply": {"text": ""}},
            {"match": {}, "reply": {"text": "fine"}},
        )
        tripped, turns = False, 0
        while turns < 40:
            turns += 1
            asked = _summaries(world)
            await world.answered(f"bird {turns} " + "and some more of it " * 250, "fine")
            await world.settled()
            if tripped and _summaries(world) > asked:
                break
            tripped = any(isinstance(one, AutoCompactCircuitBreakerTripped) for one in world.events)
        assert tripped, [event for event in world.events if isinstance(event, CompactTriggered)]
        names = [type(event) for event in world.events]
        since = names[names.index(AutoCompactCircuitBreakerTripped) :]  # a summary made ahead may fail between turns
        assert since.count(LoopStarted) >= 10
        assert turns < 40, "it tries again"


def _summaries(world: World) -> int:
    return sum("You write the memory" in json.dumps(body["messages"][0]) for body in world.llm.bodies)


@pytest.mark.requirement("G-34")
@pytest.mark.parametrize("reason", ["something_new", "", "content_filter"])
async def test_an_answer_of_an_unknown_shape_ends_no_conversation(world: World, reason: str) -> None:
    world.script({"match": {"contains": "odd"}, "times": 1, "reply": {"text": "an odd answer", "stop_reason": reason}})
    await world.asks("odd one")
    await world.settled()
    await world.answered("and again", "and again")


@pytest.mark.requirement("G-17", "B-93")
async def test_what_is_denied_stays_denied_when_everything_is_approved(world_of: Callable[..., World]) -> None:
    world = world_of(config='[approvals]\nauto_approve = true\ndeny = ["calculate"]\n')
    async with world.process():
        world.llm.double.settings["offered_only"] = False
        world.script(*calling("count", "calculate", expression="6*7"))
        await world.answered("count it", "Done: count")
        assert "42" not in str(world.llm.bodies[-1]["messages"][-1])
        assert [row[0] for row in await rows(world, "select verdict from tool_call")] in (["denied"], ["refused"])
