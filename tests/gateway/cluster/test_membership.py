"""Processes that stop, freeze and wake again, and what becomes of all that they had."""

import signal
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial

import anyio
import pytest
from psycopg.conninfo import conninfo_to_dict
from sqlalchemy import Connection, func, insert, make_url, select, text

from agent.core.clock import AdjustableClock
from agent.core.ids import ConversationId
from agent.storage import conversation_rows
from agent.storage.database import APPLICATION, PROCESS
from agent.storage.errors import DatabaseHeld
from agent.storage.postgres import PostgresDatabase
from agent.storage.process_tables import conversation_host, conversation_outlet, process, process_claim
from agent.storage.timestamps import to_timestamp
from gateway.cluster.connection import address_of
from gateway.cluster.engine import wake
from gateway.cluster.membership import Membership
from gateway.cluster.roles import roles_of
from tests.fakes.waiting import until
from tests.gateway.cluster.process import Other, other_process

CHAT = ConversationId("telegram:77")
SECOND = 1_000_000
LATE_S = 3.0  # of a busy machine


@asynccontextmanager
async def alive(database: PostgresDatabase, clock: AdjustableClock) -> AsyncIterator[Membership]:
    """This process is one of them."""
    membership = Membership(database, database.url, clock, roles_of("worker"))
    await membership.join()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(membership.keep)
        yield membership
        tasks.cancel_scope.cancel()
    await membership.leave()


async def processes(database: PostgresDatabase) -> set[str]:
    return set(await database.read(lambda conn: conn.execute(select(process.c.id)).scalars().all()))


async def gone_after_s(database: PostgresDatabase, other: Other) -> float:
    """How long the others take to know."""
    began = time.monotonic()

    async def is_gone() -> bool:
        return other.id not in await processes(database)

    await until(is_gone)
    return time.monotonic() - began


async def give(database: PostgresDatabase, to: str) -> None:
    """A conversation, its outlet, a claim, and a job that waits for it by name."""
    rows = {"conv": CHAT, "process": to}
    await database.write(lambda conn: conn.execute(insert(conversation_host), rows))
    await database.write(lambda conn: conn.execute(insert(conversation_outlet), rows))
    await database.write(lambda conn: conn.execute(insert(process_claim), {"name": "upkeep", "process": to}))
    await database.write(partial(wake, conversation=CHAT))


async def had(database: PostgresDatabase) -> int:
    """How much belongs to any process."""
    tables = (conversation_host, conversation_outlet, process_claim)
    counts = [await database.read(lambda conn, t=t: conn.execute(select(func.count()).select_from(t))) for t in tables]  # type: ignore[misc]
    return sum(count.scalar_one() for count in counts)


async def queues(database: PostgresDatabase) -> Sequence[str]:
    jobs = text("select queue_name from procrastinate_jobs order by id")
    return await database.read(lambda conn: conn.execute(jobs).scalars().all())


async def connections(database: PostgresDatabase, of: Other) -> int:
    """How many it has."""
    query = text("select count(*) from pg_stat_activity where application_name like '%' || :id")
    count: int = await database.read(lambda conn: conn.execute(query, {"id": of.id}).scalar_one())
    return count


@pytest.mark.requirement("G-138")
async def test_one_that_was_killed_is_known_as_dead_within_three_seconds(
    shared: PostgresDatabase, postgres_url: str
) -> None:
    async with alive(shared, AdjustableClock()), other_process(postgres_url) as other:
        await give(shared, other.id)
        assert (await had(shared), await queues(shared)) == (3, [f"host.{other.id}"])
        await anyio.sleep(4.0)  # who has just come buries nobody, see Heartbeat
        assert await processes(shared) == {PROCESS, other.id}
        other.send_signal(signal.SIGKILL)
        assert await gone_after_s(shared, other) < 3.0 + LATE_S
        assert (await had(shared), await queues(shared)) == (0, ["turns"])


@pytest.mark.requirement("G-138")
def test_a_connection_beside_the_pool_has_the_name_of_its_process() -> None:
    """By that name the others end what a process that is frozen keeps open."""
    address = address_of(make_url("postgresql+psycopg://me:a%2Bb@h/tieline?options=-c%20lock_timeout%3D5s"))
    found = conninfo_to_dict(address)
    assert found["application_name"] == APPLICATION
    assert (found["password"], found["options"]) == ("a+b", "-c lock_timeout=5s")


@pytest.mark.requirement("G-138")
async def test_one_that_has_no_session_and_was_seen_two_seconds_ago_is_dead(shared: PostgresDatabase) -> None:
    """With the second between two looks it is known within three. It looks so old for as long as the test needs."""
    now = text("select tieline_now()")
    seen = text("update process set seen_at = tieline_now() - 2000000 where id = 'gone'")

    def add(conn: Connection) -> None:
        at = conn.execute(now).scalar_one()
        row = {"id": "gone", "host": "h", "pid": 1, "roles": "worker", "version": "1"}
        conn.execute(insert(process), {**row, "started_at": at, "seen_at": at})

    async def is_gone() -> bool:
        return await shared.write(lambda conn: conn.execute(seen).rowcount) == 0

    async with alive(shared, AdjustableClock()):
        await shared.write(add)
        await until(is_gone)


