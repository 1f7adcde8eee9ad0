"""An alert message as receivers get it: subject, lines, and the bodies that webhooks take. Pure."""

import hashlib
import hmac
import json
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from agent.storage.timestamps import from_timestamp
from gateway.config.alerts import Format
from gateway.storage.alert_rows import AlertRow, Severity

SIGNATURE = "X-Tieline-Signature"
MARKS: Mapping[Severity, str] = {"warning": "⚠️", "resolved": "✅", "test": "🔔"}
LONGEST_SUBJECT = 120  # characters
LONGEST_TEXT = 1000  # characters of one alert; it may hold what a provider said
DISCORD_MOST = 2000  # characters; https://discord.com/developers/docs/resources/webhook#execute-webhook
NTFY_MOST = 4000  # bytes, then a message becomes an attachment; https://docs.ntfy.sh/publish/#limitations
PRIORITIES: Mapping[Severity, str] = {"warning": "4", "resolved": "3", "test": "3"}
TAGS: Mapping[Severity, str] = {"warning": "warning", "resolved": "white_check_mark", "test": "bell"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """The answer of the other side that has taken a message; `missed` tells who gets nothing of it, and why.

    `later` are addresses of these that may take it if they are tried again.
    """

    text: str
    missed: str = ""
    later: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertMessage:
    """Alerts that leave together, oldest first. `host` is the machine, so that several gateways can be told apart.

    `id` is the same when they leave once more: a receiver may tell a repeat by it.
    """

    rows: Sequence[AlertRow]
    host: str

    @property
    def id(self) -> str:
        return f"{self.rows[0].id}-{self.rows[-1].id}-{self.rows[0].created_at}"

    @property
    def severity(self) -> Severity:
        """The gravest of them."""
        found = {row.severity for row in self.rows}
        return "warning" if "warning" in found else "resolved" if "resolved" in found else "test"

    @property
    def subject(self) -> str:
        """One line for all of them."""
        first = _one_line(self.rows[0].text)
        more = f" (and {len(self.rows) - 1} more)" if len(self.rows) > 1 else ""
        room = LONGEST_SUBJECT - len(more)
        return f"{first if len(first) <= room else first[: room - 1] + '…'}{more}"

    def text(self) -> str:
        """A line for each, with its moment."""
        return "\n\n".join(f"{MARKS[row.severity]} {_cut(row.text)}\n{_moment(row.created_at)}" for row in self.rows)

    def brief(self) -> str:
        """A line for each, for places where moments are shown anyway."""
        return "\n".join(f"{MARKS[row.severity]} {_cut(row.text)}" for row in self.rows)


def as_fits(message: AlertMessage, format: Format) -> AlertMessage:
    """The oldest of its alerts that a body of that format has room for, one at least."""
    while len(message.rows) > 1 and not _fits(message, format):
        message = replace(message, rows=message.rows[:-1])
    return message


def body_of(message: AlertMessage, format: Format) -> tuple[bytes, Mapping[str, str]]:
    """The body of a request, and the headers that belong to it."""
    match format:
        case "json":
            alerts = [
                {
                    "id": row.id,
                    "subject": row.subject,
                    "severity": row.severity,
                    "text": _cut(row.text),
                    "at": from_timestamp(row.created_at).isoformat(),
                }
                for row in message.rows
            ]
            told = {"source": "tieline", "host": message.host, "id": message.id, "severity": message.severity}
            return _json({**told, "alerts": alerts})
        case "slack":  # https://docs.slack.dev/messaging/formatting-message-text: these three alone are escaped
            text = message.brief().replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
            return _json({"text": f"{text}\n{message.host}"})
        case "discord":
            room, text = _room(message), message.brief()
            text = text if len(text) <= room else f"{text[: room - 1]}…"
            return _json({"content": f"{text}\n{message.host}", "allowed_mentions": {"parse": []}})
        case "ntfy":
            headers = {
                "content-type": "text/plain; charset=utf-8",
                "x-title": _header(f"Tieline on {message.host}"),
                "x-priority": PRIORITIES[message.severity],
                "x-tags": TAGS[message.severity],
            }
            return _plain(message)[:NTFY_MOST].decode(errors="ignore").encode(), headers


def signature(secret: str, body: bytes, at: datetime) -> str:
    """The value of the signature's header: the moment in POSIX seconds, and the HMAC-SHA256 of "moment.body"."""
    moment = int(at.timestamp())
    digest = hmac.new(secret.encode(), f"{moment}.".encode() + body, hashlib.sha256).hexdigest()
    return f"t={moment},v1={digest}"


def _fits(message: AlertMessage, format: Format) -> bool:
    match format:
        case "discord":
            return len(message.brief()) <= _room(message)
        case "ntfy":
            return len(_plain(message)) <= NTFY_MOST
        case "json" | "slack":
            return True


def _room(message: AlertMessage) -> int:
    return DISCORD_MOST - len(message.host) - 2


def _plain(message: AlertMessage) -> bytes:
    return "\n".join(_cut(row.text) for row in message.rows).encode()


def _header(text: str) -> str:
    """The value of a header, which is ASCII; ntfy reads RFC 2047 (https://docs.ntfy.sh/publish/#message-title)."""
    return text if text.isascii() else f"=?UTF-8?B?{b64encode(text.encode()).decode()}?="


def _json(value: Mapping[str, object]) -> tuple[bytes, Mapping[str, str]]:
    return json.dumps(value, ensure_ascii=False).encode(), {"content-type": "application/json"}


def _one_line(text: str) -> str:
    return " ".join("".join(character if character.isprintable() else " " for character in text).split())


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_TEXT else f"{text[: LONGEST_TEXT - 1]}…"


def _moment(at: int) -> str:
    return f"{from_timestamp(at):%Y-%m-%d %H:%M} UTC"
