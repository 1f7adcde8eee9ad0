"""E-mail against a mail server on loopback that is as unkind as real ones."""

import ssl
from base64 import b64encode
from datetime import UTC, datetime
from pathlib import Path

import anyio
import pytest
from pydantic import SecretStr

from gateway.config.alerts import EmailSettings, Security
from gateway.receivers.email import Email, NotSent, tls_context
from gateway.receivers.message import AlertMessage, Taken
from gateway.storage.alert_rows import AlertRow
from tests.fakes.smtp_server import PASSWORD, USER, SmtpServer, Unkind, certificate_for, smtp_server
from tests.fakes.waiting import until

NOW = datetime(2026, 11, 28, 22, 0, tzinfo=UTC)


def row(text: str, number: int = 1) -> AlertRow:
    return AlertRow(
        id=number,
        receiver="email",
        subject="",
        severity="warning",
        text=text,
        created_at=int(NOW.timestamp() * 1_000_000),
        due_at=0,
        attempts=1,
        error="",
        state="open",
        ended_at=None,
    )


def message(*texts: str) -> AlertMessage:
    return AlertMessage(rows=[row(text, number) for number, text in enumerate(texts, 1)], host="box")


def settings(server: SmtpServer, security: Security = "none", *, password: str = "", to: str = "") -> EmailSettings:
    return EmailSettings(
        host="127.0.0.1",
        port=server.port,
        security=security,
        user=USER if password else "",
        password=SecretStr(password) if password else None,
        sender="tieline@example.org",
        to=tuple(to.split()) or ("ops@example.org",),
    )


def trusting(certificate: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(certificate))


async def test_a_message_is_taken_after_the_final_dot() -> None:
    async with smtp_server() as server:
        said = await Email(settings(server)).send(message("slack hears nothing", ".a line with a dot"), NOW)
        (mail,) = server.messages
    assert said == Taken(text="127.0.0.1 has taken it for ops@example.org")
    assert mail["Subject"] == "[Tieline] slack hears nothing (and 1 more)"
    assert mail["Auto-Submitted"] == "auto-generated"
    text = mail.get_content()
    assert "slack hears nothing" in text
    assert "\n⚠️ .a line with a dot\n2026-11-28 22:00 UTC" in text.replace("\r\n", "\n")
    assert text.rstrip().endswith("Tieline on box")


@pytest.mark.parametrize("security", ["starttls", "tls"])
async def test_the_password_goes_over_an_encrypted_line_alone(security: Security, tmp_path: Path) -> None:
    certificate = certificate_for(tmp_path)
    async with smtp_server(certificate, at_once=security == "tls") as server:
        server.asks_password = True
        email = Email(settings(server, security, password=PASSWORD), lambda: trusting(certificate))
        await email.send(message("x"), NOW)
        assert server.logins == len(server.messages) == 1
        assert "AUTH" not in server.commands if security == "starttls" else True


async def test_a_certificate_that_nobody_knows_ends_it_before_the_password(tmp_path: Path) -> None:
    async with smtp_server(certificate_for(tmp_path)) as server:
        with pytest.raises(NotSent, match=r"no safe connection: CERTIFICATE_VERIFY_FAILED"):
            await Email(settings(server, "starttls", password=PASSWORD), tls_context).send(message("x"), NOW)
        assert not [command for command in server.commands if command.startswith("AUTH")]


async def test_without_starttls_nothing_goes_in_the_clear(tmp_path: Path) -> None:
    async with smtp_server(certificate_for(tmp_path)) as server:
        server.unkind = "no starttls"
        with pytest.raises(NotSent, match="STARTTLS"):
            await Email(settings(server, "starttls", password=PASSWORD)).send(message("x"), NOW)
        assert server.commands == ["EHLO"]


@pytest.mark.parametrize(
    ("unkind", "why"),
    [
        pytest.param("greylist", "refuses every address: ops@example.org: 451 4.7.1 greylisted", id="greylisting"),
        pytest.param("drop at data", "does not do as it should", id="the line drops"),
        pytest.param("drop after dot", "does not do as it should", id="the line drops before the 250"),
        pytest.param("refuse message", "says no: 554 5.7.1 looks like spam", id="spam"),
        pytest.param("busy", "says no: 421 4.3.2 too many", id="busy"),
    ],
)
async def test_what_a_server_refuses_is_told_in_its_words(unkind: Unkind, why: str) -> None:
    async with smtp_server() as server:
        server.unkind = unkind
        with pytest.raises(NotSent, match=why):
            await Email(settings(server)).send(message("x"), NOW)


