"""All MCP servers of the configuration; what they offer is lent to the house's toolbox."""

from collections.abc import Callable, Sequence
from pathlib import Path

import anyio

from agent.core.clock import Clock
from agent.core.tools import Tool
from agent.tools.mcp.offers import prefix_of
from agent.tools.mcp.server import Server
from agent.tools.mcp.settings import McpSettings


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
    ) -> None:
        self.all = tuple(
            Server(one, clock, home / "logs" / f"mcp-{one.name}.log", lend=lend, health=health)
            for one in settings.servers
            if one.enabled
        )
        for server in self.all:
            expect(server.settings.name, prefix_of(server.settings.name))

    async def run(self) -> None:
        async with anyio.create_task_group() as group:
            for server in self.all:
                group.start_soon(server.run)
