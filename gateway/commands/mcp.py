"""Which MCP servers there are, how they are, and what they offer; admins add some: /mcp."""

from collections.abc import Awaitable, Callable, Mapping

from agent.tools.mcp.server import Server
from gateway.access.policy import Role, role_everywhere
from gateway.commands.command import Call, Command, Reply

MOST_SHOWN = 60
LONGEST = 100  # characters of a description


async def mcp(call: Call) -> Reply:
    """`/mcp` lists the servers, `/mcp <name>` (or `tools <name>`) what one offers.

    `add <name> <address>`, `remove <name>` and `reconnect <name>` are for admins of the whole bot.
    """
    verb, *rest = call.words or ["list"]
    act = _ACTS.get(verb.lower())
    if act is not None:
        if role_everywhere(str(call.incoming.person), call.house.access(), call.house.book.grants) < Role.ADMIN:
            return _told(call, "mcp_admins")
        return await act(call, rest)
    lost = call.house.servers_left_out()
    if not (call.house.servers.all or lost):
        return _told(call, "mcp_none")
    if verb.lower() == "list" or (verb.lower() == "tools" and not rest):
        lines = [_state(call, one) for one in call.house.servers.all]
        lines += [call.house.phrase("mcp_left_out", call.incoming.language, name=name) for name in sorted(lost)]
        return Reply(text="\n".join(lines), private=True, verbatim=True)
    wanted = rest[0] if verb.lower() == "tools" else call.args.strip()
    found = call.house.servers.named(wanted)
    return _unknown(call, wanted) if found is None else _tools(call, found)


async def _add(call: Call, words: list[str]) -> Reply:
    if len(words) != 2:
        return _told(call, "mcp_usage")
    try:
        await call.house.add_server(*words)
    except ValueError as error:
        return _told(call, "mcp_refused", reason=error)
    return _told(call, "mcp_added", name=words[0])


async def _remove(call: Call, words: list[str]) -> Reply:
    if len(words) != 1:
        return _told(call, "mcp_usage")
    if await call.house.remove_server(words[0]):
        return _told(call, "mcp_removed", name=words[0])
    if call.house.servers.named(words[0]) is None:
        return _unknown(call, words[0])
    return _told(call, "mcp_configured", name=words[0])


async def _reconnect(call: Call, words: list[str]) -> Reply:
    if len(words) != 1:
        return _told(call, "mcp_usage")
    found = call.house.servers.named(words[0])
    if found is None:
        return _unknown(call, words[0])
    found.reconnect()
    return _told(call, "mcp_reconnects", name=found.settings.name)


_ACTS: Mapping[str, Callable[[Call, list[str]], Awaitable[Reply]]] = {
    "add": _add,
    "remove": _remove,
    "reconnect": _reconnect,
}


def _tools(call: Call, server: Server) -> Reply:
    phrase, language = call.house.phrase, call.incoming.language
    lines = [_state(call, server)]
    for tool in server.tools[:MOST_SHOWN]:
        asked = phrase("mcp_asked" if tool.spec.risk == "write" else "mcp_unasked", language)
        lines.append(f"- {tool.spec.name} ({asked}): {_short(tool.spec.description.partition('] ')[2])}")
    if len(server.tools) > MOST_SHOWN:
        lines.append(phrase("mcp_more", language, count=len(server.tools) - MOST_SHOWN))
    for name, reason in [*server.shown.left_out.items()][:MOST_SHOWN]:
        lines.append(phrase("mcp_tool_left_out", language, name=name, reason=reason))
    if server.shown.withheld:
        lines.append(phrase("mcp_withheld", language, names=", ".join(server.shown.withheld)))
    return Reply(text="\n".join(lines), private=True, verbatim=True)


def _state(call: Call, server: Server) -> str:
    phrase, language, name = call.house.phrase, call.incoming.language, server.settings.name
    if server.is_connected:
        told = phrase("mcp_connected", language, name=name, count=len(server.tools))
        left_out = len(server.shown.left_out)
        return told + phrase("mcp_some_left_out", language, count=left_out, name=name) if left_out else told
    return phrase("mcp_lost", language, name=name, reason=server.trouble)


def _unknown(call: Call, name: str) -> Reply:
    if not call.house.servers.all:
        return _told(call, "mcp_none")
    known = ", ".join(one.settings.name for one in call.house.servers.all)
    return _told(call, "mcp_unknown", name=name, known=known)


def _told(call: Call, key: str, **values: object) -> Reply:
    return Reply(text=call.house.phrase(key, call.incoming.language, **values), private=True, verbatim=True)


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


MCP = Command(
    name="mcp",
    run=mcp,
    group="more",
    usage="[name | add name address | remove name | reconnect name]",
    immediate=True,
    admin_in_groups=True,
)
