"""Several processes on one PostgreSQL that spend from the same budgets, and one of them that dies."""

from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from sqlalchemy import create_engine, func, insert, make_url, select, update

from agent.core.events import BudgetReached
from agent.ledger import holds, rows
from agent.ledger.spending import Account, Limit, OverBudget
from agent.storage.database import Database
from agent.storage.postgres import PostgresDatabase
from agent.storage.process_tables import usage_hold
from agent.storage.tables import usage
from tests.agent.ledger.world import CHAT, PAID, LedgerWorld, attribution, request

TEN = Limit(scope="gateway", usd=10)


@pytest.fixture
async def processes(postgres_url: str, tmp_path: Path) -> AsyncIterator[Callable[..., Any]]:
    """Makes processes, each with a home and connections of its own."""
    url = make_url(postgres_url).set(drivername="postgresql+psycopg")
    databases: list[PostgresDatabase] = []

    async def make(count: int, *limits: Limit, **more: Any) -> list[LedgerWorld]:
        worlds = []
        for number in range(count):
            databases.append(PostgresDatabase(url))
            world = LedgerWorld(databases[-1], tmp_path / str(number), *limits, **more)
            await world.ledger.open()
            worlds.append(world)
        return worlds

    yield make
    for database in databases:
        await database.aclose()


async def held(world: LedgerWorld) -> int:
    """The number of calls for which something is set aside."""
    query = select(func.count()).select_from(usage_hold)
    return await world.database.read(lambda conn: int(conn.execute(query).scalar_one()))


async def died(world: LedgerWorld) -> None:
    """Its process has not said for some minutes that it lives."""
    await world.database.write(lambda conn: conn.execute(update(usage_hold).values(alive_until=0)))


@pytest.mark.requirement("G-149")
async def test_a_budget_counts_what_other_processes_have_set_aside(processes: Any) -> None:
    one, other = await processes(2, TEN)
    reserved = await one.ledger.reserve(attribution(), PAID, request(3), 3)
    with pytest.raises(OverBudget) as refused:
        await other.ledger.reserve(attribution(), PAID, request(3), 2)
    assert refused.value.left == 4.0
    reserved.release()
    await one.ledger.flush()
    await other.ledger.reserve(attribution(), PAID, request(3), 7)


@pytest.mark.requirement("G-149")
async def test_a_budget_counts_what_other_processes_have_spent(processes: Any) -> None:
    one, other = await processes(2, TEN)
    await one.call(3, 3)
    with pytest.raises(OverBudget):
        await other.call(3, 3)  # before any commit of the first tells what it came to
    await one.ledger.flush()
    with pytest.raises(OverBudget):
        await other.call(3, 3)
    await other.call(2, 2)
    await other.ledger.flush()
    [standing] = [one for one in one.ledger.budgets.all_standings() if one.limit == TEN]
    assert standing.spent_usd == 6.0, "it has not looked since"
    await one.ledger.flush()
    [standing] = [one for one in one.ledger.budgets.all_standings() if one.limit == TEN]
    assert (standing.spent_usd, standing.spent_tokens) == (10.0, 10)


@pytest.mark.requirement("G-149")
async def test_processes_at_once_do_not_overspend_a_budget_together(processes: Any) -> None:
    worlds = await processes(3, TEN)
    outcomes: list[bool] = []

    async def asks(world: LedgerWorld) -> None:
        try:
            await world.ledger.reserve(attribution(), PAID, request(1), 0)
        except OverBudget:
            outcomes.append(False)
        else:
            outcomes.append(True)

    async with anyio.create_task_group() as tasks:
        for _ in range(8):
            for world in worlds:
                tasks.start_soon(asks, world)
    assert (outcomes.count(True), len(outcomes)) == (10, 24)
    assert await held(worlds[0]) == 10


@pytest.mark.requirement("G-149")
@pytest.mark.parametrize("how", ["under way", "ended"])
async def test_a_call_whose_process_died_is_entered_by_another(processes: Any, how: str) -> None:
    one, other = await processes(2, TEN)
    if how == "under way":
        await one.ledger.reserve(attribution(), PAID, request(3), 4)
    else:
        await one.call(4, 3)  # and dies before its turn is committed
    await other.ledger.budgets.keep()
    assert await other.entries() == [], "it may live"
    await died(one)
    await other.ledger.budgets.keep()
    assert [(entry.prompt, entry.output, entry.estimated) for entry in await other.entries()] == [(4, 0, True)]
    assert await held(other) == 0
    await other.call(5, 1)  # what was set aside for the answer is free, and what was spent counts
    with pytest.raises(OverBudget):
        await other.call(0, 1)


@pytest.mark.requirement("G-149")
async def test_a_process_that_lives_keeps_its_calls(processes: Any) -> None:
    one, other = await processes(2)
    await one.ledger.reserve(attribution(), PAID, request(3), 4)
    await died(one)
    await one.ledger.budgets.keep()
    await other.ledger.budgets.keep()
    assert (await held(other), await other.entries()) == (1, [])


