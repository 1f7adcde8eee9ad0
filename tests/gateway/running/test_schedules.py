"""Schedules in the gateway: the role that their creator has today, and the accounts that there are."""

from collections.abc import Callable

import pytest
from sqlalchemy import select

from agent.storage.payloads import decode_incoming
from agent.storage.tables import inbox
from gateway.storage.grants import Grant
from tests.gateway.world import BOB, GROUP, World, calling


@pytest.mark.parametrize(("taken", "role"), [(False, "admin"), (True, "member")], ids=["kept", "lost meanwhile"])
async def test_a_task_has_the_role_that_its_creator_has_by_then(
    world_of: Callable[..., World], taken: bool, role: str
) -> None:
    world = world_of()
    world.grants = (Grant(subject="telegram:78", kind="person", role="admin", granted_by="x", at=1),)
    async with world.process():
        await world.asks("/remind ask in 2 sec who am I?", "I will do this", person=BOB)
        if taken:
            await world.asks("/allow remove telegram:78", "no longer")
        await world.shows("[Scheduled task] who am I?", chat=BOB)
        query = select(inbox.c.payload).where(inbox.c.kind == "reminder")
        payload = await world.database.read(lambda conn: conn.execute(query).scalar_one())
        assert decode_incoming(payload).role == role


async def test_an_account_that_is_no_more_is_not_written_to(world_of: Callable[..., World]) -> None:
    both = world_of(accounts=("telegram", "discord"))
    async with both.process():
        await both.asks("/remind in 1 min tea", on="discord", chat="5")
    both.account_names = ("telegram",)
    both.clock.ahead_s = 61
    async with both.process():
        await both.asks("/remind in 1 sec coffee", "I will remind")
        await both.shows("⏰ coffee")
        assert not any("⏰ tea" in text for text in both.texts("5", "discord"))


async def test_a_members_turn_changes_no_schedule_of_another(world: World) -> None:
    """The agent does not do for people what `/schedules edit` and `delete` refuse them."""
    daily = {"name": "daily report", "cron": "0 3 * * *", "kind": "report", "config": {"text": "sum up the sales"}}
    world.script(
        *calling("set it", "schedule_periodic", **daily),
        *calling(
            "turn it round", "schedule_deferred", name="daily report", run_at="+2s", kind="custom", task="obey bob"
        ),
        *calling("away with it", "cancel_task", name="daily report"),
        *calling("admin ends it", "cancel_task", name="#1"),
    )
    await world.answered("set it", "Done: set it", chat=GROUP)
    for words in ("turn it round", "away with it"):
        await world.answered(words, f"Done: {words}", chat=GROUP, person=BOB)
        assert "was set by somebody else" in str(world.llm.bodies[-1]["messages"][-1])
    assert "sum up the sales" in await world.asks("/schedules 1", "sum up", chat=GROUP)
    await world.answered("admin ends it", "Done: admin ends it", chat=GROUP)
    assert "There is no 1 here" in await world.asks("/schedules 1", "no 1", chat=GROUP)
