"""Events for other programs: who is told, what was sent, waits or was given up; a test, and another try."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import get_args

from sqlalchemy import Connection
from starlette.requests import Request

from agent.core.ids import ConversationId
from agent.core.phrases import counted
from agent.storage.database import Database
from agent.storage.timestamps import from_timestamp
from gateway.config.events import EventSettings
from gateway.dashboard.frame.listing import PAGE, asked, listing
from gateway.dashboard.frame.shell import Done, Entry, Page, action, view
from gateway.events.deliveries import subject_of
from gateway.events.subscriptions import Subscriptions
from gateway.operations.event_deliveries import EventOperations
from gateway.storage import conversation_list, event_rows
from gateway.storage.event_rows import EventRow, State
from gateway.telemetry.trouble import Trouble, Troubles
from gateway.web.control import OperationError

STATES: Mapping[State, str] = {"open": "waits", "sent": "delivered", "given_up": "given up"}
_LOOKS: Mapping[State, str] = {"open": "reconnecting", "sent": "connected", "given_up": "failed"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownSubscription:
    """A subscription as the page shows it; `entry` is its place in the configuration. Without secret and address."""

    settings: EventSettings
    entry: int
    is_on: bool
    trouble: Trouble | None
    counts: Mapping[State, int]
    last_sent_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownEvent:
    """An event as the page shows it, without what it says. `next_at`: when it is tried again."""

    row: EventRow
    state: str
    look: str
    why: str
    at: datetime
    next_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EventPages:
    """The page of the subscriptions and events, and what may be done to them."""

    subscriptions: Subscriptions
    operations: EventOperations
    database: Database
    troubles: Troubles
    redact: Callable[[str], str]

    @property
    def entries(self) -> Sequence[Entry]:
        """Its routes."""
        return (
            view("/programs/events", self.all),
            action("/programs/events/test/{name}", self.test, name="programs.events_test"),
            action("/programs/events/on/{name}", self.switch_on, name="programs.events_on"),
            action("/programs/events/retry/{id:int}", self.retry, name="programs.events_retry"),
            action("/programs/events/retry-all/{name}", self.retry_all, name="programs.events_retry"),
        )

    async def waiting(self) -> int:
        """How many were given up."""
        return await self.database.read(event_rows.given_up)

    async def all(self, request: Request) -> Page:
        """The subscriptions, and their events by pages."""
        configured = self.subscriptions.all
        look = asked(request.query_params, filters={"to": (), "state": get_args(State)})
        state: State | None = next((one for one in get_args(State) if one == look.chosen["state"]), None)
        troubles = {one.subject: one for one in self.troubles.open if one.kind == "delivery"}

        def read(
            conn: Connection,
        ) -> tuple[Sequence[ShownSubscription], Sequence[EventRow], Mapping[ConversationId, str]]:
            counts = event_rows.counts(conn)
            rows = event_rows.newest(conn, subscription=look.chosen["to"], state=state, most=PAGE + 1, skip=look.skip)
            names = conversation_list.names(conn, {ConversationId(row.conversation) for row in rows})
            return [self._subscription(conn, one, counts, troubles) for one in configured], rows, names

        shown, rows, names = await self.database.read(read)
        values = {
            "subscriptions": shown,
            "listing": listing(rows, look),
            "events": [self._shown(row) for row in rows[:PAGE]],
            "states": STATES,
            "names": names,
            # Those whose section is gone have rows, too.
            "receivers": sorted({one.name for one in configured} | set(filter(None, [look.chosen["to"]]))),
        }
        return Page(template="events.html", values=values, live=True)

    async def test(self, request: Request) -> Done:
        """Send a test now. Raises OperationError where it was not taken."""
        name = request.path_params["name"]
        outcome = await self.operations.test({"name": name})
        told = f"{outcome['where']}: {outcome['text']}."
        if not outcome["is_sent"]:
            raise OperationError(told)
        return Done(text=f"The test has arrived. {told}", subject=name)

    async def switch_on(self, request: Request) -> Done:
        """Tell a receiver again that had answered 410 Gone."""
        name = request.path_params["name"]
        await self.operations.switch_on({"name": name})
        return Done(text=f"{name} is told of events again.", subject=name)

    async def retry(self, request: Request) -> Done:
        """Try one again that waits or was given up."""
        id = request.path_params["id"]
        try:
            done = await self.operations.retry({"id": id})
        except OperationError:
            raise OperationError("it was delivered or removed meanwhile") from None
        (name,) = done["subscriptions"]
        return Done(text=f"The event is sent to {name} again.", subject=name, detail=f"{id}")

    async def retry_all(self, request: Request) -> Done:
        """Try all again that were given up for one subscription."""
        name = request.path_params["name"]
        try:
            done = await self.operations.retry({"subscription": name})
        except OperationError:
            raise OperationError(f"no event to {name} was given up") from None
        count = done["events"]
        verb = "is" if count == 1 else "are"
        return Done(text=f"{counted(count, 'event')} {verb} sent to {name} again.", subject=name, detail=f"{count}")

    def _subscription(
        self,
        conn: Connection,
        one: EventSettings,
        counts: Mapping[tuple[str, State], int],
        troubles: Mapping[str, Trouble],
    ) -> ShownSubscription:
        last_sent = event_rows.last_sent(conn, one.name)
        return ShownSubscription(
            settings=one,
            entry=self.subscriptions.all.index(one),
            is_on=self.subscriptions.is_on(one),
            trouble=troubles.get(subject_of(one.name)),
            counts={state: counts.get((one.name, state), 0) for state in STATES},
            last_sent_at=from_timestamp(last_sent) if last_sent is not None else None,
        )

    def _shown(self, row: EventRow) -> ShownEvent:
        return ShownEvent(
            row=row,
            state=STATES[row.state],
            look=_LOOKS[row.state],
            why=self.redact(row.error),
            at=from_timestamp(row.created_at),
            next_at=from_timestamp(row.due_at) if row.state == "open" and row.attempts else None,
        )
