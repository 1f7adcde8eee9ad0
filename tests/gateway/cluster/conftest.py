"""A PostgreSQL database that this process shares with others."""

from collections.abc import AsyncIterator

import pytest
from sqlalchemy import insert, make_url

from agent.storage.database import PROCESS
from agent.storage.postgres import PostgresDatabase
from agent.storage.process_tables import process

LONG_ALIVE = 9_000_000_000_000_000  # microseconds: signs of life until the year 2255


def row_of(id: str, *, seen_at: int = LONG_ALIVE) -> dict[str, object]:
    """The row of a process that nobody buries."""
    return {"id": id, "host": "", "pid": 0, "roles": "", "version": "", "started_at": 0, "seen_at": seen_at}


@pytest.fixture
async def shared(postgres_url: str) -> AsyncIterator[PostgresDatabase]:
    """The database, with no process on it."""
    database = PostgresDatabase(make_url(postgres_url).set(drivername="postgresql+psycopg"))
    yield database
    await database.aclose()


@pytest.fixture
async def joined(shared: PostgresDatabase) -> PostgresDatabase:
    """The database, with this process on it and one called `other`."""
    rows = [row_of(PROCESS), row_of("other")]
    await shared.write(lambda conn: conn.execute(insert(process), rows))
    return shared
