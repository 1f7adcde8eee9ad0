"""Connections of PostgreSQL and the threads that have them: what hangs is ended, what broke is made anew."""

import os
import signal
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import psycopg
import pytest
from sqlalchemy import Connection, make_url, text
from sqlalchemy.exc import OperationalError

from agent.storage.postgres import CONNECTIONS, PostgresDatabase
from tests.fakes.databases import restartable_postgres


def pid(conn: Connection) -> int:
    found: int = conn.execute(text("select pg_backend_pid()")).scalar_one()
    return found


def sleeps(seconds: float) -> Callable[[Connection], object]:
    return lambda conn: conn.execute(text("select pg_sleep(:s)"), {"s": seconds}).all()


@asynccontextmanager
async def opened(address: str, **settings: float) -> AsyncIterator[PostgresDatabase]:
    database = PostgresDatabase(make_url(address).set(drivername="postgresql+psycopg"), **settings)
    try:
        yield database
    finally:
        await database.aclose()


async def at_once(database: PostgresDatabase, many: int, work: Callable[[Connection], Any]) -> list[Any]:
    """The results of as many callers, or their errors."""
    got: list[Any] = []

    async def one() -> None:
        try:
            got.append(await database.read(work))
        except OperationalError as error:
            got.append(error)

    async with anyio.create_task_group() as tasks:
        for _ in range(many):
            tasks.start_soon(one)
    return got


async def test_a_transaction_that_hangs_is_ended_and_its_connection_used_again(postgres_url: str) -> None:
    async with opened(postgres_url, longest_s=0.3) as database:
        before = await database.read(pid)
        with pytest.raises(OperationalError, match="cancel"):
            await database.write(sleeps(60))
        assert await database.read(pid) == before


async def test_a_connection_whose_server_does_not_listen_is_cut(postgres_url: str) -> None:
    async with opened(postgres_url, longest_s=0.3, grace_s=0.3) as database:
        frozen = await database.read(pid)
        os.kill(frozen, signal.SIGSTOP)
        try:
            with pytest.raises(OperationalError):
                await database.write(sleeps(0))
            assert await database.read(pid) != frozen
        finally:
            os.kill(frozen, signal.SIGCONT)


async def test_after_a_restart_of_the_server_one_caller_alone_meets_a_dead_connection() -> None:
    with restartable_postgres() as (url, restart):
        async with opened(url.render_as_string(hide_password=False)) as database:
            await at_once(database, 3, sleeps(0.1))  # three connections
            await anyio.to_thread.run_sync(restart)
            with pytest.raises(OperationalError):
                await database.read(pid)
            assert [type(got) for got in await at_once(database, 3, pid)] == [int] * 3


async def test_many_callers_share_few_connections(postgres_url: str) -> None:
    async with opened(postgres_url) as database:
        got = await at_once(database, 5 * CONNECTIONS, lambda conn: (sleeps(0.02)(conn), pid(conn)))
        assert len({pid for _, pid in got}) == CONNECTIONS
        one_by_one = [await database.read(pid) for _ in range(5)]
        assert len(set(one_by_one)) == 1  # where the statements are prepared


async def test_a_cancelled_read_does_not_keep_its_caller(postgres_url: str) -> None:
    async with opened(postgres_url) as database:
        began = time.monotonic()
        with anyio.move_on_after(0.1):
            await database.read(sleeps(2))
        assert time.monotonic() - began < 1.5


async def test_what_was_given_is_done_before_the_database_is_closed(postgres_url: str) -> None:
    async with opened(postgres_url) as database:
        await database.write(lambda conn: conn.execute(text("create table said (word text)")))

        def says(conn: Connection) -> None:
            sleeps(0.2)(conn)
            conn.execute(text("insert into said values ('x')"))

        async with anyio.create_task_group() as tasks:
            for _ in range(CONNECTIONS + 2):
                tasks.start_soon(database.write, says)
            await anyio.wait_all_tasks_blocked()
            await database.aclose()
        with pytest.raises(RuntimeError, match="closed"):
            await database.read(pid)
    name = make_url(postgres_url).database
    async with await psycopg.AsyncConnection.connect(postgres_url, autocommit=True) as asking:
        said = await (await asking.execute("select count(*) from said")).fetchone()
        await asking.execute("drop table said")
        others = "select count(*) from pg_stat_activity where datname = %s and pid <> pg_backend_pid()"
        left = await (await asking.execute(others, (name,))).fetchone()
    assert (said, left) == ((CONNECTIONS + 2,), (0,))
