"""The whole gateway on PostgreSQL, in all roles: what its router makes of what arrives."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

import pytest
from sqlalchemy import select

from agent.storage.process_tables import arrival
from agent.storage.tables import inbox
from gateway.channels.inbound import Outcome
from gateway.router.router import TRIES
from tests.gateway.world import BOB, World


@pytest.mark.requirement("G-139")
async def test_a_defect_is_given_up_after_a_few_tries_and_told(
    world_of: Callable[..., World], postgres_url: str
) -> None:
    async with world_of(config=f'[database]\nurl = "{postgres_url}"\n').process() as world:
        await world.answered("hello")  # the owner, who can be told
        odd = replace(world.said("odd", person=BOB), received_at=datetime(2026, 1, 1))
        receipt = await world.hears(odd)
        assert (receipt.outcome, receipt.reason) == (Outcome.REFUSED, f"given up after {TRIES} tries")
        assert "put it aside" in await world.shows("put it aside", BOB)
        assert await world.shows("could not be taken in")
        rows = await world.database.read(lambda conn: conn.execute(select(inbox.c.status)).scalars().all())
        assert sorted(rows) == ["dead", "done"]
        assert not (await world.database.read(lambda conn: conn.execute(select(arrival)))).all()
