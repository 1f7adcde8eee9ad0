"""`[retention] conversation_days` on a whole gateway: old messages are gone from the database and from requests."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import Connection, Update, select, update

from agent.storage.tables import inbox, message, session, usage
from tests.gateway.world import World, calling

DAY_S = 86_400.0
SECRET = "HAT-QXZJV"  # letters: digits turn up by chance, in moments and ids
THIRTY = "[retention]\nconversation_days = 30\naudit_days = 30\n"


def sent(world: World) -> str:
    """The newest request to a model."""
    return json.dumps(world.llm.bodies[-1]["messages"], ensure_ascii=False)


def bytes_of(home: Path) -> bytes:
    """All of the database's files."""
    return b"".join(path.read_bytes() for path in sorted(home.glob("tieline.db*")))


async def days_pass(world: World, days: float) -> None:
    """They pass, and the hourly upkeep comes once."""
    world.clock.ahead_s += days * DAY_S
    await world.services.upkeep.run_once()


def _execute(statement: Update, conn: Connection) -> None:
    conn.execute(statement)


async def messages_left(world: World) -> int:
    return await world.database.read(lambda conn: len(conn.execute(select(message.c.id)).all()))


@pytest.mark.requirement("G-40")
async def test_old_messages_are_gone_for_an_awake_agent_and_for_one_that_wakes(
    world_of: Callable[..., World],
) -> None:
    async with world_of(config=THIRTY).process() as world:
        world.script(*calling(f"look for {SECRET}", "calculate", expression="6 * 7"))
        await world.answered(f"My locker code is {SECRET}.")
        await world.answered(f"look for {SECRET}", "Done: look for")
        await days_pass(world, 20)
        await world.answered("My bicycle is green.")
        assert SECRET in sent(world)
        await days_pass(world, 11)
        await world.answered("What do you know?")
        assert "My bicycle is green." in sent(world)
        assert SECRET not in sent(world)
        awake = world.llm.bodies[-1]["messages"][1:]
        assert [one["role"] for one in awake] == ["user", "assistant", "user"]
        assert SECRET.encode() not in bytes_of(world.home)
        spent = await world.database.read(lambda conn: len(conn.execute(select(usage.c.id)).all()))
        assert spent == 5, "the ledger keeps each call"
    async with world.process():
        await world.answered("And now?")
        assert SECRET not in sent(world)
        assert world.llm.bodies[-1]["messages"][1 : 1 + len(awake) - 1] == awake[:-1]


@pytest.mark.requirement("G-40")
async def test_nothing_goes_by_default_and_a_change_of_the_file_counts_without_a_restart(world: World) -> None:
    await world.answered("My bicycle is green.")
    await days_pass(world, 4_000)
    assert await messages_left(world) == 2
    world.config = THIRTY
    assert "retention" not in world.reload()
    await world.services.upkeep.run_once()
    assert await messages_left(world) == 0
    await world.answered("What do you know?")
    assert "bicycle" not in sent(world)


@pytest.mark.requirement("G-40")
async def test_a_turn_is_not_cut_and_its_next_request_lacks_what_went(
    world_of: Callable[..., World],
) -> None:
    """Its own messages stay, however long it takes; those before them leave the window in its middle."""
    async with world_of(config=THIRTY).process() as world:
        await world.answered(f"My locker code is {SECRET}.")
        block = {"type": "tool_use", "name": "calculate", "input": {"expression": "6 * 7"}}
        world.script(
            {"match": {"contains": "work", "tool_result": False}, "reply": {"blocks": [block], "hold": "work"}},
            {"match": {"contains": "work", "tool_result": True}, "reply": {"text": "It is 42."}},
        )
        await world.say("work it out")
        await world.until_asked(2)
        assert SECRET in sent(world)
        for days, left in ((30.5, 3), (1, 1)):
            age = update(message).values(created_at=message.c.created_at - int(days * DAY_S * 1e6))
            await world.database.write(partial(_execute, age))
            await world.services.upkeep.run_once()
            assert await messages_left(world) == left, "for a day the turn is left alone; its own words stay"
        world.go_on("work")
        await world.shows("It is 42.")
        await world.settled()
        assert SECRET not in sent(world)
        assert [one["role"] for one in world.llm.bodies[-1]["messages"]] == ["system", "user", "assistant", "tool"]


@pytest.mark.requirement("G-40")
async def test_a_dead_letter_is_tried_anew_with_what_its_run_has_stored(world_of: Callable[..., World]) -> None:
    """While it may still be tried, its messages stay; then both go."""
    async with world_of(config=THIRTY).process() as world:
        await world.answered("My bicycle is green.")
        dead = update(inbox).values(status="dead", created_at=inbox.c.created_at + int(40 * DAY_S * 1e6))
        await world.database.write(lambda conn: conn.execute(dead))
        await days_pass(world, 31)
        assert await messages_left(world) == 2
        await days_pass(world, 41)
        assert await messages_left(world) == 0


async def test_the_list_of_sessions_names_none_that_is_empty(world_of: Callable[..., World]) -> None:
    async with world_of(config=THIRTY).process() as world:
        await world.answered(f"My locker code is {SECRET}.")
        await world.asks("/new")
        world.clock.ahead_s += 20 * DAY_S
        await world.answered("My bicycle is green.")
        await days_pass(world, 11)
        titles = await world.database.read(lambda conn: conn.execute(select(session.c.title)).scalars().all())
        assert titles == ["My bicycle is green."]
        assert SECRET not in await world.asks("/sessions")
