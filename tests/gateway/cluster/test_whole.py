"""The whole gateway on PostgreSQL, in all roles: what its router makes of what arrives."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

import pytest
from sqlalchemy import Connection, insert, select, text

from agent.storage.process_tables import arrival
from agent.storage.tables import inbox, outbox
from gateway.channels.inbound import Outcome
from gateway.router.router import TRIES
from tests.gateway.world import BOB, World

UNNOTICED = "set local session_replication_role = replica"  # no trigger tells of what the transaction writes
CUT_OFF = """
select pg_terminate_backend(pid) from pg_stat_activity
where datname = current_database() and query ilike 'listen %' and pid <> pg_backend_pid()
"""


@pytest.mark.requirement("G-161")
async def test_what_is_due_and_was_not_heard_of_is_sent_after_the_notifications_came_back(
    world_of: Callable[..., World], postgres_url: str
) -> None:
    async with world_of(config=f'[database]\nurl = "{postgres_url}"\n').process() as world:
        await world.answered("hello")

        def write(conn: Connection) -> None:
            say = {"conv": "telegram:77", "part": 0, "dedup": "x", "payload": '{"text": "from afar", "kind": "answer"}'}
            conn.execute(text(UNNOTICED))
            conn.execute(insert(outbox), {**say, "created_at": 1})

        await world.database.write(write)
        assert await world.database.write(lambda conn: conn.execute(text(CUT_OFF)).scalars().all())
        assert await world.shows("from afar")


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
