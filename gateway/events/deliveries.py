"""Deliveries of events: each until its receiver has taken it, in order, or a day is over. One loop per subscription."""

import logging
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from importlib import import_module
from typing import Literal, Protocol

import anyio
from sqlalchemy import Connection

from agent.core.backoff import Backoff
from agent.core.clock import Clock
from agent.core.ids import random_uuid
from agent.core.phrases import counted
from agent.storage.database import Database
from agent.storage.errors import StorageTrouble
from agent.storage.timestamps import from_timestamp, to_timestamp
from gateway.config.events import EventSettings
from gateway.config.settings import Settings
from gateway.events.event import Event, test_of
from gateway.events.subscriptions import GIVEN_UP_AFTER, Subscriptions, digest_of
from gateway.receivers.email import NotSent
from gateway.receivers.receivers import Outcome
from gateway.scheduler.process_scheduler import PeriodicWakeEvent, ProcessScheduler
from gateway.storage import event_rows
from gateway.storage.event_rows import EventRow
from gateway.telemetry.trouble import Troubles

LOOK_EVERY_S = 10.0
RETRIES = Backoff(first_s=5.0, longest_s=3600.0, jitter=0.25)
LONGEST_ASKED_S = 6 * 3600.0  # a longer `Retry-After` counts as this
MOST_WAITING = 10_000  # events of one subscription; where it takes none, the oldest beyond are given up
DAYS = 7  # what was sent or given up is kept so long
BUDGET_DAYS = 35  # longer than any budget's period: the row is what keeps the event from being told again
PAUSE_S = 0.2  # between two steps of the upkeep
GIVEN_UP = "events given up"  # subject of the trouble

# Answers about this one event, and not about the receiver: those behind it need not wait for it.
REFUSED = frozenset({400, 409, 413, 415, 422})
GONE = 410  # https://github.com/standard-webhooks/standard-webhooks: the receiver wants no more of them

Verdict = Literal["sent", "gone", "refused", "later"]

_log = logging.getLogger("tieline.events")


class Answer(Protocol):
    """The answer of a receiver, as `gateway.receivers.http_post` gives it."""

    @property
    def status(self) -> int: ...
    @property
    def after_s(self) -> float | None: ...


