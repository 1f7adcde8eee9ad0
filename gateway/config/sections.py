"""Sections of the configuration that belong to the process as a whole; the packages define their own."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import time
from ipaddress import ip_address, ip_network
from typing import Any, ClassVar, Literal
from urllib.parse import urlsplit

from pydantic import SecretStr

from agent.core.phrases import needs_extra
from agent.core.settings_section import SECTION_CONFIG
from agent.providers.settings import ProviderSettings

# Beyond these the calendar ends: a moment that much earlier or later cannot be computed.
Tier = Literal["cheap", "balanced", "premium"]  # of a request, by its size, its tools, its code and its images
MOST_DAYS = 36_500
LONGEST_MS = 366 * 24 * 3600 * 1000
MOST_LINES = 100_000  # of the log in the database: a search reads them all
BACKUPS = "backups"  # below the data directory
_CLOCK_TIME = re.compile(r"(?:[01]\d|2[0-3]):[0-5]\d")


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseSettings:
    """`[database]`: `sqlite:///FILE` below TIELINE_HOME, or `postgresql://…`."""

    __pydantic_config__: ClassVar[dict[str, Any]] = SECTION_CONFIG

    url: str = "sqlite:///tieline.db"

    def mistakes(self) -> list[str]:
        if self.url.startswith(("postgresql://", "postgresql+psycopg://")):
            missing = needs_extra("database.url: PostgreSQL", "postgresql", module="psycopg")
            return [missing] if missing else []
        if self.url.startswith("sqlite:///"):
            return []
        scheme = urlsplit(self.url).scheme or "no"
        return [f'database.url: {scheme!r} scheme is not known; use "sqlite:///tieline.db" or "postgresql://…"']


@dataclass(frozen=True, slots=True, kw_only=True)
class LlmSettings:
    """`[llm]`: the providers people may choose from; the default is marked, else the first.

    `failover` names those that stand in, in this order, for one that cannot answer. `aliases` are short names for
    `/provider` and `/model`: each stands for a provider, or for `provider/model`. `routing` names who takes requests of
    a tier (`cheap`, `balanced`, `premium`) where nobody has chosen.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = SECTION_CONFIG

    providers: tuple[ProviderSettings, ...] = ()
    failover: tuple[str, ...] = ()
    aliases: Mapping[str, str] = field(default_factory=dict)
    routing: Mapping[Tier, str] = field(default_factory=dict)

    def mistakes(self) -> list[str]:
        names = {provider.name.lower() for provider in self.providers}
        return [
            f"llm.aliases.{alias}: a provider has that name; choose another"
            for alias in self.aliases
            if alias.lower() in names
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiSettings:
    """`[api]`: doors for other programs. `origins` are those of web pages that may ask; programs need none."""

    __pydantic_config__: ClassVar[dict[str, Any]] = SECTION_CONFIG

    origins: tuple[str, ...] = ()

    def mistakes(self) -> list[str]:
        return [
            f'api.origins: "{origin}" is no origin; write it as "https://app.example.org"'
            for origin in self.origins
            if not re.fullmatch(r"https?://[^/?#\s*]+", origin)
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSettings:
    """`[session]`. `idle_minutes`: an agent without work for so long is put to sleep and woken by the next message."""

    __pydantic_config__: ClassVar[dict[str, Any]] = SECTION_CONFIG

    provider_persistence: bool = True
    idle_minutes: float = 30.0
    most_awake: int = 1000

    def mistakes(self) -> list[str]:
        found = []
        if self.idle_minutes <= 0:
            found.append(f"session.idle_minutes: {self.idle_minutes} must be more than 0")
        if self.most_awake < 1:
            found.append(f"session.most_awake: {self.most_awake} must be 1 or more")
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSettings:
    """`[queue]`: what a message meets while a turn runs. Milliseconds; `linger_ms` keeps an agent hot."""

    __pydantic_config__: ClassVar[dict[str, Any]] = SECTION_CONFIG

    mode: Literal["queue", "drop", "interrupt"] = "queue"
    max_depth: int = 10
    merge_ms: int = 500
    linger_ms: int = 2000

    def mistakes(self) -> list[str]:
        return [
            f"queue.{key}: {value} must be {f'{least} or more' if value < least else f'{most} or less'}"
            for key, value, least, most in (
                ("max_depth", self.max_depth, 1, 1000),
                ("merge_ms", self.merge_ms, 0, LONGEST_MS),
                ("linger_ms", self.linger_ms, 0, LONGEST_MS),
            )
            if not least <= value <= most
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class LockSettings:
    """`[lock]`, in milliseconds: how long a run waits for the conversation, and when a dead owner's lease ends."""

    __pydantic_config__: ClassVar[dict[str, Any]] = SECTION_CONFIG

    queue_timeout_ms: int = 30_000
    lock_timeout_ms: int = 900_000

    def mistakes(self) -> list[str]:
        if self.lock_timeout_ms < 90_000:
            return [f"lock.lock_timeout_ms: {self.lock_timeout_ms} must be 90000 or more; it is renewed every 30 s"]
        if self.queue_timeout_ms < 1000:
            return [f"lock.queue_timeout_ms: {self.queue_timeout_ms} must be 1000 or more"]
        if max(self.lock_timeout_ms, self.queue_timeout_ms) > LONGEST_MS:
            return [f"lock: no time can be longer than {LONGEST_MS} ms"]
        return []


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggingSettings:
    """`[logging]`: `json` for machines, `human` for a terminal; `auto` takes human when one is attached.

    `file` (relative to the data directory) gets the same lines as JSON; beyond `file_mb` it becomes `<file>.1`, and so
    on up to `file_backups` (W-66). `keep`: warnings and errors are in the database too, for `keep_days`, at most
    `keep_lines` of them.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = SECTION_CONFIG

    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["auto", "human", "json"] = "auto"
    event_log: bool = False
    file: str = ""
    file_mb: int = 10
    file_backups: int = 5
    keep: bool = True
    keep_days: int = 14
    keep_lines: int = 20_000

    def mistakes(self) -> list[str]:
        found = []
        if not 1 <= self.keep_days <= MOST_DAYS:
            found.append(f"logging.keep_days: {self.keep_days} must be 1 to {MOST_DAYS}")
        if not 100 <= self.keep_lines <= MOST_LINES:
            found.append(f"logging.keep_lines: {self.keep_lines} must be 100 to {MOST_LINES}")
        if not 1 <= self.file_mb <= 1024:
            found.append(f"logging.file_mb: {self.file_mb} must be 1 to 1024")
        if not 1 <= self.file_backups <= 100:
            found.append(f"logging.file_backups: {self.file_backups} must be 1 to 100")
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkSettings:
    """`[network]`: `proxy` for platforms, providers and web tools; `catch_up_max_age` in seconds."""

    __pydantic_config__: ClassVar[dict[str, Any]] = SECTION_CONFIG

    proxy: str | None = None
    catch_up_max_age: float = 900.0

    def mistakes(self) -> list[str]:
        found = []
        if self.proxy is not None and not self.proxy.startswith(("http://", "https://", "socks5://")):
            found.append('network.proxy: must begin with "http://", "https://" or "socks5://"')
        if not 0 <= self.catch_up_max_age <= LONGEST_MS / 1000:
            found.append(f"network.catch_up_max_age: {self.catch_up_max_age} must be 0 to {LONGEST_MS // 1000}")
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionSettings:
    """`[retention]`: how long what nobody needs any more is kept, in days, and how large files may be, in mebibytes.

    `conversation_days` is how long conversations keep their messages; 0: for ever.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = SECTION_CONFIG

    attachment_days: int = 30
    attachment_mb: int = 20
    workspace_days: int = 90  # files in workspaces that nobody has changed since
    output_days: int = 7  # results of tools that were too long to show
    inbox_days: int = 30
    outbox_days: int = 30
    audit_days: int = 90
    conversation_days: int = 0
    backups: int = 5

    def within(self, days: int) -> int:
        """So many days, or fewer where messages are kept for less."""
        return min(days, self.conversation_days) if self.conversation_days else days

    def mistakes(self) -> list[str]:
        days = ("attachment_days", "workspace_days", "output_days", "inbox_days", "outbox_days", "audit_days")
        found = [
            f"retention.{key}: {getattr(self, key)} must be 1 to {MOST_DAYS}"
            for key in days
            if not 1 <= getattr(self, key) <= MOST_DAYS
        ]
        if not 0 <= self.conversation_days <= MOST_DAYS:
            days_said = f"{self.conversation_days} must be 0 (messages are kept for ever) to {MOST_DAYS}"
            found.append(f"retention.conversation_days: {days_said}")
        found += [
            f"retention.{key}: {value} must be 1 or more"
            for key, value in (("attachment_mb", self.attachment_mb), ("backups", self.backups))
            if value < 1
        ]
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupSettings:
    """`[backup]`: a backup each day at `at` ("03:15", by the scheduler's zone; "": none) in `folder`; `keep` stay.

    `files` False leaves out what people sent and what tools made.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = SECTION_CONFIG

    at: str = ""
    folder: str = BACKUPS
    keep: int = 5
    files: bool = True

    @property
    def moment(self) -> time:
        """`at` on the clock; it is checked, and not empty."""
        return time.fromisoformat(self.at)

    def mistakes(self) -> list[str]:
        found = []
        if self.at and not _CLOCK_TIME.fullmatch(self.at):
            found.append(f'backup.at: {self.at!r} is no time of day; write it as "03:15"')
        if self.keep < 1:
            found.append(f"backup.keep: {self.keep} must be 1 or more")
        if not self.folder:
            found.append("backup.folder: is empty; name a folder")
        return found


# Section `[web]`: where the web server listens, whom it believes, and how people sign in.

PERSON_ID = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}")  # of a person of the web server: a folder is called so
_HEADER = re.compile(r"[A-Za-z0-9-]{1,64}")
_CONFUSABLE = frozenset({"host", "cookie", "origin", "authorization", "user-agent", "x-csrf-token", "accept"})


@dataclass(frozen=True, slots=True, kw_only=True)
class OidcSettings:
    """`[web.oidc]`: sign-in by an identity provider (OpenID Connect); without `issuer` there is none.

    `claim` of the identity token names the person. `people` maps its values to persons of the web server; with `allow`
    every address of these domains (`"@example.org"`) has an account, which the first sign-in makes. `label` is the text
    of the button.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = SECTION_CONFIG

    issuer: str = ""
    client_id: str = ""
    client_secret: SecretStr | None = None
    claim: Literal["email", "sub", "preferred_username"] = "email"
    people: Mapping[str, str] = field(default_factory=dict)
    allow: tuple[str, ...] = ()
    label: str = "Sign in with your account"

    def mistakes(self) -> list[str]:
        """Mistakes, one line each."""
        if not self.issuer:
            return ["web.oidc.issuer: is missing"] if self.client_id or self.people or self.allow else []
        parts = urlsplit(self.issuer)
        found = []
        if not self.client_id:
            found.append("web.oidc.client_id: is missing; the identity provider gives one")
        if parts.scheme != "https" and not (parts.scheme == "http" and is_loopback(parts.hostname or "")):
            found.append(f'web.oidc.issuer: "{self.issuer}" must begin with https:// (http:// on this machine alone)')
        if parts.query or parts.fragment:
            found.append(f'web.oidc.issuer: "{self.issuer}" must have neither ? nor #')
        if self.client_secret is None or not self.client_secret.get_secret_value():
            found.append("web.oidc.client_secret: is missing; the identity provider gives one")
        if not self.people and not self.allow:
            found.append('web.oidc: nobody may sign in; set people = {"anna@example.org" = "anna"} or allow')
        if self.allow and self.claim != "email":
            found.append(f'web.oidc.allow: is about addresses, and claim is "{self.claim}"; use claim = "email"')
        found += [
            f'web.oidc.allow: "{domain}" is no domain; write it as "@example.org"'
            for domain in self.allow
            if not re.fullmatch(r"@[^@\s]+\.[^@\s]+", domain)
        ]
        found += _unusable_ids("web.oidc.people", self.people)
        if not self.label.strip():
            found.append("web.oidc.label: is empty; it is the text of the button")
        missing = needs_extra("web.oidc", "oidc", module="authlib")
        return [*found, missing] if missing else found


def _unusable_ids(key: str, people: Mapping[str, str]) -> list[str]:
    """Mistakes of a map from outer names to persons. The owner is nobody's: he comes by a link alone."""
    return [
        f'{key}: "{person}" is the owner, who signs in by a link alone; name another person'
        if person == "operator"
        else f'{key}: "{person}" is no id of a person; `tieline people list` shows them'
        for person in people.values()
        if person == "operator" or not PERSON_ID.fullmatch(person)
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class WebSettings:
    """`host` other than loopback needs `allow_remote = true`. Sizes are in mebibytes.

    `public_url` is how people reach it from outside (`https://chat.example.org`): sign-in links and webhooks use it.
    `allowed_hosts` are further names it may be called by. `trusted_proxies` are the addresses or networks whose
    `X-Forwarded-*` headers count; none by default. `metrics_token` lets a scraper in that is not on this machine.
    `person_header` is a header in which a trusted proxy names who has signed in there; with `header_people` what it
    says is looked up, else it is the person's id.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = SECTION_CONFIG

    host: str = "127.0.0.1"
    port: int = 8080
    allow_remote: bool = False
    public_url: str | None = None
    allowed_hosts: tuple[str, ...] = ()
    trusted_proxies: tuple[str, ...] = ()
    max_upload_mb: int = 20
    metrics_token: SecretStr | None = None
    person_header: str = ""
    header_people: Mapping[str, str] = field(default_factory=dict)
    oidc: OidcSettings = field(default_factory=OidcSettings)

    def mistakes(self) -> list[str]:
        """Mistakes, one line each."""
        found = []
        if not 0 <= self.port <= 65535:
            found.append(f"web.port: {self.port} is no port; use 1 to 65535, or 0 for any free one")
        if not self.allow_remote and not is_loopback(self.host):
            found.append(
                f'web.host: "{self.host}" is reachable from other machines; set allow_remote = true if that is meant, '
                'or host = "127.0.0.1"'
            )
        if self.public_url is not None and not _is_origin(self.public_url):
            found.append(
                f'web.public_url: "{self.public_url}" must be scheme and host alone, as in "https://chat.example.org"'
            )
        found += [
            f'web.trusted_proxies: "{proxy}" is no address or network; name each proxy, as in "10.0.0.2"'
            for proxy in self.trusted_proxies
            if not _is_network(proxy)
        ]
        if not 1 <= self.max_upload_mb <= 1024:
            found.append(f"web.max_upload_mb: {self.max_upload_mb} must be between 1 and 1024")
        found += self._mistakes_of_header()
        return found + self.oidc.mistakes()

    def _mistakes_of_header(self) -> list[str]:
        name, found = self.person_header, _unusable_ids("web.header_people", self.header_people)
        if name and not self.trusted_proxies:
            found.append("web.person_header: anybody could send it; name the proxy in trusted_proxies, too")
        if name and (not _HEADER.fullmatch(name) or name.lower() in _CONFUSABLE):
            found.append(f'web.person_header: "{name}" cannot be it; use a name such as "X-Forwarded-User"')
        if self.header_people and not name:
            found.append("web.header_people: has no effect without person_header")
        return found

    @property
    def is_public(self) -> bool:
        """Whether people reach it at another address than this machine's own: through a proxy."""
        return self.public_url is not None and not is_loopback(urlsplit(self.public_url).hostname or "")

    @property
    def scheme(self) -> Literal["http", "https"]:
        """The scheme that the browser sees; TLS is the reverse proxy's work."""
        return "https" if (self.public_url or "").startswith("https://") else "http"


def is_loopback(host: str) -> bool:
    """Does the name or address stay on this machine?"""
    if host.lower().rstrip(".") == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _is_origin(url: str) -> bool:
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 - raises for a port that is none
    except ValueError:
        return False
    plain = not (parts.query or parts.fragment or parts.username or parts.path.strip("/"))
    return parts.scheme in {"http", "https"} and bool(parts.hostname) and plain


def _is_network(text: str) -> bool:
    try:
        return ip_network(text, strict=False).prefixlen > 0  # the whole world is no name
    except ValueError:
        return False
