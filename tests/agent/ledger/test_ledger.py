"""The ledger over real databases: each call once, whatever is killed, repeated or refused."""

from functools import partial
from pathlib import Path

import anyio
import pytest

from agent.core.events import BudgetReached, CallBilled
from agent.core.ids import SessionId
from agent.ledger import rows
from agent.ledger.ledger import AlreadyDecided, NoLimit, PeriodOver
from agent.ledger.rows import Approval
from agent.ledger.spending import Account, Limit, OverBudget, Unpriced, UsageTotals
from agent.providers.provider import MOST_TOKENS, Prices, Request, SystemPrompt, Usage
from agent.providers.usage import Spent
from agent.storage.database import Database
from agent.storage.timestamps import to_timestamp
from tests.agent.ledger.world import ANN, CHAT, DEAR, PAID, LedgerWorld, attribution, request
from tests.fakes.provider import ScriptedProvider
from tests.fakes.waiting import until


@pytest.fixture
async def world(sqlite_database: Database, tmp_path: Path) -> LedgerWorld:
    world = LedgerWorld(sqlite_database, tmp_path)
    await world.ledger.open()
    return world


@pytest.fixture
async def anywhere(database: Database, tmp_path: Path) -> LedgerWorld:
    """The same, once on each kind of database: for what is asked of it."""
    world = LedgerWorld(database, tmp_path)
    await world.ledger.open()
    return world


async def test_a_call_is_entered_with_all_that_is_known_of_it(world: LedgerWorld) -> None:
    await world.call(3, 4, job="daily", goal="g1", purpose="judge")
    await world.ledger.flush()
    [entry] = await world.entries()
    assert (entry.prompt, entry.output, entry.cost_usd, entry.estimated) == (3, 4, 7.0, False)
    assert (entry.attribution.person, entry.attribution.job, entry.attribution.goal, entry.attribution.purpose) == (
        ANN,
        "daily",
        "g1",
        "judge",
    )
    assert (entry.provider, entry.model, entry.at) == ("main", "scripted-1", to_timestamp(world.clock.now()))
    [billed] = [event for event in world.events if isinstance(event, CallBilled)]
    assert (billed.purpose, billed.prompt, billed.cost_usd) == ("judge", 3, 7.0)


async def test_a_refused_attempt_is_no_call(world: LedgerWorld) -> None:
    reserved = await world.ledger.reserve(attribution(), PAID, request(5), 10)
    reserved.settle(Spent(provider="main", model="m", usage=Usage(), cost_usd=0.0, estimated=False))
    await world.restart()
    assert await world.entries() == []


async def test_a_turn_takes_its_calls_along_and_nothing_is_written_twice(
    anywhere: LedgerWorld,
) -> None:
    await anywhere.call(1, 1)
    await anywhere.call(2, 2, inbox_id=2)
    mine = anywhere.ledger.unwritten(1)
    for _ in range(2):  # a commit whose answer was lost is repeated
        await anywhere.database.write(lambda conn: rows.add(conn, mine))
    assert [entry.prompt for entry in await anywhere.entries()] == [1]
    anywhere.ledger.written(mine)
    assert anywhere.ledger.unwritten(1) == ()
    await anywhere.ledger.flush()
    assert sorted(entry.prompt for entry in await anywhere.entries()) == [1, 2]


async def test_what_no_turn_takes_along_is_written_a_little_later(world: LedgerWorld) -> None:
    await world.call(1, 1, inbox_id=None)
    await world.ledger.flush(older_than_s=5)
    assert await world.entries() == []
    world.clock.advance(6)
    await world.ledger.flush(older_than_s=5)
    assert [entry.prompt for entry in await world.entries()] == [1]


async def test_it_writes_by_itself_as_long_as_it_runs(world: LedgerWorld) -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(world.ledger.run)
        for number in range(3):
            world.ledger.written(())  # as every turn does that had no call
            await world.call(number + 1, 1, inbox_id=None)
            await until(lambda: world.clock.sleepers == 1)
            world.clock.advance(6)
            await until(lambda: not world.ledger.unwritten(None))
        tasks.cancel_scope.cancel()
    assert sorted(entry.prompt for entry in await world.entries()) == [1, 2, 3]


@pytest.mark.requirement("R-15")
async def test_a_kill_loses_no_call(anywhere: LedgerWorld) -> None:
    """Ended calls are exact, calls under way are estimates; a second start adds nothing."""
    await anywhere.call(5, 6)
    await anywhere.ledger.reserve(attribution(), PAID, request(100), 40)
    refused = await anywhere.ledger.reserve(attribution(), PAID, request(100), 1)
    refused.release()
    for _ in range(2):
        await anywhere.restart()
        found = [(entry.prompt, entry.output, entry.cost_usd, entry.estimated) for entry in await anywhere.entries()]
        assert sorted(found) == [(5, 6, 11.0, False), (40, 0, 40.0, True)]


