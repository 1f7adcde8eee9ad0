"""One process owns a database file."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from agent.storage.database import Database
from agent.storage.errors import DatabaseHeld
from agent.storage.sqlite import OwnerLock
from gateway.storage.repair import open_database

HOLD = """
import sys, time
from pathlib import Path
from agent.storage.sqlite import OwnerLock
lock = OwnerLock.take(Path(sys.argv[1]))
print("held", flush=True)
time.sleep(60)
"""


def test_a_second_process_is_refused_and_told_who_has_it(tmp_path: Path) -> None:
    path = tmp_path / "tieline.db.lock"
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)], stdout=subprocess.PIPE, text=True, cwd=Path.cwd()
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        with pytest.raises(DatabaseHeld, match=rf"tieline\.db is in use by process {other.pid}; stop that one") as held:
            OwnerLock.take(path)
        assert held.value.pid == other.pid
        other.send_signal(signal.SIGKILL)
    OwnerLock.take(path).release()  # the kernel has freed it


def test_a_freed_lock_can_be_taken_again_and_freed_twice(tmp_path: Path) -> None:
    path = tmp_path / "x.lock"
    first = OwnerLock.take(path)
    assert path.read_text() == str(os.getpid())
    first.release()
    first.release()
    OwnerLock.take(path).release()


async def test_an_open_sqlite_database_is_refused_to_others_until_it_is_closed(
    sqlite_database: Database, tmp_path: Path
) -> None:
    with pytest.raises(DatabaseHeld, match=str(os.getpid())):
        await open_database("sqlite:///tieline.db", tmp_path)
    await sqlite_database.aclose()
    again = await open_database("sqlite:///tieline.db", tmp_path)
    await again.aclose()


async def test_an_open_postgresql_database_is_refused_to_others_until_it_is_closed(
    postgres_url: str, tmp_path: Path
) -> None:
    first = await open_database(postgres_url, tmp_path)
    with pytest.raises(DatabaseHeld, match=r"in use by tieline-\w+ \(server process \d+\); stop that one first"):
        await open_database(postgres_url, tmp_path)
    await first.aclose()
    again = await open_database(postgres_url, tmp_path)
    await again.aclose()
