"""The migration sums up the calls of a database as the running gateway does, on both databases."""

from functools import partial

import pytest
from sqlalchemy import delete

from agent.ledger import rows, sums
from agent.storage.database import Database
from agent.storage.tables import usage_sum
from agent.storage.timestamps import to_timestamp
from gateway.storage.migrations.versions import r0041_spending
from tests.agent.ledger.test_sums import CALLS, PERIODS


@pytest.mark.parametrize("periods", PERIODS)
async def test_sums_of_the_migration_are_those_of_the_calls(database: Database, periods: list[str]) -> None:
    await database.write(lambda conn: rows.add(conn, CALLS[:200]))
    await database.write(lambda conn: conn.execute(delete(usage_sum)))
    await database.write(r0041_spending.sum_up)
    await database.write(lambda conn: rows.add(conn, CALLS[200:]))
    since = to_timestamp(sums.begin_of(periods[0]))
    for kind in sums.KINDS:
        expected = dict(await database.read(partial(rows.by, group=kind, since=since)))
        assert dict(await database.read(partial(sums.by_name, kind=kind, periods=periods))) == expected
    newest = await database.read(sums.newest)
    assert await database.write(lambda conn: sums.sum_up(conn, up_to=newest)) == sums.BATCH, "the others wait"