async def test_a_line_that_the_crash_cut_off_is_left_out(world: LedgerWorld) -> None:
    await world.call(5, 6)
    journal = world.home / "ledger.journal"
    journal.write_bytes(journal.read_bytes() + b'+{"call": "half')
    await world.restart()
    assert [entry.prompt for entry in await world.entries()] == [5]


async def test_the_journal_stays_short_and_private(world: LedgerWorld) -> None:
    journal = world.home / "ledger.journal"
    under_way = await world.ledger.reserve(attribution(), PAID, request(1), 7)
    for number in range(400):
        await world.call(1, 1, inbox_id=number)
        mine = world.ledger.unwritten(number)
        await world.database.write(partial(rows.add, entries=mine))
        world.ledger.written(mine)
    assert journal.stat().st_size < 300_000
    assert journal.stat().st_mode & 0o077 == 0
    await world.restart()
    assert [entry.prompt for entry in await world.entries() if entry.estimated] == [7]
    assert under_way.entry.prompt == 7


async def test_a_call_without_a_journal_is_made_all_the_same(world: LedgerWorld) -> None:
    (world.home / "ledger.journal").mkdir()
    await world.call(1, 1)
    await world.ledger.flush()
    assert len(await world.entries()) == 1


async def test_a_refusal_says_what_is_left_and_tells_the_house(sqlite_database: Database, tmp_path: Path) -> None:
    world = LedgerWorld(sqlite_database, tmp_path, Limit(scope="person", usd=10))
    await world.ledger.open()
    await world.call(4, 3)
    with pytest.raises(OverBudget) as caught:
        await world.call(3, 1)
    assert (caught.value.limit, caught.value.left, caught.value.needed) == (10, 3.0, 4.0)
    [reached] = [event for event in world.events if isinstance(event, BudgetReached) and event.hard]
    assert (reached.scope, reached.payer, reached.usd, reached.spent_usd) == ("person", ANN, 10, 7.0)
    await world.call(3, 1, person="telegram:78")  # nobody else is stopped


async def test_near_a_limit_the_house_is_told_once(sqlite_database: Database, tmp_path: Path) -> None:
    world = LedgerWorld(sqlite_database, tmp_path, Limit(scope="gateway", per="month", usd=10), warn_at=0.5)
    await world.ledger.open()
    for _ in range(4):
        await world.call(1, 1)
    [near] = [event for event in world.events if isinstance(event, BudgetReached)]
    assert (near.hard, near.spent_usd, near.period) == (False, 6.0, f"{world.clock.now():%Y-%m}")


async def test_a_restart_knows_what_was_spent_and_approved(database: Database, tmp_path: Path) -> None:
    world = LedgerWorld(database, tmp_path, Limit(scope="channel", usd=10), more=0.5)
    await world.ledger.open()
    await world.call(4, 4)
    account = Account("channel", CHAT, f"{world.clock.now():%Y-%m-%d}")
    standing = await world.ledger.budgets.approve(account, by="telegram:1")
    assert (standing.usd, standing.spent_usd, standing.approvals) == (15.0, 8.0, 1)
    await world.restart()
    [again] = world.ledger.budgets.standings(attribution(), "main")
    assert (again.usd, again.spent_usd, again.spent_tokens, again.approvals) == (15.0, 8.0, 8, 1)
    await world.call(3, 4)
    with pytest.raises(OverBudget):
        await world.call(1, 0)


async def test_an_approval_counts_once_and_only_in_its_time(sqlite_database: Database, tmp_path: Path) -> None:
    world = LedgerWorld(sqlite_database, tmp_path, Limit(scope="person", usd=10, tokens=100))
    await world.ledger.open()
    account = Account("person", ANN, f"{world.clock.now():%Y-%m-%d}")
    first = await world.ledger.budgets.approve(account, by="telegram:1", usd=2.0, after=0)
    assert (first.usd, first.tokens) == (12.0, 120)
    with pytest.raises(AlreadyDecided):
        await world.ledger.budgets.approve(account, by="telegram:2", after=0)
    with pytest.raises(NoLimit):
        await world.ledger.budgets.approve(Account("goal", "x", account.period), by="telegram:2")
    world.clock.advance(86_400)
    with pytest.raises(PeriodOver):
        await world.ledger.budgets.approve(account, by="telegram:2", after=1)


async def test_two_processes_that_approve_at_once_add_once(database: Database, tmp_path: Path) -> None:
    account = Account("person", ANN, "2026-11-22")
    approval = Approval(account=account, number=1, usd=1.0, tokens=0, by="telegram:1", at=1)
    assert await database.write(lambda conn: rows.approve(conn, approval))
    assert not await database.write(lambda conn: rows.approve(conn, approval))


