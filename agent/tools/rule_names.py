"""Check of `[approvals]`: rules that name no tool, since a mistyped name would stop nothing. Pure."""

from collections.abc import Collection, Iterator
from difflib import get_close_matches

from agent.tools.mcp.offers import PREFIX, prefix_of
from agent.tools.settings import ApprovalSettings

_WILD = frozenset("*?[")  # what fnmatch takes for more than itself


def without_effect(approvals: ApprovalSettings, known: Collection[str], servers: Collection[str]) -> Iterator[str]:
    """Mistakes in names of `ask` and `deny`. `known` are the tools of our own, `servers` the MCP servers.

    A pattern may stand for what comes later and is left alone, unless it begins with the whole name of a server.
    """
    for key, rules in (("ask", approvals.ask), ("deny", approvals.deny)):
        for rule in dict.fromkeys(rules):
            mistake = _of_a_server(rule, servers) if rule.startswith(PREFIX) else _of_our_own(rule, known)
            if mistake:
                yield f"approvals.{key}: {mistake}"


def _of_our_own(rule: str, known: Collection[str]) -> str:
    if rule in known or not _WILD.isdisjoint(rule):
        return ""
    near = get_close_matches(rule.lower(), sorted(known), n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    return f"there is no tool {rule!r}, so the rule has no effect{hint}"


def _of_a_server(rule: str, servers: Collection[str]) -> str:
    if any(rule.startswith(prefix_of(server)) for server in servers):
        return ""
    server, ends, _ = rule.removeprefix(PREFIX).partition("__")
    if not _WILD.isdisjoint(server):
        return ""
    near = get_close_matches(server, sorted(servers), n=1)
    if not ends and server in servers:
        return f"{rule!r} names no tool, so the rule has no effect; did you mean {prefix_of(server)}*?"
    hint = f"; did you mean {prefix_of(near[0])}…?" if near else ""
    return f"{rule!r} is of the MCP server {server!r}, which is not configured, so the rule has no effect{hint}"
