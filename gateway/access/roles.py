"""Roles of people: from person, place and platform roles to a rank and named roles, and what these allow. Pure.

Rights to tools and approvals follow in `agent.tools.rights`, from the same rules by the same order.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from types import MappingProxyType

from agent.inbox import AccessRole
from agent.tools.mcp.offers import PREFIX, prefix_of
from agent.tools.rights import DENIES, WILD, RightsVerdict, approving_roles, matched, rules_of
from agent.tools.settings import RoleSettings
from gateway.access.identities import NOBODY_LINKED, Identities
from gateway.access.policy import OWNER, Grants, Role, is_let_in
from gateway.access.settings import DASHBOARD_RIGHTS, AccessSettings, DashboardRight, RoleSection
from gateway.channels.inbound import ChatType, Received

RANK_NAMES: Mapping[Role, AccessRole] = MappingProxyType(
    {Role.GUEST: "guest", Role.MEMBER: "member", Role.ADMIN: "admin", Role.OWNER: "owner"}
)
RANKS: Mapping[AccessRole, Role] = MappingProxyType({name: rank for rank, name in RANK_NAMES.items()})


def roles_of(
    person: str, platform_roles: Collection[str], roles: Iterable[RoleSettings], identities: Identities = NOBODY_LINKED
) -> tuple[str, ...]:
    """The named roles of a person (`telegram:77`) who has these roles on their platform."""
    platform, accounts = person.partition(":")[0], identities.with_rights_of(person)
    there = {f"{platform}:{one}" for one in platform_roles}
    return tuple(
        role.name
        for role in roles
        if any(one in role.people for one in accounts) or not there.isdisjoint(role.platform_roles)
    )


def roles_of_sender(
    inbound: Received, roles: Iterable[RoleSettings], access: AccessSettings, grants: Grants
) -> tuple[str, ...]:
    """The named roles of the sender, in the place where this comes from.

    Roles of the platform give rights only where somebody let in the group: in one of their own anybody gives them away.
    Those that only forbid count everywhere.
    """
    gives = inbound.chat_type is ChatType.DIRECT or is_let_in(inbound, access, grants, by_name=True)
    person = f"{inbound.key.platform}:{inbound.sender.id}"
    counting = [role if gives or _only_forbids(role) else replace(role, platform_roles=()) for role in roles]
    return roles_of(person, inbound.sender.platform_roles, counting, grants.identities)


def dashboard_rights(
    person: str, roles: Iterable[RoleSection], identities: Identities = NOBODY_LINKED
) -> frozenset[DashboardRight]:
    """The rights in the dashboard of a person (`web:anna`): the owner's are all, another's those of their roles."""
    if person == OWNER:
        return DASHBOARD_RIGHTS
    accounts = set(identities.with_rights_of(person))
    return frozenset(right for role in roles if not accounts.isdisjoint(role.people) for right in role.rights)


def _only_forbids(role: RoleSettings) -> bool:
    rules = (*role.tools, *role.commands, *role.models)
    return not role.approve and bool(rules) and all(rule.startswith(DENIES) for rule in rules)


def roles_today(
    person: str, then: Collection[str], roles: Iterable[RoleSettings], identities: Identities = NOBODY_LINKED
) -> tuple[str, ...]:
    """The named roles that a person has now who had some `then`.

    Nobody asks their platform now: a role that came from there stays, since it may forbid as well as allow.
    """
    accounts = identities.with_rights_of(person)
    return tuple(
        role.name
        for role in roles
        if any(one in role.people for one in accounts) or (role.name in then and bool(role.platform_roles))
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandRights:
    """Demands of a command: `needs` is the rank it takes here, `name` and `aliases` are what rules may call it."""

    name: str
    needs: Role
    aliases: tuple[str, ...] = ()


def command_ruling(command: CommandRights, rank: Role, roles: Sequence[RoleSettings] = ()) -> RightsVerdict:
    """Whether somebody of the rank, with these named roles, may give the command; and by which rule."""
    rules = [(role, _by_its_name(rule, command)) for role, rule in rules_of(roles, "commands")]
    found = matched(command.name, rules, "commands")
    if found is not None:
        return found
    needed, name = command.needs.name.lower(), rank.name.lower()
    if rank >= command.needs:
        return RightsVerdict("allow", f"/{command.name} is for every {needed}")
    return RightsVerdict("deny", f"/{command.name} is for {needed}s; this person is {name} here")


def _by_its_name(rule: str, command: CommandRights) -> str:
    """The rule with the command's own name in place of an alias."""
    sign = DENIES if rule.startswith(DENIES) else ""
    return sign + command.name if rule.removeprefix(DENIES) in command.aliases else rule


