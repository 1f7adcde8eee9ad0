"""The sweep of the memory: it removes from a place what exceeds the limit, the least used first, by counts of uses.

Facts stay: people asked for them, or the agent found them worth it. So does what the graph was read from. Transcripts
are never touched: only recall finds no more what was evicted.
"""

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial

from sqlalchemy import Connection, func, insert, select, update
from sqlalchemy.exc import SQLAlchemyError

from agent.core.clock import Clock
from agent.memory import rows
from agent.memory.ranking import decay
from agent.memory.records import Audience, Item
from agent.memory.rows import chunks
from agent.memory.settings import EvictionSettings
from agent.storage.database import Database
from agent.storage.errors import StorageError
from agent.storage.statements import or_ignore
from agent.storage.tables import memory, memory_use, relation
from agent.storage.timestamps import to_timestamp

GOES = ("said", "code")
TICK_S = 30.0  # so often uses are written, and it is looked whether a sweep is due
BATCH, PAUSE_S = 100, 0.2  # things of one transaction, and the pause that lets turns in between

MOST_WAITING = 4_096  # things; more are not counted until these are written

_FIRST = or_ignore(insert(memory_use))
log = logging.getLogger("tieline.memory")


class UseLog:
    """Counts uses in memory until `flush`; one that is lost costs its thing a little of its life."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._waiting: Counter[int] = Counter()

    def note(self, items: Iterable[Item]) -> None:
        """These were found and shown. Never waits and never raises; facts, which never go, are not counted."""
        for item in items:
            if item.kind != "fact" and (item.id in self._waiting or len(self._waiting) < MOST_WAITING):
                self._waiting[item.id] += 1

    async def flush(self) -> None:
        """Write what waits; what the database does not take is given up."""
        waiting, self._waiting = self._waiting, Counter()
        if not waiting:
            return
        at = to_timestamp(self._clock.now())
        try:
            await self._database.write(lambda conn: _add(conn, waiting, at))
        except (StorageError, SQLAlchemyError) as error:
            log.warning("uses of %d kept things were not counted: %s", len(waiting), str(error).partition("\n")[0])


def _add(conn: Connection, uses: Mapping[int, int], at: int) -> None:
    for ids in chunks(sorted(uses)):
        # A thing forgotten meanwhile has no row, and gets none.
        known = conn.execute(select(memory.c.id, memory.c.audience).where(memory.c.id.in_(ids))).all()
        for id, audience in known:
            conn.execute(_FIRST, {"memory_id": id, "audience": Audience(audience), "uses": 0, "at": at})
            counted = update(memory_use).where(memory_use.c.memory_id == id)
            conn.execute(counted.values(uses=memory_use.c.uses + uses[id], at=at))


@dataclass(frozen=True, slots=True)
class _Thing:
    """One that may go. `at` in UTC microseconds: when it was used last, or kept."""

    id: int
    uses: int
    at: int


class Sweep:
    """Runs beside everything else. `evicted` is told how many things went."""

    def __init__(
        self,
        database: Database,
        clock: Clock,
        *,
        uses: UseLog,
        settings: Callable[[], EvictionSettings],
        evicted: Callable[[int], None],
    ) -> None:
        self._database = database
        self._clock = clock
        self._uses = uses
        self._settings = settings
        self._evicted = evicted

    async def run(self) -> None:
        """Write uses and sweep when it is time, until cancelled; a failure waits for the next time."""
        swept = self._clock.monotonic()
        while True:
            await self._clock.sleep(TICK_S)
            await self._uses.flush()
            if self._clock.monotonic() - swept < self._settings().sweep_interval_secs:
                continue
            swept = self._clock.monotonic()
            try:
                await self.sweep()
            except (StorageError, SQLAlchemyError) as error:
                log.warning("the memory was not swept: %s", str(error).partition("\n")[0])

    async def sweep(self) -> int:
        """Once through all places; returns how many things went. Raises StorageError or SQLAlchemyError."""
        most = self._settings().max_entries
        if not most:
            return 0
        await self._uses.flush()
        total = 0
        for audience, count in await self._database.read(partial(_too_many, most=most)):
            gone = await self._shorten(audience, count - most)
            total += gone
            log.info("memory swept: %d of %d messages and pieces of code evicted in %s", gone, count, audience)
            if gone < count - most:
                log.info("%d more stay in %s: the graph was read from them", count - most - gone, audience)
        return total

    async def _shorten(self, audience: Audience, excess: int) -> int:
        gone = 0
        while gone < excess:
            now = to_timestamp(self._clock.now())
            ids = await self._database.read(partial(_worst, audience=audience, most=min(BATCH, excess - gone), now=now))
            removed = await self._database.write(partial(rows.remove, ids=ids)) if ids else 0
            if not removed:
                break
            self._evicted(removed)
            gone += removed
            await self._clock.sleep(PAUSE_S)
        return gone


def _too_many(conn: Connection, *, most: int) -> list[tuple[Audience, int]]:
    """The places that have kept more than so many things, and how many."""
    counts = (
        select(memory.c.audience, func.count())
        .where(memory.c.kind.in_(GOES))
        .group_by(memory.c.audience)
        .having(func.count() > most)
    )
    return [(Audience(audience), int(count)) for audience, count in conn.execute(counts)]


def _worst(conn: Connection, *, audience: Audience, most: int, now: int) -> list[int]:
    """The ids of those that are remembered worst, at most so many.

    Of what was never used the oldest are enough to look at; what was used is read whole, and is seldom much.
    """
    holds_graph = select(relation.c.id).where(relation.c.memory_id == memory.c.id).exists()
    things: list[_Thing] = []
    for kind in GOES:  # one by one: the index goes by it
        unused = (
            select(memory.c.id, memory.c.created_at)
            .outerjoin(memory_use, memory_use.c.memory_id == memory.c.id)
            .where(memory.c.audience == audience, memory.c.kind == kind, memory_use.c.memory_id.is_(None), ~holds_graph)
            .order_by(memory.c.id)
            .limit(most)
        )
        things += [_Thing(row.id, 0, row.created_at) for row in conn.execute(unused)]
    used = (
        select(memory.c.id, memory_use.c.uses, memory_use.c.at)
        .join_from(memory_use, memory, memory.c.id == memory_use.c.memory_id)
        .where(memory_use.c.audience == audience, memory.c.kind.in_(GOES), ~holds_graph)
    )
    things += [_Thing(row.id, row.uses, row.at) for row in conn.execute(used)]
    things.sort(key=lambda thing: (-decay((now - thing.at) / 1e6, thing.uses), thing.id))
    return [thing.id for thing in things[:most]]
