"""People who sign in to a web server of a test: the real service on a SQLite database of its own."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from agent.core.clock import Clock
from gateway.operations.sign_ins import SignIns
from gateway.storage.repair import open_database


@asynccontextmanager
async def sign_ins_at(home: Path, clock: Clock) -> AsyncIterator[SignIns]:
    """On a new database in `home`, which is closed at the end."""
    database = await open_database("sqlite:///sign-ins.db", home)
    try:
        yield SignIns(database, clock)
    finally:
        await database.aclose()
