"""All MCP servers, of the configuration and added later; what they offer is lent to the gateway's toolbox."""

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import anyio
from anyio.abc import TaskGroup

from agent.core.clock import Clock
from agent.core.tools import Tool
from agent.tools.mcp.offers import prefix_of
from agent.tools.mcp.resources import LENDER, resource_tools
from agent.tools.mcp.server import Server
from agent.tools.mcp.settings import McpSettings, ServerSettings, login_file


class Servers:
    """Runs beside everything else; without servers it does nothing, and the SDK is not loaded."""

    def __init__(
        self,
        settings: McpSettings,
        clock: Clock,
        home: Path,
        *,
        lend: Callable[[str, Sequence[Tool]], None],
        health: Callable[[str, str | None], None] = lambda name, trouble: None,
        expect: Callable[[str, str], None] = lambda name, prefix: None,
        tried: Callable[[str], None] = lambda name: None,
        sync_logins: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """`expect` is told what the names of a server's tools will begin with, `tried` that it was connected, or was
        not, for the first time. `sync_logins` brings logins to the state that other processes know."""
        self._sync_logins = sync_logins
        self._clock = clock
        self._home = home
        self._lend_out = lend
        self._heard: Callable[[], None] = lambda: None
        self._health = health
        self._expect = expect
        self._tried = tried
        self._has_resources = False
        self._servers: dict[str, Server] = {}
        self._scopes: dict[str, anyio.CancelScope] = {}
        self._tasks: TaskGroup | None = None
        for one in settings.servers:
            if one.enabled:
                self.add(one)

    @property
    def all(self) -> tuple[Server, ...]:
        return tuple(self._servers.values())

    def named(self, name: str) -> Server | None:
        return next((one for one in self.all if one.settings.name.lower() == name.lower()), None)

    def reconnect(self, name: str) -> bool:
        """Connect it anew, at once; False where there is none of that name."""
        found = self.named(name)
        if found is not None:
            found.reconnect()
        return found is not None

    def add(self, settings: ServerSettings) -> None:
        """Keep it connected from now on, or from `run` on."""
        name = settings.name
        server = self._servers[name] = Server(
            settings,
            self._clock,
            self._home / "logs" / f"mcp-{name}.log",
            login_file(self._home, name),
            lend=self._lend,
            health=self._told,
            listed=self._list_resources,
            sync=self._sync_logins,
        )
        self._expect(name, prefix_of(name))
        if self._tasks is not None:
            self._tasks.start_soon(self._keep, server)

    def remove(self, name: str) -> None:
        """Part from it; its tools go, and a call of one that runs ends with an error."""
        del self._servers[name]
        if (scope := self._scopes.pop(name, None)) is not None:
            scope.cancel()
        self._lend(name, ())
        self._list_resources()
        self._told(name, None)

    def listen(self, heard: Callable[[], None]) -> None:
        """Call it whenever the state of one of them, or what it offers, is another. One listener."""
        self._heard = heard

    def _lend(self, name: str, tools: Sequence[Tool]) -> None:
        self._lend_out(name, tools)
        self._heard()

    def _told(self, name: str, trouble: str | None) -> None:
        self._tried(name)
        self._health(name, trouble)
        self._heard()

    def _list_resources(self) -> None:
        """Lend the tools that read resources while there are any."""
        has = any(one.catalogue.resources for one in self.all)
        if has != self._has_resources:
            self._has_resources = has
            self._lend(LENDER, resource_tools(lambda: self.all) if has else ())
        self._heard()

    async def run(self) -> None:
        """Keep them all connected, until cancelled."""
        async with anyio.create_task_group() as group:
            self._tasks = group
            try:
                for server in self.all:
                    group.start_soon(self._keep, server)
                await anyio.sleep_forever()
            finally:
                self._tasks = None  # one that is added now waits for the next run

    async def _keep(self, server: Server) -> None:
        with anyio.CancelScope() as scope:
            self._scopes[server.settings.name] = scope
            await server.run()
