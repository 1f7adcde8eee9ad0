"""A write that the disk refuses is repeated three times, then told (B-48)."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import anyio
import pytest
from sqlalchemy import Connection, text
from sqlalchemy.exc import OperationalError

from agent.core.errors import Transient
from agent.storage.database import Database, Dialect, RetryingDatabase
from agent.storage.errors import DatabaseDamaged, StorageTrouble
from gateway.storage.queues.inbox_entries import counts
from gateway.storage.repair import open_database
from tests.fakes.agents import admit
from tests.fakes.clock import FakeClock
from tests.fakes.damage import damage

T = TypeVar("T")


class FailingDatabase:
    """A database whose first writes fail as given."""

    dialect: Dialect = "sqlite"

    def __init__(self, database: Database, *failures: Exception) -> None:
        self.database = database
        self.failures = list(failures)
        self.writes = 0

    async def write(self, work: Callable[[Connection], T]) -> T:
        self.writes += 1
        if self.failures:
            raise self.failures.pop(0)
        return await self.database.write(work)

    async def read(self, work: Callable[[Connection], T]) -> T:
        return await self.database.read(work)

    async def aclose(self) -> None:
        await self.database.aclose()


async def moving(clock: FakeClock, work: Callable[[], Any]) -> Any:
    """Do it while the clock runs."""
    results: list[Any] = []

    async def do() -> None:
        try:
            results.append(await work())
        except Exception as error:
            results.append(error)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(do)
        while not results:
            clock.advance(0.1)
            await anyio.sleep(0.001)
    return results[0]


def steady(database: Database, clock: FakeClock, troubles: list[str | None]) -> RetryingDatabase:
    return RetryingDatabase(database, clock=clock, on_trouble=troubles.append)


@pytest.mark.requirement("B-48")
@pytest.mark.parametrize("failures", [1, 2, 3])
async def test_what_fails_up_to_three_times_is_written_all_the_same(
    sqlite_database: Database, clock: FakeClock, failures: int
) -> None:
    troubles: list[str | None] = []
    failing = FailingDatabase(sqlite_database, *[OSError("disk I/O error")] * failures)
    admitted = await moving(clock, partial(admit, steady(failing, clock, troubles), "telegram:1", "hi"))
    assert admitted.id == 1
    assert failing.writes == failures + 1
    assert troubles == []


@pytest.mark.requirement("B-48")
async def test_after_the_fourth_failure_the_house_is_told_and_again_when_it_is_well(
    sqlite_database: Database, clock: FakeClock
) -> None:
    troubles: list[str | None] = []
    failing = FailingDatabase(sqlite_database, *[OSError("disk I/O error")] * 4)
    database = steady(failing, clock, troubles)
    error = await moving(clock, partial(admit, database, "telegram:1", "hi"))
    assert isinstance(error, StorageTrouble)
    assert isinstance(error, Transient)
    assert failing.writes == 4
    assert troubles == ["disk I/O error"]
    await admit(database, "telegram:1", "hi")
    assert troubles == ["disk I/O error", None]


async def test_a_mistake_in_the_work_is_not_repeated(sqlite_database: Database, clock: FakeClock) -> None:
    troubles: list[str | None] = []
    failing = FailingDatabase(sqlite_database)
    with pytest.raises(OperationalError, match="no such table"):
        await steady(failing, clock, troubles).write(lambda conn: conn.execute(text("select * from nowhere")))
    assert failing.writes == 1
    assert troubles == []


@pytest.mark.requirement("B-48")
async def test_a_full_disk_is_trouble(sqlite_database: Database, clock: FakeClock) -> None:
    troubles: list[str | None] = []
    database = steady(sqlite_database, clock, troubles)
    await database.write(lambda conn: conn.execute(text("PRAGMA max_page_count = 1")))
    error = await moving(clock, partial(admit, database, "telegram:1", "x" * 100_000))
    assert isinstance(error, StorageTrouble)
    assert troubles == ["database or disk is full"]
    assert (await database.read(counts))[0] == 0


@pytest.mark.requirement("B-48")
async def test_a_connection_cut_by_the_server_is_no_trouble(
    postgres_url: str, tmp_path: Path, clock: FakeClock
) -> None:
    troubles: list[str | None] = []
    database = steady(await open_database(postgres_url, tmp_path), clock, troubles)

    def cut_off(conn: Connection) -> None:
        others = "datname = current_database() and pid <> pg_backend_pid()"
        conn.execute(text(f"select pg_terminate_backend(pid) from pg_stat_activity where {others}"))

    await admit(database, "telegram:1", "a")
    async with anyio.create_task_group() as tasks:  # several connections, cut by one of them
        for _ in range(3):
            tasks.start_soon(partial(admit, database, "telegram:1", "b"))
    await database.write(cut_off)
    for _ in range(5):
        await moving(clock, partial(admit, database, "telegram:1", "c"))
    assert (await database.read(counts))[0] == 9
    assert troubles == []
    await database.aclose()


async def test_damage_is_told_at_once_and_not_repeated(tmp_path: Path, clock: FakeClock) -> None:
    await (await open_database("sqlite:///tieline.db", tmp_path)).aclose()
    damage(tmp_path / "tieline.db", "inbox")
    told: list[str] = []
    database = await open_database("sqlite:///tieline.db", tmp_path)
    tried = RetryingDatabase(database, clock=clock, on_trouble=lambda _: None, on_damage=told.append)
    for do in (tried.read, tried.write):
        with pytest.raises(DatabaseDamaged, match=r"tieline\.db is damaged .*tieline restore FILE"):
            await do(lambda conn: conn.execute(text("select * from inbox")).all())
    assert len(told) == 2
    assert await tried.read(lambda conn: conn.execute(text("select * from outbox")).all()) == []
    await tried.aclose()
