"""The sweep of the memory: what goes, what stays whatever happens, and what it costs others."""

import logging
from collections.abc import Sequence

import anyio
import pytest
from sqlalchemy import Connection, func, insert, select

from agent.compaction.settings import MemorySettings
from agent.core.ids import ConversationId, CostAttribution, PersonId
from agent.memory import rows
from agent.memory.eviction import BATCH, PAUSE_S, TICK_S, Sweep
from agent.memory.memory import Memory
from agent.memory.records import Kept, Scope
from agent.memory.settings import EvictionSettings
from agent.storage.database import Database
from agent.storage.tables import entity, memory, memory_use, relation
from agent.storage.timestamps import to_timestamp
from tests.fakes.clock import FakeClock
from tests.fakes.running import running
from tests.fakes.waiting import until

CHAT, OTHER = ConversationId("telegram:77"), ConversationId("telegram:88")
ANN = PersonId("telegram:77")
BILL = CostAttribution(purpose="turn", conversation=CHAT)


class Place:
    """A memory with a limit, its sweep, and how many things that has reported."""

    def __init__(self, database: Database, clock: FakeClock, most: int) -> None:
        self.database, self.clock, self.reported, self._messages = database, clock, list[int](), 0
        self.settings = MemorySettings(eviction=EvictionSettings(max_entries=most))
        self.memory = Memory(database, clock, settings=lambda: self.settings)
        self.scope = self.memory.scope(CHAT, "direct", ANN)
        self.sweep = Sweep(
            database,
            clock,
            uses=self.memory.uses,
            settings=lambda: self.settings.eviction,
            evicted=self.reported.append,
        )

    async def said(self, *texts: str, scope: Scope | None = None) -> None:
        """Each a minute after the one before."""
        for text in texts:
            self._messages += 1
            thing = Kept(kind="said", text=text, source="chat", person=ANN, message_id=self._messages)
            await self.keep(thing, scope or self.scope)
            self.clock.advance(60)

    async def keep(self, thing: Kept, scope: Scope) -> None:
        at = to_timestamp(self.clock.now())
        await self.database.write(lambda conn: rows.keep(conn, scope, [thing], self.memory.lexicon, at=at))

    async def swept(self) -> int:
        """Sweep once, while the clock moves on whenever the sweep pauses."""
        came: list[int] = []

        async def work() -> None:
            came.append(await self.sweep.sweep())

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(work)
            while not came:
                await until(lambda: bool(came or self.clock.sleepers))
                self.clock.advance(PAUSE_S)
                await until(lambda: bool(came) or not self.clock.woken)  # it may sleep again by now
        return came[0]

    async def recall(self, words: str) -> Sequence[str]:
        found = await self.memory.recall(words, self.scope, attribution=BILL, strategy="keyword", limit=1)
        return [item.text for item in found.items]

    async def left(self, scope: Scope | None = None) -> list[str]:
        return [
            item.text
            for item in await self.database.read(lambda conn: rows.everything(conn, ((scope or self.scope).own,)))
        ]


