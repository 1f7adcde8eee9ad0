"""Logins at MCP servers that a person makes in the browser that they look at the dashboard with.

The flow is that of `tieline mcp login`, and so is the file. A flow belongs to the sign-in that began it, and its answer
counts once.
"""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from agent.core.clock import Clock
from agent.storage.files.kept import KeptFiles
from agent.tools.mcp.servers import Servers
from agent.tools.mcp.settings import ServerSettings, is_login, login_file
from gateway.config.sections import is_loopback
from gateway.running.basics import Basics

WIRE, LOGIN = "agent.tools.mcp.wire", "agent.tools.mcp.login"
WAITS_S = 900.0  # for the person
BEGINS_WITHIN_S = 30.0  # the server and its authorization server are asked a few times
ENDS_WITHIN_S = 60.0  # the code is given for a token
MOST_OPEN = 20  # flows


SHARED_KEY = Path("secrets", "shared.key")  # the same on each machine, below the data directory

log = logging.getLogger("tieline.mcp")


async def shared_logins(basics: Basics) -> Callable[[], Awaitable[None]] | None:
    """Brings the logins of this data directory to the state that other processes on the PostgreSQL know.

    None on SQLite, and where no SHARED_KEY is there to encrypt them with: each process has logins of its own then.
    """
    if basics.database.dialect != "postgresql":
        return None
    seal_module = await anyio.to_thread.run_sync(import_module, "agent.storage.files.seal")
    try:
        seal = await anyio.to_thread.run_sync(seal_module.read_seal, basics.home / SHARED_KEY)
    except FileNotFoundError:
        log.info("logins at MCP servers are for this process alone: %s is missing (docs/state.md)", SHARED_KEY)
        return None
    except (OSError, ValueError) as error:
        log.warning("logins at MCP servers are for this process alone: %s: %s", SHARED_KEY, error)
        return None
    files = KeptFiles(basics.database, basics.clock, basics.home, seal=seal, holds=is_login)
    return partial(files.sync, "secrets")


class LoginRefused(Exception):
    """There is no login; the text says why and holds no secret."""


@dataclass(slots=True, kw_only=True, eq=False)
class _Flow:
    """A login that is under way. `session` is the sign-in that began it."""

    server: ServerSettings
    session: str
    redirect: str
    registered: tuple[str, str] | None
    address: str = ""
    mistake: str = ""
    sent_back: str = ""
    is_through: bool = False
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    shown: anyio.Event = field(default_factory=anyio.Event)  # or it is over
    answered: anyio.Event = field(default_factory=anyio.Event)
    over: anyio.Event = field(default_factory=anyio.Event)