class Calls(Protocol):
    """The way to the receivers: `gateway.events.request.Caller`, which is loaded with the first event."""

    async def call(
        self, subscription: EventSettings, message: str, body: str, at: datetime, *, proxy: str | None
    ) -> Answer:
        """The answer to one try. Raises NotSent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """The result of one try: its verdict, the reason for a failure, and the wait that the receiver asks for."""

    verdict: Verdict
    why: str = ""
    asked_s: float = 0.0


def tried(answer: Answer, host: str) -> Tried:
    """The meaning of an answer. Redirects are failures like any other status."""
    why = f"{host} answered with status {answer.status}"
    if 200 <= answer.status < 300:
        return Tried(verdict="sent", why=why)
    if answer.status == GONE:
        return Tried(verdict="gone", why=why)
    asked_s = min(answer.after_s or 0.0, LONGEST_ASKED_S)
    return Tried(verdict="refused" if answer.status in REFUSED else "later", why=why, asked_s=asked_s)


class Deliveries:
    """Sends the rows of `subscriptions`. `tell` says a sentence of the catalogue to the owners.

    `days` is how long rows are kept that were sent or given up.
    """

    def __init__(
        self,
        *,
        database: Database,
        clock: Clock,
        scheduler: ProcessScheduler,
        troubles: Troubles,
        subscriptions: Subscriptions,
        proxy: Callable[[], str | None],
        redact: Callable[[str], str],
        tell: Callable[[str, dict[str, object]], None],
        days: Callable[[], int] = lambda: DAYS,
        calls: Calls | None = None,
    ) -> None:
        self._database = database
        self._clock = clock
        self._scheduler = scheduler
        self._troubles = troubles
        self._subscriptions = subscriptions
        self._proxy = proxy
        self._redact = redact
        self._tell = tell
        self._days = days
        self._calls = calls
        self._failures: dict[str, int] = {}  # in a row, by subscription
        self._corrected = set[str]()  # subscriptions that the configuration may have mended
        self._seen: Mapping[str, EventSettings] = {}
        self._changed = anyio.Event()
        self._wake_events: dict[str, PeriodicWakeEvent] = {}  # of each subscription, while its loop runs
        subscriptions.connect(self.wake)

    def wake(self) -> None:
        """Rows were written, or are due: look now."""
        for wake_event in self._wake_events.values():
            wake_event.set()

    def reloaded(self, _: Settings) -> None:
        """The configuration has changed: what could not be sent to a changed address is tried at once."""
        fresh = {one.name: one for one in self._subscriptions.all}
        self._corrected |= {name for name, one in fresh.items() if self._seen.get(name) != one}
        self._seen = fresh
        self._changed.set()
        self.wake()

    async def run(self) -> None:
        """Send what is due, until cancelled; a subscription that fails holds up no other."""
        await self._look_at_given_up()
        self._seen = {one.name: one for one in self._subscriptions.all}
        async with anyio.create_task_group() as tasks:
            loops: dict[str, anyio.CancelScope] = {}
            while True:
                self._changed = anyio.Event()
                names = {one.name for one in self._subscriptions.all}
                for name in loops.keys() - names:
                    loops.pop(name).cancel()
                    self._troubles.over("delivery", subject_of(name))
                for name in sorted(names - loops.keys()):
                    loops[name] = anyio.CancelScope()
                    tasks.start_soon(self._keep_sending, name, loops[name])
                await self._changed.wait()

    async def _keep_sending(self, name: str, scope: anyio.CancelScope) -> None:
        """Loop of one subscription; a write that the disk refuses is tried again."""
        with scope, self._scheduler.wake_event(subject_of(name), every_s=LOOK_EVERY_S) as wake_event:
            self._wake_events[name] = wake_event
            try:
                while True:
                    try:
                        due = await self.send_due(name)
                        if due is not None:
                            wake_event.set_at(from_timestamp(due))
                    except StorageTrouble as error:
                        _log.warning("events cannot be sent now: %s", error)
                    await wake_event.wait()
            finally:
                if self._wake_events.get(name) is wake_event:
                    del self._wake_events[name]

    async def send_due(self, name: str) -> int | None:
        """Send all that is due for it; gives when the next one is, None: nothing waits. Raises StorageTrouble."""
        if name in self._corrected:
            at = to_timestamp(self._clock.now())
            await self._database.write(partial(event_rows.due_now, subscription=name, now=at))
            self._corrected.discard(name)
        while (subscription := self._subscriptions.named(name)) is not None:
            if not self._subscriptions.is_on(subscription):
                self._report_off(subscription)
                return None
            row = await self._database.read(partial(event_rows.next_of, subscription=name))
            if row is None:
                return None
            if row.due_at > to_timestamp(self._clock.now()):
                return row.due_at
            await self._conclude(subscription, row, await self._try(subscription, row.message, row.body))
        return None

    async def test(self, name: str) -> Outcome | None:
        """Send a test there now, once; None: there is no such subscription."""
        subscription = self._subscriptions.named(name)
        if subscription is None:
            return None
        at = to_timestamp(self._clock.now())
        event: Event = test_of(name, key=random_uuid(), at=at)
        found = await self._try(subscription, event.id, event.encoded(with_texts=False, redact=self._redact))
        where = f"{name} at {subscription.host}"
        return Outcome(where=where, is_sent=found.verdict == "sent", text=found.why)

    async def retried(self, switched_on: str = "") -> None:
        """The operator has let rows be sent again, or switched a subscription on."""
        if switched_on:
            self._subscriptions.switched_on(switched_on)
            self._troubles.over("delivery", subject_of(switched_on))
        self._failures.clear()
        await self._look_at_given_up()
        self.wake()

    async def tidy(self) -> None:
        """End what waits for a subscription that is gone or off; remove what ended long ago. Raises StorageError."""
        names = [one.name for one in self._subscriptions.all if self._subscriptions.is_on(one)]
        now = self._clock.now()
        at, before = to_timestamp(now), to_timestamp(now - timedelta(days=self._days()))
        await self._database.write(partial(event_rows.give_up_strays, subscriptions=names, now=at))
        budgets_before = to_timestamp(now - timedelta(days=BUDGET_DAYS))
        pruning = partial(event_rows.prune, before=before, budgets_before=budgets_before)
        while await self._database.write(pruning) >= event_rows.BATCH:
            await self._clock.sleep(PAUSE_S)
        await self._look_at_given_up()

    async def _try(self, subscription: EventSettings, message: str, body: str) -> Tried:
        if self._calls is None:
            module = await anyio.to_thread.run_sync(import_module, "gateway.events.request")
            self._calls = module.Caller()
        assert self._calls is not None
        now = self._clock.now()
        try:
            answer = await self._calls.call(subscription, message, body, now, proxy=self._proxy())
        except NotSent as error:
            return Tried(verdict="later", why=self._redact(str(error)))
        return tried(answer, subscription.host)

    async def _conclude(self, subscription: EventSettings, row: EventRow, found: Tried) -> None:
        """Write down what came of it; unwritten it would be sent once more, under the same id."""
        name, now = subscription.name, self._clock.now()
        at = to_timestamp(now)
        with anyio.CancelScope(shield=True):
            match found.verdict:
                case "sent":
                    await self._database.write(partial(event_rows.sent, id=row.id, now=at))
                    self._failures.pop(name, None)
                    self._troubles.over("delivery", subject_of(name))
                case "gone":
                    await self._switch_off(subscription, at)
                case "refused" | "later":
                    await self._failed(subscription, row, found, now)

    async def _failed(self, subscription: EventSettings, row: EventRow, found: Tried, now: datetime) -> None:
        name, at, is_alone = subscription.name, to_timestamp(now), found.verdict == "refused"
        if not is_alone:
            self._failures[name] = self._failures.get(name, 0) + 1
        failures = row.attempts + 1 if is_alone else max(row.attempts + 1, self._failures[name])
        chance = random.random()  # noqa: S311 - spreads retries, hides nothing
        wait_s = RETRIES.wait_s(failures, asked_s=found.asked_s, chance=chance)
        due = to_timestamp(now + timedelta(seconds=wait_s))

        def write(conn: Connection) -> int:
            if row.give_up_at <= at:
                event_rows.give_up(conn, row.id, now=at, why=found.why)
                return 1 + (0 if is_alone else event_rows.give_up_overdue(conn, name, now=at, why=found.why))
            event_rows.failed(conn, row.id, due=due, why=found.why, aside=is_alone)
            too_many = f"more than {MOST_WAITING:,} wait; {found.why}"
            return event_rows.give_up_all(conn, name, now=at, why=too_many, but_newest=MOST_WAITING)

        ended = await self._database.write(write)
        if ended:
            _log.error("%s for %s given up: %s", counted(ended, "event"), name, found.why)
            await self._look_at_given_up()
        if row.give_up_at > at:
            _log.warning("event %s is not taken by %s, tried again in %.0f s: %s", row.message, name, wait_s, found.why)
        if not is_alone:
            fix = f"look at [[events]] {name}; `tieline events test {name}` tries it"
            self._troubles.report("delivery", subject_of(name), f"events are not taken: {found.why}", fix=fix)

    async def _switch_off(self, subscription: EventSettings, at: int) -> None:
        name, digest = subscription.name, digest_of(subscription.address)
        why = f"{subscription.host} answered 410 Gone: it wants no more of them"

        def write(conn: Connection) -> int:
            event_rows.switch_off(conn, name, address_digest=digest, at=at)
            return event_rows.give_up_all(conn, name, now=at, why=why)

        ended = await self._database.write(write)
        self._subscriptions.switched_off(subscription)
        _log.error("%s is told of nothing any more, %s given up: %s", name, counted(ended, "event"), why)
        self._report_off(subscription)
        self._tell("owner_events_off", {"name": name, "host": subscription.host})
        await self._look_at_given_up()

    def _report_off(self, subscription: EventSettings) -> None:
        name = subscription.name
        text = f"switched off: {subscription.host} answered 410 Gone"
        fix = f"`tieline events on {name}` switches it on; or change its url, or remove its section"
        self._troubles.report("delivery", subject_of(name), text, fix=fix)

    async def _look_at_given_up(self) -> None:
        """A trouble as long as there are events that were given up."""
        try:
            count = await self._database.read(event_rows.given_up)
        except StorageTrouble as error:
            _log.warning("whether events were given up cannot be seen: %s", error)
            return
        if not count:
            self._troubles.over("delivery", GIVEN_UP)
            return
        text = f"{counted(count, 'event')} could not be delivered"
        fix = "`tieline events` lists them, `tieline events retry` tries them again; they go after a week"
        self._troubles.report("delivery", GIVEN_UP, text, fix=fix)


def unsent(rows: Sequence[EventRow]) -> Sequence[Mapping[str, object]]:
    """The rows as an operator is shown them, without what they say."""
    return [
        {
            "id": row.id,
            "at": from_timestamp(row.created_at).isoformat(),
            "subscription": row.subscription,
            "type": row.type,
            "conversation": row.conversation,
            "state": "given up" if row.state == "given_up" else "waits",
            "attempts": row.attempts,
            "why": row.error,
        }
        for row in rows
    ]


def again_until(now: datetime) -> int:
    """The moment until which rows are tried that are sent again from now on."""
    return to_timestamp(now + GIVEN_UP_AFTER)


def subject_of(name: str) -> str:
    """The subject of troubles of that subscription."""
    return f"events to {name}"
