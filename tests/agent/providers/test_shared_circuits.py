"""Circuits of providers that two processes share: here two `Models` on one PostgreSQL."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field

import anyio
import pytest
from sqlalchemy import make_url, text

from agent.core.errors import ProviderBusy, ProviderRefused
from agent.core.model_facts import OpenCircuit
from agent.storage.model_rows import CircuitStore
from agent.storage.postgres import PostgresDatabase
from tests.agent.providers.test_routing import House, provider
from tests.fakes.provider import Script, fails, says
from tests.fakes.waiting import until

BUSY = ProviderBusy("500")
BAD_KEY = ProviderRefused("401", any_request=True)
LIMITED = ProviderBusy("429", after_s=40.0, limited=True)


@pytest.fixture
async def database(postgres_url: str) -> AsyncIterator[PostgresDatabase]:
    database = PostgresDatabase(make_url(postgres_url).set(drivername="postgresql+psycopg"))
    yield database
    await database.aclose()


@dataclass
class Noted:
    """A store that notes what it is asked."""

    store: CircuitStore
    asked: list[str] = field(default_factory=list)

    async def read_all(self) -> Sequence[OpenCircuit] | None:
        self.asked.append("read")
        return await self.store.read_all()

    async def open(self, circuit: OpenCircuit) -> bool:
        self.asked.append(f"open {circuit.provider}")
        return await self.store.open(circuit)

    async def close(self, provider: str, model: str | None = None) -> None:
        self.asked.append(f"close {provider}")
        await self.store.close(provider, model)

    async def may_try(self, provider: str, model: str, hold_s: float) -> bool:
        self.asked.append(f"try {provider}")
        return await self.store.may_try(provider, model, hold_s)


class Process(House):
    """A process with the providers `a` and `b`; so many `failures` in a row open a circuit."""

    def __init__(
        self, database: PostgresDatabase, *of_a: Script, otherwise: Script | None = None, failures: int = 4
    ) -> None:
        self.store = Noted(CircuitStore(database))
        a = provider("a", *of_a, otherwise=otherwise)
        super().__init__(a, provider("b"), shared=self.store, breaker_failures=failures)


async def ended(database: PostgresDatabase, *houses: House) -> None:
    """The time of every circuit is over."""
    over = text("update provider_circuit set open_until = tieline_now() - 1")
    await database.write(lambda conn: conn.execute(over))
    for house in houses:
        await house.models.read_circuits()


@pytest.mark.requirement("G-168")
async def test_a_call_asks_nobody_while_nothing_is_open(database: PostgresDatabase) -> None:
    one = Process(database)
    for _ in range(3):
        assert (await one.ask()).provider.name == "a"
    assert one.store.asked == []


@pytest.mark.requirement("G-168")
@pytest.mark.parametrize("error", [BAD_KEY, LIMITED], ids=["broken", "asked to wait"])
async def test_what_opens_at_one_is_open_at_the_other_until_one_has_tried(
    database: PostgresDatabase, error: ProviderBusy | ProviderRefused
) -> None:
    one, other = Process(database, fails(error)), Process(database)
    assert (await one.ask()).provider.name == "b"
    assert one.store.asked == ["open a"]
    await other.models.read_circuits()
    assert (await other.ask()).provider.name == "b"
    assert other.asked == [0, 1]
    await ended(database, one, other)
    assert other.models.state_of(other.providers[0]) == "half_open"
    assert (await other.ask()).provider.name == "a"
    assert other.store.asked == ["read", "read", "try a", "close a"]
    await one.models.read_circuits()
    assert one.models.state_of(one.providers[0]) == "closed"
    assert one.health == ([("a", False), ("a", True)] if error is BAD_KEY else [])
    assert (await one.ask()).provider.name == "a"


@pytest.mark.requirement("G-168")
async def test_one_process_tries_it_and_the_others_do_not(database: PostgresDatabase) -> None:
    gate = anyio.Event()
    one, other = Process(database, fails(BAD_KEY), says("well", gate=gate)), Process(database)
    await one.ask()
    await ended(database, one, other)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(one.ask)
        await until(lambda: one.watch.seen == ["begins a"])
        assert (await other.ask()).provider.name == "b"
        gate.set()
    assert other.asked == [0, 1]


async def test_a_failure_after_the_other_was_told_keeps_it_open(database: PostgresDatabase) -> None:
    one, other = Process(database, fails(BAD_KEY)), Process(database, fails(BAD_KEY))
    await one.ask()
    await ended(database, one, other)
    await other.ask()
    await one.models.read_circuits()
    assert one.models.state_of(one.providers[0]) == "open"


@pytest.mark.requirement("G-168")
async def test_an_operator_opens_the_way_at_all(database: PostgresDatabase) -> None:
    one, other = Process(database, fails(BAD_KEY)), Process(database)
    await one.ask()
    await other.models.read_circuits()
    await other.models.forgive("a")
    await one.models.read_circuits()
    assert [house.models.state_of(house.providers[0]) for house in (one, other)] == ["closed", "closed"]


async def test_many_failures_at_once_are_told_once(database: PostgresDatabase) -> None:
    one = Process(database, otherwise=fails(BUSY), failures=1)
    await one.ask()
    async with anyio.create_task_group() as tasks:
        for _ in range(20):
            tasks.start_soon(one.ask)
    assert one.store.asked == ["open a"]


async def test_the_last_provider_is_asked_though_another_process_tries_it(database: PostgresDatabase) -> None:
    one, alone = Process(database, fails(BAD_KEY)), House(provider("a"), shared=CircuitStore(database))
    await one.ask()
    await ended(database, one, alone)
    assert await CircuitStore(database).may_try("a", one.providers[0].model, 30.0)
    assert (await alone.ask()).provider.name == "a"


async def test_without_the_database_each_process_goes_by_what_it_knows(database: PostgresDatabase) -> None:
    one = Process(database, fails(BAD_KEY), otherwise=says("well"))
    await database.write(lambda conn: conn.execute(text("drop table provider_circuit")))
    assert (await one.ask()).provider.name == "b"
    await one.models.read_circuits()
    assert one.models.state_of(one.providers[0]) == "open"
    one.clock.advance(60.0)
    assert (await one.ask()).provider.name == "a"
