"""The embedded database alone: one file, one writer thread, shared commits."""

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from sqlalchemy import Connection, insert, select, text
from sqlalchemy.exc import OperationalError

from agent.storage.database import Database
from agent.storage.sqlite import SqliteDatabase
from agent.storage.tables import memory_erasure

FRAME = 4096 + 24  # of the write-ahead log


def put(conn: Connection, payload: str = "") -> None:
    values = {"conv": "a", "person": payload, "items": 0, "messages": 0, "at": 1}
    conn.execute(insert(memory_erasure), values)


def count(conn: Connection) -> int:
    return len(conn.execute(select(memory_erasure.c.id)).all())


def pragma(name: str, conn: Connection) -> Any:
    return conn.execute(text(f"PRAGMA {name}")).scalar_one()


@pytest.mark.requirement("W-12")
@pytest.mark.parametrize(
    ("name", "value"),
    [
        pytest.param("journal_mode", "wal", id="readers do not block the writer"),
        pytest.param("synchronous", 2, id="FULL: on disk when acknowledged"),
        pytest.param("foreign_keys", 1, id="foreign keys hold"),
        pytest.param("busy_timeout", 5000, id="waits for another reader's lock"),
    ],
)
async def test_the_writer_is_set_up_for_durability(sqlite_database: Database, name: str, value: object) -> None:
    assert await sqlite_database.write(partial(pragma, name)) == value


async def test_callers_at_the_same_time_share_commits(sqlite_database: SqliteDatabase, tmp_path: Path) -> None:
    log = tmp_path / "tieline.db-wal"
    await sqlite_database.write(put)
    before = log.stat().st_size
    async with anyio.create_task_group() as tasks:
        for _ in range(100):
            tasks.start_soon(sqlite_database.write, put)
    frames = (log.stat().st_size - before) // FRAME
    assert await sqlite_database.read(count) == 101
    assert frames < 50  # a commit of its own for each would be 100 at least


@pytest.mark.requirement("B-48", "B-52")
async def test_a_full_disk_takes_all_of_the_shared_commit_back_and_says_so(sqlite_database: SqliteDatabase) -> None:
    """SQLite itself rolls back everything then; nobody may believe that theirs is kept."""
    await sqlite_database.write(put)
    pages = await sqlite_database.write(partial(pragma, "page_count"))
    await sqlite_database.write(partial(pragma, f"max_page_count = {pages + 3}"))
    failures: list[str] = []

    async def caller(payload: str) -> None:
        try:
            await sqlite_database.write(partial(put, payload=payload))
        except OperationalError as error:
            failures.append(str(error.orig))

    for size in (3000, 4_000_000):  # some that would fit, one that fills the disk
        async with anyio.create_task_group() as tasks:
            for _ in range(4):
                tasks.start_soon(caller, "x" * size)
    kept = await sqlite_database.read(count)
    assert failures
    assert set(failures) == {"database or disk is full"}
    assert kept == 1 + 8 - len(failures)

    await sqlite_database.write(partial(pragma, "max_page_count = 1000000"))
    await sqlite_database.write(put)
    assert await sqlite_database.read(count) == kept + 1


async def test_a_bare_task_cancel_does_not_tear_a_write(sqlite_database: SqliteDatabase) -> None:
    """Platform libraries cancel their tasks without anyio's knowledge."""
    begun, go_on = threading.Event(), threading.Event()

    def slow(conn: Connection) -> None:
        begun.set()
        assert go_on.wait(100)
        put(conn)

    task = asyncio.ensure_future(sqlite_database.write(slow))
    await anyio.to_thread.run_sync(begun.wait, 60)
    task.cancel()
    await anyio.wait_all_tasks_blocked()
    assert not task.done()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await sqlite_database.read(count) == 1


@pytest.mark.parametrize("fails", [False, True])
async def test_who_found_nothing_to_write_is_no_trouble_for_those_in_the_same_group(
    sqlite_database: SqliteDatabase, fails: bool
) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def first(conn: Connection) -> None:
        begun.set()
        assert go_on.wait(60)

    def broken(conn: Connection) -> None:
        put(conn)
        raise ValueError("broken")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(sqlite_database.write, first)  # without a statement, as are those behind it
        await anyio.to_thread.run_sync(begun.wait, 60)
        tasks.start_soon(sqlite_database.write, lambda conn: None)
        if fails:
            tasks.start_soon(partial(_refused, sqlite_database, broken))
        tasks.start_soon(sqlite_database.write, put)
        await anyio.wait_all_tasks_blocked()
        go_on.set()
    assert await sqlite_database.read(count) == 1


async def _refused(database: SqliteDatabase, work: Callable[[Connection], None]) -> None:
    with pytest.raises(ValueError, match="broken"):
        await database.write(work)


async def test_a_long_read_does_not_hold_up_other_reads_or_writes(sqlite_database: SqliteDatabase) -> None:
    held, go_on = threading.Event(), threading.Event()

    def export(conn: Connection) -> None:
        held.set()
        assert go_on.wait(100)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(sqlite_database.read, export)
        await anyio.to_thread.run_sync(held.wait, 60)
        with anyio.fail_after(60):
            await sqlite_database.write(put)
            assert await sqlite_database.read(count) == 1
        go_on.set()


async def test_after_the_end_everything_is_in_one_file_and_nothing_can_be_written(
    sqlite_database: SqliteDatabase, tmp_path: Path
) -> None:
    await sqlite_database.write(put)
    await sqlite_database.aclose()
    assert not (tmp_path / "tieline.db-wal").exists()
    with sqlite3.connect(tmp_path / "tieline.db") as plain:
        assert plain.execute("select count(*) from memory_erasure").fetchone() == (1,)
    with pytest.raises(RuntimeError, match="closed"):
        await sqlite_database.write(put)


async def test_who_reads_with_a_deadline_need_not_wait_for_a_slow_read(sqlite_database: SqliteDatabase) -> None:
    """Z-71: a slow database must not keep a session from starting."""
    go_on = threading.Event()
    with anyio.move_on_after(0.05) as scope:
        await sqlite_database.read(lambda conn: go_on.wait(100))
    assert scope.cancelled_caught
    go_on.set()  # the read was still under way
    assert await sqlite_database.read(lambda conn: conn.execute(text("select 1")).scalar_one()) == 1
