"""State of an MCP server as people see it: texts of it are cleaned, and nothing of its settings is in it. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from agent.tools.mcp.catalogue import Resource, plain_address
from agent.tools.mcp.offers import WITHHELD, clean, plain
from agent.tools.mcp.server import Server

LONGEST = 300  # characters of a description


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedTool:
    """A tool that models are shown. `asks`: a person is asked before each call.

    `is_withheld`: texts of its arguments instruct the model, and are not shown to it.
    """

    name: str
    description: str
    asks: bool
    is_withheld: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerState:
    """`since` is when its connection began; `trouble` may hold secrets.

    `left_out` are pairs of name and reason, `prompts` of usage and text; `resources` are address, name and kind.
    """

    name: str
    is_connected: bool
    since: datetime | None
    trouble: str
    wants_login: bool
    tools: Sequence[OfferedTool] = ()
    left_out: Sequence[tuple[str, str]] = ()
    unwanted: Sequence[str] = ()
    prompts: Sequence[tuple[str, str]] = ()
    resources: Sequence[tuple[str, str, str]] = ()


def state_of(server: Server) -> ServerState:
    """The state of now."""
    withheld = frozenset(server.shown.withheld)
    return ServerState(
        name=server.settings.name,
        is_connected=server.is_connected,
        since=server.connected_at,
        trouble=server.trouble,
        wants_login=server.wants_login,
        tools=tuple(
            OfferedTool(
                name=spec.name,
                description=spec.description.partition("] ")[2],
                asks=spec.risk == "write",
                is_withheld=plain(foreign) in withheld and WITHHELD not in spec.description,
            )
            for foreign, spec in server.shown.specs.items()
        ),
        left_out=tuple(sorted(server.shown.left_out.items())),
        unwanted=server.unwanted,
        prompts=tuple((one.usage, clean(one.description, LONGEST)) for one in server.catalogue.prompts),
        resources=tuple(_resource(one) for one in server.catalogue.resources),
    )


def _resource(one: Resource) -> tuple[str, str, str]:
    kind = "template" if one.is_template else plain(one.mime_type) if one.mime_type else "resource"
    return plain_address(one.address), plain(one.name) if one.name else "", kind
