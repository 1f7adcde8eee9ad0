"""The tools with which the model looks at resources of MCP servers; lent while a connected server has any."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from agent.core.errors import ToolError
from agent.core.tools import Appraisal, Tool, ToolContext, ToolSpec
from agent.tools.mcp.catalogue import LONGEST_ADDRESS, listed
from agent.tools.mcp.server import Server

LIST, READ = "list_mcp_resources", "read_mcp_resource"
RESOURCE_TOOLS = frozenset({LIST, READ})
LENDER = "resources of MCP servers"  # no server can be called that

_SERVER = {"type": "string", "description": "The server's name."}


def resource_tools(servers: Callable[[], Sequence[Server]]) -> tuple[Tool, ...]:
    return (ListResources(servers), ReadResource(servers))


class ListResources:
    """From what the servers have said of themselves: no server is asked."""

    spec = ToolSpec(
        name=LIST,
        description="List what the connected MCP servers have to read (resources), by address; a template's {names} "
        "are to be filled in.",
        schema={"type": "object", "properties": {"server": _SERVER}, "additionalProperties": False},
        category="info",
        risk="safe",
        untrusted=True,
    )

    def __init__(self, servers: Callable[[], Sequence[Server]]) -> None:
        self._servers = servers

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> str:
        wanted = arguments.get("server")
        asked = [_named(self._servers(), str(wanted))] if wanted else self._servers()
        lists = (listed(one.settings.name, one.catalogue.resources) for one in asked if one.is_connected)
        return "\n".join(text for text in lists if text) or "There are no resources."


class ReadResource:
    """Asks first where each call of the server's tools does: an address tells the server something, too."""

    def __init__(self, servers: Callable[[], Sequence[Server]]) -> None:
        self._servers = servers
        self.spec = ToolSpec(
            name=READ,
            description=f"Read a resource of an MCP server, by an address that {LIST} gives.",
            schema={
                "type": "object",
                "properties": {
                    "server": _SERVER,
                    "uri": {"type": "string", "description": "The resource's address.", "maxLength": LONGEST_ADDRESS},
                },
                "required": ["server", "uri"],
                "additionalProperties": False,
            },
            category="info",
            risk="safe",
            untrusted=True,
            appraise=self._appraise,
        )

    async def _appraise(self, arguments: Mapping[str, Any], context: ToolContext) -> Appraisal:
        server = _named(self._servers(), str(arguments["server"]))
        name = server.settings.name
        return Appraisal(
            arguments={**arguments, "server": name},
            gate="ask" if server.settings.approval == "always" else None,
            shown=f"read {arguments['uri']} from the MCP server {name}",
            covers=f"reading of the MCP server {name}",
        )

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> str:
        return await _named(self._servers(), str(arguments["server"])).read(str(arguments["uri"]), context)


def _named(servers: Sequence[Server], name: str) -> Server:
    found = next((one for one in servers if one.settings.name.lower() == name.lower()), None)
    if found is None:
        known = ", ".join(one.settings.name for one in servers) or "none"
        raise ToolError(f"there is no MCP server {name!r}; there is: {known}")
    return found