@pytest.mark.requirement("G-138")
async def test_one_that_is_frozen_lets_go_of_all_and_ends_when_it_wakes(
    shared: PostgresDatabase, postgres_url: str
) -> None:
    async with alive(shared, AdjustableClock()), other_process(postgres_url) as other:
        await give(shared, other.id)
        assert await other.asked("lease", CHAT) == 1
        assert await other.asked("hold", CHAT) == "held"
        await anyio.sleep(1.5)  # its connections are all open by then
        assert await connections(shared, other) == 2, "the one in a transaction, and the one of its signs of life"
        other.send_signal(signal.SIGSTOP)
        assert 2.5 < await gone_after_s(shared, other) < 4.0 + 1.0 + LATE_S
        assert (await had(shared), await queues(shared)) == (0, ["turns"])
        with anyio.fail_after(2):  # its transaction has ended with its connections
            await shared.write(partial(conversation_rows.lock_row, key=CHAT))

        async def has_none() -> bool:
            return not await connections(shared, other)

        await until(has_none, longest_s=5)
        other.send_signal(signal.SIGCONT)
        with anyio.fail_after(10):
            assert await other.answer() == "buried"
        assert await other.ended() == 3


@pytest.mark.requirement("G-138")
async def test_a_buried_process_ends(shared: PostgresDatabase) -> None:
    async def live() -> None:
        async with alive(shared, AdjustableClock()):
            await shared.write(lambda conn: conn.execute(process.delete()))
            await anyio.sleep(10)  # cut off by the end of the group

    with pytest.raises(ExceptionGroup) as ended:
        await live()
    assert ended.group_contains(DatabaseHeld, match="found this one dead")


@pytest.mark.requirement("G-138")
async def test_who_leaves_hands_over_at_once(shared: PostgresDatabase, postgres_url: str) -> None:
    async with other_process(postgres_url) as other:
        await give(shared, other.id)
        assert await other.asked("leave") == "left"
        assert await processes(shared) == set()
        assert (await had(shared), await queues(shared)) == (0, ["turns"])


@pytest.mark.requirement("G-138")
async def test_a_lease_of_a_process_that_is_gone_is_free(shared: PostgresDatabase, postgres_url: str) -> None:
    now = to_timestamp(AdjustableClock().now())
    mine = partial(conversation_rows.claim, key=CHAT, worker=PROCESS, run="mine", now=now, until=now + 60 * SECOND)
    async with other_process(postgres_url) as other:
        assert await other.asked("lease", CHAT) == 1
        assert await shared.write(mine) is None, "it lives"
        await other.asked("leave")
        assert await shared.write(mine) == 2


@pytest.mark.requirement("G-138")
async def test_a_clock_that_differs_takes_the_time_of_the_database(shared: PostgresDatabase) -> None:
    clock = AdjustableClock()
    clock.shift(-7200.0)
    async with alive(shared, clock):
        await until(lambda: abs(clock.now() - AdjustableClock().now()) < timedelta(seconds=0.2))


@pytest.mark.requirement("G-138")
async def test_a_clock_that_is_near_is_left_alone(shared: PostgresDatabase) -> None:
    clock = AdjustableClock()
    clock.shift(0.1)
    async with alive(shared, clock) as membership:
        seen = select(process.c.seen_at).where(process.c.id == membership.id)
        at: int = await shared.read(lambda conn: conn.execute(seen).scalar_one())

        async def has_beaten() -> bool:
            later: int = await shared.read(lambda conn: conn.execute(seen).scalar_one())
            return later > at

        await until(has_beaten)
        await anyio.sleep(0.1)  # the look behind the sign of life has been taken
        ahead_s = (clock.now() - AdjustableClock().now()).total_seconds()
    assert ahead_s == pytest.approx(0.1, abs=0.06)


async def seen_at(database: PostgresDatabase) -> int:
    query = select(process.c.seen_at).where(process.c.id == PROCESS)
    found: int = await database.read(lambda conn: conn.execute(query).scalar_one())
    return found


@pytest.mark.requirement("G-138")
async def test_a_start_that_takes_long_is_alive_and_a_loop_that_hangs_is_not(shared: PostgresDatabase) -> None:
    clock = AdjustableClock()
    membership = Membership(shared, shared.url, clock, roles_of("worker"), hung_after_s=0.2)
    await membership.join()
    joined_at = await seen_at(shared)
    await anyio.sleep(2.5)  # migrations, say: the loop that keeps it does not run yet
    assert await seen_at(shared) > joined_at + SECOND
    with anyio.move_on_after(1.5):
        await membership.keep()
    last = await seen_at(shared)
    await anyio.sleep(2.5)  # its loop has ended without a word
    assert await seen_at(shared) <= last + SECOND
    await membership.leave()
