"""What breaks beside the chats takes none of them with it."""

from dataclasses import replace

from sqlalchemy import update

from gateway.storage.tables import schedule
from tests.fakes.waiting import until
from tests.gateway.world import World


async def test_a_loop_that_breaks_ends_no_chat_and_goes_on_when_it_can(world: World) -> None:
    await world.asks("/remind in 1 hour check the oven")
    beyond = update(schedule).values(next_at=2**62)  # no moment of any calendar: nobody expects it there
    await world.database.write(lambda conn: conn.execute(beyond))
    await until(lambda: bool(world.troubles.open))
    assert [(one.kind, one.subject) for one in world.troubles.open] == [("loop", "schedules")]
    assert world.house.overview.reasons() == (), "it stays ready"
    overview = await world.house.overview.overview()
    assert [trouble.subject for trouble in overview.troubles] == ["schedules"], "once, though it is open"
    assert "schedules (OverflowError)" in await world.shows("A part of me broke")
    await world.answered("are you there?")

    at_once = update(schedule).values(
        next_at=schedule.c.due_at - 3_600_000_000, due_at=schedule.c.due_at - 3_600_000_000
    )
    await world.database.write(lambda conn: conn.execute(at_once))
    await world.shows("check the oven")


async def test_accounts_can_say_in_the_persons_language_that_something_was_not_taken(world: World) -> None:
    said, words = world.said("/status"), world.accounts["telegram"].surroundings.not_taken
    assert "did not reach me" in words(said)
    german = replace(said, sender=replace(said.sender, language="de-AT"))
    assert "nicht bei mir angekommen" in words(german)
