"""A backup is whole, is taken beside running writes, and never overwrites anything."""

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import anyio
import pytest

from agent.core.clock import SystemClock
from agent.storage.copies.sqlite import back_up, copy_file
from agent.storage.database import Database, RetryingDatabase
from agent.storage.errors import BackupRefused
from gateway.storage.queues.inbox_entries import counts
from gateway.storage.repair import open_database
from tests.fakes.agents import admit


async def test_a_backup_holds_everything_acknowledged_before_it_began(
    sqlite_database: Database, tmp_path: Path
) -> None:
    stop = False
    written = 0

    async def write_on() -> None:
        nonlocal written
        while not stop:
            await admit(sqlite_database, f"telegram:{written % 7}", "x", limit=None)
            written += 1

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(write_on)
        while written < 50:
            await anyio.lowlevel.checkpoint()
        before = written
        (tmp_path / "out").mkdir()
        size = await back_up(sqlite_database, tmp_path / "out" / "copy.db")
        stop = True
    copy = tmp_path / "out" / "copy.db"
    assert size == copy.stat().st_size
    assert copy.stat().st_mode & 0o077 == 0
    assert [path.name for path in copy.parent.iterdir()] == ["copy.db"]
    restored = await open_database("sqlite:///out/copy.db", tmp_path)
    kept = (await restored.read(counts))[0]
    await restored.aclose()
    assert before <= kept <= written


async def test_a_backup_overwrites_nothing(sqlite_database: Database, tmp_path: Path) -> None:
    (tmp_path / "there").write_text("precious")
    with pytest.raises(BackupRefused, match="exists already; name a new file"):
        await back_up(sqlite_database, tmp_path / "there")
    assert (tmp_path / "there").read_text() == "precious"


async def test_a_backup_that_cannot_be_written_leaves_nothing(sqlite_database: Database, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BackupRefused, match="cannot write the backup"):
        await back_up(sqlite_database, tmp_path / "file" / "copy.db")


async def test_the_wrapper_that_repeats_does_not_hide_the_file(sqlite_database: Database, tmp_path: Path) -> None:
    steady = RetryingDatabase(sqlite_database, clock=SystemClock(), on_trouble=lambda _: None)
    assert await back_up(steady, tmp_path / "copy.db") > 0


async def test_for_postgresql_its_own_tool_is_named(postgres_url: str, tmp_path: Path) -> None:
    database = await open_database(postgres_url, tmp_path)
    with pytest.raises(BackupRefused, match="pg_dump --format=custom"):
        await back_up(database, tmp_path / "copy")
    await database.aclose()


LIMITED = """
import resource, sys
from pathlib import Path
from agent.storage.copies.sqlite import copy_file
from agent.storage.errors import BackupRefused
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    copy_file(Path(sys.argv[1]), Path(sys.argv[2]))
except BackupRefused as error:
    print(error)
"""


def test_a_copy_that_finds_no_room_leaves_nothing_behind(tmp_path: Path) -> None:
    """Nor its journal, which SQLite keeps, and which would be played into the next copy of that name."""
    large, to = tmp_path / "large.db", tmp_path / "out" / "copy.db"
    with closing(sqlite3.connect(large)) as database:
        database.execute("create table filled (it blob)")
        database.executemany("insert into filled values (zeroblob(?))", [(5_000,)] * 400)
        database.commit()
    to.parent.mkdir()
    ran = subprocess.run([sys.executable, "-c", LIMITED, large, to], capture_output=True, text=True, check=True)
    assert ran.stdout.startswith(f"cannot write the backup {to}: "), ran.stdout
    assert list(to.parent.iterdir()) == []
    (to.parent / ".copy.db.partial-journal").write_bytes(b"of a killed process")
    assert copy_file(large, to) > 100_000
    assert list(to.parent.iterdir()) == [to]