async def test_a_wrong_password_is_told(tmp_path: Path) -> None:
    async with smtp_server() as server:
        with pytest.raises(NotSent, match=r"refuses the password: 535 5\.7\.8"):
            await Email(settings(server, password="wrong")).send(message("x"), NOW)


async def test_nobody_there_is_told() -> None:
    async with smtp_server() as server:
        gone = settings(server)
    with pytest.raises(NotSent, match="cannot be reached: Connection refused"):
        await Email(gone).send(message("x"), NOW)


async def test_one_address_of_several_may_be_refused() -> None:
    async with smtp_server() as server:
        server.unkind = "refuse one"
        said = await Email(settings(server, to="gone@example.org ops@example.org")).send(message("x"), NOW)
        assert server.recipients == [["ops@example.org"]]
    missed = "gone@example.org: 550 5.1.1 no such mailbox"
    assert said == Taken(text=f"127.0.0.1 has taken it for ops@example.org, and refuses {missed}", missed=missed)


async def test_a_line_that_drops_after_the_250_is_no_failure() -> None:
    async with smtp_server() as server:
        server.unkind = "drop at quit"
        await Email(settings(server)).send(message("x"), NOW)
        assert len(server.messages) == 1


async def test_a_hostile_text_makes_no_header() -> None:
    async with smtp_server() as server:
        await Email(settings(server)).send(message("a\r\nBcc: eve@example.org\r\n\r\n<script>"), NOW)
        (mail,) = server.messages
    assert mail["Subject"] == "[Tieline] a Bcc: eve@example.org <script>"
    assert mail["Bcc"] is None
    assert server.recipients == [["ops@example.org"]]


async def test_a_login_alone_sends_nothing() -> None:
    async with smtp_server() as server:
        assert (
            await Email(settings(server, password=PASSWORD)).try_login() == "it takes the connection and the password"
        )
        assert server.messages == []


@pytest.mark.requirement("G-114")
async def test_one_that_is_given_up_is_cut_off_and_sends_nothing_later() -> None:
    async with smtp_server() as server:
        server.unkind = "drip"
        with anyio.move_on_after(0.3) as given_up:
            await Email(settings(server)).send(message("x"), NOW)
        assert given_up.cancelled_caught
        await until(lambda: server.connections == 0)


async def test_an_answer_without_end_is_not_read_on() -> None:
    async with smtp_server() as server:
        server.unkind = "flood"
        with anyio.fail_after(10), pytest.raises(NotSent, match="more than 262144 bytes came"):
            await Email(settings(server)).send(message("x"), NOW)


@pytest.mark.requirement("G-114")
@pytest.mark.parametrize("password", [PASSWORD, "s" * 300, "pw"], ids=["usual", "longer than a reason", "short"])
async def test_a_login_that_the_server_repeats_is_not_told(password: str) -> None:
    async with smtp_server() as server:
        server.unkind = "repeat"
        with pytest.raises(NotSent, match=r"500 5\.5\.1 .*\[redacted\]") as told:
            await Email(settings(server, password=password)).send(message("x"), NOW)
    sent = b64encode(f"\0{USER}\0{password}".encode()).decode()
    assert sent[:20] not in str(told.value)


@pytest.mark.requirement("G-114")
async def test_a_password_that_is_told_is_masked_before_the_answer_is_cut() -> None:
    async with smtp_server() as server:
        with pytest.raises(NotSent, match="535") as told:
            await Email(settings(server, password="s" * 300)).send(message("x"), NOW)
    assert "sss" not in str(told.value)


async def test_an_answer_steers_no_terminal() -> None:
    async with smtp_server() as server:
        server.unkind = "steer"
        with pytest.raises(NotSent) as told:
            await Email(settings(server)).send(message("x"), NOW)
    assert str(told.value) == "the server says no: 554 5.7.1 [2J\ufffdspam"
