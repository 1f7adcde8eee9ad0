"""Which MCP servers there are, how they are, and what they offer: /mcp."""

from agent.tools.mcp.server import Server
from gateway.commands.command import Call, Command, Reply

MOST_SHOWN = 60
LONGEST = 100  # characters of a description


async def mcp(call: Call) -> Reply:
    """`/mcp` lists the servers, `/mcp <name>` the tools of one."""
    phrase, language, servers = call.house.phrase, call.incoming.language, call.house.servers.all
    if not servers:
        return Reply(text=phrase("mcp_none", language), private=True)
    wanted = call.args.strip().lower()
    if not wanted:
        return Reply(text="\n".join(_state(call, one) for one in servers), private=True, verbatim=True)
    found = next((one for one in servers if one.settings.name.lower() == wanted), None)
    if found is None:
        known = ", ".join(one.settings.name for one in servers)
        return Reply(text=phrase("mcp_unknown", language, name=wanted, known=known), private=True)
    lines = [_state(call, found)]
    for tool in found.tools[:MOST_SHOWN]:
        asked = phrase("mcp_asked" if tool.spec.risk == "write" else "mcp_unasked", language)
        lines.append(f"- {tool.spec.name} ({asked}): {_short(tool.spec.description.partition('] ')[2])}")
    if len(found.tools) > MOST_SHOWN:
        lines.append(phrase("mcp_more", language, count=len(found.tools) - MOST_SHOWN))
    return Reply(text="\n".join(lines), private=True, verbatim=True)


def _state(call: Call, server: Server) -> str:
    phrase, language, name = call.house.phrase, call.incoming.language, server.settings.name
    if server.is_connected:
        return phrase("mcp_connected", language, name=name, count=len(server.tools))
    return phrase("mcp_lost", language, name=name, reason=server.trouble)


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


MCP = Command(name="mcp", run=mcp, group="more", usage="[name]", immediate=True, admin_in_groups=True)
