"""The promise of `Database`, kept by each implementation and by the wrapper that repeats what failed."""

import threading
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import anyio
import pytest
from sqlalchemy import Connection, insert, select
from sqlalchemy.exc import DBAPIError, IntegrityError

from agent.core.clock import SystemClock
from agent.storage.database import Database, RetryingDatabase
from agent.storage.errors import StorageTrouble
from agent.storage.tables import memory_erasure
from gateway.storage.repair import open_database
from tests.fakes.databases import open_sqlite

INSERT = insert(memory_erasure).returning(memory_erasure.c.id)
NAMES = select(memory_erasure.c.conv).order_by(memory_erasure.c.id)
REST = {"items": 0, "messages": 0, "at": 1}


def put(conn: Connection, name: str) -> int:
    row_id: int = conn.execute(INSERT, {"conv": name, **REST}).scalar_one()
    return row_id


def names(conn: Connection) -> list[str]:
    return list(conn.execute(NAMES).scalars())


class Wrong(Exception):
    pass


def put_and_fail(conn: Connection, name: str) -> None:
    put(conn, name)
    raise Wrong(name)


@pytest.fixture(params=["sqlite", "postgresql", "steady"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Database]:
    opened: Database
    if request.param == "postgresql":
        opened = await open_database(request.getfixturevalue("postgres_url"), tmp_path)
    else:
        opened = await open_sqlite(tmp_path, request.getfixturevalue("sqlite_template"))
    if request.param == "steady":
        opened = RetryingDatabase(opened, clock=SystemClock(), on_trouble=lambda _: None)
    yield opened
    await opened.aclose()


async def test_a_write_gives_what_its_work_gave_and_is_seen_by_the_next_read(store: Database) -> None:
    first = await store.write(partial(put, name="a"))
    second = await store.write(partial(put, name="b"))
    assert second > first
    assert await store.read(names) == ["a", "b"]


@pytest.mark.requirement("B-52")
async def test_a_work_that_raises_leaves_nothing_and_its_error_reaches_the_caller(store: Database) -> None:
    with pytest.raises(Wrong, match="a"):
        await store.write(partial(put_and_fail, name="a"))
    assert await store.read(names) == []
    await store.write(partial(put, name="b"))
    assert await store.read(names) == ["b"]


@pytest.mark.requirement("B-52")
async def test_of_a_hundred_callers_at_once_each_fails_or_succeeds_alone(store: Database) -> None:
    failed: list[str] = []

    async def caller(number: int) -> None:
        try:
            await store.write(partial(put_and_fail if number % 3 == 0 else put, name=f"{number:03}"))
        except Wrong as error:
            failed.append(str(error))

    async with anyio.create_task_group() as tasks:
        for number in range(100):
            tasks.start_soon(caller, number)
    assert sorted(failed) == [f"{number:03}" for number in range(0, 100, 3)]
    assert sorted(await store.read(names)) == [f"{number:03}" for number in range(100) if number % 3]


async def test_an_error_of_the_database_takes_only_its_callers_work_back(store: Database) -> None:
    outcomes: list[str] = []

    def twice(conn: Connection, name: str) -> None:
        taken = put(conn, name)
        conn.execute(INSERT, {"id": taken, "conv": name, **REST})

    async def caller(number: int) -> None:
        try:
            await store.write(partial(twice if number % 2 else put, name=f"{number:02}"))
        except IntegrityError:
            outcomes.append(f"{number:02}")

    async with anyio.create_task_group() as tasks:
        for number in range(20):
            tasks.start_soon(caller, number)
    assert len(outcomes) == 10
    assert sorted(await store.read(names)) == [f"{number:02}" for number in range(0, 20, 2)]


async def test_a_savepoint_inside_the_work_is_the_works_own(store: Database) -> None:
    def work(conn: Connection) -> None:
        put(conn, "before")
        with pytest.raises(Wrong), conn.begin_nested():
            put_and_fail(conn, "inside")
        put(conn, "after")

    async with anyio.create_task_group() as tasks:
        for _ in range(5):
            tasks.start_soon(store.write, work)
    assert sorted(await store.read(names)) == ["after"] * 5 + ["before"] * 5


async def test_a_cancelled_caller_has_its_write_done_when_it_goes_on(store: Database) -> None:
    begun = threading.Event()

    def slow(conn: Connection) -> None:
        begun.set()
        put(conn, "torn?")

    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(store.write, slow)
            await anyio.to_thread.run_sync(begun.wait, 10)
            scope.cancel()
    assert await store.read(names) == ["torn?"]


async def test_a_caller_cancelled_before_it_wrote_has_written_nothing(store: Database) -> None:
    with anyio.CancelScope() as scope:
        scope.cancel()
        await store.write(partial(put, name="a"))
    assert await store.read(names) == []


async def test_a_read_cannot_write(store: Database) -> None:
    with pytest.raises((DBAPIError, StorageTrouble)):
        await store.read(partial(put, name="a"))
    assert await store.read(names) == []


async def test_a_read_sees_one_moment_only(store: Database) -> None:
    await store.write(partial(put, name="a"))
    looked, written = threading.Event(), threading.Event()

    def look_twice(conn: Connection) -> tuple[list[str], list[str]]:
        first = names(conn)
        looked.set()
        # Only where the work has a thread of its own can something be written meanwhile.
        if store.dialect == "sqlite":
            assert written.wait(10)
        return first, names(conn)

    seen: list[tuple[list[str], list[str]]] = []

    async def look() -> None:
        seen.append(await store.read(look_twice))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(look)
        await anyio.to_thread.run_sync(looked.wait, 10)
        await store.write(partial(put, name="b"))
        written.set()
    assert seen == [(["a"], ["a"])]
    assert await store.read(names) == ["a", "b"]


async def test_a_closed_database_may_be_closed_again(store: Database) -> None:
    await store.aclose()
    await store.aclose()


@pytest.mark.requirement("G-28")
async def test_an_error_does_not_show_the_values_of_its_statement(store: Database) -> None:
    def work(conn: Connection) -> None:
        conn.execute(INSERT, {"id": put(conn, "a"), "conv": "secret", **REST})

    with pytest.raises(IntegrityError) as caught:
        await store.write(work)
    assert "secret" not in str(caught.value)
