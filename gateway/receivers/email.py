"""E-mail to the receiver of `[alerts.email]`, by the standard library in a worker thread."""

import smtplib
import socket
import ssl
from base64 import b64encode
from collections.abc import Callable
from contextlib import ExitStack, suppress
from datetime import datetime
from email.message import EmailMessage
from email.utils import format_datetime
from io import BufferedReader
from threading import Lock

import anyio

from agent.core.untrusted_text import one_line
from gateway.config.alerts import EmailSettings
from gateway.receivers.message import AlertMessage, Taken

STEP_WITHIN_S = 15.0  # for each answer of the server
LONGEST_REASON = 200  # characters of a server's answer
MOST_ANSWERED = 256 * 1024  # bytes of all answers of a connection; an answer may have any number of lines
TEMPORARY = 4  # the first digit of an answer that may be another one later: RFC 5321, section 4.2.1
MASK = "[redacted]"
LEAST_MASKED = 6  # characters; a shorter password would blank out ordinary words


class NotSent(Exception):
    """It has not left; the text says why, without secrets."""


def tls_context() -> ssl.SSLContext:
    """The system's certificates, and names are checked."""
    return ssl.create_default_context()


class Email:
    """Sends by one mail server. `tls` makes the context for encrypted connections.

    `only` is the one address of the receiver's that it goes to; "": it goes to all of them.
    """

    def __init__(
        self, settings: EmailSettings, tls: Callable[[], ssl.SSLContext] = tls_context, *, only: str = ""
    ) -> None:
        self._settings = settings
        self._tls = tls
        self._to = (only,) if only else settings.to

    @property
    def where(self) -> str:
        """The receiver in words."""
        return f"e-mail to {', '.join(self._to)} by {self._settings.host}:{self._settings.usual_port}"

    async def send(self, message: AlertMessage, at: datetime) -> Taken:
        """Give it to the mail server. Raises NotSent."""
        mail = _mail(message, self._settings, at)
        return await self._in_thread(lambda connection: self._send(connection, mail))

    async def try_login(self) -> str:
        """Connect and log in, without a message. Raises NotSent."""
        return (await self._in_thread(self._login_alone)).text

    async def _in_thread(self, work: Callable[["_Connection"], Taken]) -> Taken:
        connection = _Connection()
        try:
            return await anyio.to_thread.run_sync(lambda: work(connection), abandon_on_cancel=True)
        except smtplib.SMTPRecipientsRefused as error:
            raise NotSent(f"the server refuses every address: {self._refusals(error.recipients)}") from error
        except smtplib.SMTPAuthenticationError as error:
            told = self._answer(error.smtp_code, error.smtp_error)
            raise NotSent(f"the server refuses the password: {told}") from error
        except smtplib.SMTPResponseException as error:
            raise NotSent(f"the server says no: {self._answer(error.smtp_code, error.smtp_error)}") from error
        except smtplib.SMTPException as error:
            raise NotSent(f"the server does not do as it should: {self._told(str(error))}") from error
        except ssl.SSLError as error:
            raise NotSent(f"no safe connection: {error.reason or type(error).__name__}") from error
        except (OSError, ValueError) as error:
            told = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise NotSent(f"the server cannot be reached: {self._told(told)}") from error
        finally:
            # Abandoned, the thread would go on, and give the server a message that is about to be sent once more.
            connection.cut()

    def _login(self, connection: "_Connection") -> smtplib.SMTP:
        settings = self._settings
        host, port = settings.host, settings.usual_port
        if settings.security == "tls":
            server: smtplib.SMTP = _EncryptedServer(connection, host, port, self._tls())
        else:
            server = _Server(connection, host, port)
        with ExitStack() as undo:
            undo.callback(server.close)
            if settings.security == "starttls":
                server.starttls(context=self._tls())  # raises where the server has none: nothing goes in the clear
            if settings.user and settings.password is not None:
                server.login(settings.user, settings.password.get_secret_value())
            undo.pop_all()
        return server

    def _login_alone(self, connection: "_Connection") -> Taken:
        server = self._login(connection)
        _leave(server)
        return Taken(text="it takes the connection" + (" and the password" if self._settings.user else ""))

    def _send(self, connection: "_Connection", mail: EmailMessage) -> Taken:
        server = self._login(connection)
        with ExitStack() as undo:
            undo.callback(server.close)
            refused = server.send_message(mail, self._settings.sender, list(self._to))
            undo.pop_all()
        # Taken by now, whatever becomes of the farewell: a second try would be a second message.
        _leave(server)
        taken = [address for address in self._to if address not in refused]
        told = f"{self._settings.host} has taken it for {', '.join(taken)}"
        if not refused:
            return Taken(text=told)
        missed = self._refusals(refused)
        later = tuple(address for address, (code, _) in refused.items() if code // 100 == TEMPORARY)
        return Taken(text=f"{told}, and refuses {missed}", missed=missed, later=later)

    def _refusals(self, refused: dict[str, tuple[int, bytes]]) -> str:
        return "; ".join(f"{address}: {self._answer(code, text)}" for address, (code, text) in refused.items())

    def _answer(self, code: int, text: bytes | str) -> str:
        words = text.decode(errors="replace") if isinstance(text, bytes) else str(text)
        return f"{code} {self._told(words)}"

    def _told(self, words: str) -> str:
        """The server's answer, for a log and a terminal. Masked before it is cut: half a password is one, too."""
        for secret in self._secrets():
            words = words.replace(secret, MASK)
        return one_line(words)[:LONGEST_REASON]

    def _secrets(self) -> tuple[str, ...]:
        """The password, as it is and as it is sent (RFC 4954): servers repeat what they do not understand."""
        password = self._settings.password.get_secret_value() if self._settings.password is not None else ""
        if not password:
            return ()
        sent = (f"\0{self._settings.user}\0{password}", password)
        plain = (password,) if len(password) >= LEAST_MASKED else ()
        return (*(b64encode(one.encode()).decode() for one in sent), *plain)


class _Connection:
    """The connection of a thread, which others can cut: nothing is sent from then on. Made for one attempt."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._sock: socket.socket | None = None
        self._is_cut = False
        self._answered = 0

    def use(self, sock: socket.socket) -> None:
        """This one is used from now on. Raises OSError where it was cut."""
        with self._lock:
            self._sock = sock
            if self._is_cut:
                raise ConnectionAbortedError("nobody waits for it any more")

    def cut(self) -> None:
        """End it, in whatever the thread waits."""
        with self._lock:
            self._is_cut = True
            if self._sock is not None:
                with suppress(OSError):
                    # Not that of an SSLSocket, which would let the thread go on without encryption.
                    socket.socket.shutdown(self._sock, socket.SHUT_RDWR)

    def count(self, line: bytes) -> bytes:
        """The line of an answer. Raises OSError where all answers together are too long."""
        self._answered += len(line)
        if self._answered > MOST_ANSWERED:
            raise ConnectionAbortedError(f"more than {MOST_ANSWERED} bytes came")
        return line


class _Answers:
    """The lines of a server, counted."""

    def __init__(self, connection: _Connection, lines: BufferedReader) -> None:
        self._connection = connection
        self._lines = lines

    def readline(self, most: int) -> bytes:
        return self._connection.count(self._lines.readline(most))

    def close(self) -> None:
        self._lines.close()


class _Server(smtplib.SMTP):
    """A mail server by a connection that can be cut."""

    def __init__(self, connection: _Connection, host: str, port: int) -> None:
        self._connection = connection
        super().__init__(host, port, timeout=STEP_WITHIN_S)

    def getreply(self) -> tuple[int, bytes]:
        _watch(self, self._connection)
        return super().getreply()


class _EncryptedServer(smtplib.SMTP_SSL):
    """The same, encrypted from the beginning."""

    def __init__(self, connection: _Connection, host: str, port: int, context: ssl.SSLContext) -> None:
        self._connection = connection
        super().__init__(host, port, timeout=STEP_WITHIN_S, context=context)

    def getreply(self) -> tuple[int, bytes]:
        _watch(self, self._connection)
        return super().getreply()


def _watch(server: smtplib.SMTP, connection: _Connection) -> None:
    """Before each answer: STARTTLS and a new connection have put another socket in."""
    assert server.sock is not None
    connection.use(server.sock)
    if server.file is None:
        server.file = _Answers(connection, server.sock.makefile("rb"))


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
