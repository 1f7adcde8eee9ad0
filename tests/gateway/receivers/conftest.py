"""Receivers of alerts over a real database, with a clock that tests set."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from pydantic import SecretStr

from agent.storage.database import Database
from gateway.config.alerts import AlertSettings, EmailSettings, WebhookSettings
from gateway.config.read import read
from gateway.config.settings import Settings
from gateway.phrases.catalogue import read_catalogue
from gateway.receivers.receivers import Receivers
from gateway.scheduler.process_scheduler import ProcessScheduler
from gateway.storage import alert_rows
from gateway.storage.alert_rows import AlertRow
from gateway.telemetry.redaction import Redactor
from gateway.telemetry.trouble import Troubles
from tests.fakes.clock import FakeClock
from tests.fakes.smtp_server import PASSWORD, USER, SmtpServer
from tests.fakes.webhook_server import WebhookServer

SECRET = "a secret of the webhook"


class Bench:
    """A process with receivers: `new` is another one on the same database."""

    def __init__(self, database: Database, home: Path) -> None:
        self.database, self.home = database, home
        self.clock = FakeClock()
        self.troubles = Troubles(self.clock)
        self.email, self.webhook = EmailSettings(), WebhookSettings()
        self.receivers = self.new()

    def new(self) -> Receivers:
        return Receivers(
            database=self.database,
            clock=self.clock,
            scheduler=ProcessScheduler(self.clock, late_s=0.0),
            troubles=self.troubles,
            settings=self.settings,
            redact=Redactor(frozenset({PASSWORD, SECRET})),
            phrase=read_catalogue(),
        )

    def settings(self) -> Settings:
        plain = read({}, {}, home=self.home, source=None)
        values = {name: getattr(plain, name) for name in Settings.model_fields}
        return Settings.model_construct(**values | {"alerts": AlertSettings(email=self.email, webhook=self.webhook)})

    def mail_by(self, server: SmtpServer, *to: str, **more: object) -> None:
        values = {"host": "127.0.0.1", "port": server.port, "security": "none", "sender": "tieline@example.org"}
        self.email = EmailSettings(**values | {"to": to or ("ops@example.org",)} | more)  # type: ignore[arg-type]

    def known_to(self, server: SmtpServer, password: str = PASSWORD) -> None:
        server.asks_password = True
        self.mail_by(server, user=USER, password=SecretStr(password))

    def post_to(self, server: WebhookServer, **more: object) -> None:
        values = {"url": SecretStr(f"{server.url}/hook/key"), "secret": SecretStr(SECRET)}
        self.webhook = WebhookSettings(**values | more)  # type: ignore[arg-type]

    async def alert(self, chat: str = "telegram:78", key: str = "owner_dead", **values: object) -> None:
        """An alert is written."""
        await self.database.write(lambda conn: self.receivers.add(conn, key, {"chat": chat, **values}))

    async def rows(self) -> Sequence[AlertRow]:
        """All of them, oldest first."""
        return list(reversed(await self.database.read(lambda conn: alert_rows.newest(conn, 100))))

    async def states(self) -> list[str]:
        return [row.state for row in await self.rows()]


@pytest.fixture
def bench(sqlite_database: Database, tmp_path: Path) -> Bench:
    return Bench(sqlite_database, tmp_path)
