"""Budgets that refused a call, until their events are on disk: with the refused turn's commit, else a little later."""

import logging
from collections.abc import Sequence

import anyio
from sqlalchemy import Connection

from agent.core.bounded_map import BoundedMap
from agent.core.clock import Clock
from agent.core.events import BudgetReached, Published
from agent.core.ids import ConversationId
from agent.storage.database import Database
from agent.storage.errors import StorageTrouble
from agent.storage.timestamps import to_timestamp
from gateway.events.event import Event, budget_reached
from gateway.events.subscriptions import Subscriptions

WRITTEN_WITHIN_S = 5.0  # what no turn's commit has taken along by then is written by itself
REMEMBERED = 500  # budgets; each later refusal by the same one is no event

_log = logging.getLogger("tieline.events")


class BudgetEvents:
    """Hears of refusals. A process that is killed before one is written meets it again when the turn is done anew."""

    def __init__(self, subscriptions: Subscriptions, database: Database, clock: Clock) -> None:
        self._subscriptions = subscriptions
        self._database = database
        self._clock = clock
        self._told: BoundedMap[str, bool] = BoundedMap(REMEMBERED)
        self._unwritten: dict[str, Event] = {}
        self._anything = anyio.Event()

    def heard(self, published: Published) -> None:
        """Note a refusal that is the first of its budget."""
        refused = published.event
        if not isinstance(refused, BudgetReached) or not refused.hard:
            return
        if not self._subscriptions.hear("budget.reached"):
            return
        event = budget_reached(refused, at=to_timestamp(self._clock.now()))
        if event.key not in self._told:
            self._told[event.key] = True
            self._unwritten[event.key] = event
            self._anything.set()

    def write(self, conn: Connection, conversation: ConversationId) -> Sequence[str]:
        """Write the events of refusals there; their names, for `written`."""
        found = [(key, event) for key, event in tuple(self._unwritten.items()) if event.conversation == conversation]
        for _, event in found:
            self._subscriptions.add(conn, event)
        return [key for key, _ in found]

    def written(self, keys: Sequence[str]) -> None:
        """They are on disk."""
        for key in keys:
            self._unwritten.pop(key, None)

    async def run(self) -> None:
        """Write what no turn has written, until cancelled."""
        while True:
            await self._anything.wait()
            self._anything = anyio.Event()
            await self._clock.sleep(WRITTEN_WITHIN_S)
            await self.flush()

    async def flush(self) -> None:
        """Write all there is; what the disk does not take is kept."""
        events = dict(self._unwritten)
        if not events:
            return

        def write(conn: Connection) -> None:
            for event in events.values():
                self._subscriptions.add(conn, event)

        try:
            await self._database.write(write)
        except StorageTrouble as error:
            _log.warning("events of budgets are written later: %s", error)
            self._anything.set()
            return
        self.written(tuple(events))
        self._subscriptions.committed()
