"""Bodies of webhooks and their signature."""

import hashlib
import hmac
import json
from datetime import UTC, datetime

import pytest
from pydantic import SecretStr

from gateway.config.alerts import EmailSettings, Format, WebhookSettings
from gateway.receivers.message import as_fits, body_of, signature
from tests.gateway.receivers.test_email import message


def test_plain_json_names_each_alert() -> None:
    body, headers = body_of(message("one", "two"), "json")
    told = json.loads(body)
    assert headers["content-type"] == "application/json"
    assert (told["source"], told["host"], told["severity"]) == ("tieline", "box", "warning")
    assert [alert["text"] for alert in told["alerts"]] == ["one", "two"]
    assert told["alerts"][0]["at"] == "2026-11-28T22:00:00+00:00"


def test_slack_is_given_no_mention_and_no_link() -> None:
    body, _ = body_of(message("<!channel> & <https://x.example|y>"), "slack")
    assert json.loads(body) == {"text": "⚠️ &lt;!channel&gt; &amp; &lt;https://x.example|y&gt;\nbox"}


def test_discord_mentions_nobody_and_takes_it_whole() -> None:
    body, _ = body_of(message(*["@everyone " * 90] * 20), "discord")
    told = json.loads(body)
    assert told["allowed_mentions"] == {"parse": []}
    assert len(told["content"]) <= 2000
    assert told["content"].endswith("…\nbox")


def test_ntfy_gets_text_and_headers() -> None:
    body, headers = body_of(message("ü" * 3000, *["ü" * 900] * 3), "ntfy")
    assert (headers["x-title"], headers["x-tags"], headers["x-priority"]) == ("Tieline on box", "warning", "4")
    assert len(body) <= 4000
    assert body.decode().startswith("ü")


def test_the_signature_is_of_the_moment_and_the_body() -> None:
    signed = signature("secret", b"{}", datetime(2026, 11, 28, tzinfo=UTC))
    moment = int(datetime(2026, 11, 28, tzinfo=UTC).timestamp())
    assert signed == f"t={moment},v1={hmac.new(b'secret', f'{moment}.{{}}'.encode(), hashlib.sha256).hexdigest()}"


@pytest.mark.parametrize(
    ("section", "mistake"),
    [
        ({"to": ("a@b.c",)}, "alerts.email.host: is missing"),
        ({"host": "a b"}, "alerts.email.host"),
        (
            {"host": "smtp.example.org", "security": "none"},
            'alerts.email.security: "none" is for a mail server on this',
        ),
        ({"host": "x.example", "user": "u"}, "alerts.email: user and password go together"),
        ({"host": "x.example", "sender": "a@b.c"}, "alerts.email.to: is empty"),
        ({"host": "x.example", "sender": "a", "to": ("a@b.c",)}, 'alerts.email.sender: "a" is no address'),
        ({"host": "x.example", "sender": "a@b.c", "to": ("a@b.c\nBcc: x@y.z",)}, "alerts.email.to"),
        ({"host": "x.example:587", "sender": "a@b.c", "to": ("a@b.c",)}, "alerts.email.host: holds a port"),
        (
            {"host": "x", "user": "u", "password": SecretStr("pässword"), "sender": "a@b.c", "to": ("a@b.c",)},
            "alerts.email: user and password may hold letters, digits and signs of ASCII alone",
        ),
        ({"host": "x.example", "port": 70000, "sender": "a@b.c", "to": ("a@b.c",)}, "alerts.email.port"),
    ],
)
def test_mistakes_of_the_mail_section(section: dict[str, object], mistake: str) -> None:
    assert any(mistake in one for one in EmailSettings(**section).mistakes())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("url", "mistake"),
    [
        ("ftp://x.example/s3cret", "alerts.webhook.url: is no address"),
        ("https://", "alerts.webhook.url: is no address"),
        ("https://u:s3cret@x.example", "alerts.webhook.url: holds a name or a password"),
        ("https://x.example/s3cret\n", "alerts.webhook.url: is no address"),
    ],
)
def test_mistakes_of_the_webhook_tell_no_address(url: str, mistake: str) -> None:
    (found,) = WebhookSettings(url=SecretStr(url)).mistakes()
    assert mistake in found
    assert "s3cret" not in found


@pytest.mark.parametrize("token", ["tök", "two words", "a line\nmore"])
def test_a_token_that_no_header_takes_is_a_mistake(token: str) -> None:
    (found,) = WebhookSettings(url=SecretStr("https://x.example"), token=SecretStr(token)).mistakes()
    assert found.startswith("alerts.webhook.token: ")
    assert token not in found


def test_a_secret_in_the_query_is_one_too() -> None:
    url = SecretStr("https://x.example/hook?key=0123456789abcdef")
    assert WebhookSettings(url=url).secrets == {"key=0123456789abcdef"}


@pytest.mark.parametrize("format", ["json", "slack", "discord", "ntfy"])
def test_what_has_no_room_waits_for_the_next_message(format: Format) -> None:
    whole = message(*["w" * 300] * 20)
    fits = as_fits(whole, format)
    assert [row.id for row in fits.rows] == [row.id for row in whole.rows][: len(fits.rows)]
    body, _ = body_of(fits, format)
    assert body.decode().count("w" * 300) == len(fits.rows)
    assert len(as_fits(message("w" * 9_000), format).rows) == 1
