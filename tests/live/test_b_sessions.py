"""The session of a run, its worker, and the cases in which no run begins."""

import logging
import sqlite3
from collections.abc import Callable
from datetime import timedelta

import pytest
from sqlalchemy import Connection, select, update

from agent.core.ids import ConversationId
from agent.storage import conversation_rows
from agent.storage.conversation_rows import Lease
from agent.storage.tables import conversation
from agent.storage.tables import session as session_table
from agent.storage.timestamps import to_timestamp
from tests.fakes.waiting import until
from tests.gateway.world import ANN, World, slowly

HERE = ConversationId(f"telegram:{ANN}")


async def lease(world: World) -> Lease | None:
    """The lock record of Ann's chat; None when it is free."""
    return await world.database.read(lambda conn: conversation_rows.lease(conn, HERE))


async def sessions(world: World, chat: str = ANN) -> list[tuple[str, str, int]]:
    statement = select(session_table.c.id, session_table.c.state, session_table.c.message_count).where(
        session_table.c.conv == f"telegram:{chat}"
    ).order_by(session_table.c.created_at, session_table.c.id)  # fmt: skip
    return await world.database.read(lambda conn: [tuple(row) for row in conn.execute(statement)])


@pytest.mark.requirement("B-03", "B-07", "B-13", "B-43")
async def test_a_session_is_made_fetched_left_and_closed_for_good(world: World) -> None:
    await world.answered("the plover", "plover")
    await world.answered("the heron", "heron")
    ((first, state, count),) = await sessions(world)
    assert (state, count) == ("active", 4), "made with the first message, fetched for the second"
    await world.asks("/new")
    await world.answered("the egret", "egret")
    (_, (second, _, more)) = await sessions(world)
    assert more == 2
    assert first != second

    asked = world.said(f"/sessions close {first[:8]}")
    assert (await world.hears(asked)).outcome == "accepted"
    await world.shows("for good? It stays readable")
    await until(lambda: len(world.screen().shown[-1].actions) == 2)
    await world.press(world.screen().shown[-1].actions[1], id="no")
    await world.shows("It stays open.")
    await world.hears(world.said(f"/sessions close {second[:8]}"))
    await until(lambda: len(world.screen().shown[-1].actions) == 2)
    await world.press(world.screen().shown[-1].actions[0], id="yes")
    await world.shows("Closed for good: ")
    calls = len(world.llm.calls)
    assert "closed for good" in await world.asks("hello?", "This session was closed for good. Send /new")
    assert len(world.llm.calls) == calls, "no run went on in it"
    await world.asks(f"/sessions {first[:8]}", "Back in")
    assert "was closed for good. /new" in await world.asks(f"/sessions {second[:8]}", f"{second[:8]} was")
    assert "was closed for good." in await world.asks(f"/sessions close {second[:8]}", f"{second[:8]} was closed")
    assert ", closed)" in await world.asks("/sessions", "Conversations here")
    await world.answered("back again", "back again")
    assert "the plover" in str(world.llm.bodies[-1]["messages"])
    assert {state for _, state, _ in await sessions(world)} == {"active", "terminated"}


@pytest.mark.requirement("B-07", "B-15")
async def test_after_a_restart_the_session_goes_on_with_all_of_its_messages(world_of: Callable[..., World]) -> None:
    world = world_of()
    async with world.process():
        for number in range(15):
            await world.answered(f"bird number {number}.", f"bird number {number}.")
        before = await sessions(world)
    async with world.process():
        await world.answered("and now", "and now")
        ((session, state, count),) = await sessions(world)
        assert (session, state, count) == (before[0][0], "active", 32)
        request = str(world.llm.bodies[-1]["messages"])
        assert all(f"bird number {number}." in request for number in range(15))


@pytest.mark.requirement("B-08", "B-44", "B-60", "B-63", "B-64", "B-85", "B-88", "B-91")
async def test_one_run_has_the_lock_from_before_its_work_until_after_it_whatever_happens(world: World) -> None:
    world.script(slowly("slow"))
    await world.say("slow one")
    await world.until_asked()
    held = await lease(world)
    assert held is not None
    assert held.run
    assert held.session == (await sessions(world))[0][0]
    assert held.expires_at - held.acquired_at >= 900_000_000
    await world.say("the second")
    await world.shows("Waiting: 1")
    assert len(world.llm.calls) == 1, "the second run of the same session waits"
    world.go_on()
    await world.shows("the second")
    await world.settled()
    await until(lambda: _free(world))
    world.llm.fails(kind="error", status=400, message="nonsense")
    await world.asks("this one breaks")
    await world.settled()
    await until(lambda: _free(world))


async def _free(world: World) -> bool:
    return await lease(world) is None


@pytest.mark.requirement("B-08", "B-11", "B-12", "B-13", "B-64", "B-83")
async def test_who_waits_for_a_lock_of_another_process_is_told_once_and_served_when_it_is_free(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    await world.answered("first", "first")
    await until(lambda: _free(world))
    now = to_timestamp(world.clock.now())

    theirs = {"worker": "theirs", "run_id": "r", "acquired_at": now, "expires_at": now + 900_000_000}

    def take(conn: Connection) -> None:
        conn.execute(update(conversation).values(**theirs))

    await world.database.write(take)
    await world.say("hello")
    calls = len(world.llm.calls)
    world.clock.ahead_s += 31
    told = await world.shows("Another process still works on this conversation, so your message waits")
    assert "within 15 minutes, please send it again" in told
    assert "worked on elsewhere for more than 30 s" in caplog.text
    assert len(world.llm.calls) == calls, "no run began"
    tries = caplog.text.count("worked on elsewhere")
    world.clock.ahead_s += 31
    await until(lambda: caplog.text.count("worked on elsewhere") > tries)
    await world.asks("/status", "Status")  # whatever was to be told before is on the screen now
    assert len(world.llm.calls) == calls, "still none"
    world.clock.ahead_s += timedelta(minutes=16).total_seconds()  # the lease of a dead owner ends by itself
    await world.shows("hello")
    await world.settled()
    assert sum("Another process" in text for text in world.texts()) == 1


@pytest.mark.requirement("B-49", "B-91")
async def test_a_lock_that_cannot_be_released_is_freed_by_force_with_a_warning(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """The storage refuses the release once: the trigger goes when the trouble is told."""
    path = world.home / "tieline.db"

    class Repair(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if "could not be released" in record.getMessage():
                with sqlite3.connect(path) as repaired:
                    repaired.execute("drop trigger stuck")

    with sqlite3.connect(path) as broken:
        broken.execute(
            "create trigger stuck before update on conversation when old.run_id is not null and new.run_id is null "
            "begin select raise(abort, 'stuck'); end"
        )
    repair = Repair()
    logging.getLogger("tieline.dispatch").addHandler(repair)
    try:
        await world.answered("hello", "hello")
        await until(lambda: "freeing it by force" in caplog.text)
        await until(lambda: _free(world))
    finally:
        logging.getLogger("tieline.dispatch").removeHandler(repair)
    await world.answered("and again", "and again")
