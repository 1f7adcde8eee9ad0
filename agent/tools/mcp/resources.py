"""The tools with which the model looks at resources of MCP servers; lent while a connected server has any."""

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

from pydantic import Field

from agent.core.errors import ToolError
from agent.core.function_tools import tool, tools_of
from agent.core.tools import Appraisal, Tool, ToolContext
from agent.tools.mcp.catalogue import LONGEST_ADDRESS, listed
from agent.tools.mcp.server import Server

LENDER = "resources of MCP servers"  # no server can be called that

_Server = Annotated[str, Field(description="The server's name.")]


def resource_tools(servers: Callable[[], Sequence[Server]]) -> tuple[Tool, ...]:
    return tools_of(ResourceTools(servers))


class ResourceTools:
    """Lists from what the `servers` have said of themselves; reads by asking one of them."""

    def __init__(self, servers: Callable[[], Sequence[Server]]) -> None:
        self._servers = servers

    @tool(category="info", risk="safe", touches="outside", effects=[], untrusted=True)
    async def list_mcp_resources(self, *, server: _Server | None = None) -> str:
        """List what the connected MCP servers have to read (resources), by address; a template's {names} are to be
        filled in."""
        asked = [_named(self._servers(), server)] if server else self._servers()
        lists = (listed(one.settings.name, one.catalogue.resources) for one in asked if one.is_connected)
        return "\n".join(text for text in lists if text) or "There are no resources."

    @tool(category="info", risk="safe", touches="outside", effects=[], untrusted=True)
    async def read_mcp_resource(
        self,
        context: ToolContext,
        *,
        server: _Server,
        uri: Annotated[str, Field(description="The resource's address.", max_length=LONGEST_ADDRESS)],
    ) -> str:
        """Read a resource of an MCP server, by an address that list_mcp_resources gives."""
        return await _named(self._servers(), server).read(uri, context)

    @read_mcp_resource.appraised_by
    async def _appraise(self, arguments: Mapping[str, Any], context: ToolContext) -> Appraisal:
        """A person is asked where they are for each call of the server's tools: an address tells the server something,
        too."""
        server = _named(self._servers(), str(arguments["server"]))
        name = server.settings.name
        return Appraisal(
            arguments={**arguments, "server": name},
            gate="ask" if server.settings.approval == "always" else None,
            shown=f"read {arguments['uri']} from the MCP server {name}",
            covers=f"reading of the MCP server {name}",
        )


RESOURCE_TOOLS = frozenset(one.spec.name for one in tools_of(ResourceTools))


def _named(servers: Sequence[Server], name: str) -> Server:
    found = next((one for one in servers if one.settings.name.lower() == name.lower()), None)
    if found is None:
        known = ", ".join(one.settings.name for one in servers) or "none"
        raise ToolError(f"there is no MCP server {name!r}; there is: {known}")
    return found