def _spellings(model: str) -> Sequence[str]:
    """A model's name, and the shorter ones by which lenient services know it as well."""
    provider, _, name = model.partition("/")
    shorter = (name.partition("/")[2] or name, name.removesuffix(":latest"))
    return tuple(dict.fromkeys((model, *(f"{provider}/{one}" for one in shorter))))


def model_ruling(model: str, roles: Sequence[RoleSettings]) -> RightsVerdict:
    """Whether the person may choose the model (`provider/model`). Who has no rule about models may choose every one;
    who has one that allows some, only those."""
    rules = [(role, rule.casefold()) for role, rule in rules_of(roles, "models")]
    found = [one for name in _spellings(model.casefold()) if (one := matched(name, rules, "models")) is not None]
    if found:
        return next((one for one in found if one.gate == "deny"), found[0])
    allowing = [f"{role}: {rule}" for role, rule in rules_of(roles, "models") if not rule.startswith(DENIES)]
    if allowing:
        return RightsVerdict("deny", f"the roles allow only {', '.join(allowing)}")
    return RightsVerdict("allow", "no role says anything of models")


def deciders(
    tool: str,
    platform: str,
    places: Collection[str],
    *,
    access: AccessSettings,
    grants: Grants,
    roles: Iterable[RoleSettings],
    approvers: Iterable[str],
) -> bool:
    """Whether anybody is known on the platform who may approve such a call of somebody else in one of these places.

    An account of the platform's own administrators or roles counts as somebody: who has it is not known here.
    """
    if access.platform_admins:
        return True
    everywhere = (name for name, rank in grants.everywhere.items() if rank >= Role.ADMIN)
    here = (name for (name, place), rank in grants.in_place.items() if rank >= Role.ADMIN and place in places)
    named = [*approvers, *access.admins, *everywhere, *here]
    for role in approving_roles(tool, roles):
        named += [*role.people, *role.platform_roles]
    named += [account for name in named for account in grants.identities.with_rights_of(name)]
    blocked = {name for name, rank in grants.everywhere.items() if rank is Role.BLOCKED} | set(access.block)
    return any(name.startswith(f"{platform}:") and name not in blocked for name in named)


# Mistakes in names of `[[roles]]` that only the composed program can find: its tools, servers and commands.


def without_effect(
    roles: Iterable[RoleSettings],
    *,
    tools: Collection[str],
    servers: Collection[str],
    commands: Collection[str],
) -> Iterator[str]:
    """Rules that stand for nothing, each with the nearest good word."""
    for role in roles:
        for key, known in (("tools", tools), ("approve", tools), ("commands", commands)):
            for rule in dict.fromkeys(getattr(role, key)):
                if mistake := _mistake_in(rule.removeprefix(DENIES), key, known, servers):
                    yield f"roles ({role.name}): {key}: {mistake}, so the rule has no effect"


def grants_without_effect(
    hooks: Mapping[str, Sequence[str]], *, tools: Collection[str], servers: Collection[str]
) -> Iterator[str]:
    """Tools granted to webhooks, by the name of the hook, that there are not."""
    for name, granted in hooks.items():
        for rule in dict.fromkeys(granted):
            if mistake := _mistake_in(rule, "tools", tools, servers):
                yield f"webhooks ({name}): tools: {mistake}, so the grant has no effect"


def _mistake_in(pattern: str, key: str, known: Collection[str], servers: Collection[str]) -> str:
    if pattern in known:
        return ""
    what = "command" if key == "commands" else "tool"
    if what == "tool" and pattern.startswith(PREFIX):
        server = pattern.removeprefix(PREFIX).partition("__")[0]
        if not WILD.isdisjoint(server) or any(pattern.startswith(prefix_of(one)) for one in servers):
            return ""
        near = get_close_matches(server, sorted(servers), n=1)
        hint = f"; did you mean {prefix_of(near[0])}…?" if near else ""
        return f"{pattern!r} is of the MCP server {server!r}, which is not configured{hint}"
    if not WILD.isdisjoint(pattern) and ":" not in pattern:
        return ""
    near = get_close_matches(pattern.partition(":")[0].lower(), sorted(known), n=1)
    return f"there is no {what} {pattern!r}{f'; did you mean {near[0]}?' if near else ''}"
