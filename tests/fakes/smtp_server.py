"""A mail server on loopback, as unkind as real ones: greylisting, wrong passwords, lines that drop, TLS asked for."""

import base64
import datetime
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from email.message import EmailMessage
from ipaddress import ip_address
from pathlib import Path
from typing import Literal

import anyio
from anyio.abc import SocketAttribute, SocketStream
from anyio.streams.buffered import BufferedByteReceiveStream
from anyio.streams.tls import TLSStream
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.fakes.running import running

Unkind = Literal[
    "",
    "greylist",  # 451 for every recipient
    "drop at data",  # the line is dead when the message begins
    "drop after dot",  # the message is kept, and the line is dead before the 250
    "refuse message",  # 554 after the dot
    "refuse one",  # 550 for the first recipient
    "greylist one",  # 451 for whoever begins with "later"
    "no starttls",
    "busy",  # 421 for a greeting
    "silent",  # no greeting
    "drop at quit",
    "drip",  # its answer to EHLO has a line now and then, and no end
    "flood",  # the same, as fast as the line takes it
    "repeat",  # what it did not understand: the login
    "steer",  # 554 after the dot, with signs that steer a terminal and one that no database takes
]
USER, PASSWORD = "alerts", "correct horse battery"
LONGEST_LINE = 64 * 1024


class _Dropped(Exception):
    """The line is dead."""


