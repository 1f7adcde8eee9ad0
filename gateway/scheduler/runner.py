"""Keeps schedules going: sleeps until the next is due, acts on it, looks how it went. The table is the truth.

Any number of processes may run it on one database: rows are locked while they are acted on, and the ledger's unique key
decides. It holds no timer for each schedule, so ten thousand cost as much as one.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import anyio
from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from agent.core.clock import Clock
from agent.core.ids import ConversationId
from agent.storage.database import Database
from agent.storage.errors import StorageError, StorageTrouble
from agent.storage.timestamps import from_timestamp, to_timestamp
from gateway.scheduler import store
from gateway.scheduler.firing import Done, FiringDeps, Settled, act, compute, guarded, settle
from gateway.scheduler.ledger import Outcome
from gateway.scheduler.schedule import Schedule

T = TypeVar("T")

LOOK_EVERY_S = 1.0  # at the latest: a clock that was set forward is noticed so soon
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
        *,
        deps: Callable[[], FiringDeps],
        deliver: Callable[[ConversationId], None],
        work: Callable[[ConversationId], None],
        fired: Callable[[Outcome, float], None],
        turned_off: Callable[[Schedule], None],
    ) -> None:
        """`fired` counts outcomes, with the seconds after their moments; `turned_off` tells the owner."""
        self._database = database
        self._clock = clock
        self._deps = deps
        self._deliver = deliver
        self._work = work
        self._fired = fired
        self._turned_off = turned_off
        self._stage = anyio.Event()
        self._settled = Settled(True)  # some may be under way: the first look tells
        self._settled_at = float("-inf")

    def look(self) -> None:
        """Something was changed: when to wake up next may be another moment."""
        self._settled = Settled(True, self._settled.after)  # a run may have been started by hand
        self._stage.set()

    async def run(self) -> None:
        """Until cancelled. What the database refuses is tried again."""
        while True:
            self._stage = anyio.Event()
            try:
                wait_s = await self.step()
            except (StorageTrouble, StorageError, SQLAlchemyError) as error:
                _log.warning("schedules wait for the storage: %s", error)
                wait_s = TROUBLE_PAUSE_S
            await self._rest(wait_s)

    async def step(self) -> float:
        """Act on everything that is due; for how many seconds nothing will be."""
        if not self._deps().settings.enabled:
            return LOOK_EVERY_S
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
        if acted.earliest is None:
            return LOOK_EVERY_S
        wait_s = (from_timestamp(acted.earliest) - self._clock.now()).total_seconds()
        return min(max(wait_s, 0.0), LOOK_EVERY_S)

    async def _commit(self, work: Callable[[Connection, Done], T]) -> tuple[bool, T]:
        """Run it in a transaction, then tell what it did; whether it fired anything, and what it returned."""
        done = Done()
        returned = await self._database.write(partial(self._fresh, work, done))
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
        return _Acted(left=len(found) == BATCH, earliest=store.earliest(conn))

    def _settle(self, conn: Connection, done: Done) -> Settled:
        return settle(conn, self._clock.now(), self._deps(), done, after=self._settled.after)

    async def _rest(self, seconds: float) -> None:
        """For so long, or until somebody calls `look`."""
        stage = self._stage
        async with anyio.create_task_group() as group:

            async def sleep() -> None:
                await self._clock.sleep(seconds)
                group.cancel_scope.cancel()

            group.start_soon(sleep)
            await stage.wait()
            group.cancel_scope.cancel()
