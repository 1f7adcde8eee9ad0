"""Deliveries of events over a real database, with a clock that tests set."""

from collections.abc import AsyncIterator, Sequence

import pytest
from pydantic import SecretStr
from sqlalchemy import select

from agent.core.ids import ConversationId
from agent.storage.database import Database
from agent.storage.timestamps import to_timestamp
from gateway.channels.keys import ConversationKey
from gateway.config.events import EventSettings
from gateway.events.deliveries import Deliveries
from gateway.events.event import dead_letter
from gateway.events.subscriptions import Subscriptions
from gateway.scheduler.process_scheduler import ProcessScheduler
from gateway.storage.queues.given_up import GivenUp
from gateway.storage.tables import event_delivery
from gateway.telemetry.redaction import Redactor
from gateway.telemetry.trouble import Troubles
from tests.fakes.clock import FakeClock
from tests.fakes.webhook_server import WebhookServer, webhook_server

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
CHAT = ConversationId("telegram:77")


class Bench:
    """A process with subscriptions; `start` is another one on the same database."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.clock = FakeClock()
        self.sections: tuple[EventSettings, ...] = ()
        self.told: list[tuple[str, dict[str, object]]] = []

    async def start(self) -> None:
        self.troubles = Troubles(self.clock)
        redact = Redactor(frozenset({SECRET}))
        self.subscriptions = Subscriptions(
            lambda: self.sections, lambda conversation: (ConversationKey.parse(conversation),), redact
        )
        await self.subscriptions.load(self.database)
        self.deliveries = Deliveries(
            database=self.database,
            clock=self.clock,
            scheduler=ProcessScheduler(self.clock, late_s=0.0),
            troubles=self.troubles,
            subscriptions=self.subscriptions,
            proxy=lambda: None,
            redact=redact,
            tell=lambda key, values: self.told.append((key, values)),
        )

    def post_to(self, server: WebhookServer, name: str = "crm", **more: object) -> None:
        """One more section."""
        values: dict[str, object] = {"url": SecretStr(f"{server.url}/hook/{name}"), "secret": SecretStr(SECRET)}
        values |= {"allow_private": ("127.0.0.1",)} | more
        self.sections += (EventSettings(name=name, **values),)  # type: ignore[arg-type]

    async def letter(self, number: int = 1) -> None:
        """A message is given up."""
        at = to_timestamp(self.clock.now())
        given_up = GivenUp(
            queue="in", id=number, conversation=CHAT, inbox_id=number, attempts=5, why=f"words of {number}", at=at
        )
        await self.database.write(lambda conn: self.subscriptions.add(conn, dead_letter(given_up)))

    async def send(self, name: str = "crm") -> int | None:
        """All that is due; the moment when the next one is."""
        return await self.deliveries.send_due(name)

    def wait(self, seconds: float) -> None:
        self.clock.advance(seconds)

    async def rows(self) -> Sequence[tuple[str, int, str]]:
        """State, attempts and error of each row, oldest first."""
        query = select(event_delivery).order_by(event_delivery.c.id)
        return await self.database.read(
            lambda conn: [(row.state, row.attempts, row.error) for row in conn.execute(query)]
        )

    async def states(self) -> list[str]:
        return [state for state, _, _ in await self.rows()]


@pytest.fixture
async def bench(sqlite_database: Database) -> Bench:
    bench = Bench(sqlite_database)
    await bench.start()
    return bench


@pytest.fixture
async def hook() -> AsyncIterator[WebhookServer]:
    async with webhook_server() as server:
        yield server
