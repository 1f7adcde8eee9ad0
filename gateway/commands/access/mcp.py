"""/mcp: the MCP servers, their state and their offers; admins add some."""

import shlex
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass

from agent.core.errors import ToolError
from agent.core.ids import PersonId
from agent.inbox import Brought
from agent.providers.endpoints import host_of
from agent.tools.mcp.catalogue import Prompt, missing_in, plain_address
from agent.tools.mcp.offers import clean, plain
from agent.tools.mcp.server import Server
from agent.tools.mcp.servers import Servers
from gateway.access.policy import Role
from gateway.commands.command import Call, Command, Reply

MOST_SHOWN, MOST_RESOURCES = 60, 20
QUEUED = frozenset({"prompt"})  # it begins a turn
LONGEST = 100  # characters of a description


@dataclass(frozen=True, slots=True, kw_only=True)
class McpCommandDeps:
    """The MCP servers, also those that chats add."""

    role_everywhere: Callable[[PersonId | None], Role]  # for the whole bot
    servers: Servers
    add_server: Callable[[str, str], Awaitable[None]]  # its name and address; raises ValueError
    remove_server: Callable[[str], Awaitable[bool]]
    servers_left_out: Callable[[], Collection[str]]  # added in a chat, and not taken any more


async def mcp(call: Call[McpCommandDeps]) -> Reply:
    """`/mcp` lists the servers, `/mcp <name>` (or `tools <name>`) what one offers; `/mcp prompt <server> <name>` begins
    a turn with one of its prompts.

    `add <name> <address>`, `remove <name>` and `reconnect <name>` are for admins of the whole bot, who also read where
    a server is that has an address.
    """
    verb, *rest = call.words or ["list"]
    if verb.lower() in QUEUED:
        return await _prompt(call, call.args.partition(" ")[2])
    act = _ACTS.get(verb.lower())
    if act is not None:
        if call.deps.role_everywhere(call.incoming.person) < Role.ADMIN:
            return _told(call, "mcp_admins")
        return await act(call, rest)
    lost = call.deps.servers_left_out()
    if not (call.deps.servers.all or lost):
        return _told(call, "mcp_none")
    if verb.lower() == "list" or (verb.lower() == "tools" and not rest):
        lines = [_state(call, one) for one in call.deps.servers.all]
        lines += [call.phrase("mcp_left_out", call.incoming.language, name=name) for name in sorted(lost)]
        return Reply(text="\n".join(lines), private=True, verbatim=True)
    wanted = rest[0] if verb.lower() == "tools" else call.args.strip()
    found = call.deps.servers.named(wanted)
    return _unknown(call, wanted) if found is None else _tools(call, found)


async def _add(call: Call[McpCommandDeps], words: list[str]) -> Reply:
    if len(words) != 2:
        return _told(call, "mcp_usage")
    try:
        await call.deps.add_server(*words)
    except ValueError as error:
        return _told(call, "mcp_refused", reason=error)
    return _told(call, "mcp_added", name=words[0])


async def _remove(call: Call[McpCommandDeps], words: list[str]) -> Reply:
    if len(words) != 1:
        return _told(call, "mcp_usage")
    if await call.deps.remove_server(words[0]):
        return _told(call, "mcp_removed", name=words[0])
    if call.deps.servers.named(words[0]) is None:
        return _unknown(call, words[0])
    return _told(call, "mcp_configured", name=words[0])


async def _reconnect(call: Call[McpCommandDeps], words: list[str]) -> Reply:
    if len(words) != 1:
        return _told(call, "mcp_usage")
    found = call.deps.servers.named(words[0])
    if found is None:
        return _unknown(call, words[0])
    found.reconnect()
    return _told(call, "mcp_reconnects", name=found.settings.name)


async def _prompt(call: Call[McpCommandDeps], rest: str) -> Reply:
    """A turn with what the prompt says, for the model to act upon as the person has chosen it."""
    server, _, rest = rest.strip().partition(" ")
    name, _, words = rest.strip().partition(" ")
    found = call.deps.servers.named(server) if server else None
    if found is None:
        return _told(call, "mcp_prompt_usage") if not server else _unknown(call, server)
    prompt = next((one for one in found.catalogue.prompts if one.name.lower() == name.lower()), None)
    if prompt is None:
        return _told(call, "mcp_prompts", name=found.settings.name, prompts=_prompts_of(found) or "–")
    try:
        given = _arguments(prompt, words.strip())
        missing = missing_in(prompt, given)
        if missing:
            raise ValueError
    except ValueError:
        return _told(call, "mcp_prompt_arguments", usage=f"/mcp prompt {found.settings.name} {prompt.usage}")
    try:
        text = await found.prompt(prompt, given)
    except ToolError as error:
        return _told(call, "mcp_prompt_failed", reason=error)
    language = call.incoming.language
    said = call.phrase("mcp_prompt_chosen", language, prompt=plain(prompt.name), server=found.settings.name)
    source = f"prompt of the MCP server {found.settings.name}"
    return Reply(
        go_on_with=said,
        go_on_files=call.incoming.files,
        go_on_quoted=call.incoming.quotation,
        go_on_brought=Brought(text, source),
    )


