"""The whole schema of this version, and how its database is opened. Slow to import: loaded by name after the bind."""

from pathlib import Path

from agent.storage.database import OwnedDatabase
from agent.storage.opening import open_database as open_with
from agent.storage.schema import Schema
from gateway.storage.tables import metadata

SCHEMA = Schema(head="0029_feedback", migrations=Path(__file__).parent / "migrations", metadata=metadata)


async def open_database(url: str, home: Path) -> OwnedDatabase:
    """The database of `[database] url`, up to date and owned by this process. Raises DatabaseUnusable with the fix."""
    return await open_with(url, home, schema=SCHEMA)