async def test_an_unknown_price_is_refused_with_the_fix(sqlite_database: Database, tmp_path: Path) -> None:
    world = LedgerWorld(sqlite_database, tmp_path, Limit(scope="gateway", usd=10))
    await world.ledger.open()
    with pytest.raises(Unpriced, match=r"prices"):
        await world.call(1, 1, provider=ScriptedProvider(name="local"))
    world.spending = LedgerWorld(
        sqlite_database, tmp_path, *world.spending.limits, unpriced="allow"
    ).spending  # a reload
    await world.call(1, 1, provider=ScriptedProvider(name="local"))
    await world.ledger.flush()
    assert [entry.cost_usd for entry in await world.entries()] == [None]
    totals = await sqlite_database.read(rows.totals)
    assert (totals.calls, totals.unpriced, totals.cost_usd) == (1, 1, 0.0)


@pytest.mark.requirement("W-23")
@pytest.mark.parametrize(
    ("tiers", "bound", "needed"),
    [
        pytest.param({}, None, 4106.0, id="an answer that nothing bounds"),
        pytest.param({}, 16_384, 16_394.0, id="one that we bound"),
        pytest.param({"cache_write": 2e6}, 5, 25.0, id="what is dear to write"),
        pytest.param({"cache_read": 3e6}, 5, 35.0, id="what is dear to read"),
    ],
)
async def test_what_is_set_aside_for_a_call(
    sqlite_database: Database, tmp_path: Path, tiers: dict[str, float], bound: int | None, needed: float
) -> None:
    world = LedgerWorld(sqlite_database, tmp_path, Limit(scope="gateway", usd=1))
    await world.ledger.open()
    provider = ScriptedProvider(prices=Prices(input=1e6, output=1e6, **tiers), max_tokens=bound)
    asked = Request(system=SystemPrompt(""), messages=())
    with pytest.raises(OverBudget) as caught:
        await world.ledger.reserve(attribution(), provider, asked, 10)
    assert caught.value.needed == needed


async def test_sums_by_whom_and_for_what(anywhere: LedgerWorld) -> None:
    await anywhere.call(1, 1)
    await anywhere.call(5, 5, purpose="compaction", person=None)
    await anywhere.call(2, 0, purpose="compaction", estimated=True, conversation="slack:T:C")
    await anywhere.ledger.flush()

    def read(conn: object) -> tuple[object, ...]:
        purposes = rows.by(conn, "purpose")  # type: ignore[arg-type]
        people = rows.by(conn, "person", conversation=CHAT)  # type: ignore[arg-type]
        return (
            [(name, totals.cost_usd, totals.estimated) for name, totals in purposes],
            [(name, totals.calls) for name, totals in people],
        )

    assert await anywhere.database.read(read) == (
        [("compaction", 12.0, 1), ("turn", 2.0, 0)],
        [("", 1), (ANN, 1)],
    )


@pytest.mark.requirement("R-15")
async def test_usage_adds_up_by_session_and_by_day(anywhere: LedgerWorld) -> None:
    assert await anywhere.database.read(rows.totals) == UsageTotals()
    for number, (price, estimated) in enumerate(((DEAR, False), (DEAR, False), (None, True))):
        provider = ScriptedProvider(name="main", prices=price)
        await anywhere.call(10, 5, provider=provider, estimated=estimated, session=f"s{number % 2}")
        anywhere.clock.advance(43_200)
    await anywhere.ledger.flush()
    since = to_timestamp(anywhere.clock.now()) - 86_400_000_000
    whole = UsageTotals(calls=3, prompt=30, output=15, cost_usd=30.0, unpriced=1, estimated=1)
    assert await anywhere.database.read(rows.totals) == whole
    assert (
        await anywhere.database.read(lambda conn: rows.totals(conn, conversation=CHAT, since=since))
    ).cost_usd == 15.0
    assert (await anywhere.database.read(lambda conn: rows.totals(conn, session=SessionId("s0")))).calls == 2


async def test_an_absurd_count_of_an_endpoint_is_bounded_and_written(sqlite_database: Database, tmp_path: Path) -> None:
    world = LedgerWorld(sqlite_database, tmp_path)
    await world.ledger.open()
    await world.call(10**25, 4, provider=ScriptedProvider(name="main", prices=None))
    await world.ledger.flush()
    assert [(entry.prompt, entry.output) for entry in await world.entries()] == [(MOST_TOKENS, 4)]


async def test_a_call_that_no_database_takes_is_left_out_and_holds_up_no_start(
    sqlite_database: Database, tmp_path: Path
) -> None:
    world = LedgerWorld(sqlite_database, tmp_path)
    await world.ledger.open()
    await world.call(10, 4, provider=ScriptedProvider(name="main", prices=None))
    await world.call(20, 4, provider=ScriptedProvider(name="main", prices=None))
    journal = tmp_path / "ledger.journal"
    journal.write_text(journal.read_text().replace('"prompt":10,', f'"prompt":{10**25},'))
    await world.restart()
    assert [entry.prompt for entry in await world.entries()] == [20]