def _arguments(prompt: Prompt, words: str) -> Mapping[str, str]:
    """`name=value`, with quotation marks where a value has blanks; all words where the prompt has one argument.

    Raises ValueError for what is none.
    """
    names = {one.name for one in prompt.arguments}
    if len(names) == 1 and words and not words.startswith(f"{prompt.arguments[0].name}="):
        return {prompt.arguments[0].name: words}
    given = dict(part.partition("=")[::2] for part in shlex.split(words))
    if set(given) - names:
        raise ValueError
    return given


def _prompts_of(server: Server) -> str:
    return ", ".join(one.usage for one in server.catalogue.prompts[:MOST_SHOWN])


_ACTS: Mapping[str, Callable[[Call[McpCommandDeps], list[str]], Awaitable[Reply]]] = {
    "add": _add,
    "remove": _remove,
    "reconnect": _reconnect,
}


def _tools(call: Call[McpCommandDeps], server: Server) -> Reply:
    phrase, language = call.phrase, call.incoming.language
    lines = [_state(call, server, at=_where(call, server))]
    for tool in server.tools[:MOST_SHOWN]:
        asked = phrase("mcp_asked" if tool.spec.risk == "write" else "mcp_unasked", language)
        lines.append(f"- {tool.spec.name} ({asked}): {_short(tool.spec.description.partition('] ')[2])}")
    if len(server.tools) > MOST_SHOWN:
        lines.append(phrase("mcp_more", language, count=len(server.tools) - MOST_SHOWN))
    for name, reason in [*server.shown.left_out.items()][:MOST_SHOWN]:
        lines.append(phrase("mcp_tool_left_out", language, name=name, reason=reason))
    if server.shown.withheld:
        lines.append(phrase("mcp_withheld", language, names=", ".join(server.shown.withheld)))
    lines += _others(call, server)
    return Reply(text="\n".join(lines), private=True, verbatim=True)


def _others(call: Call[McpCommandDeps], server: Server) -> list[str]:
    """Its prompts, each as it is called up, and its resources."""
    phrase, language, catalogue = call.phrase, call.incoming.language, server.catalogue
    lines = []
    if catalogue.prompts:
        lines.append(phrase("mcp_prompts_title", language, name=server.settings.name))
        for prompt in catalogue.prompts[:MOST_SHOWN]:
            described = clean(prompt.description, LONGEST)
            lines.append(f"- {prompt.usage}" + (f": {described}" if described else ""))
        if len(catalogue.prompts) > MOST_SHOWN:
            lines.append(phrase("mcp_more", language, count=len(catalogue.prompts) - MOST_SHOWN))
    if catalogue.resources:
        lines.append(phrase("mcp_resources_title", language))
        lines += [
            f"- {plain_address(one.address)}" + (f" ({plain(one.name)})" if one.name else "")
            for one in catalogue.resources[:MOST_RESOURCES]
        ]
        if len(catalogue.resources) > MOST_RESOURCES:
            lines.append(phrase("mcp_more", language, count=len(catalogue.resources) - MOST_RESOURCES))
    return lines


def _where(call: Call[McpCommandDeps], server: Server) -> str:
    """Host and port of a server that is reached by an address, for admins; its path may hold a key."""
    is_admin = call.deps.role_everywhere(call.incoming.person) >= Role.ADMIN
    return f" ({host_of(server.settings.url)})" if is_admin and server.settings.url else ""


def _state(call: Call[McpCommandDeps], server: Server, *, at: str = "") -> str:
    phrase, language, name = call.phrase, call.incoming.language, server.settings.name
    if server.is_connected:
        told = phrase("mcp_connected", language, name=name + at, count=len(server.tools))
        left_out = len(server.shown.left_out)
        return told + phrase("mcp_some_left_out", language, count=left_out, name=name) if left_out else told
    return phrase("mcp_lost", language, name=name + at, reason=server.trouble)


def _unknown(call: Call[McpCommandDeps], name: str) -> Reply:
    if not call.deps.servers.all:
        return _told(call, "mcp_none")
    known = ", ".join(one.settings.name for one in call.deps.servers.all)
    return _told(call, "mcp_unknown", name=name, known=known)


def _told(call: Call[McpCommandDeps], key: str, **values: object) -> Reply:
    return Reply(text=call.phrase(key, call.incoming.language, **values), private=True, verbatim=True)


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


MCP = Command(
    name="mcp",
    deps=McpCommandDeps,
    run=mcp,
    group="more",
    usage="[name | prompt server name | add name address | remove name | reconnect name]",
    immediate=True,
    queued=QUEUED,
    admin_in_groups=True,
)
