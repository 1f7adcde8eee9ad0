"""Rights to tools and approvals: rank, named roles and place against the words of a tool."""

from itertools import chain, combinations

import pytest

from agent.core.tools import Effect, Gate, ToolSpec, Touches
from agent.inbox import AccessRole
from agent.tools.rights import (
    EFFECTS,
    RANKS,
    TOUCHES,
    approving_roles,
    default_for,
    granted_ruling,
    held,
    matched,
    may_approve,
    place_decides,
    tool_ruling,
)
from agent.tools.settings import RoleSettings

OPS = RoleSettings(
    name="ops",
    people=("telegram:77",),
    tools=("shell", "mcp__*", "!mcp__github__delete*"),
    approve=("shell", "!write"),
)
NO_SHELL = RoleSettings(name="calm", tools=("!shell", "!*fetch", "web_fetch"))
ALL_EFFECTS = tuple(
    frozenset(some) for some in chain.from_iterable(combinations(EFFECTS, number) for number in range(len(EFFECTS) + 1))
)


def spec_of(
    name: str = "shell", touches: Touches = "outside", effects: frozenset[Effect] = frozenset({"run"})
) -> ToolSpec:
    return ToolSpec(name=name, description="", schema={}, touches=touches, effects=effects)


def expected(rank: AccessRole, touches: Touches, effects: frozenset[Effect]) -> Gate:
    """The default table as a person would write it down."""
    if not effects or (touches == "own" and rank != "guest"):
        return "allow"
    if rank == "guest":
        return "allow" if touches == "own" and effects == {"write"} else "deny"
    return "ask"


@pytest.mark.requirement("G-46")
@pytest.mark.parametrize("rank", RANKS)
@pytest.mark.parametrize("touches", TOUCHES)
@pytest.mark.parametrize("effects", ALL_EFFECTS, ids=lambda some: "+".join(sorted(some)) or "looks")
def test_default(rank: AccessRole, touches: Touches, effects: frozenset[Effect]) -> None:
    assert default_for(rank, touches, effects) == expected(rank, touches, effects)


@pytest.mark.requirement("G-46")
@pytest.mark.parametrize(
    ("name", "roles", "gate", "rule"),
    [
        pytest.param("shell", (OPS,), "allow", '"shell"', id="an exact name"),
        pytest.param("mcp__time__now", (OPS,), "allow", '"mcp__*"', id="a pattern"),
        pytest.param("mcp__github__delete_repo", (OPS,), "deny", "!mcp__github", id="a denial wins among patterns"),
        pytest.param("shell", (OPS, NO_SHELL), "deny", '"!shell"', id="a denial wins among exact names"),
        pytest.param("web_fetch", (NO_SHELL,), "allow", '"web_fetch"', id="an exact name before a pattern"),
        pytest.param("write", (OPS, NO_SHELL), None, "", id="no rule"),
    ],
)
def test_most_specific_rule(name: str, roles: tuple[RoleSettings, ...], gate: Gate | None, rule: str) -> None:
    found = matched(name, ((role.name, one) for role in roles for one in role.tools), "tools")
    assert (found.gate if found else None) == gate
    assert found is None or rule in found.rule


def test_a_role_takes_the_denial_of_a_rank_away_and_no_question() -> None:
    assert tool_ruling(spec_of(), "guest").gate == "deny"
    assert tool_ruling(spec_of(), "guest", (OPS,)).gate == "ask"
    assert tool_ruling(spec_of(), "member", (NO_SHELL,)).gate == "deny"


@pytest.mark.requirement("G-134")
@pytest.mark.parametrize("touches", TOUCHES)
@pytest.mark.parametrize("effects", ALL_EFFECTS)
def test_a_turn_for_which_nobody_has_spoken_looks_within_its_chat_alone(
    touches: Touches, effects: frozenset[Effect]
) -> None:
    spec = spec_of("shell", touches, effects)
    looks = not effects and touches != "outside"
    assert granted_ruling(spec, ()).gate == ("allow" if looks else "deny")
    assert granted_ruling(spec, ("web_*",)).gate == ("allow" if looks else "deny")
    assert granted_ruling(spec, ("sh*",)).gate == ("ask" if effects else "allow")
    assert granted_ruling(spec, ("sh*",), denied=("shell",)).gate == "deny"
    assert granted_ruling(spec, ("sh*",), only=(("web_*",),)).gate == "deny"


@pytest.mark.parametrize(
    ("only", "denied", "gate"),
    [
        pytest.param((), ("sh*",), "deny", id="denied here"),
        pytest.param(("shell",), ("shell",), "deny", id="a denial wins"),
        pytest.param(("web_*",), (), "deny", id="not among those allowed here"),
        pytest.param(("sh*",), (), "ask", id="among those allowed here"),
    ],
)
def test_a_place_only_narrows(only: tuple[str, ...], denied: tuple[str, ...], gate: Gate) -> None:
    assert tool_ruling(spec_of(), "owner", (OPS,), only=(only,) if only else (), denied=denied).gate == gate


@pytest.mark.parametrize(
    ("tool", "rank", "roles", "gate"),
    [
        pytest.param("shell", "member", (), "deny", id="a member"),
        pytest.param("shell", "guest", (), "deny", id="a guest"),
        pytest.param("shell", "admin", (), "allow", id="an admin"),
        pytest.param("shell", "member", (OPS,), "allow", id="a role for the tool"),
        pytest.param("edit", "member", (OPS,), "deny", id="a role for another tool"),
        pytest.param("write", "admin", (OPS,), "deny", id="a role that forbids it even an admin"),
    ],
)
def test_may_approve(tool: str, rank: AccessRole, roles: tuple[RoleSettings, ...], gate: Gate) -> None:
    assert may_approve(tool, rank, roles).gate == gate


def test_who_decides_follows_from_the_words() -> None:
    assert place_decides("outside", {"write"})
    assert place_decides("place", {"spend"})
    assert not place_decides("own", {"write", "run"})
    assert not place_decides("outside", ())
    assert approving_roles("shell", (OPS, NO_SHELL)) == (OPS,)


def test_a_tool_that_says_nothing_counts_as_the_most_dangerous() -> None:
    silent = ToolSpec(name="odd", description="", schema={})
    assert silent.touches == "outside"
    assert set(silent.effects) == {"write", "run", "spend"}
    assert tool_ruling(silent, "guest").gate == "deny"


def test_a_role_that_is_gone_is_none() -> None:
    assert held(("ops", "gone"), (OPS, NO_SHELL)) == (OPS,)


@pytest.mark.parametrize(
    ("values", "mistake"),
    [
        ({"name": "Admin"}, "a rank of its own"),
        ({"name": "on call"}, "letters, digits"),
        ({"name": "ops", "people": ("77",)}, 'write it as "telegram:77"'),
        ({"name": "ops", "platform_roles": ("S0123",)}, "names no platform"),
        ({"name": "ops", "commands": ("!/budget",)}, "write '!budget'"),
        ({"name": "ops", "tools": ("!",)}, "names nothing"),
    ],
)
def test_mistakes_of_a_role(values: dict[str, object], mistake: str) -> None:
    with pytest.raises(ValueError, match=mistake):
        RoleSettings(**values)  # type: ignore[arg-type]
