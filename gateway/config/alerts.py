"""The section `[alerts]`: where alerts go beside the owners' chats, and when the disk and the backups give cause."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal
from urllib.parse import urlsplit

from pydantic import SecretStr

from agent.core.settings_section import SECTION_CONFIG
from gateway.config.addresses import web_address
from gateway.config.sections import is_loopback

Security = Literal["starttls", "tls", "none"]
Format = Literal["json", "slack", "discord", "ntfy"]

PORTS: dict[Security, int] = {"starttls": 587, "tls": 465, "none": 25}
MOST_TO = 20
LEAST_SECRET = 16  # characters
MOST_FREE_MB = 100_000_000
_ADDRESS = re.compile(r"[^@\s<>,;\"]{1,64}@[^@\s<>,;\"]{1,255}")
_HOST = re.compile(r"[A-Za-z0-9.:_-]{1,255}")


@dataclass(frozen=True, slots=True, kw_only=True)
class EmailSettings:
    """`[alerts.email]`: alerts by e-mail, where `host` names a mail server.

    `security` "none" is for a mail server on this machine alone. `port` 0 is the usual one: 587, 465 or 25.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = SECTION_CONFIG

    host: str = ""
    port: int = 0
    security: Security = "starttls"
    user: str = ""
    password: SecretStr | None = None
    sender: str = ""
    to: tuple[str, ...] = ()

    @property
    def is_on(self) -> bool:
        return bool(self.host)

    @property
    def usual_port(self) -> int:
        """The port that is called."""
        return self.port or PORTS[self.security]

    def mistakes(self) -> Iterator[str]:
        """Mistakes, one line each."""
        if not self.host:
            if self.to or self.sender or self.user:
                yield "alerts.email.host: is missing; name the mail server"
            return
        if self.host.count(":") == 1:
            yield 'alerts.email.host: holds a port; write the number as "port"'
        elif not _HOST.fullmatch(self.host):
            yield f'alerts.email.host: "{self.host}" is no name of a server; write it as "smtp.example.org"'
        if not 0 <= self.port <= 65535:
            yield f"alerts.email.port: {self.port} is no port; use 1 to 65535, or 0 for the usual one"
        if self.security == "none" and not is_loopback(self.host):
            yield 'alerts.email.security: "none" is for a mail server on this machine; use "starttls" or "tls"'
        if bool(self.user) != bool(self.password and self.password.get_secret_value()):
            yield "alerts.email: user and password go together; set both, or none"
        elif self.password and not f"{self.user}{self.password.get_secret_value()}".isascii():
            # smtplib gives servers ASCII alone, and no two servers agree on more.
            yield "alerts.email: user and password may hold letters, digits and signs of ASCII alone"
        if not self.to:
            yield 'alerts.email.to: is empty; name who gets the alerts, as in ["ops@example.org"]'
        if len(self.to) > MOST_TO:
            yield f"alerts.email.to: {len(self.to)} addresses are too many; use {MOST_TO} or fewer, or a mailing list"
        if not self.sender:
            yield 'alerts.email.sender: is empty; name the address that alerts come from, as in "bot@example.org"'
        senders = (("sender", self.sender),) if self.sender else ()
        for key, address in (*senders, *(("to", one) for one in self.to)):
            if not _ADDRESS.fullmatch(address):
                yield f'alerts.email.{key}: "{address}" is no address; write it as "ops@example.org"'


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookSettings:
    """`[alerts.webhook]`: alerts posted to an address, where `url` gives one. The address is a secret itself.

    With `secret` each request is signed (HMAC-SHA256); `token` is sent as a bearer token. `format` is that of the
    body: plain JSON, or what incoming webhooks of Slack or Discord, or a topic of ntfy take.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = SECTION_CONFIG

    url: SecretStr | None = None
    format: Format = "json"
    secret: SecretStr | None = None
    token: SecretStr | None = None

    @property
    def address(self) -> str:
        """The address that is called; "" for none."""
        return self.url.get_secret_value() if self.url else ""

    @property
    def is_on(self) -> bool:
        return bool(self.address)

    @property
    def host(self) -> str:
        """The part of the address that may be told."""
        return urlsplit(self.address).hostname or ""

    @property
    def secrets(self) -> frozenset[str]:
        """The parts of the address that hold the secret, path or query, where they are long enough to be one."""
        parts = urlsplit(self.address)
        return frozenset(one for one in (parts.path, parts.query) if len(one) >= LEAST_SECRET)

    def mistakes(self) -> Iterator[str]:
        """Mistakes, one line each, without the address, which is a secret."""
        if not self.address:
            if self.secret or self.token:
                yield "alerts.webhook.url: is missing"
            return
        parts = web_address(self.address)
        if parts is None:
            yield 'alerts.webhook.url: is no address; write it as "https://example.org/hook"'
        elif parts.username or parts.password:
            yield "alerts.webhook.url: holds a name or a password; use token for a bearer token"
        if self.token is not None and not re.fullmatch(r"[!-~]+", self.token.get_secret_value()):
            yield "alerts.webhook.token: may hold letters, digits and signs of ASCII alone, and no space"
        if self.secret is not None and len(self.secret.get_secret_value()) < LEAST_SECRET:
            yield f"alerts.webhook.secret: is shorter than {LEAST_SECRET} characters; `openssl rand -hex 32` makes one"


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertSettings:
    """`[alerts]`: alerts beyond the owners' chats.

    `language` is that of their sentences. Below `least_free_mb` (10^6 bytes) of free disk space, or where little of a
    small disk is left, owners are told; 0: never.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = SECTION_CONFIG

    language: str = "en"
    least_free_mb: int = 500
    email: EmailSettings = field(default_factory=EmailSettings)
    webhook: WebhookSettings = field(default_factory=WebhookSettings)

    @property
    def receivers(self) -> tuple[str, ...]:
        """Names of the receivers that are set up."""
        return tuple(name for name, one in (("email", self.email), ("webhook", self.webhook)) if one.is_on)

    @property
    def in_chats_alone(self) -> str:
        """Words of the doctor and the overview on alerts that go no further than the chats; "" where they do.

        It is well: a gateway with one owner has nobody else to tell.
        """
        if self.receivers:
            return ""
        further = "e-mail or a webhook (alerts.email, alerts.webhook) tells you also while a platform is down"
        return f"go to the owners' chats alone; {further}"

    def mistakes(self) -> Iterator[str]:
        """Mistakes, one line each."""
        if not re.fullmatch(r"[a-z]{2}(-[A-Za-z]{2})?", self.language):
            yield f'alerts.language: "{self.language}" is no language; write it as "en" or "de"'
        if not 0 <= self.least_free_mb <= MOST_FREE_MB:
            yield f"alerts.least_free_mb: {self.least_free_mb} must be 0 (never told) to {MOST_FREE_MB}"
        yield from self.email.mistakes()
        yield from self.webhook.mistakes()
