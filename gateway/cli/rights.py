"""`tieline rights`: what each rank and role may do by the words of the tools, or one person in one place, and why."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from agent.assembly import built_in_specs
from agent.core.ids import ConversationId
from agent.core.tools import Gate, ToolSpec
from agent.inbox import AccessRole
from agent.tools.mcp.offers import prefix_of
from agent.tools.rights import (
    EFFECTS,
    RANKS,
    TOUCHES,
    default_for,
    held,
    may_approve,
    place_decides,
    tool_ruling,
)
from agent.tools.settings import RoleSettings
from gateway.access.grants import ROLES
from gateway.access.identities import Identities
from gateway.access.policy import Allowed, Grants, Ignored, decide
from gateway.access.roles import RANK_NAMES, roles_of_sender
from gateway.channels.inbound import ChatType, Mention, MessageReceived, Sender
from gateway.channels.keys import ConversationKey, UserId
from gateway.cli.offline import operate, shown
from gateway.cli.options import config_option, fail, settings_from
from gateway.commands.all import all_commands
from gateway.commands.place.fields import DENIED_TOOLS, TOOLS
from gateway.config.settings import Settings
from gateway.conversations.place_settings import GROUP, PARENT, PlaceView
from gateway.storage import settings_rows

Row = Mapping[str, Any]


@click.command("rights")
@click.option("--person", help="One person, such as telegram:77.")
@click.option("--place", help="The group they speak in, such as telegram:-1005; left out: a direct chat.")
@click.option("--platform-role", "platform_roles", multiple=True, help="A role they have on the platform, by its id.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@config_option
def command(
    person: str | None,
    place: str | None,
    platform_roles: tuple[str, ...],
    as_json: bool,
    config_path: Path | None,
    home: Path | None,
) -> None:
    """Show what each rank and named role may have done, or with --person what one person may, and by which rule."""
    settings = settings_from(config_path, home)
    if person is None:
        if place is not None or platform_roles:
            fail("--place and --platform-role are about somebody: add --person, such as --person telegram:77")
        everything = table(settings)
        click.echo(json.dumps(everything, indent=2)) if as_json else _show_table(everything)
        return
    for name, given in (("--person", person), ("--place", place)):
        if given is not None and not all(given.partition(":")):
            example = "telegram:77" if name == "--person" else "telegram:-1005"
            fail(f'{name}: {given!r} names no platform; write it as "{example}"')
    if place is not None and place.partition(":")[0] != person.partition(":")[0]:
        fail(f"--place: {place!r} is on another platform than {person!r}")
    links = [_Link(**row) for row in operate("access.links", config_path, home)]
    identities = Identities.of(links, settings.people)
    grants = _read_grants(operate("access.grants", config_path, home), identities)
    names = [TOOLS.key, DENIED_TOOLS.key, PARENT, GROUP]
    rows = operate("access.settings", config_path, home, names=names)
    rules = PlaceView(_read_rows(rows), settings.place_rules)
    found = rights_of(person, place, platform_roles, settings, grants, rules)
    click.echo(json.dumps(found, indent=2)) if as_json else _show_person(found)


# What is told, as plain values. Pure.


def shown_gate(spec: ToolSpec, gate: Gate) -> Gate:
    """The gate as people meet it: a safe tool is not asked about, another one always is."""
    if gate == "deny":
        return "deny"
    return "allow" if spec.risk == "safe" else "ask"


def specs_of(settings: Settings) -> tuple[ToolSpec, ...]:
    """The tools of the program, and one line for the tools of each MCP server, as far as the configuration tells."""
    lent = (
        ToolSpec(
            name=f"{prefix_of(server.name)}*",
            description="",
            schema={},
            category="mcp",
            risk="safe" if server.approval == "never" else "write",
            effects=frozenset({"write"}),
        )
        for server in settings.mcp.servers
    )
    return (*sorted(built_in_specs(), key=lambda spec: spec.name), *lent)


def table(settings: Settings) -> dict[str, Any]:
    """The default table, and what each rank and role may have done with each tool and give as a command."""
    defaults = [
        {"rank": rank, "touches": touches, "looks": default_for(rank, touches, ())}
        | {effect: default_for(rank, touches, (effect,)) for effect in EFFECTS}
        for rank in RANKS
        for touches in TOUCHES
    ]
    tools: list[dict[str, Any]] = []
    for spec in specs_of(settings):
        row: dict[str, Any] = {"tool": spec.name, "touches": spec.touches, "effects": _effects(spec)}
        row |= {rank: shown_gate(spec, tool_ruling(spec, rank).gate) for rank in RANKS}
        row |= {role.name: shown_gate(spec, tool_ruling(spec, "member", (role,)).gate) for role in settings.roles}
        tools.append(row)
    roles = [
        {
            "role": role.name,
            "people": list(role.people),
            "platform_roles": list(role.platform_roles),
            "tools": list(role.tools),
            "commands": list(role.commands),
            "models": list(role.models),
            "approve": list(role.approve),
            "dashboard": sorted(role.rights),
        }
        for role in settings.roles
    ]
    return {"defaults": defaults, "tools": tools, "roles": roles}


def rights_of(
    person: str,
    place: str | None,
    platform_roles: Iterable[str],
    settings: Settings,
    grants: Grants,
    rules: PlaceView,
) -> dict[str, Any]:
    """Rights of one person in the place (None: in a direct chat), each with the rule that decides."""
    said = _words_of(person, place, frozenset(platform_roles))
    decision = decide(said, settings.access, grants, mention=Mention.DIRECT)
    names = roles_of_sender(said, settings.roles, settings.access, grants)
    identities = grants.identities
    found: dict[str, Any] = {
        "person": person,
        "place": place,
        "roles": list(names),
        "linked": list(identities.accounts(person)[1:]),
        "rights_of": list(identities.with_rights_of(person)[1:]),
    }
    if not isinstance(decision, Allowed):
        why = decision.why if isinstance(decision, Ignored) else "unknown person: they are given a pairing code"
        return found | {"rank": None, "why": why, "tools": [], "commands": []}
    rank, roles, in_group = RANK_NAMES[decision.role], held(names, settings.roles), place is not None
    return found | {
        "rank": rank,
        "tools": [_tool_row(spec, rank, roles, rules, said.key, in_group=in_group) for spec in specs_of(settings)],
        "commands": [
            {"command": one.name, "may": ruling.gate, "why": ruling.rule}
            for one in all_commands().all
            if not one.hidden
            for ruling in (one.ruling(decision.role, roles, in_group=in_group),)
        ],
    }


@dataclass(frozen=True, slots=True)
class _Approval:
    """The deciders of a call of the person, and whether the person decides about such calls of others."""

    decided_by: str
    approves: bool


def _tool_row(
    spec: ToolSpec,
    rank: AccessRole,
    roles: Sequence[RoleSettings],
    rules: PlaceView,
    key: ConversationKey,
    *,
    in_group: bool,
) -> dict[str, Any]:
    only = [one.value for one in rules.layers(TOOLS, key)]
    denied = [name for one in rules.layers(DENIED_TOOLS, key) for name in one.value]
    ruling = tool_ruling(spec, rank, roles, only=only, denied=denied)
    gate = shown_gate(spec, ruling.gate)
    approval = _approval(spec, rank, roles, in_group=in_group)
    return {
        "tool": spec.name,
        "touches": spec.touches,
        "effects": _effects(spec),
        "may": gate,
        "decided_by": approval.decided_by if gate == "ask" else "",
        "approves": approval.approves,
        "why": ruling.rule,
    }


def _approval(spec: ToolSpec, rank: AccessRole, roles: Sequence[RoleSettings], *, in_group: bool) -> _Approval:
    if not in_group or not place_decides(spec.touches, spec.effects):
        return _Approval("who asked", approves=False)
    return _Approval("an admin or a role", approves=may_approve(spec.name, rank, roles).gate == "allow")


def _effects(spec: ToolSpec) -> list[str]:
    return [effect for effect in EFFECTS if effect in spec.effects]


def _words_of(person: str, place: str | None, platform_roles: frozenset[str]) -> MessageReceived:
    """A message as that person would write it there, to ask the policy what it asks of every message."""
    platform, _, id = person.partition(":")
    where = place.partition(":")[2].replace("/", ":") if place is not None else id
    parts = where.split(":")
    return MessageReceived(
        key=ConversationKey(platform, where),
        place=where,
        grantable=tuple(":".join(parts[:count]) for count in range(1, len(parts))),
        message_id="0",
        sender=Sender(id=UserId(id), platform_roles=platform_roles),
        received_at=datetime(2000, 1, 1, tzinfo=UTC),  # no policy looks at it
        chat_type=ChatType.DIRECT if place is None else ChatType.GROUP,
        text="",
        mention=Mention.DIRECT,
    )


@dataclass(frozen=True, slots=True)
class _Link:
    """A linked account, as the operation tells it."""

    person: str
    identity: str
    rights: str | None


def _read_grants(rows: Sequence[Row], identities: Identities) -> Grants:
    people = [row for row in rows if row["kind"] == "person"]
    return Grants(
        everywhere={row["subject"]: ROLES[row["role"]] for row in people if not row["place"]},
        in_place={(row["subject"], row["place"]): ROLES[row["role"]] for row in people if row["place"]},
        places=frozenset(row["subject"] for row in rows if row["kind"] == "place"),
        identities=identities,
    )


def _read_rows(rows: Sequence[Row]) -> Mapping[ConversationId, Mapping[str, settings_rows.Row]]:
    found: dict[ConversationId, dict[str, settings_rows.Row]] = {}
    for row in rows:
        found.setdefault(ConversationId(row["place"]), {})[row["name"]] = settings_rows.Row(row["text"])
    return found


# What is printed.


def _show_table(everything: Row) -> None:
    click.echo("By default, from the words of a tool alone (ask: unless a look at the call finds it harmless):\n")
    shown(everything["defaults"], {name: name for name in everything["defaults"][0]}, "")
    click.echo("\nTools:\n")
    rows = [row | {"effects": ", ".join(row["effects"]) or "-"} for row in everything["tools"]]
    shown(rows, {name: name for name in rows[0]}, "")
    if not everything["roles"]:
        click.echo("\nThe configuration has no [[roles]].")
        return
    click.echo("\nRoles (above: a member who has the role):\n")
    roles: list[Row] = [
        {key: value if key == "role" else ", ".join(value) or "-" for key, value in role.items()}
        for role in everything["roles"]
    ]
    shown(roles, {name: name for name in roles[0]}, "")


def _show_person(found: Row) -> None:
    where = f"in {found['place']}" if found["place"] else "in a direct chat"
    if found["linked"]:
        shared = f"has the rights of {', '.join(found['rights_of'])}" if found["rights_of"] else "rights stay apart"
        click.echo(f"Linked with {', '.join(found['linked'])}: {shared}.")
    if found["rank"] is None:
        click.echo(f"{found['person']} is not answered {where}: {found['why']}.")
        return
    named = ", ".join(found["roles"]) or "none"
    click.echo(f"{found['person']} {where}: {found['rank']}; roles: {named}.")
    click.echo("Roles and admins that the platform tells are not known here: --platform-role ID adds one.\n")
    rows = [
        row | {"effects": ", ".join(row["effects"]) or "-", "approves": "yes" if row["approves"] else "-"}
        for row in found["tools"]
    ]
    heads = {"tool": "tool", "touches": "touches", "effects": "effects", "may": "may", "decided_by": "decided by"}
    shown(rows, {**heads, "approves": "approves", "why": "why"}, "")
    click.echo("")
    shown(found["commands"], {"command": "command", "may": "may", "why": "why"}, "")
