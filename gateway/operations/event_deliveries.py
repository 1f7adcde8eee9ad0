"""The operator's commands on events for other programs: the unsent ones, a test, a new begin."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from sqlalchemy import Connection

from agent.core.clock import Clock
from agent.storage.database import Database
from agent.storage.timestamps import to_timestamp
from gateway.events.deliveries import again_until, unsent
from gateway.operations.callbacks import OperationCallbacks
from gateway.storage import event_rows
from gateway.web.control import OperationError as Refusal

SHOWN = 200
LISTS = "`tieline events` lists what was given up or waits"

Json = Any


@dataclass(frozen=True, slots=True)
class EventOperations:
    """Over one open database."""

    database: Database
    clock: Clock
    callbacks: OperationCallbacks

    def table(self) -> Mapping[str, Callable[[Mapping[str, Json]], Awaitable[Json]]]:
        """By the names that `tieline` uses."""
        return {
            "events.list": self.list,
            "events.retry": self.retry,
            "events.test": self.test,
            "events.on": self.switch_on,
        }

    async def list(self, _: Mapping[str, Json]) -> Json:
        """Events that wait or were given up, newest first."""
        return unsent(await self.database.read(partial(event_rows.unsent, most=SHOWN)))

    async def retry(self, arguments: Mapping[str, Json]) -> Json:
        """Send one again by its number; without one all that were given up, or those of one subscription."""
        number, name = arguments.get("id"), str(arguments.get("subscription") or "")
        now = self.clock.now()
        at, until = to_timestamp(now), again_until(now)

        def write(conn: Connection) -> Sequence[str]:
            if number is None:
                return event_rows.retry_all(conn, now=at, until=until, subscription=name)
            found = event_rows.retry(conn, int(number), now=at, until=until)
            return [found] if found is not None else []

        found = await self.database.write(write)
        if not found:
            raise Refusal("no event was given up" if number is None else f"no event {number} waits", fix=LISTS)
        await self._retried()
        return {"events": len(found), "subscriptions": sorted(set(found))}

    async def test(self, arguments: Mapping[str, Json]) -> Json:
        """Send a test to a subscription now; what its receiver answered."""
        if self.callbacks.test_event is None:
            raise Refusal("no gateway runs, and it is the gateway that sends events", fix="start it with `tieline run`")
        name = str(arguments["name"])
        outcome = await self.callbacks.test_event(name)
        if outcome is None:
            raise Refusal(f"there is no [[events]] section called {name!r}", fix="`tieline config show` shows them")
        return asdict(outcome)

    async def switch_on(self, arguments: Mapping[str, Json]) -> Json:
        """Tell a receiver again that had answered 410 Gone."""
        name = str(arguments["name"])
        if not await self.database.write(partial(event_rows.switch_on, subscription=name)):
            raise Refusal(f"{name!r} is not switched off")
        await self._retried(name)
        return {"name": name}

    async def _retried(self, switched_on: str = "") -> None:
        if self.callbacks.events_retried is not None:
            await self.callbacks.events_retried(switched_on)