class McpLogins:
    """Flows by the state that the authorization server gives back; `run` keeps them."""

    def __init__(
        self, servers: Servers, clock: Clock, home: Path, sync: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        """`sync` lets other processes know of a new login."""
        self._sync = sync
        self._servers = servers
        self._clock = clock
        self._home = home
        self._tasks: TaskGroup | None = None
        self._flows: dict[str, _Flow] = {}

    async def run(self) -> None:
        """Follow flows until cancelled."""
        try:
            async with anyio.create_task_group() as self._tasks:
                await anyio.sleep_forever()
        finally:
            self._tasks = None
            self._flows.clear()

    async def begin(
        self, server: ServerSettings, session: str, redirect: str, registered: tuple[str, str] | None
    ) -> str:
        """The address that the person is to open; "" where the server answers without a login.

        `registered` are id and secret of a client that somebody registered there by hand. Raises LoginRefused.
        """
        for state, flow in [*self._flows.items()]:
            if (flow.server.name, flow.session) == (server.name, session):
                self._flows.pop(state).scope.cancel()
        if self._tasks is None or len(self._flows) >= MOST_OPEN:
            raise LoginRefused("too many logins are under way; try again in a quarter of an hour")
        flow = _Flow(server=server, session=session, redirect=redirect, registered=registered)
        self._tasks.start_soon(self.follow, flow)
        with anyio.move_on_after(BEGINS_WITHIN_S):
            await flow.shown.wait()
        if not flow.shown.is_set():
            flow.scope.cancel()
            raise LoginRefused(f"{server.name} did not answer within {BEGINS_WITHIN_S:g} s")
        if flow.mistake:
            raise LoginRefused(flow.mistake)
        return flow.address

    async def finish(self, state: str, session: str, sent_back: str) -> str:
        """Takes the address to which the browser was sent; returns the name of the server that we are logged in at.

        Raises LookupError where nobody began such a login in this sign-in, or it is over; LoginRefused.
        """
        flow = self._flows.get(state)
        if flow is None or flow.session != session:
            raise LookupError("This login was not begun here, or it is over. Begin it again on the server's page.")
        del self._flows[state]
        flow.sent_back = sent_back
        flow.answered.set()
        with anyio.move_on_after(ENDS_WITHIN_S):
            await flow.over.wait()
        if not flow.over.is_set():
            flow.scope.cancel()
            raise LoginRefused(f"the authorization server did not answer within {ENDS_WITHIN_S:g} s")
        if flow.mistake:
            raise LoginRefused(flow.mistake)
        return flow.server.name

    async def follow(self, flow: _Flow) -> None:
        """Goes through one login to its end."""
        try:
            with flow.scope, anyio.move_on_after(WAITS_S):
                await self._logged_in(flow)
                flow.is_through = True
        finally:
            if not flow.is_through:  # cut off, so that nothing was kept: this must not look like a login
                flow.mistake = f"the login at {flow.server.name} took too long, or another took its place"

            for state in [state for state, one in self._flows.items() if one is flow]:
                del self._flows[state]
            flow.shown.set()
            flow.over.set()

    async def _logged_in(self, flow: _Flow) -> None:
        # Loaded by name: the SDK is slow to import, and most gateways never need it.
        wire = await anyio.to_thread.run_sync(import_module, WIRE)
        logins = await anyio.to_thread.run_sync(import_module, LOGIN)

        async def show(address: str) -> None:
            if reason := _why_not_opened(address):
                raise logins.LoginFailed(reason)
            flow.address = address
            self._flows[parse_qs(urlsplit(address).query).get("state", [""])[0]] = flow
            flow.shown.set()

        async def sent_back() -> str:
            await flow.answered.wait()
            return flow.sent_back

        name = flow.server.name
        try:
            kept = await wire.logged_in(
                flow.server,
                self._clock,
                redirect=flow.redirect,
                show=show,
                sent_back=sent_back,
                registered=flow.registered,
            )
            if kept is not None:
                await anyio.to_thread.run_sync(logins.write, login_file(self._home, name), kept)
                if self._sync is not None:
                    await self._sync()
                self._servers.reconnect(name)
        except logins.LoginFailed as error:
            flow.mistake = f"there is no login at {name}: {error}"
        except OSError as error:
            flow.mistake = f"the login at {name} cannot be kept: {error.strerror or error}"


def _why_not_opened(address: str) -> str:
    """Why a browser is not sent there; "" when it is. The address is the server's word."""
    parts = urlsplit(address)
    is_safe = parts.scheme == "https" or (parts.scheme == "http" and is_loopback(parts.hostname or ""))
    return "" if is_safe else f"its address for logins has no https: {address[:100]!r}"


def redirect_for(path: str, public_url: str | None, scheme: str, host: str) -> str:
    """The address for the way back: below `public_url`, else below the one that the browser uses on this machine.

    Raises LoginRefused where neither can be: authorization servers take https, or http of the same machine.
    """
    if public_url:
        return f"{public_url.rstrip('/')}{path}"
    if is_loopback(urlsplit(f"//{host}").hostname or ""):
        return f"{scheme}://{host}{path}"
    raise LoginRefused("nobody can be sent back to this address: set public_url in section [web]")
