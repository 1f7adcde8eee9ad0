"""MCP servers: their state, what they offer and what of it is left out; add, remove, connect anew."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import PurePath
from urllib.parse import quote, urlsplit

import anyio
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from agent.core.phrases import counted, home_as_typed
from agent.providers.endpoints import host_of
from agent.tools.mcp.catalogue import plain_address
from agent.tools.mcp.server import Server
from agent.tools.mcp.settings import ServerSettings, login_file
from agent.tools.mcp.states import ServerState
from gateway.config.document import CannotChange, entries_at
from gateway.config.editor import Editor
from gateway.dashboard.frame.shell import Audit, Done, Page, Section, action, noted, view
from gateway.running.basics import Basics
from gateway.running.mcp.logins import LoginRefused, redirect_for
from gateway.running.tools import ToolServices
from gateway.web.control import OperationError

MOST_SHOWN = 500  # prompts or resources of one server
MCP_SERVERS = ("mcp", "servers")  # the list of the configuration
# Hosted servers take a key as a piece of the path; a name of twenty letters and digits together is rare.
_KEY = re.compile(r"(?=.*\d)(?=.*[A-Za-z])[A-Za-z0-9_.~%-]{20,}")
RECONNECTED_WITHIN_S = 10.0  # what takes longer is told by the page itself
GONE = "removed from the configuration; goes with the next start"
BACK = "/mcp-login"  # where an authorization server sends the browser


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownServer:
    """A server as the pages show it. `since` is when its connection, or its trouble, began.

    `at` tells at how many of several workers that is so; "" where it is so at all. A trouble tells the command that
    logs in, where the server asks for that. `source`: where it was added; `entry` is its place in the file.
    """

    name: str
    is_connected: bool
    at: str
    transport: str
    source: str
    since: datetime | None
    trouble: str
    tools: int
    left_out: int
    prompts: int
    resources: int
    is_removable: bool
    entry: int | None
    takes_login: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class McpPages:
    """The list, one server, and what may be done with it."""

    basics: Basics
    tools: ToolServices
    audit: Audit
    editor: Editor

    def section(self) -> Section:
        """The section."""
        return Section(
            title="MCP servers",
            group="Program",
            entries=(
                view("/mcp", self.all),
                view("/mcp/{name}", self.one),
                action("/mcp-server/add", self.add, name="mcp.add", needs="configure"),
                action("/mcp-server/reconnect/{name}", self.reconnect, name="mcp.reconnect"),
                action("/mcp-server/remove/{name}", self.remove, name="mcp.remove", needs="configure"),
                action("/mcp-server/login/{name}", self.log_in, name="mcp.login", needs="configure"),
                view(BACK, self.logged_in, needs="configure"),
            ),
        )

    async def all(self, request: Request) -> Page:
        """Every server, and those that were added in a chat and are not taken any more."""
        placed, states = await self._placed(), await self.tools.server_states.by_name()
        values = {
            "servers": [self._shown(one.settings, states, placed) for one in self.tools.servers.all],
            "lost": sorted(self.tools.added_servers.left_out),
            "switched_off": [one.name for one in self.basics.settings.mcp.servers if not one.enabled],
            "where": home_as_typed(self.basics.home),
            "top_k": self.basics.settings.mcp.top_k,
        }
        return Page(template="mcp_servers.html", values=values, live=True)

    async def one(self, request: Request) -> Page:
        """A server with its tools, prompts and resources."""
        server, states = self._server(request).settings, await self.tools.server_states.by_name()
        state, _ = state_at(server.name, states)
        values = {
            "title": server.name,
            "one": self._shown(server, states, await self._placed()),
            "tools": state.tools,
            "left_out": state.left_out,
            "unwanted": state.unwanted,
            "prompts": state.prompts[:MOST_SHOWN],
            "resources": state.resources[:MOST_SHOWN],
            "where": home_as_typed(self.basics.home),
            "top_k": self.basics.settings.mcp.top_k,
        }
        return Page(template="mcp_server.html", values=values, live=True)

    async def add(self, request: Request) -> Done:
        """Connects to a server by its address, now and after every start."""
        form = await request.form()
        name, address = str(form.get("name") or "").strip(), str(form.get("address") or "").strip()
        try:
            await self.tools.added_servers.add(name, address)
        except ValueError as error:
            raise OperationError(str(error).replace(", not into a chat", "")) from error
        text = f"{name} is added and is being connected. A person is asked before each call of its tools."
        return Done(text=text, subject=name, detail=host_of(address))

    async def reconnect(self, request: Request) -> Done:
        """Parts from it and connects anew; tells how that went, where it does not take long."""
        server = self._server(request)
        name, text = server.settings.name, "is being connected anew; this page tells when it is there"
        self.tools.server_states.reconnect(name)
        with anyio.move_on_after(RECONNECTED_WITHIN_S if self._connects else 0):
            trouble = self.basics.redact(await server.outcome()).rstrip(".")
            connected = f"is connected: {counted(len(server.tools), 'tool')}"
            text = f"is not connected: {trouble}. It is tried again by itself" if trouble else connected
        return Done(text=f"{name} {text}.", subject=name)

    async def remove(self, request: Request) -> Done:
        """Forgets a server that was added at runtime."""
        name = request.path_params["name"]
        if await self.tools.added_servers.remove(name):
            return Done(text=f"{name} is removed.", subject=name, go="/mcp")
        if self.tools.servers.named(name) is None:
            raise LookupError(f"There is no MCP server {name}.")
        raise OperationError(f"{name} stands in the configuration", fix="take its [[mcp.servers]] entry out there")

    async def log_in(self, request: Request) -> Done:
        """Begins a login; the browser goes to the authorization server."""
        server, form = self._server(request).settings, await request.form()
        if not _takes_login(server):
            raise OperationError(f"{server.name} takes no login by a person", fix="see its [[mcp.servers]] entry")
        client, secret = (str(form.get(name) or "").strip() for name in ("client", "secret"))
        try:
            host, public_url = request.headers.get("host", ""), self.basics.settings.web.public_url
            redirect = redirect_for(BACK, public_url, request.url.scheme, host)
            registered = (client, secret) if client else None
            address = await self.tools.logins.begin(server, request.state.session.hash, redirect, registered)
        except LoginRefused as error:
            raise OperationError(self.basics.redact(str(error))) from error
        if not address:
            return Done(text=f"{server.name} answers without a login.", subject=server.name, detail="not needed")
        host = host_of(address)
        return Done(text=f"You are sent to {host}.", subject=server.name, detail=f"begun at {host}", go=address)

    async def logged_in(self, request: Request) -> Page | Response:
        """Takes what the authorization server sent the browser back with."""
        state = request.query_params.get("state", "")
        try:
            name = await self.tools.logins.finish(state, request.state.session.hash, str(request.url))
        except LoginRefused as error:
            said = self.basics.redact(str(error))
            text = f"{said[:1].upper()}{said[1:]}. Begin it again on the server's page."
            return Page(template="nothing.html", values={"text": text}, status_code=409)
        await self.audit(noted(request, self.basics.clock, "mcp.login", name, "done"))
        return RedirectResponse(f"/mcp/{quote(name, safe='')}", status_code=303)

    def _server(self, request: Request) -> Server:
        name = request.path_params["name"]
        found = self.tools.servers.named(name)
        if found is None:
            raise LookupError(f"There is no MCP server {name}.")
        return found

    async def removed(self) -> Collection[str]:
        """The servers that run and stand in the configuration no more."""
        placed, added = await self._placed(), self.tools.added_servers.names
        names = {one.settings.name for one in self.tools.servers.all}
        return () if placed is None else names - set(placed) - set(added)

    async def _placed(self) -> Mapping[str, int] | None:
        """Where the file names each server; None where that cannot be told."""
        if self.editor.variable(MCP_SERVERS):
            return None
        try:
            file = await anyio.to_thread.run_sync(self.editor.file)
            found = entries_at(file.text, MCP_SERVERS)
        except (CannotChange, ValueError):
            return None
        return {str(entry.get("name", "")): index for index, entry in enumerate(found)}

    @property
    def _connects(self) -> bool:
        """Whether this process keeps servers connected."""
        return self.basics.cluster is None or "worker" in self.basics.cluster.roles

    def _shown(
        self, settings: ServerSettings, states: Mapping[str, Sequence[ServerState]], placed: Mapping[str, int] | None
    ) -> ShownServer:
        name = settings.name
        state, at = state_at(name, states)
        open_one = next((one for one in self.basics.troubles.open if (one.kind, one.subject) == ("mcp", name)), None)
        is_added = name in self.tools.added_servers.names
        is_gone = not is_added and placed is not None and name not in placed
        return ShownServer(
            name=name,
            is_connected=state.is_connected,
            at=at,
            transport=self.basics.redact(transport_of(settings)),
            source="added at runtime" if is_added else GONE if is_gone else "of the configuration",
            since=state.since or (open_one.since if open_one is not None else None),
            trouble="" if is_gone else self.basics.redact(state.trouble),
            tools=len(state.tools),
            left_out=len(state.left_out),
            prompts=len(state.prompts),
            resources=len(state.resources),
            is_removable=is_added,
            entry=None if is_added or placed is None else placed.get(name),
            # One that nobody has a login for, and that asks for none, would send the person nowhere.
            takes_login=_takes_login(settings)
            and not is_gone
            and (state.wants_login or login_file(self.basics.home, name).exists()),
        )


def state_at(name: str, states: Mapping[str, Sequence[ServerState]]) -> tuple[ServerState, str]:
    """The state to show: where workers differ, that of one which is not connected; and at how many it is so."""
    found = states.get(name, ())
    if not found:
        trouble = "no process of the role worker runs that could connect it"
        return ServerState(name=name, is_connected=False, since=None, trouble=trouble, wants_login=False), ""
    without = [one for one in found if not one.is_connected]
    alike = without or found
    return alike[0], f"at {len(alike)} of {counted(len(found), 'worker')}" if len(alike) < len(found) else ""


def _takes_login(settings: ServerSettings) -> bool:
    return bool(settings.url) and not settings.has_own_login


def transport_of(settings: ServerSettings) -> str:
    """A program, or an address without its name, password and query: these, arguments and headers may hold secrets."""
    if settings.command:
        return f"program {PurePath(settings.command).name}"
    parts = urlsplit(settings.url)
    path = "/".join("…" if _KEY.fullmatch(piece) else piece for piece in parts.path.split("/"))
    return plain_address(f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{path}")
