"""Limits of platforms that two processes keep to together: here two instances on one PostgreSQL."""

from dataclasses import dataclass, field

import anyio
import pytest
from sqlalchemy import text

from agent.core.clock import SystemClock
from agent.storage.postgres import PostgresDatabase
from gateway.channels.kit.rate_limits import Rate, divided
from gateway.cluster.rates import ClusterRates
from gateway.storage import rate_buckets
from tests.fakes.clock import FakeClock

SLOW = Rate(per_s=0.001, burst=20, reserve=4)  # nothing is added within a test
NAME = "telegram overall"


@dataclass
class Process:
    """One of several; its clock stands still unless a test moves it."""

    database: PostgresDatabase
    processes: int = 2
    clock: FakeClock = field(default_factory=FakeClock)
    told: list[tuple[str, str]] = field(default_factory=list)
    rates: ClusterRates = field(init=False)

    def __post_init__(self) -> None:
        self.rates = ClusterRates(self.database, self.clock, lambda: self.processes, self._tell)

    def _tell(self, name: str, words: str) -> None:
        self.told.append((name, words))

    async def let_through(self, rate: Rate = SLOW, *, tries: int = 30, frame: bool = False) -> int:
        """Of so many calls in a row."""
        account = self.rates.of("telegram")
        return sum([not await account.ask("overall", rate, frame=frame) for _ in range(tries)])


@pytest.mark.parametrize(
    ("processes", "share", "rest"),
    [(1, 10, 10), (2, 5, 10), (10, 1, 10), (11, None, 20)],
    ids=["one", "two", "ten", "a share would be less than a call"],
)
def test_shares_and_the_rest_are_the_limit(processes: int, share: float | None, rest: float) -> None:
    of_each, of_all = divided(Rate(per_s=10, burst=20, reserve=5), processes)
    assert (of_each.burst if of_each else None, of_all.burst) == (share, rest)
    assert (of_each.per_s * processes if of_each else 0) + of_all.per_s == pytest.approx(10)


@pytest.mark.requirement("G-170")
async def test_two_processes_let_through_what_one_would(shared: PostgresDatabase) -> None:
    one, other = Process(shared), Process(shared)
    for process in (one, other):
        await process.let_through(tries=1)  # from the row: a share begins empty
        process.clock.advance(20_000)  # and is full again
    await shared.write(lambda conn: conn.execute(text("delete from rate_bucket")))
    first = await one.let_through()
    assert first == 5 + 10, "its share, and all that is in the row"
    assert await other.let_through() == 5, "its share"
    assert await other.let_through() == 0


@pytest.mark.requirement("G-170")
async def test_who_has_just_started_does_not_burst_anew(shared: PostgresDatabase) -> None:
    assert await Process(shared, 1).let_through() == 10
    assert await Process(shared, 1).let_through() == 0


@pytest.mark.requirement("G-170")
async def test_slow_traffic_asks_nobody(shared: PostgresDatabase) -> None:
    one = Process(shared)
    await one.let_through(tries=1)
    one.clock.advance(20_000)
    await shared.write(lambda conn: conn.execute(text("drop table rate_bucket")))
    assert await one.let_through(tries=5) == 5


@pytest.mark.requirement("G-170")
async def test_all_leave_alone_what_the_platform_closed_to_one(shared: PostgresDatabase) -> None:
    one, other, deaf = Process(shared), Process(shared), Process(shared)
    for process in (one, other, deaf):
        await process.let_through(tries=1)
        process.clock.advance(20_000)
    await one.rates.of("telegram").close("overall", 60)
    assert await one.let_through() == 0
    ((name, words),) = one.told
    assert name == "@rates"
    other.rates.hear(words)
    assert await other.let_through() == 0
    assert await other.rates.of("telegram").ask("overall", SLOW) == pytest.approx(60)
    late = await Process(shared).rates.of("telegram").ask("overall", SLOW)
    assert 30 < late <= 60, "one that starts reads it"
    await deaf.rates.look_again("")
    assert await deaf.let_through() == 0, "one that did not hear the words looks at the row"
    other.clock.advance(61)
    assert await other.let_through(tries=1) == 1


async def test_frames_leave_the_reserve_to_finals(shared: PostgresDatabase) -> None:
    one = Process(shared, 1)
    assert await one.let_through(frame=True) == 8
    assert await one.let_through() == 2


async def test_those_who_wait_ask_together(shared: PostgresDatabase) -> None:
    one, waits = Process(shared, 1), list[float]()

    async def ask() -> None:
        waits.append(await one.rates.of("telegram").ask("overall", SLOW))

    await one.let_through(tries=1)
    before = await statements(shared)
    async with anyio.create_task_group() as tasks:
        for _ in range(9):
            tasks.start_soon(ask)
    assert waits == [0.0] * 9
    assert await statements(shared) - before <= 2
    assert await one.let_through(tries=1) == 0


async def statements(shared: PostgresDatabase) -> int:
    """Transactions that have written, by the number of the next one, which this look takes itself."""
    number = text("select pg_current_xact_id()::text::bigint")
    return int(await shared.write(lambda conn: conn.execute(number).scalar_one())) - 1


async def test_the_row_fills_by_the_clock_of_the_database(shared: PostgresDatabase) -> None:
    drawn = await shared.write(lambda conn: rate_buckets.draw(conn, NAME, per_s=2, burst=10, wanted=20))
    assert drawn.given == 10
    assert drawn.wait_s == pytest.approx(0.5)
    earlier = text("update rate_bucket set at = at - 2000000")
    await shared.write(lambda conn: conn.execute(earlier))
    again = await shared.write(lambda conn: rate_buckets.draw(conn, NAME, per_s=2, burst=10, wanted=20))
    assert again.given == 4


async def test_without_the_database_a_process_has_its_share(shared: PostgresDatabase) -> None:
    one = Process(shared)
    await shared.write(lambda conn: conn.execute(text("drop table rate_bucket")))
    assert await one.rates.of("telegram").ask("overall", Rate(per_s=4, burst=8)) == pytest.approx(1.0)
    one.clock.advance(1.0)
    assert await one.rates.of("telegram").ask("overall", Rate(per_s=4, burst=8)) == 0


async def test_full_buckets_go(shared: PostgresDatabase) -> None:
    account = ClusterRates(shared, SystemClock(), lambda: 1, lambda name, words: None).of("telegram")
    await account.ask("overall", SLOW)
    await account.close("chat -5", 9_000)
    await shared.write(lambda conn: conn.execute(text("update rate_bucket set at = at - 7200000000")))
    now = await shared.read(lambda conn: conn.execute(text("select tieline_now()")).scalar_one())
    await shared.write(lambda conn: rate_buckets.prune(conn, now))
    left = await shared.read(lambda conn: conn.execute(text("select name from rate_bucket")).scalars().all())
    assert list(left) == ["telegram chat -5"]
