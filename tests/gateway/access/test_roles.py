"""Roles of people: rank and named roles by person, place and platform, and what they allow."""

from datetime import UTC, datetime
from itertools import product

import pytest

from adapters.web.parse import Posted
from adapters.web.parse import said as posted_by_page
from agent.assembly import built_in_specs
from agent.core.ids import PersonId
from agent.core.tools import ToolSpec
from agent.tools.approvals import deciders_of
from agent.tools.rights import held, may_approve, tool_ruling
from agent.tools.settings import RoleSettings
from gateway.access.identities import Identities
from gateway.access.policy import NO_GRANTS, Allowed, Decision, Grants, Ignored, Role, decide
from gateway.access.roles import (
    RANK_NAMES,
    CommandRights,
    command_ruling,
    dashboard_rights,
    deciders,
    model_ruling,
    roles_of_sender,
    roles_today,
    without_effect,
)
from gateway.access.settings import DASHBOARD_RIGHTS, AccessSettings, DashboardRight, RoleSection
from gateway.channels.adapter import SignedIn
from gateway.channels.inbound import ChatType, Mention, MessageReceived, Sender
from gateway.channels.keys import ConversationKey, UserId

PLATFORMS = ("telegram", "discord", "slack", "web", "console")
OPS = RoleSettings(
    name="ops",
    people=tuple(f"{platform}:5" for platform in PLATFORMS),
    platform_roles=("discord:112233", "slack:S0123", "telegram:administrator"),
    tools=("shell", "!web_fetch"),
    commands=("budget", "!goal"),
    models=("main/*", "!main/dear"),
    approve=("shell",),
)
ACCESS = AccessSettings(
    groups="open",
    allow=tuple(f"{platform}:2" for platform in PLATFORMS),
    admins=tuple(f"{platform}:1" for platform in PLATFORMS),
    block=tuple(f"{platform}:4" for platform in PLATFORMS),
    allow_groups=tuple(f"{platform}:-7" for platform in PLATFORMS),
)
PEOPLE = {"1": "admin", "2": "member", "3": "guest", "4": "blocked", "5": "guest"}
PLACES = {"direct": None, "let in": "-7", "open": "-8"}
SPECS = built_in_specs()


def said(platform: str, person: str, place: str | None, *platform_roles: str) -> MessageReceived:
    """Somebody's message, in a group or (None) in their own chat."""
    return MessageReceived(
        key=ConversationKey(platform, place or person),
        place=place or person,
        message_id="1",
        sender=Sender(id=UserId(person), platform_roles=frozenset(platform_roles)),
        received_at=datetime(2026, 1, 1, tzinfo=UTC),
        chat_type=ChatType.DIRECT if place is None else ChatType.GROUP,
        text="hello",
        mention=Mention.DIRECT,
    )


def decision_on(platform: str, person: str, place: str | None) -> Decision:
    return decide(said(platform, person, place), ACCESS, NO_GRANTS, mention=Mention.DIRECT)


def expected_rank(platform: str, person: str, place: str) -> str:
    """The rank as the documentation tells it; "" for somebody who is not answered."""
    if platform == "console":
        return "owner"
    if platform == "web":  # the owner has made an account for everybody there
        return {"admin": "admin", "blocked": ""}.get(PEOPLE[person], "member")
    if PEOPLE[person] in ("admin", "member"):
        return PEOPLE[person]
    if PEOPLE[person] == "blocked" or place == "direct":
        return ""
    return "member" if place == "let in" else "guest"


@pytest.mark.requirement("G-47")
def test_what_runs_spends_or_writes_beyond_ones_own_things_is_decided_by_the_place() -> None:
    by_place = {spec.name for spec in SPECS if deciders_of(spec.name, spec, "group", ()).by_place}
    assert by_place == {
        "cancel_task", "edit", "forget", "image", "remember", "schedule_deferred", "schedule_periodic", "send_file",
        "send_message", "set_working_directory", "shell", "write", "write_notes",
    }  # fmt: skip


@pytest.mark.requirement("G-46")
@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
def test_role_tool_place_platform(spec: ToolSpec) -> None:
    """Each person, in each place, on each platform: rank, what the tool may do for them, who decides about it."""
    for platform, person, place in product(PLATFORMS, PEOPLE, PLACES):
        where = (platform, person, place)
        decision = decision_on(platform, person, PLACES[place])
        rank = expected_rank(*where)
        assert isinstance(decision, Allowed) == bool(rank), where
        if not isinstance(decision, Allowed):
            continue
        name = RANK_NAMES[decision.role]
        assert name == rank, where
        has = held(roles_of_sender(said(platform, person, PLACES[place]), (OPS,), AccessSettings(), NO_GRANTS), (OPS,))
        assert bool(has) == (person == "5"), where
        gate = tool_ruling(spec, name, has).gate
        if has and spec.name == "web_fetch":
            assert gate == "deny", where
        elif name == "guest" and not (has and spec.name == "shell"):
            harmless = not spec.effects or (spec.touches == "own" and spec.effects == {"write"})
            assert gate == ("allow" if harmless else "deny"), where
        else:
            assert gate != "deny", where
        chat_type = "direct" if place == "direct" else "group"
        by_place = deciders_of(spec.name, spec, chat_type, (OPS,)).by_place
        assert by_place == (place != "direct" and bool(spec.effects) and spec.touches != "own"), where
        may = may_approve(spec.name, name, has).gate == "allow"
        assert may == (name in ("owner", "admin") or (bool(has) and spec.name == "shell")), where


