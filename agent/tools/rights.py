"""Rights to call tools and to approve calls: rank and named roles against the words of a tool. Pure.

The most specific rule wins: an exact name before a pattern before the default of the rank. At one level a denial wins
over a permission. A place only narrows: what it leaves out, no role brings back.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal

from agent.core.tools import Effect, Gate, ToolSpec, Touches
from agent.inbox import AccessRole
from agent.tools.settings import RoleSettings

RANKS: tuple[AccessRole, ...] = ("owner", "admin", "member", "guest")
TOUCHES: tuple[Touches, ...] = ("own", "place", "outside")
EFFECTS: tuple[Effect, ...] = ("write", "run", "spend")
WILD = frozenset("*?[")  # characters that fnmatch takes for more than themselves
DENIES = "!"  # begins a rule that forbids

Ability = Literal["tools", "commands", "models", "approve"]


@dataclass(frozen=True, slots=True)
class RightsVerdict:
    """The word of a rule on one name, and the rule in words, for a model, `/why` and the operator."""

    gate: Gate
    rule: str
    by_role: str = ""  # the named role that decided; "": the rank or the place


def default_for(rank: AccessRole, touches: Touches, effects: Collection[Effect]) -> Gate:
    """The default of a rank. "ask" means that a person is asked, unless a look at the very call finds it harmless.

    A guest looks, and changes what is their own. All others may do everything: what reaches beyond their own things is
    asked about.
    """
    if not effects:
        return "allow"
    if rank == "guest":
        return "allow" if touches == "own" and set(effects) == {"write"} else "deny"
    return "allow" if touches == "own" else "ask"


def matched(name: str, rules: Iterable[tuple[str, str]], of: Ability) -> RightsVerdict | None:
    """The most specific of the rules (role and pattern) for that name; None where none is for it."""
    found: list[tuple[bool, bool, RightsVerdict]] = []
    for role, rule in rules:
        pattern = rule.removeprefix(DENIES)
        exact = pattern == name
        if exact or fnmatchcase(name, pattern):
            denies = rule.startswith(DENIES)
            words = f'the role {role} has "{rule}" in its {of}'
            found.append((exact, denies, RightsVerdict("deny" if denies else "allow", words, role)))
    return max(found, key=lambda one: one[:2])[2] if found else None


def rules_of(roles: Iterable[RoleSettings], ability: Ability) -> Iterator[tuple[str, str]]:
    """The rules of these roles: the role's name and the pattern."""
    for role in roles:
        yield from ((role.name, rule) for rule in getattr(role, ability))


def held(names: Collection[str], roles: Iterable[RoleSettings]) -> tuple[RoleSettings, ...]:
    """The roles of these names; one that the operator has removed meanwhile is none."""
    return tuple(role for role in roles if role.name in names)


def tool_ruling(
    spec: ToolSpec,
    rank: AccessRole,
    roles: Sequence[RoleSettings] = (),
    *,
    only: Collection[Collection[str]] = (),
    denied: Collection[str] = (),
) -> RightsVerdict:
    """Verdict on the person's use of the tool. `only` are lists of patterns of the place, each of which must fit, and
    `denied` are patterns that must not.

    "allow" of a named role takes away the denial of a rank, and no question.
    """
    if (narrowed := _narrowed(spec, only, denied)) is not None:
        return narrowed
    default = default_for(rank, spec.touches, spec.effects)
    found = matched(spec.name, rules_of(roles, "tools"), "tools")
    if found is None:
        return RightsVerdict(default, default_rule(rank, spec.touches, spec.effects))
    if found.gate == "allow" and default != "allow":
        return RightsVerdict("ask", found.rule, found.by_role)
    return found


def granted_ruling(
    spec: ToolSpec,
    granted: Collection[str],
    *,
    only: Collection[Collection[str]] = (),
    denied: Collection[str] = (),
) -> RightsVerdict:
    """Verdict on the tool in a turn for which nobody has spoken: a stranger's data began it.

    It looks within the chat. Whatever else a tool does has to be granted by name or pattern: it changes, runs or spends
    something, or reaches outside, where an address alone can carry out what was said here. As with roles, a place only
    narrows, and a grant takes away no question.
    """
    if (narrowed := _narrowed(spec, only, denied)) is not None:
        return narrowed
    if not spec.effects and spec.touches != "outside":
        return RightsVerdict("allow", "every turn may look within its chat")
    for pattern in granted:
        if fnmatchcase(spec.name, pattern):
            return RightsVerdict("ask" if spec.effects else "allow", f'the webhook has "{pattern}" in its tools')
    return RightsVerdict("deny", "a turn of a webhook only looks; its section of the configuration grants tools")


def _narrowed(spec: ToolSpec, only: Collection[Collection[str]], denied: Collection[str]) -> RightsVerdict | None:
    """The denial of the place; None where it has none."""
    for pattern in denied:
        if fnmatchcase(spec.name, pattern):
            return RightsVerdict("deny", f'this place denies "{pattern}"')
    for patterns in only:
        if not any(fnmatchcase(spec.name, pattern) for pattern in patterns):
            return RightsVerdict("deny", f"this place allows only {', '.join(patterns)}")
    return None


def default_rule(rank: AccessRole, touches: Touches, effects: Collection[Effect]) -> str:
    """The default of a rank in words."""
    what = " and ".join(effect for effect in EFFECTS if effect in effects) or "only look"
    where = {"own": "among their own things", "place": "in this place", "outside": "outside of it"}[touches]
    verb = {"allow": "may", "ask": "are asked before tools", "deny": "may not have tools that"}
    gate = default_for(rank, touches, effects)
    return f"{rank}s {verb[gate]} {what} {where}"


def place_decides(touches: Touches, effects: Collection[Effect]) -> bool:
    """Whether such a call in a group is for an admin or a role to approve, and not for the person who asked."""
    return bool(effects) and touches != "own"


def may_approve(tool: str, rank: AccessRole, roles: Sequence[RoleSettings]) -> RightsVerdict:
    """Whether that person may approve calls of the tool that others asked for."""
    found = matched(tool, rules_of(roles, "approve"), "approve")
    if found is not None:
        return found
    if rank in ("owner", "admin"):
        return RightsVerdict("allow", f"{rank}s approve calls")
    return RightsVerdict("deny", f"calls of {tool} are for an admin to approve")


def approving_roles(tool: str, roles: Iterable[RoleSettings]) -> tuple[RoleSettings, ...]:
    """The roles whose people may approve calls of the tool."""
    return tuple(role for role in roles if may_approve(tool, "member", (role,)).gate == "allow")
