"""E-mail to the receiver of `[alerts.email]`, by the standard library in a worker thread."""

import smtplib
import ssl
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from email.message import EmailMessage
from email.utils import format_datetime

import anyio

from gateway.config.alerts import EmailSettings
from gateway.receivers.message import AlertMessage

STEP_WITHIN_S = 15.0  # for each answer of the server
LONGEST_REASON = 200  # characters of a server's answer


class NotSent(Exception):
    """It has not left; the text says why, without secrets."""


def tls_context() -> ssl.SSLContext:
    """The system's certificates, and names are checked."""
    return ssl.create_default_context()


class Email:
    """Sends by one mail server. `tls` makes the context for encrypted connections."""

    def __init__(self, settings: EmailSettings, tls: Callable[[], ssl.SSLContext] = tls_context) -> None:
        self._settings = settings
        self._tls = tls

    @property
    def where(self) -> str:
        """The receiver in words."""
        return f"e-mail to {', '.join(self._settings.to)} by {self._settings.host}:{self._settings.usual_port}"

    async def send(self, message: AlertMessage, at: datetime) -> str:
        """Give it to the mail server; what it answered. Raises NotSent."""
        mail = _mail(message, self._settings, at)
        return await self._in_thread(lambda: self._send(mail))

    async def try_login(self) -> str:
        """Connect and log in, without a message. Raises NotSent."""
        return await self._in_thread(self._login_alone)

    async def _in_thread(self, work: Callable[[], str]) -> str:
        try:
            # Abandoned when the process ends: the thread waits no longer than for one answer.
            return await anyio.to_thread.run_sync(work, abandon_on_cancel=True)
        except smtplib.SMTPRecipientsRefused as error:
            told = "; ".join(f"{address}: {_answer(code, text)}" for address, (code, text) in error.recipients.items())
            raise NotSent(f"the server refuses every address: {told}") from error
        except smtplib.SMTPAuthenticationError as error:
            raise NotSent(f"the server refuses the password: {_answer(error.smtp_code, error.smtp_error)}") from error
        except smtplib.SMTPResponseException as error:
            raise NotSent(f"the server says no: {_answer(error.smtp_code, error.smtp_error)}") from error
        except smtplib.SMTPException as error:
            raise NotSent(f"the server does not do as it should: {str(error)[:LONGEST_REASON]}") from error
        except ssl.SSLError as error:
            raise NotSent(f"no safe connection: {error.reason or type(error).__name__}") from error
        except (OSError, ValueError) as error:
            told = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise NotSent(f"the server cannot be reached: {told}") from error

    def _login(self) -> smtplib.SMTP:
        settings = self._settings
        host, port = settings.host, settings.usual_port
        if settings.security == "tls":
            server: smtplib.SMTP = smtplib.SMTP_SSL(host, port, timeout=STEP_WITHIN_S, context=self._tls())
        else:
            server = smtplib.SMTP(host, port, timeout=STEP_WITHIN_S)
        try:
            if settings.security == "starttls":
                server.starttls(context=self._tls())  # raises where the server has none: nothing goes in the clear
            if settings.user and settings.password is not None:
                server.login(settings.user, settings.password.get_secret_value())
        except BaseException:
            server.close()
            raise
        return server

    def _login_alone(self) -> str:
        server = self._login()
        _leave(server)
        return "it takes the connection" + (" and the password" if self._settings.user else "")

    def _send(self, mail: EmailMessage) -> str:
        server = self._login()
        try:
            refused = server.send_message(mail, self._settings.sender, list(self._settings.to))
        except BaseException:
            server.close()
            raise
        # Taken by now, whatever becomes of the farewell: a second try would be a second message.
        _leave(server)
        if not refused:
            return f"{self._settings.host} has taken it for {', '.join(self._settings.to)}"
        taken = [address for address in self._settings.to if address not in refused]
        told = "; ".join(f"{address}: {_answer(code, text)}" for address, (code, text) in refused.items())
        return f"{self._settings.host} has taken it for {', '.join(taken)}, and refuses {told}"


def _leave(server: smtplib.SMTP) -> None:
    with suppress(smtplib.SMTPException, OSError):
        server.quit()
    server.close()


def _mail(message: AlertMessage, settings: EmailSettings, at: datetime) -> EmailMessage:
    mail = EmailMessage()
    mail["From"] = f"Tieline <{settings.sender}>"
    mail["To"] = ", ".join(settings.to)
    mail["Subject"] = f"[Tieline] {message.subject}"
    mail["Date"] = format_datetime(at)
    # The same when it is sent once more: mail programs show one with a known id only once.
    mail["Message-ID"] = f"<tieline-alert-{message.id}@{settings.sender.rpartition('@')[2]}>"
    mail["Auto-Submitted"] = "auto-generated"  # RFC 3834: no out-of-office answers
    mail.set_content(f"{message.text()}\n\n-- \nTieline on {message.host}\n")
    return mail


def _answer(code: int, text: bytes | str) -> str:
    words = text.decode(errors="replace") if isinstance(text, bytes) else str(text)
    return f"{code} {' '.join(words.split())[:LONGEST_REASON]}"
