"""`tieline mcp login | logout`: who we are to MCP servers that ask for OAuth."""

import logging
import os
import sys
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import anyio
import click
from anyio.abc import SocketStream
from anyio.streams.memory import MemoryObjectSendStream

from agent.core.clock import SystemClock
from agent.tools.mcp.settings import ServerSettings, login_file
from gateway.cli.options import config_option, fail, home_from, settings_from
from gateway.web.control_client import NoGateway, Refused, call, is_running

WAITS_S = 900.0  # for the person
PATH = "/callback"
LARGEST_HEAD, HEAD_WITHIN_S = 16_384, 10.0  # of what the browser sends, bytes and seconds
LARGEST_PASTED = 16_384  # bytes
PAGE = (
    b"HTTP/1.1 %s\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %d\r\nConnection: close\r\n"
    b"Cache-Control: no-store\r\n\r\n%s"
)


@click.group("mcp")
def command() -> None:
    """Log in at MCP servers that ask for it."""


@command.command(short_help="Log in at this server.")
@click.argument("name")
@click.argument("address", required=False)
@click.option(
    "--client-id", default="", help="Of a client that you registered there yourself; its secret is asked for."
)
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Of the address you are sent back to; else any.")
@config_option
def login(
    name: str, address: str | None, client_id: str, port: int, config_path: Path | None, home: Path | None
) -> None:
    """Log in at the MCP server NAME of the configuration, or at ADDRESS for one that was added with /mcp add.

    Open the printed address in a browser, anywhere. On this machine the rest goes by itself; elsewhere (over ssh) the
    browser ends on a page that it cannot show: paste that page's address here.
    """
    settings = settings_from(config_path, home)
    try:
        server = ServerSettings(name=name, url=address) if address else None
    except ValueError as error:
        fail(str(error))
    configured = next((one for one in settings.mcp.servers if one.name.lower() == name.lower()), None)
    server = configured or server
    if server is None:
        known = ", ".join(one.name for one in settings.mcp.servers if one.url) or "none with an address"
        fail(f"there is no [[mcp.servers]] called {name!r} ({known}); of one added in a chat give the address as well")
    if not server.url:
        fail(f"{server.name} is a program that is started; only a server with an address can ask for a login")
    if server.has_own_login:
        fail(f"{server.name} has an Authorization among its headers, which goes first; take that out of the file")
    secret = ""
    if client_id:
        secret = click.prompt("Secret of the client (Enter: none)", default="", hide_input=sys.stdin.isatty())
    registered = (client_id, secret) if client_id else None
    logging.getLogger("mcp").setLevel(logging.CRITICAL + 1)  # its errors are told below, in one line
    wire, logins = import_module("agent.tools.mcp.wire"), import_module("agent.tools.mcp.login")
    try:
        kept = anyio.run(_logged_in, wire, logins, server, port, registered)
        if kept is None:
            click.echo(f"{server.name} answers without a login.")
            return
        logins.write(login_file(settings.home, server.name), kept)
    except logins.LoginFailed as error:
        fail(f"no login at {server.name}: {error}")
    except OSError as error:
        fail(f"no login at {server.name}: {error.strerror or error}")
    except TimeoutError:
        fail(f"no login at {server.name}: nobody came back within {WAITS_S / 60:g} minutes")
    click.echo(f"You are logged in at {server.name}.")
    _tell_gateway(settings.home, server.name)


@command.command(short_help="Forget the login at this server.")
@click.argument("name")
@config_option
def logout(name: str, config_path: Path | None, home: Path | None) -> None:
    """Forget the login at this server; what it gave out ends by itself there."""
    folder = home_from(home)
    try:
        login_file(folder, name).unlink()
    except FileNotFoundError:
        fail(f"there is no login at {name!r}")
    except OSError as error:
        fail(f"the login at {name} stays: {error.strerror}")
    click.echo(f"The login at {name} is forgotten.")
    _tell_gateway(folder, name)


def _tell_gateway(home: Path, name: str) -> None:
    if not is_running(home):
        return
    try:
        call(home, "mcp.reconnect", name=name)
    except (NoGateway, Refused) as error:
        click.echo(f"The running gateway was not told ({error}); it sees it when it connects the next time.")
    else:
        click.echo("The running gateway connects anew.")


async def _logged_in(
    wire: Any, logins: Any, server: ServerSettings, port: int, registered: tuple[str, str] | None
) -> Any:
    """Raises LoginFailed, OSError where the port is taken, TimeoutError."""
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=port)
    own = listener.extra(anyio.abc.SocketAttribute.local_port)  # noqa: S610 - of anyio
    redirect = f"http://127.0.0.1:{own}{PATH}"
    send, came = anyio.create_memory_object_stream[str](8)

    async def show(address: str) -> None:
        click.echo(f"Open this address and log in:\n\n  {address}\n")
        click.echo(f"If the browser ends on a page of 127.0.0.1:{own} that it cannot show, paste that address here:")

    async def sent_back() -> str:
        async with anyio.create_task_group() as group:
            group.start_soon(listener.serve, partial(_visited, f"http://127.0.0.1:{own}", send))
            group.start_soon(_pasted, send)
            async for address in came:
                try:
                    logins.code_in(address)
                except ValueError as error:
                    click.echo(f"{error}:")
                    continue
                except logins.LoginFailed:
                    pass  # the server's no is an answer as well
                group.cancel_scope.cancel()
                return address
        raise TimeoutError

    async with listener, send, came:
        with anyio.fail_after(WAITS_S):
            return await wire.logged_in(
                server, SystemClock(), redirect=redirect, show=show, sent_back=sent_back, registered=registered
            )


async def _visited(origin: str, send: MemoryObjectSendStream[str], browser: SocketStream) -> None:
    """A browser of this machine that was sent back."""
    head = b""
    try:
        async with browser:
            with anyio.fail_after(HEAD_WITHIN_S):
                while b"\r\n" not in head and len(head) < LARGEST_HEAD:
                    head += await browser.receive(LARGEST_HEAD - len(head))
                method, _, rest = head.partition(b"\r\n")[0].decode("ascii", "replace").partition(" ")
                target = rest.partition(" ")[0]
                is_meant = method == "GET" and target.startswith(f"{PATH}?")
                said = (
                    b"You can close this page and go back to the terminal." if is_meant else b"There is nothing here."
                )
                await browser.send(PAGE % (b"200 OK" if is_meant else b"404 Not Found", len(said), said))
    except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError, TimeoutError):
        return
    if is_meant:
        await send.send(origin + target)


async def _pasted(send: MemoryObjectSendStream[str]) -> None:
    """Lines of the terminal. At its end only the browser is waited for."""
    pending = b""
    while True:
        piece = await _piece(sys.stdin.fileno())
        *lines, pending = (pending + piece).split(b"\n")
        if not piece or len(pending) > LARGEST_PASTED:
            lines, pending = [*lines, pending[:LARGEST_PASTED]], b""
        for line in lines:
            if line.strip():
                await send.send(line.decode("utf-8", "replace").strip())
        if not piece:
            return


async def _piece(descriptor: int) -> bytes:
    """The bytes that can be read now, b"" at the end."""
    try:
        await anyio.wait_readable(descriptor)
    except PermissionError:  # epoll refuses a regular file, which never has to be waited for
        return await anyio.to_thread.run_sync(os.read, descriptor, LARGEST_PASTED)
    return os.read(descriptor, LARGEST_PASTED)
