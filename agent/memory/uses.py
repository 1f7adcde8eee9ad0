"""Counts of how often kept things were found again, by which the sweep decides. Noted at once, written later."""

import logging
from collections import Counter
from collections.abc import Iterable, Mapping

from sqlalchemy import Connection, insert, select, update
from sqlalchemy.exc import SQLAlchemyError

from agent.core.clock import Clock
from agent.memory.records import Audience, Item
from agent.memory.rows import chunks
from agent.storage.database import Database
from agent.storage.errors import StorageError
from agent.storage.statements import or_ignore
from agent.storage.tables import memory, memory_use
from agent.storage.timestamps import to_timestamp

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
