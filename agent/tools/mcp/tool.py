"""A tool of an MCP server as the gateway's tools are: called like them, and never trusted."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from agent.core.tools import ToolContext, ToolSpec

Call = Callable[[str, Mapping[str, Any], ToolContext], Awaitable[str]]


class McpTool:
    """`foreign` is what the server calls it."""

    def __init__(self, spec: ToolSpec, foreign: str, call: Call) -> None:
        self.spec = spec
        self._foreign = foreign
        self._call = call

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> str:
        return await self._call(self._foreign, arguments, context)
