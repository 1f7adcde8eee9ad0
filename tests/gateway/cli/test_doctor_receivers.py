"""`tieline doctor` about the ways that alerts go beyond the chats."""

import pytest
from pydantic import SecretStr

from gateway.config.alerts import AlertSettings, EmailSettings, WebhookSettings
from gateway.doctor.receivers import tried
from tests.fakes.smtp_server import PASSWORD, USER, smtp_server
from tests.gateway.cli.conftest import Tieline


def settings(port: int, password: str) -> AlertSettings:
    email = EmailSettings(
        host="127.0.0.1",
        port=port,
        security="none",
        user=USER,
        password=SecretStr(password),
        sender="tieline@example.org",
        to=("ops@example.org",),
    )
    return AlertSettings(email=email, webhook=WebhookSettings(url=SecretStr("https://x.example/s3cret")))


@pytest.mark.parametrize(
    ("password", "level", "finding"),
    [
        (PASSWORD, "ok", "it takes the connection and the password"),
        ("wrong", "error", "the server refuses the password: 535 5.7.8"),
    ],
)
async def test_the_mail_server_is_logged_in_to_and_nothing_is_sent(password: str, level: str, finding: str) -> None:
    async with smtp_server() as server:
        by_mail, by_hook = await tried(settings(server.port, password))
        assert server.messages == []
    assert by_mail.level == level
    assert finding in by_mail.finding
    assert (by_hook.level, by_hook.finding) == (
        "ok",
        "to x.example as json, not tried: `tieline alerts test` sends one",
    )


async def test_a_webhook_whose_secret_goes_in_the_clear_is_told() -> None:
    webhook = WebhookSettings(url=SecretStr("http://x.example/s3cret"), format="slack")
    (found,) = await tried(AlertSettings(webhook=webhook))
    assert found.level == "warning"
    assert "s3cret" not in found.finding


def test_mistakes_of_the_sections_are_told(tieline: Tieline) -> None:
    ran = tieline("config", "check", config='[alerts.email]\nhost = "x.example"\nsecurity = "none"\n')
    assert ran.exit_code == 78
    assert 'alerts.email.security: "none" is for a mail server on this machine' in ran.stderr
    assert "alerts.email.to: is empty" in ran.stderr
