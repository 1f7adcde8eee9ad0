"""What the house adds to schedules: the role that their creator has today, and the accounts that there are."""

from collections.abc import Callable

import pytest
from sqlalchemy import select

from agent.storage.payloads import decode_incoming
from agent.storage.tables import inbox
from gateway.storage.grants import Grant
from tests.gateway.world import BOB, World


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
        await both.asks("/remind in 1 sec tea", on="discord", chat="5")
    both.account_names = ("telegram",)
    async with both.process():
        await both.asks("/remind in 1 sec coffee", "I will remind")
        await both.shows("⏰ coffee")
        assert not any("⏰ tea" in text for text in both.texts("5", "discord"))