@pytest.mark.parametrize(
    ("platform", "roles", "found"),
    [
        pytest.param("discord", ("112233", "9"), ("ops",), id="a role of the server"),
        pytest.param("slack", ("S0123",), ("ops",), id="a user group"),
        pytest.param("telegram", ("administrator",), ("ops",), id="an administrator of the group"),
        pytest.param("telegram", ("112233",), (), id="the id of another platform's role"),
        pytest.param("discord", (), (), id="none"),
    ],
)
def test_platform_roles(platform: str, roles: tuple[str, ...], found: tuple[str, ...]) -> None:
    message, let_in = said(platform, "78", "-7", *roles), AccessSettings(allow_groups=(f"{platform}:-7",))
    assert roles_of_sender(message, (OPS,), let_in, NO_GRANTS) == found
    for anybodys in (AccessSettings(groups="open"), AccessSettings(groups="closed", allow_groups=let_in.allow_groups)):
        assert roles_of_sender(message, (OPS,), anybodys, NO_GRANTS) == (), "anybody makes a group and administers it"


NO_SHELL = RoleSettings(name="careful", platform_roles=("slack:S0123",), tools=("!shell",), commands=("!budget",))
MIXED = RoleSettings(name="mixed", platform_roles=("slack:S0123",), tools=("!shell", "read"))
EMPTY = RoleSettings(name="empty", platform_roles=("slack:S0123",))
DECIDES = RoleSettings(name="decides", platform_roles=("slack:S0123",), tools=("!shell",), approve=("shell",))


@pytest.mark.parametrize(
    ("place", "found"),
    [
        pytest.param("-8", {"careful"}, id="a group of anybody's"),
        pytest.param("-7", {"careful", "mixed", "empty", "decides"}, id="a group that somebody let in"),
        pytest.param(None, {"careful", "mixed", "empty", "decides"}, id="a direct chat"),
    ],
)
@pytest.mark.requirement("G-46")
def test_platform_roles_that_only_forbid_count_everywhere(place: str | None, found: set[str]) -> None:
    roles = (NO_SHELL, MIXED, EMPTY, DECIDES)
    message = said("slack", "78", place, "S0123")
    assert set(roles_of_sender(message, roles, ACCESS, NO_GRANTS)) == found
    assert roles_of_sender(said("slack", "78", place), roles, ACCESS, NO_GRANTS) == ()


def test_roles_of_today() -> None:
    listed = RoleSettings(name="listed", people=("telegram:5",))
    assert roles_today("telegram:5", (), (OPS, listed)) == ("ops", "listed")
    assert roles_today("telegram:6", ("ops", "listed"), (OPS, listed)) == ("ops",), "the platform is not asked now"
    assert roles_today("telegram:6", (), (OPS, listed)) == ()


@pytest.mark.parametrize(
    ("name", "needs", "rank", "roles", "gate"),
    [
        pytest.param("budget", Role.ADMIN, Role.MEMBER, (), "deny", id="a member"),
        pytest.param("budget", Role.ADMIN, Role.MEMBER, (OPS,), "allow", id="a member whose role has it"),
        pytest.param("goal", Role.MEMBER, Role.ADMIN, (OPS,), "deny", id="an admin whose role denies it"),
        pytest.param("status", Role.GUEST, Role.GUEST, (), "allow", id="a guest"),
        pytest.param("remind", Role.MEMBER, Role.GUEST, (), "deny", id="a guest who would set up work"),
    ],
)
def test_commands(name: str, needs: Role, rank: Role, roles: tuple[RoleSettings, ...], gate: str) -> None:
    assert command_ruling(CommandRights(name=name, needs=needs), rank, roles).gate == gate


def test_models() -> None:
    assert model_ruling("main/small", (OPS,)).gate == "allow"
    assert model_ruling("main/dear", (OPS,)).gate == "deny"
    assert model_ruling("other/small", (OPS,)).gate == "deny"
    assert model_ruling("other/small", ()).gate == "allow"


def test_whether_a_decider_is_known() -> None:
    def known(platform: str, *roles: RoleSettings, admins: tuple[str, ...] = (), **given: Role) -> bool:
        grants = Grants(
            everywhere={f"telegram:{name}": role for name, role in given.items()}, in_place={}, places=frozenset()
        )
        access = AccessSettings(admins=admins)
        return deciders("shell", platform, {"telegram:-7"}, access=access, grants=grants, roles=roles, approvers=())

    assert not known("telegram")
    assert not known("telegram", admins=("slack:1",)), "an admin of another platform presses no button here"
    assert known("telegram", admins=("telegram:1",))
    assert known("discord", OPS)
    assert known("telegram", p9=Role.ADMIN)
    assert not known("telegram", p9=Role.MEMBER)


