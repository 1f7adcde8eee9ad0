"""Databases that are moved from SQLite to PostgreSQL: one with a row in every state, and all rows of either."""

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

from sqlalchemy import Engine

from agent.storage.connect import bring_up_to_date
from gateway.storage.repair import SCHEMA
from tests.upgrade.fixture import Fixture
from tests.upgrade.rows import Table, engine_of, read_all

COMMIT = "f855fe18"
NOTES = "database_transfer"  # what a transfer notes in the target


def at_head(home: Path) -> Path:
    """Let the home have a database with a row in every state there is, at this version's revision."""
    Fixture(COMMIT, "sqlite").lay_out(home, None)
    bring_up_to_date(home / "tieline.db", SCHEMA, copied=False)
    return home


def change(home: Path, *statements: str) -> None:
    """Write into the SQLite file."""
    with closing(sqlite3.connect(home / "tieline.db")) as opened, opened:
        for statement in statements:
            opened.execute(statement)


def many(home: Path, rows: int) -> None:
    """Fill a table whose key is text."""
    with closing(sqlite3.connect(home / "tieline.db")) as opened, opened:
        values = ((f"telegram:{number % 7}", f"key {number}", "on", number) for number in range(rows))
        opened.executemany("INSERT INTO channel_setting (conv, key, value, updated_at) VALUES (?, ?, ?, ?)", values)


def rows_of(engine: Engine) -> Mapping[str, Table]:
    """All rows, without what a transfer adds: its notes, and pgvector's column."""
    found = read_all(engine)
    found.pop(NOTES, None)
    vectors = found["memory_vector"]
    bare = {key: {name: value for name, value in row.items() if name != "embedding"} for key, row in vectors.items()}
    return {**found, "memory_vector": bare}


def here(home: Path) -> Mapping[str, Table]:
    """All rows of the SQLite file."""
    engine = engine_of(home, None)
    rows = rows_of(engine)
    engine.dispose()
    return rows
