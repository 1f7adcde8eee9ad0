"""People who are answered: one row a rule."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from gateway.access.policy import NO_GRANTS, Allowed, Decision, Grants, Ignored, MentionRule, Role, Unpaired, decide
from gateway.access.settings import AccessSettings
from gateway.channels.inbound import ChatType, Mention, MessageReceived, Sender
from gateway.channels.keys import ConversationKey, UserId

CLOSED = AccessSettings()
DIRECT = MessageReceived(
    key=ConversationKey("telegram", "77"),
    place="77",
    message_id="1",
    sender=Sender(id=UserId("77")),
    received_at=datetime(2026, 1, 1, tzinfo=UTC),
    text="hi",
)
GROUP = replace(DIRECT, key=ConversationKey("telegram@work", "-1005:3"), place="-1005", chat_type=ChatType.GROUP)
SLACK = replace(GROUP, key=ConversationKey("slack", "T1:C1:1.2"), place="T1:C1", grantable=("T1",))
MENTION = Mention.DIRECT


def granted(**places: str) -> Grants:
    return Grants(everywhere={}, in_place={}, places=frozenset(places.values()))


@pytest.mark.requirement("G-12")
@pytest.mark.parametrize(
    ("said", "settings", "grants", "decision"),
    [
        pytest.param(DIRECT, CLOSED, NO_GRANTS, Unpaired(), id="an unknown person is asked to pair"),
        pytest.param(
            DIRECT,
            AccessSettings(dm="allowlist"),
            NO_GRANTS,
            Ignored("unknown person"),
            id="or ignored, if listed only",
        ),
        pytest.param(DIRECT, AccessSettings(dm="open"), NO_GRANTS, Allowed(Role.MEMBER), id="an open bot answers"),
        pytest.param(
            DIRECT,
            AccessSettings(dm="closed", allow=("telegram:77",)),
            NO_GRANTS,
            Ignored("direct messages are closed"),
            id="closed is closed to members too",
        ),
        pytest.param(
            DIRECT,
            AccessSettings(dm="closed", admins=("telegram:77",)),
            NO_GRANTS,
            Allowed(Role.ADMIN),
            id="not to admins",
        ),
        pytest.param(DIRECT, AccessSettings(allow=("telegram:77",)), NO_GRANTS, Allowed(Role.MEMBER), id="allow list"),
        pytest.param(DIRECT, AccessSettings(allow=("slack:77",)), NO_GRANTS, Unpaired(), id="of another platform"),
        pytest.param(
            DIRECT,
            AccessSettings(dm="open", admins=("telegram:77",)),
            Grants(everywhere={"telegram:77": Role.BLOCKED}, in_place={}, places=frozenset()),
            Ignored("blocked"),
            id="a block wins over everything",
        ),
        pytest.param(
            GROUP,
            AccessSettings(groups="open"),
            Grants(
                everywhere={"telegram:77": Role.ADMIN},
                in_place={("telegram:77", "telegram:-1005"): Role.BLOCKED},
                places=frozenset(),
            ),
            Ignored("blocked"),
            id="a block in this group too, over what is given everywhere",
        ),
        pytest.param(
            GROUP,
            AccessSettings(groups="open", admins=("telegram:77",), block=("telegram:77",)),
            Grants(everywhere={"telegram:77": Role.OWNER}, in_place={}, places=frozenset()),
            Ignored("blocked"),
            id="so does one of the configuration",
        ),
        pytest.param(
            replace(DIRECT, key=ConversationKey("console", "77")),
            AccessSettings(block=("console:77",)),
            NO_GRANTS,
            Allowed(Role.OWNER),
            id="but nobody is shut out of their own machine",
        ),
        pytest.param(
            DIRECT,
            CLOSED,
            Grants(everywhere={"telegram:77": Role.OWNER}, in_place={}, places=frozenset()),
            Allowed(Role.OWNER),
            id="a grant",
        ),
        pytest.param(GROUP, CLOSED, NO_GRANTS, Ignored("group not allowed"), id="an unknown group is ignored"),
        pytest.param(
            GROUP,
            AccessSettings(allow=("telegram:77",)),
            NO_GRANTS,
            Ignored("group not allowed"),
            id="even with a friend in it",
        ),
        pytest.param(
            GROUP,
            AccessSettings(admins=("telegram:77",)),
            NO_GRANTS,
            Allowed(Role.ADMIN),
            id="an admin speaks anywhere",
        ),
        pytest.param(
            GROUP,
            AccessSettings(allow_groups=("telegram:-1005",)),
            NO_GRANTS,
            Allowed(Role.MEMBER),
            id="a listed group",
        ),
        pytest.param(GROUP, CLOSED, granted(a="telegram:-1005"), Allowed(Role.MEMBER), id="a group let in by /allow"),
        pytest.param(GROUP, AccessSettings(groups="open"), NO_GRANTS, Allowed(Role.GUEST), id="open groups"),
        pytest.param(
            GROUP,
            AccessSettings(groups="closed", allow_groups=("telegram:-1005",)),
            NO_GRANTS,
            Ignored("groups are closed"),
            id="closed groups",
        ),
        pytest.param(SLACK, CLOSED, granted(a="slack:C1"), Allowed(Role.MEMBER), id="a Slack channel without its team"),
        pytest.param(SLACK, CLOSED, granted(a="slack:T1:C1"), Allowed(Role.MEMBER), id="a Slack channel in full"),
        pytest.param(SLACK, CLOSED, granted(a="slack:T1"), Allowed(Role.MEMBER), id="a whole Slack team"),
        pytest.param(
            replace(DIRECT, key=ConversationKey("console", "")),
            CLOSED,
            NO_GRANTS,
            Allowed(Role.OWNER),
            id="the operator",
        ),
        pytest.param(
            replace(DIRECT, sender=Sender(id=UserId("9"), is_bot=True)),
            AccessSettings(dm="open"),
            NO_GRANTS,
            Ignored("a bot wrote it"),
            id="bots are ignored",
        ),
    ],
)
def test_decide(said: MessageReceived, settings: AccessSettings, grants: Grants, decision: Decision) -> None:
    assert decide(said, settings, grants, mention=MENTION) == decision


@pytest.mark.requirement("G-12")
@pytest.mark.parametrize(
    ("mention", "is_command", "allowed"),
    [
        (Mention.NONE, False, False),
        (Mention.NONE, True, True),
        (Mention.IMPLICIT, False, True),
        (Mention.DIRECT, False, True),
    ],
)
def test_groups_want_a_mention(mention: Mention, is_command: bool, allowed: bool) -> None:
    open_groups = AccessSettings(groups="open")
    decision = decide(GROUP, open_groups, NO_GRANTS, mention=mention, is_command=is_command)
    assert decision == (Allowed(Role.GUEST) if allowed else Ignored("no mention of the bot"))
    heard = decide(GROUP, open_groups, NO_GRANTS, mention=mention, rule="always")
    assert heard == Allowed(Role.GUEST)


@pytest.mark.requirement("G-12")
@pytest.mark.parametrize(
    ("rule", "answered"),
    [
        ("always", {"nothing", "a reply", "its name", "a command"}),
        ("replied", {"a reply", "its name", "a command"}),
        ("mentioned", {"its name", "a command"}),
        ("never", {"a command"}),
    ],
)
def test_each_rule_of_a_place_wants_more_of_a_message(rule: MentionRule, answered: set[str]) -> None:
    ways = {"nothing": Mention.NONE, "a reply": Mention.IMPLICIT, "its name": Mention.DIRECT, "a command": Mention.NONE}
    open_groups = AccessSettings(groups="open")
    for way, mention in ways.items():
        is_command = way == "a command"
        decision = decide(GROUP, open_groups, NO_GRANTS, mention=mention, rule=rule, is_command=is_command)
        assert isinstance(decision, Allowed) == (way in answered), way


@pytest.mark.requirement("G-12")
def test_another_bot_is_answered_only_when_it_mentions_us_and_the_guard_agrees() -> None:
    bot = replace(GROUP, sender=Sender(id=UserId("9"), is_bot=True))
    settings = AccessSettings(groups="open", bots="mentions")
    assert decide(bot, settings, NO_GRANTS, mention=Mention.IMPLICIT) == Ignored("a bot wrote it")
    assert decide(bot, settings, NO_GRANTS, mention=MENTION) == Ignored("bot loop guard")
    assert decide(bot, settings, NO_GRANTS, mention=MENTION, bot_allowed=True) == Allowed(Role.GUEST)


def test_a_chat_admin_is_one_only_where_the_operator_says_so() -> None:
    chat_admin = replace(GROUP, sender=Sender(id=UserId("77"), is_chat_admin=True))
    mapped = AccessSettings(groups="open", platform_admins=True)
    assert decide(chat_admin, mapped, NO_GRANTS, mention=MENTION) == Allowed(Role.ADMIN)
    assert decide(chat_admin, replace(mapped, platform_admins=False), NO_GRANTS, mention=MENTION) == Allowed(Role.GUEST)
    unlisted = AccessSettings(platform_admins=True)
    assert decide(chat_admin, unlisted, NO_GRANTS, mention=MENTION) == Ignored("group not allowed"), (
        "of their own group"
    )
    assert decide(chat_admin, unlisted, granted(a="telegram:-1005"), mention=MENTION) == Allowed(Role.ADMIN)


def test_a_chat_admin_of_a_blocked_group_is_nobody() -> None:
    chat_admin = replace(GROUP, sender=Sender(id=UserId("77"), is_chat_admin=True))
    blocked = Grants(everywhere={"telegram:-1005": Role.BLOCKED}, in_place={}, places=frozenset())
    mapped = AccessSettings(groups="open", platform_admins=True)
    assert decide(chat_admin, mapped, blocked, mention=MENTION) == Ignored("blocked")


def test_a_chat_admin_is_one_in_their_direct_chat_too() -> None:
    """As Slack tells of a workspace's admins; nobody else is in that chat who could have made them one."""
    workspace_admin = replace(DIRECT, sender=Sender(id=UserId("77"), is_chat_admin=True))
    mapped = AccessSettings(platform_admins=True)
    for settings in (mapped, replace(mapped, groups="closed"), replace(mapped, groups="open")):
        assert decide(workspace_admin, settings, NO_GRANTS, mention=MENTION) == Allowed(Role.ADMIN)
    assert decide(workspace_admin, CLOSED, NO_GRANTS, mention=MENTION) == Unpaired()


def test_a_role_given_in_one_place_holds_only_there() -> None:
    grants = Grants(
        everywhere={}, in_place={("telegram:77", "telegram:-1005"): Role.ADMIN}, places=frozenset({"telegram:-1005"})
    )
    assert decide(GROUP, CLOSED, grants, mention=MENTION) == Allowed(Role.ADMIN)
    assert decide(DIRECT, CLOSED, grants, mention=MENTION) == Unpaired()


def test_a_name_without_platform_is_a_mistake() -> None:
    (mistake,) = AccessSettings(allow=("77",)).mistakes()
    assert "access.allow: '77'" in mistake