def test_rules_without_effect() -> None:
    role = RoleSettings(
        name="ops", tools=("shel", "mcp__git__*", "web_*"), commands=("!budgt", "status"), approve=("write:*",)
    )
    found = list(without_effect((role,), tools=("shell", "write"), servers=("github",), commands=("budget", "status")))
    assert [one.partition(", so")[0] for one in found] == [
        "roles (ops): tools: there is no tool 'shel'; did you mean shell?",
        "roles (ops): tools: 'mcp__git__*' is of the MCP server 'git', which is not configured; "
        "did you mean mcp__github__…?",
        "roles (ops): approve: there is no tool 'write:*'; did you mean write?",
        "roles (ops): commands: there is no command 'budgt'; did you mean budget?",
    ]


def test_a_stranger_is_not_answered_in_a_closed_group() -> None:
    closed = AccessSettings(groups="allowlist")
    assert decide(said("telegram", "3", "-8"), closed, NO_GRANTS, mention=Mention.DIRECT) == Ignored(
        "group not allowed"
    )


# -- rights in the dashboard

VIEWER = RoleSection(name="viewer", people=("web:anna", "telegram:77"))
OPERATOR = RoleSection(name="Operator", people=("web:bob",))
READER = RoleSection(name="reader", people=("web:anna",), dashboard=("view", "transcripts"))
NOTHING = RoleSection(name="viewer", people=("web:anna",), dashboard=())
PLAIN = RoleSection(name="ops", people=("web:anna",))
OF_ZOE = RoleSection(name="editor", people=("web:zoe",), dashboard=("configure",))


@pytest.mark.requirement("G-68")
@pytest.mark.parametrize(
    ("person", "roles", "rights"),
    [
        pytest.param("web:operator", (), DASHBOARD_RIGHTS, id="the owner has all"),
        pytest.param("web:anna", (), set(), id="nobody else has any"),
        pytest.param("console:root", (VIEWER,), set(), id="the terminal is no person of the dashboard"),
        pytest.param("web:anna", (PLAIN,), set(), id="a role that says nothing gives nothing"),
        pytest.param("web:anna", (VIEWER,), {"view"}, id="a viewer looks"),
        pytest.param("web:bob", (VIEWER, OPERATOR), {"view", "operate"}, id="an operator acts, however it is spelt"),
        pytest.param("web:anna", (VIEWER, READER), {"view", "transcripts"}, id="roles add up"),
        pytest.param("web:anna", (NOTHING,), set(), id="what the section says counts before the name"),
        pytest.param("web:anna", (OF_ZOE,), set(), id="another person's role"),
        pytest.param("web:operators", (), set(), id="somebody called nearly so"),
    ],
)
def test_rights_in_the_dashboard(person: str, roles: tuple[RoleSection, ...], rights: set[DashboardRight]) -> None:
    assert dashboard_rights(person, roles) == rights


@pytest.mark.requirement("G-68")
def test_rights_in_the_dashboard_go_with_the_rights_of_linked_accounts_alone() -> None:
    linked = Identities({"web:zoe": (PersonId("web:zoe"), PersonId("telegram:77"))})
    lent = Identities({}, {"web:zoe": (PersonId("web:zoe"), PersonId("telegram:77"), PersonId("web:operator"))})
    assert dashboard_rights("web:zoe", (VIEWER,), linked) == set()
    assert dashboard_rights("web:zoe", (VIEWER,), lent) == {"view"}, "and the owner's are lent to nobody"


# -- the web chat follows the account


@pytest.mark.requirement("G-69")
@pytest.mark.parametrize(
    ("person", "access", "decision"),
    [
        pytest.param("operator", AccessSettings(), Allowed(Role.OWNER), id="the owner"),
        pytest.param(
            "operator", AccessSettings(block=("web:operator",)), Allowed(Role.OWNER), id="whom nothing shuts out"
        ),
        pytest.param("anna", AccessSettings(), Allowed(Role.MEMBER), id="an account is a member"),
        pytest.param("anna", AccessSettings(dm="allowlist"), Allowed(Role.MEMBER), id="listed by having one"),
        pytest.param("anna", AccessSettings(platform_admins=True), Allowed(Role.MEMBER), id="no admin of her own chat"),
        pytest.param("anna", AccessSettings(admins=("web:anna",)), Allowed(Role.ADMIN), id="an admin by name"),
        pytest.param("anna", AccessSettings(block=("web:anna",)), Ignored("blocked"), id="blocked"),
        pytest.param("anna", AccessSettings(admins=("web:operator",)), Allowed(Role.MEMBER), id="another's name"),
    ],
)
def test_the_web_chat_follows_the_account(person: str, access: AccessSettings, decision: Decision) -> None:
    posted = Posted(id="01234567", text="hello")
    key = ConversationKey("web", f"{person}:main")
    who = SignedIn(id=UserId(person), display=person)
    inbound = posted_by_page(key, posted, (), person=who, languages=None, at=datetime(2026, 1, 1, tzinfo=UTC))
    assert decide(inbound, access, NO_GRANTS, mention=Mention.DIRECT) == decision
