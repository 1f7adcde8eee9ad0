"""The doctor's look at a database changes nothing."""

import sqlite3
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from agent.storage.connect import State
from agent.storage.copies.inspection import database_state, look
from agent.storage.database import Database
from agent.storage.errors import DatabaseUnusable
from gateway.storage.repair import SCHEMA, open_database

URL = "sqlite:///tieline.db"


def test_a_file_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    assert look(URL, tmp_path, SCHEMA) is None
    assert list(tmp_path.iterdir()) == []


async def test_states_are_told_and_left_as_they_are(tmp_path: Path) -> None:
    await (await open_database(URL, tmp_path)).aclose()
    assert look(URL, tmp_path, SCHEMA) is State.CURRENT
    with sqlite3.connect(tmp_path / "tieline.db") as database:
        database.execute("update alembic_version set version_num = '0000'")
    assert look(URL, tmp_path, SCHEMA) is State.OTHER
    assert look(URL, tmp_path, SCHEMA) is State.OTHER
    with sqlite3.connect(tmp_path / "other.db") as database:
        database.execute("create table somebody (id integer)")
    assert look("sqlite:///other.db", tmp_path, SCHEMA) is State.FOREIGN


def test_what_is_no_database_is_said(tmp_path: Path) -> None:
    (tmp_path / "tieline.db").write_text("this is a letter, not a database, and long enough to be read as one")
    with pytest.raises(DatabaseUnusable, match=r"tieline\.db is damaged or no SQLite database"):
        look(URL, tmp_path, SCHEMA)


async def test_the_standing_of_an_open_database(database: Database) -> None:
    found = await database.read(database_state)
    assert found.revision == SCHEMA.head
    if database.dialect == "sqlite":
        assert (found.server, found.now) == ("", None)
        return
    assert found.server.partition(".")[0].isdecimal()
    assert found.size > 100_000
    assert found.now is not None
    assert abs(found.now - datetime.now(UTC)) < timedelta(minutes=1)
