"""The database's work for a turn does not grow with its size. Counted in its own instructions."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
from sqlalchemy import Connection, Table, func, insert, select

from agent.storage.database import Database
from agent.storage.sqlite import READERS
from agent.storage.tables import inbox, message, outbox, turn, usage
from tests.fakes.waiting import until
from tests.gateway.world import World

OLD = 3_000  # rows of each table
MOST_COMMITS = 6  # admitted, begun, answered, sent; and the lease, which a slow machine takes and frees meanwhile
MOST_STATEMENTS = 64  # with those that begin and end transactions
EVERY = 10  # instructions between two counts
KEYS = ("inbox_id", "dedup", "event_dedup", "call_id", "place")


async def on_each_connection(database: Database, work: Callable[[Any], object]) -> None:
    def do(conn: Connection) -> None:
        work(conn.connection.driver_connection)

    await database.write(do)
    together = anyio.Event()
    waiting = 0

    async def read() -> None:
        nonlocal waiting
        waiting += 1
        if waiting == READERS:
            together.set()
        await together.wait()
        await database.read(do)

    async with anyio.create_task_group() as tasks:
        for _ in range(READERS):
            tasks.start_soon(read)


@asynccontextmanager
async def counting(database: Database) -> AsyncIterator[list[int]]:
    """The number of instructions of its statements, in tens."""
    steps = [0]

    def step() -> int:
        steps[0] += 1
        return 0

    await on_each_connection(database, lambda raw: raw.set_progress_handler(step, EVERY))
    yield steps
    await on_each_connection(database, lambda raw: raw.set_progress_handler(None, EVERY))


def age(conn: Connection, table: Table) -> None:
    """Copies of the table's newest row, of the same conversation and long done."""
    newest = dict(conn.execute(select(table).order_by(table.c.id.desc()).limit(1)).one()._mapping)
    highest = conn.execute(select(func.max(table.c.id))).scalar_one()
    rows = []
    for number in range(OLD):
        row = dict(newest, id=highest + 1 + number)
        for name in KEYS:
            if row.get(name) is not None:
                row[name] = f"old-{number}" if isinstance(row[name], str) else 1_000_000 + number
        if table is message:
            row |= {"agent_visible": False, "compacted_at": row["created_at"]}
        rows.append(row)
    conn.execute(insert(table), rows)


async def turn_of(world: World, text: str) -> int:
    """The database's instructions, without the test's own reads."""
    async with counting(world.database) as steps:
        await world.asks(text)
        await until(lambda: not world.services.dispatcher.running)
        assert await world.services.delivery.drain(20)
    return steps[0]


async def test_a_plain_turn_takes_few_commits_and_statements(world: World) -> None:
    for text in ("good morning", "how are you", "and the weather"):
        await world.answered(text)
    await until(lambda: not world.services.dispatcher.running)
    assert await world.services.delivery.drain(20)
    said: list[str] = []
    await on_each_connection(world.database, lambda raw: raw.set_trace_callback(said.append))
    said.clear()  # the end of the write that set it
    await world.asks("thank you")
    await until(lambda: not world.services.dispatcher.running)
    assert await world.services.delivery.drain(20)
    await on_each_connection(world.database, lambda raw: raw.set_trace_callback(None))
    statements = [one for one in said if not one.startswith("--")]  # what triggers do begins so
    assert 3 <= statements.count("COMMIT") <= MOST_COMMITS
    assert len(statements) <= MOST_STATEMENTS, "\n".join(statements)


async def test_a_turn_costs_the_database_as_much_as_ever(world: World) -> None:
    for text in ("good morning", "how are you", "and the weather"):
        await world.answered(text)
    young = await turn_of(world, "young")
    for table in (inbox, outbox, message, turn, usage):
        await world.database.write(lambda conn, table=table: age(conn, table))  # type: ignore[misc]
    await world.answered("in between")
    old = await turn_of(world, "old")
    assert young > 20, "it counts"
    assert old < young * 1.5 + 20, (young, old)
