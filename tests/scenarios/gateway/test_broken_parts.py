"""Failures beside the chats take no chat down."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from sqlalchemy import update

from agent.storage.tables import inbox
from gateway.storage.repair import open_database
from gateway.storage.tables import schedule
from tests.fakes.waiting import until
from tests.gateway.world import World, slowly


async def test_a_loop_that_breaks_ends_no_chat_and_goes_on_when_it_can(world: World) -> None:
    await world.asks("/remind in 1 hour check the oven")
    beyond = update(schedule).values(next_at=2**62)  # no moment of any calendar: nobody expects it there
    await world.database.write(lambda conn: conn.execute(beyond))
    await until(lambda: bool(world.troubles.open))
    assert [(one.kind, one.subject) for one in world.troubles.open] == [("loop", "schedules")]
    assert list(world.services.overview.reasons()) == [], "it stays ready"
    overview = await world.services.overview.overview()
    assert [trouble.subject for trouble in overview.troubles] == ["schedules"], "once, though it is open"
    assert "schedules (OverflowError)" in await world.shows("A part of me broke")
    await world.answered("are you there?")

    at_once = update(schedule).values(
        next_at=schedule.c.due_at - 3_600_000_000, due_at=schedule.c.due_at - 3_600_000_000
    )
    await world.database.write(lambda conn: conn.execute(at_once))
    await world.shows("check the oven")


async def test_accounts_can_say_in_the_persons_language_that_something_was_not_taken(world: World) -> None:
    said, words = world.said("/status"), world.accounts["telegram"].adapter_context.not_taken
    assert words(said).startswith("“/status” did not reach me")
    german = replace(said, sender=replace(said.sender, language="de-AT"))
    assert "nicht bei mir angekommen" in words(german)


@pytest.mark.requirement("W-13")
async def test_a_message_that_had_begun_and_cannot_be_read_any_more_keeps_nobody_from_starting(
    world_of: Callable[..., World],
) -> None:
    world = world_of()
    world.script(slowly("slow"))
    async with world.process():
        await world.say("slow")
        await world.until_asked()
    world.script()
    database = await open_database("sqlite:///tieline.db", world.home)
    await database.write(lambda conn: conn.execute(update(inbox).values(payload="{")))
    await database.aclose()
    async with world.process():
        await world.answered("are you there?")
        assert [status for status, _ in await world.rows()] == ["dead", "done"]
