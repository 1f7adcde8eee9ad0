"""Flood limit on the messages of one person in one place, who may write in several conversations there (G-169).

One process counts in memory. Where several workers take messages in, the threads and topics of a place may be at
different ones: then the database counts.
"""

from collections.abc import Callable
from dataclasses import dataclass

from sqlalchemy import Connection

from agent.core.clock import Clock
from agent.storage.database import Database
from gateway.access.policy import Flood, Take
from gateway.router.ports import Arrival
from gateway.storage import rate_buckets

MINUTE_S = 60


@dataclass(frozen=True, slots=True)
class _Counted:
    """In memory, against this limit."""

    limit: int
    flood: Flood


class FloodLimit:
    """`limit` gives the messages a minute, `workers` the processes that take messages in."""

    def __init__(
        self, database: Database, clock: Clock, *, limit: Callable[[], int], workers: Callable[[], int]
    ) -> None:
        self._database = database
        self._clock = clock
        self._limit = limit
        self._workers = workers
        self._here: _Counted | None = None

    @property
    def is_shared(self) -> bool:
        """Whether the database counts."""
        return self._workers() > 1

    async def take(self, arrival: Arrival) -> Take:
        """Count it."""
        if self.is_shared:
            return await self._database.write(lambda conn: self.take_within(conn, arrival))
        limit = self._limit()
        if self._here is None or self._here.limit != limit:  # it begins anew when the setting changes
            self._here = _Counted(limit, Flood(per_s=limit / MINUTE_S, burst=limit))
        return self._here.flood.take((arrival.person, arrival.said.place), self._clock.monotonic())

    def take_within(self, conn: Connection, arrival: Arrival) -> Take:
        """Count it in the database, in the transaction that stores it."""
        limit = self._limit()
        name = f"flood {limit} {arrival.person} {arrival.said.place}"
        refused = rate_buckets.count(conn, name, per_s=limit / MINUTE_S, burst=limit)
        return (Take.TAKEN, Take.REFUSED_FIRST)[refused] if refused < 2 else Take.REFUSED