@dataclass
class SmtpServer:
    """`unkind` is what it does from now on. `messages` are those that it has taken (or kept, where it drops then)."""

    port: int = 0
    unkind: Unkind = ""
    asks_password: bool = False
    messages: list[EmailMessage] = field(default_factory=list)
    recipients: list[list[str]] = field(default_factory=list)
    commands: list[str] = field(default_factory=list)  # their verbs, and whether the line was encrypted
    logins: int = 0
    connections: int = 0  # that are open
    tls: ssl.SSLContext | None = None

    async def serve(self, stream: SocketStream) -> None:
        """One connection."""
        async with stream:
            self.connections += 1
            try:
                await _Session(self, stream).run()
            except (_Dropped, anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
                pass
            except anyio.IncompleteRead:
                pass
            finally:
                self.connections -= 1


class _Session:
    def __init__(self, server: SmtpServer, stream: SocketStream) -> None:
        self._server = server
        self._stream: SocketStream | TLSStream = stream
        self._lines = BufferedByteReceiveStream(stream)
        self._is_safe = self._is_known = False
        self._to: list[str] = []

    async def run(self) -> None:
        if self._server.unkind == "silent":
            await anyio.sleep_forever()
        if self._server.unkind == "busy":
            await self._say("421 4.3.2 too many connections, try again later")
            return
        await self._say("220 double.test ESMTP")
        while True:
            line = (await self._lines.receive_until(b"\r\n", LONGEST_LINE)).decode()
            verb = line.partition(" ")[0].upper()
            self._server.commands.append(f"{verb}{' (TLS)' if self._is_safe else ''}")
            if verb == "QUIT":
                if self._server.unkind == "drop at quit":
                    raise _Dropped
                await self._say("221 2.0.0 bye")
                return
            await self._do(verb, line)

    async def _do(self, verb: str, line: str) -> None:
        server = self._server
        match verb:
            case "EHLO" | "HELO" if server.unkind in ("drip", "flood"):
                while True:
                    await self._say(*["250-and more"] * (100 if server.unkind == "flood" else 1))
                    await anyio.sleep(0.0 if server.unkind == "flood" else 0.02)
            case "EHLO" | "HELO":
                offers = ["double.test"]
                if not self._is_safe and server.tls is not None and server.unkind != "no starttls":
                    offers.append("STARTTLS")
                if self._is_safe or server.tls is None:
                    offers.append("AUTH PLAIN")
                await self._say(*(f"250{'-' if one != offers[-1] else ' '}{one}" for one in offers))
            case "STARTTLS":
                await self._say("220 2.0.0 go ahead")
                assert server.tls is not None
                self._stream = await TLSStream.wrap(
                    self._stream, server_side=True, ssl_context=server.tls, standard_compatible=False
                )
                self._lines, self._is_safe = BufferedByteReceiveStream(self._stream), True
            case "AUTH":
                await self._log_in(line)
            case "MAIL":
                if server.asks_password and not self._is_known:
                    await self._say("530 5.7.0 authentication required")
                else:
                    self._to = []
                    await self._say("250 2.1.0 ok")
            case "RCPT":
                await self._recipient(line[line.index("<") + 1 : line.index(">")])
            case "DATA":
                await self._data()
            case "RSET" | "NOOP":
                await self._say("250 2.0.0 ok")
            case _:
                await self._say("502 5.5.2 not known")

    async def _log_in(self, line: str) -> None:
        if self._server.unkind == "repeat":
            await self._say(f"500 5.5.1 {'I do not know what this is: ' * 5} {line}")
            return
        _, user, password = base64.b64decode(line.split()[2]).decode().split("\0")
        if (user, password) == (USER, PASSWORD):
            self._is_known = True
            self._server.logins += 1
            await self._say("235 2.7.0 welcome")
        else:
            await self._say(f"535 5.7.8 the password {password} is wrong")  # more unkind than real ones: it is told

    async def _recipient(self, address: str) -> None:
        unkind = self._server.unkind
        if unkind == "greylist" or (unkind == "greylist one" and address.startswith("later")):
            await self._say("451 4.7.1 greylisted, come back later")
        elif unkind == "refuse one" and not self._to and address.startswith("gone"):
            await self._say("550 5.1.1 no such mailbox")
        else:
            self._to.append(address)
            await self._say("250 2.1.5 ok")

    async def _data(self) -> None:
        unkind = self._server.unkind
        if unkind == "drop at data":
            raise _Dropped
        await self._say("354 end with a dot")
        body = bytearray()
        while (line := await self._lines.receive_until(b"\r\n", LONGEST_LINE)) != b".":
            body += line.removeprefix(b".") + b"\r\n"
        if unkind == "refuse message":
            await self._say("554 5.7.1 looks like spam")
            return
        if unkind == "steer":
            await self._say("554 5.7.1 \x1b[2J\0\u202espam")
            return
        self._server.messages.append(message_from_bytes(bytes(body), policy=policy.default))
        self._server.recipients.append(self._to)
        if unkind == "drop after dot":
            raise _Dropped
        await self._say("250 2.0.0 taken")

    async def _say(self, *lines: str) -> None:
        await self._stream.send("".join(f"{line}\r\n" for line in lines).encode())


@asynccontextmanager
async def smtp_server(certificate: Path | None = None, *, at_once: bool = False) -> AsyncIterator[SmtpServer]:
    """A mail server that listens; with a certificate it offers STARTTLS, or speaks TLS `at_once`."""
    context = None
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
    server = SmtpServer(tls=None if at_once else context)
    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener:
        server.port = listener.extra(SocketAttribute.local_port)

        async def serve_one(stream: SocketStream) -> None:
            if at_once and context is not None:
                try:
                    wrapped = await TLSStream.wrap(
                        stream, server_side=True, ssl_context=context, standard_compatible=False
                    )
                except (ssl.SSLError, anyio.BrokenResourceError, anyio.EndOfStream):
                    return
                await server.serve(wrapped)  # type: ignore[arg-type] # it has what is used of a stream
            else:
                await server.serve(stream)

        async with running(lambda: listener.serve(serve_one)):
            yield server


def certificate_for(folder: Path, name: str = "127.0.0.1") -> Path:
    """A file with a key and a certificate that it signed itself, which is its own authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address(name))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    file = folder / f"{name}.pem"
    file.write_bytes(
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain) + made.public_bytes(serialization.Encoding.PEM)
    )
    return file
