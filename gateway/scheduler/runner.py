"""Keeps schedules going: waits until the next is due, acts on it, looks how it went. The table is the truth.

Any number of processes may run it on one database: rows are locked while they are acted on, and the ledger's unique key
decides. It has two jobs of APScheduler, so ten thousand schedules cost as much as one: a date job at the
earliest moment, and an interval job for all that cannot be known before. The interval job asks our clock; the table is
read when a moment has come, a run is under way, something was changed here, or it was not read for a while.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import TypeVar

from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from agent.core.clock import Clock
from agent.core.failpoints import failpoint
from agent.core.ids import ConversationId
from agent.storage.database import Database
from agent.storage.errors import StorageError, StorageTrouble
from agent.storage.timestamps import from_timestamp, to_timestamp
from gateway.scheduler import store
from gateway.scheduler.firing import Done, FiringDeps, Settled, act, compute, guarded, settle
from gateway.scheduler.ledger import Outcome
from gateway.scheduler.process_scheduler import PeriodicWakeEvent, ProcessScheduler
from gateway.scheduler.schedule import Schedule

T = TypeVar("T")

LOOK_EVERY_S = 1.0  # at the latest: a clock that was set forward is noticed so soon
READ_EVERY_S = 15.0  # at the latest: what another process changed is noticed so soon
SETTLE_EVERY_S = 1.0  # while runs are under way
BATCH = 50  # schedules acted on in one transaction
TROUBLE_PAUSE_S = 2.0

_log = logging.getLogger("tieline.scheduler")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Acted:
    """`left`: there is more to act on. `earliest` is the next moment, in UTC microseconds."""

    left: bool
    earliest: int | None


class Runner:
    """One for the process. `deliver` and `work` are called when rows of the outbox, of the inbox were committed."""

    def __init__(
        self,
        database: Database,
        clock: Clock,
        scheduler: ProcessScheduler,
        *,
        deps: Callable[[], FiringDeps],
        deliver: Callable[[ConversationId], None],
        work: Callable[[ConversationId], None],
        fired: Callable[[Outcome, float], None],
        turned_off: Callable[[Schedule], None],
        look_every_s: float = LOOK_EVERY_S,
    ) -> None:
        """`fired` counts outcomes, with the seconds after their moments; `turned_off` tells the owner."""
        self._database = database
        self._clock = clock
        self._scheduler = scheduler
        self._deps = deps
        self._deliver = deliver
        self._work = work
        self._fired = fired
        self._turned_off = turned_off
        self._look_every_s = look_every_s
        self._wake_event: PeriodicWakeEvent | None = None  # while it runs
        self._settled = Settled(True)  # some may be under way: the first look tells
        self._settled_at = float("-inf")
        self._earliest: datetime | None = None
        self._read_at = float("-inf")

    def look(self) -> None:
        """Something was changed: when to wake up next may be another moment."""
        self._settled = Settled(True, self._settled.after)  # a run may have been started by hand
        if self._wake_event is not None:
            self._wake_event.set()

    async def run(self) -> None:
        """Until cancelled. What the database refuses is tried again."""
        with self._scheduler.wake_event("schedules", every_s=self._look_every_s) as self._wake_event:
            woken = True
            while True:
                if woken or self._is_due():
                    await self._look(self._wake_event)
                woken = await self._wake_event.wait()

    def _is_due(self) -> bool:
        """Whether the table has to be read, by our clock."""
        if self._settled.still or self._clock.monotonic() - self._read_at >= READ_EVERY_S:
            return True
        return self._earliest is not None and self._earliest <= self._clock.now()

    async def _look(self, wake_event: PeriodicWakeEvent) -> None:
        try:
            self._earliest = await self.step()
        except (StorageTrouble, StorageError, SQLAlchemyError) as error:
            _log.warning("schedules wait for the storage: %s", error)
            self._read_at = float("-inf")
            await self._clock.sleep(TROUBLE_PAUSE_S)
            return
        self._read_at = self._clock.monotonic()
        if self._earliest is not None:
            wake_event.set_at(self._earliest)

    async def step(self) -> datetime | None:
        """Act on everything that is due; the moment before which nothing will be, None when nothing is set."""
        if not self._deps().settings.enabled:
            return None
        while True:
            done, acted = await self._commit(self._act)
            if done:
                self._settled = Settled(True, self._settled.after)
            if not acted.left:
                break
        if self._settled.still and self._clock.monotonic() - self._settled_at >= SETTLE_EVERY_S:
            self._settled_at = self._clock.monotonic()
            before = self._settled
            _, settled = await self._commit(self._settle)
            self._settled = settled if self._settled is before else Settled(True, settled.after)
        return None if acted.earliest is None else from_timestamp(acted.earliest)

    async def _commit(self, work: Callable[[Connection, Done], T]) -> tuple[bool, T]:
        """Run it in a transaction, then tell what it did; whether it fired anything, and what it returned."""
        done = Done()
        returned = await self._database.write(partial(self._fresh, work, done))
        if done.outcomes:
            failpoint("schedule.after")
        for conversation in done.deliver:
            self._deliver(conversation)
        for conversation in done.work:
            self._work(conversation)
        for outcome, after_s in done.outcomes:
            self._fired(outcome, after_s)
        for schedule in done.turned_off:
            _log.warning("schedule %d of %s was turned off", schedule.id, schedule.conversation)
            self._turned_off(schedule)
        return bool(done.outcomes), returned

    @staticmethod
    def _fresh(work: Callable[[Connection, Done], T], done: Done, conn: Connection) -> T:
        """A transaction may be tried again: nothing of the try before it counts."""
        done.clear()
        return work(conn, done)

    def _act(self, conn: Connection, done: Done) -> _Acted:
        now, around = self._clock.now(), self._deps()
        for schedule in store.uncomputed(conn, now=to_timestamp(now), most=BATCH):
            guarded(conn, schedule.id, now, partial(compute, conn, schedule, now))
        found = store.due(conn, now=to_timestamp(now), most=BATCH)
        for schedule in found:
            guarded(conn, schedule.id, now, partial(act, conn, schedule, now, around, done))
        if done.outcomes:
            failpoint("schedule.within")
        return _Acted(left=len(found) == BATCH, earliest=store.earliest(conn))

    def _settle(self, conn: Connection, done: Done) -> Settled:
        return settle(conn, self._clock.now(), self._deps(), done, after=self._settled.after)