async def test_what_was_never_recalled_goes_first_the_oldest_before_the_newer(
    database: Database, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    place = Place(database, clock, 3)
    await place.said("the boat Albatross", "the train to Rome", "the cat Minka", "a garden in June", "the red car")
    assert await place.recall("Albatross") == ["the boat Albatross"]
    with caplog.at_level(logging.INFO, "tieline.memory"):
        assert await place.swept() == 2
    assert await place.left() == ["the boat Albatross", "a garden in June", "the red car"]
    assert await place.recall("Rome") == []
    assert sum(place.reported) == 2
    assert "2 of 5 messages and pieces of code evicted in person:telegram:77" in caplog.text
    assert await place.swept() == 0


async def test_of_what_was_recalled_the_worst_remembered_goes(database: Database, clock: FakeClock) -> None:
    place = Place(database, clock, 1)
    await place.said("the boat Albatross", "the train to Rome")
    for _ in range(9):
        await place.recall("Albatross")
    await place.memory.uses.flush()
    clock.advance(3600)
    await place.recall("Rome")
    await place.memory.uses.flush()
    clock.advance(259200)
    assert await place.swept() == 1
    assert await place.left() == ["the boat Albatross"], "often recalled outlives recalled once, an hour later"


async def test_facts_and_what_the_graph_was_read_from_stay(
    database: Database, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    place = Place(database, clock, 1)
    for source in ("person", "tool"):
        fact = Kept(kind="fact", text=f"Ann told the {source} of a boat", source=source)
        await place.memory.remember(place.scope, fact)
    await place.said("Ann sails with Ben", "the cat Minka", "the red car")

    def read_from(conn: Connection) -> None:
        id = conn.execute(select(memory.c.id).where(memory.c.text == "Ann sails with Ben")).scalar_one()
        own = {"audience": place.scope.own}
        ends = [
            conn.execute(insert(entity).values(name=name, key=name, **own).returning(entity.c.id)).scalar_one()
            for name in ("ann", "ben")
        ]
        edge = {"subject_id": ends[0], "word": "sails", "object_id": ends[1], "confidence": 1.0}
        conn.execute(insert(relation).values(memory_id=id, created_at=0, **edge, **own))

    await database.write(read_from)
    await place.swept()
    kept = ["Ann told the person of a boat", "Ann told the tool of a boat", "Ann sails with Ben"]
    assert await place.left() == kept
    place.settings = MemorySettings(eviction=EvictionSettings(max_entries=1))
    await place.said("a garden in June")
    await place.swept()
    assert await place.left() == kept


async def test_a_place_that_keeps_much_takes_nothing_from_others(database: Database, clock: FakeClock) -> None:
    place = Place(database, clock, 2)
    other = place.memory.scope(OTHER, "group", ANN)
    await place.said("the boat Albatross", "the cat Minka")
    await place.said(*(f"noise number {number}" for number in range(5)), scope=other)
    assert await place.swept() == 3
    assert await place.left() == ["the boat Albatross", "the cat Minka"]
    assert await place.left(other) == ["noise number 3", "noise number 4"]


async def test_as_shipped_nothing_goes_and_no_use_is_written(database: Database, clock: FakeClock) -> None:
    place = Place(database, clock, MemorySettings().eviction.max_entries)
    await place.said("the boat Albatross", "the cat Minka")
    assert await place.recall("Albatross")
    assert await place.swept() == 0
    assert (
        await database.read(lambda conn: conn.execute(select(func.count()).select_from(memory_use)).scalar_one()) == 0
    )
    assert len(await place.left()) == 2


async def test_many_go_in_short_transactions_with_pauses(sqlite_database: Database, clock: FakeClock) -> None:
    place = Place(sqlite_database, clock, 1)
    await place.said(*(f"line {number} of a long talk" for number in range(2 * BATCH + 2)))
    assert await place.swept() == 2 * BATCH + 1
    assert place.reported == [BATCH, BATCH, 1]


async def test_it_comes_every_hour_and_writes_uses_in_between(database: Database, clock: FakeClock) -> None:
    place = Place(database, clock, 1)
    await place.said("the boat Albatross", "the cat Minka")
    await place.recall("Albatross")

    async def uses() -> int:
        count = select(func.coalesce(func.sum(memory_use.c.uses), 0))
        return int(await database.read(lambda conn: conn.execute(count).scalar_one()))

    async def written() -> bool:
        return await uses() == 1

    async with running(place.sweep.run):
        await until(lambda: clock.sleepers == 1)
        clock.advance(TICK_S)
        await until(written)
        await until(lambda: clock.sleepers == 1)
        assert len(await place.left()) == 2, "its hour has not come"
        clock.advance(place.settings.eviction.sweep_interval_secs)
        await until(lambda: place.reported == [1])
    assert await place.left() == ["the boat Albatross"]
    (id,) = await database.read(lambda conn: conn.execute(select(memory.c.id)).scalars().all())
    assert await database.write(lambda conn: rows.remove(conn, [id])) == 1, "a use keeps nothing from being forgotten"
    assert await uses() == 0


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"max_entries": -1}, "max_entries is -1; it must be 0 (off) or more"),
        ({"sweep_interval_secs": 0.0}, "sweep_interval_secs is 0.0; it must be 1 or more"),
    ],
)
def test_impossible_settings_are_refused(values: dict[str, float], told: str) -> None:
    with pytest.raises(ValueError, match="must be") as refused:
        EvictionSettings(**values)  # type: ignore[arg-type]
    assert told in str(refused.value)