@pytest.mark.requirement("G-149")
async def test_the_commit_that_enters_a_call_frees_what_was_set_aside(processes: Any) -> None:
    one, other = await processes(2, TEN)
    await one.call(3, 3)
    mine = one.ledger.unwritten(1)
    await one.database.write(partial(rows.add, entries=mine))
    one.ledger.written(mine)
    assert await held(one) == 0
    await died(one)
    await other.ledger.budgets.keep()
    assert [entry.estimated for entry in await other.entries()] == [False]


async def test_the_next_call_of_a_turn_enters_the_one_before(processes: Any) -> None:
    """So that a kill in the second leaves the first exact, without a commit of its own."""
    one, other = await processes(2)
    await one.call(5, 6)
    await one.ledger.reserve(attribution(), PAID, request(100), 40)
    await died(one)
    await other.ledger.budgets.keep()
    found = [(entry.prompt, entry.output, entry.cost_usd, entry.estimated) for entry in await other.entries()]
    assert sorted(found) == [(5, 6, 11.0, False), (40, 0, 40.0, True)]
    assert one.ledger.unwritten(1) == ()


@pytest.mark.requirement("G-149")
async def test_a_call_that_is_committed_late_is_counted_too(processes: Any, postgres_url: str) -> None:
    """Numbers are given in another order than transactions end in."""
    one, other = await processes(2, TEN)
    engine = create_engine(make_url(postgres_url).set(drivername="postgresql+psycopg"))
    values: dict[str, Any] = {"conv": CHAT, "purpose": "turn", "provider": "main", "model": "m", "cost_usd": 4.0}
    values |= dict.fromkeys(("output", "cache_creation", "cache_read"), 0)
    values |= {"prompt": 4, "estimated": False, "created_at": int(one.clock.now().timestamp() * 1_000_000)}
    with engine.begin() as slow:
        slow.execute(insert(usage).values(call_id="slow", **values))
        await one.call(1, 1)
        await one.ledger.flush()
        await other.ledger.budgets.catch_up()
        assert other.ledger.budgets.standings(attribution(), "main")[0].spent_usd == 2.0
    engine.dispose()
    for _ in range(2):
        await other.ledger.budgets.catch_up()
        assert other.ledger.budgets.standings(attribution(), "main")[0].spent_usd == 6.0


@pytest.mark.requirement("G-149")
async def test_one_of_the_processes_tells_that_a_budget_comes_near(processes: Any) -> None:
    worlds = await processes(3, TEN)
    for world in worlds:
        await world.call(1, 2)
    for _ in range(2):
        for world in worlds:
            await world.ledger.flush()
    told = [event for world in worlds for event in world.events if isinstance(event, BudgetReached)]
    assert [(event.hard, event.spent_usd) for event in told] == [(False, 9.0)]


@pytest.mark.requirement("G-149")
async def test_what_one_process_approves_counts_at_the_others_and_once(processes: Any) -> None:
    one, other = await processes(2, TEN)
    account = Account("gateway", "", f"{one.clock.now():%Y-%m-%d}")
    await one.ledger.budgets.approve(account, by="telegram:1", usd=2.0)
    for _ in range(2):
        await one.ledger.budgets.catch_up()
    second = await other.ledger.budgets.approve(account, by="telegram:1", usd=3.0)
    assert (second.usd, second.approvals) == (15.0, 2)
    await one.call(14, 1)
    with pytest.raises(OverBudget):
        await other.call(0, 1)


async def test_the_same_home_knows_exactly_what_its_process_had_ended(processes: Any) -> None:
    """Its journal knows more than the database."""
    [one] = await processes(1)
    await one.call(5, 6)
    refused = await one.ledger.reserve(attribution(inbox_id=2), PAID, request(100), 1)
    refused.release()
    await one.restart()
    assert [(entry.prompt, entry.output, entry.estimated) for entry in await one.entries()] == [(5, 6, False)]
    assert await held(one) == 0


async def test_sqlite_is_not_asked_before_a_call(sqlite_database: Database, tmp_path: Path) -> None:
    world = LedgerWorld(sqlite_database, tmp_path, TEN)
    await world.ledger.open()
    await sqlite_database.aclose()  # whatever asked it would fail
    await world.call(3, 3)
    with pytest.raises(OverBudget):
        await world.call(3, 3)


def test_numbers_that_nothing_uses_are_waited_for_a_while() -> None:
    numbers = holds.ReadNumbers(4, {})
    for number, now in ((6, 0.0), (5, 1.0), (8, 2.0)):
        numbers.note(number, now)
    assert (numbers.after, list(numbers.ahead)) == (6, [8])
    numbers.settle(2.0 + holds.GAP_LASTS_S - 1)
    assert numbers.after == 6
    numbers.settle(2.0 + holds.GAP_LASTS_S)
    assert (numbers.after, numbers.ahead) == (8, {})
