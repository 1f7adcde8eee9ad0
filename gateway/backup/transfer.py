"""Move of an installation from SQLite to PostgreSQL: the rows, and what a new database needs after them. Blocking."""

from collections.abc import Sequence
from pathlib import Path

from sqlalchemy import URL, Connection, text

from agent.core.clock import SystemClock
from agent.memory import pgvector
from agent.storage.connect import target_of
from agent.storage.copies.transfer import Step, Told, Transferred, transfer
from agent.storage.errors import TransferRefused
from agent.storage.timestamps import to_timestamp
from gateway.config.sections import DatabaseSettings
from gateway.storage.repair import SCHEMA

_AUDIENCES = text("SELECT DISTINCT audience, model FROM memory_vector ORDER BY audience, model")
_MEMORY_INDEX = text("REINDEX INDEX memory_fts_words")
_STATISTICS = text("ANALYZE")


def index_words(conn: Connection) -> str:
    """Make the memory's index of words anew, at once rather than row by row. Transcripts are searched without one."""
    conn.execute(_MEMORY_INDEX)
    return "The search index of the memory was made."


def take_in_vectors(conn: Connection) -> str:
    """Give the vectors of the memory to pgvector, where the server has it: what the first search would wait for."""
    audiences = conn.execute(_AUDIENCES).all()
    if not audiences:
        return ""
    if not pgvector.prepare(conn):
        return "Vectors of the memory were copied; the server has no extension `vector`, so the gateway compares them."
    for audience, model in audiences:
        while pgvector.fill(conn, audience, model) == pgvector.PAGE:
            pass
    return "Vectors of the memory were taken in by the extension `vector`."


def gather_statistics(conn: Connection) -> str:
    """Let PostgreSQL know how its tables are filled, by which it chooses its indexes."""
    conn.execute(_STATISTICS)
    return ""


# In this order, each in one transaction that may be repeated, when all rows are there and before a gateway may start.
AFTER_COPY: Sequence[Step] = (index_words, take_in_vectors, gather_statistics)


def sqlite_of(url: str, home: Path) -> Path:
    """The SQLite file to move: that of the configuration, else the usual one. Raises DatabaseUnusable."""
    configured = target_of(url, home)
    usual = target_of(DatabaseSettings().url, home)
    assert isinstance(usual, Path)
    return configured if isinstance(configured, Path) else usual


def move(path: Path, to: str, home: Path, told: Told) -> tuple[Transferred, URL]:
    """Copy the database at `path` to the address. Raises TransferRefused and DatabaseUnusable."""
    target = target_of(to, home)
    if isinstance(target, Path):
        raise TransferRefused("--to names a file; name a PostgreSQL server: postgresql://user@host/database")
    at = to_timestamp(SystemClock().now())
    return transfer(path, target, schema=SCHEMA, at=at, told=told, after=AFTER_COPY), target
