"""Claims: what one process at a time may do, such as to hear an account that is polled."""

from pathlib import Path

import anyio
import pytest
from sqlalchemy import delete, insert, select

from agent.storage.database import PROCESS
from agent.storage.postgres import PostgresDatabase
from agent.storage.process_tables import process, process_claim
from gateway.cluster.membership import Claims
from tests.fakes.clock import FakeClock
from tests.fakes.running import running
from tests.fakes.waiting import until
from tests.gateway.cluster.process import other_process
from tests.gateway.running.accounts.test_accounts import FlakySettings, House

POLLED = "account:telegram"


async def holder(database: PostgresDatabase, name: str = POLLED) -> str | None:
    of = select(process_claim.c.process).where(process_claim.c.name == name)
    found: str | None = await database.read(lambda conn: conn.execute(of).scalar())
    return found


async def given_to(database: PostgresDatabase, process: str, name: str = POLLED) -> None:
    row = {"name": name, "process": process}
    await database.write(lambda conn: conn.execute(insert(process_claim), row))


@pytest.mark.requirement("G-137")
async def test_one_process_at_a_time_has_a_claim(joined: PostgresDatabase, postgres_url: str) -> None:
    claims = Claims(joined, hears=True, works=True)
    async with other_process(postgres_url) as other:
        assert await other.asked("claim", POLLED) == POLLED
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(claims.take, POLLED)
            await anyio.sleep(0.3)  # tries in between
            assert not claims.is_held(POLLED)
            assert await holder(joined) == other.id
            await other.asked("give_back", POLLED)
            assert await holder(joined) is None, "given back at once"
        assert claims.is_held(POLLED)
        assert await holder(joined) == PROCESS


@pytest.mark.requirement("G-137")
async def test_a_claim_goes_with_its_process(joined: PostgresDatabase, postgres_url: str) -> None:
    claims = Claims(joined, hears=True, works=True)
    await given_to(joined, "other")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(claims.take, POLLED)
        await anyio.sleep(0.1)  # it has tried once
        assert not claims.is_held(POLLED)
        await joined.write(lambda conn: conn.execute(delete(process).where(process.c.id == "other")))
    assert claims.is_held(POLLED)


@pytest.mark.requirement("G-137")
async def test_what_could_not_be_given_back_is_still_ours(joined: PostgresDatabase) -> None:
    await given_to(joined, PROCESS)  # the server was away when it was to go
    claims = Claims(joined, hears=True, works=True)
    with anyio.fail_after(5):
        await claims.take(POLLED)
    await claims.give_back(POLLED)
    assert await holder(joined) is None


@pytest.mark.requirement("G-137")
async def test_a_claim_is_given_back_whatever_happens(joined: PostgresDatabase) -> None:
    claims = Claims(joined, hears=True, works=True)

    async def fail() -> None:
        assert claims.is_held("upkeep")
        raise RuntimeError("boom")

    with pytest.raises(RuntimeError):
        await claims.only("upkeep", fail)
    assert not claims.is_held("upkeep")
    assert await holder(joined, "upkeep") is None


class PolledSettings(FlakySettings):
    """The program fetches what came in."""


class CalledSettings(FlakySettings):
    """The platform calls."""

    @property
    def heard_by_many(self) -> bool:
        return True


ACCOUNTS = (PolledSettings(type="telegram"), CalledSettings(type="slack"))


@pytest.mark.requirement("G-137")
async def test_a_polled_account_is_heard_by_one_and_one_that_is_called_by_each(
    joined: PostgresDatabase, clock: FakeClock, tmp_path: Path
) -> None:
    for account in ACCOUNTS:  # the other process asked for both first
        await given_to(joined, "other", f"account:{account.type}")
    ingress = House(clock, tmp_path, *ACCOUNTS, ownership=Claims(joined, hears=True, works=False))
    await ingress.accounts.open_all()
    async with running(ingress.run):
        await until(lambda: ingress.opened["slack"].starts == 1)
        await anyio.sleep(0.2)  # it would have started by then
        assert ingress.opened["telegram"].starts == 0, "another process hears it"
        await joined.write(lambda conn: conn.execute(delete(process_claim)))
        await until(lambda: ingress.opened["telegram"].starts == 1)
        assert await holder(joined) == PROCESS
    assert await holder(joined) is None, "given back"


@pytest.mark.requirement("G-137")
async def test_who_is_no_ingress_hears_no_account(joined: PostgresDatabase, clock: FakeClock, tmp_path: Path) -> None:
    worker = House(clock, tmp_path, *ACCOUNTS, ownership=Claims(joined, hears=False, works=True))
    await worker.accounts.open_all()
    async with running(worker.run):
        await until(lambda: len(worker.opened) == 2)
        await anyio.sleep(0.2)  # they would have started by then
        assert [one.starts for one in worker.opened.values()] == [0, 0]
        assert await holder(joined) is None
