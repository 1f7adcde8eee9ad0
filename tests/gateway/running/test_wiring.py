"""Present rights of a person who set something up earlier."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from agent.core.ids import ConversationId, PersonId
from agent.goals.goal import Owner
from gateway.access.grants import AccessBook
from gateway.access.identities import IdentityBook
from gateway.access.policy import Decisions
from gateway.access.settings import DASHBOARD_RIGHTS, AccessSettings
from gateway.channels.keys import UserId
from gateway.config.live import Live
from gateway.config.read import read
from gateway.running.rights import Rights, is_blocked, role_today
from gateway.storage.grants import Grant

BOB = "telegram:78"
BLOCK = Grant(subject=BOB, kind="person", role="blocked", granted_by="telegram:77", at=1)


@pytest.mark.parametrize(
    ("book", "access", "blocked"),
    [
        pytest.param(AccessBook(), AccessSettings(allow=(BOB,)), False, id="let in"),
        pytest.param(AccessBook(), AccessSettings(), False, id="who lost their place is a stranger, not blocked"),
        pytest.param(AccessBook([BLOCK]), AccessSettings(allow=(BOB,)), True, id="by a command"),
        pytest.param(AccessBook(), AccessSettings(allow=(BOB,), block=(BOB,)), True, id="by the configuration"),
    ],
)
def test_who_is_blocked(book: AccessBook, access: AccessSettings, blocked: bool) -> None:
    assert is_blocked(book, access, PersonId(BOB)) is blocked
    assert not is_blocked(book, access, None)


ROLES = [{"name": "viewer", "people": ["web:anna"]}]
OF_ANNA = Grant(subject="web:anna", kind="person", role="blocked", granted_by="web:operator", at=1)


@pytest.mark.requirement("G-68", "G-69")
def test_the_dashboard_asks_for_the_rights_of_now(tmp_path: Path) -> None:
    settings = read({"roles": ROLES}, {}, home=tmp_path, source=None)
    rights = Rights(Live(settings), AccessBook(), Decisions(), IdentityBook())
    assert rights.dashboard(UserId("operator")) == DASHBOARD_RIGHTS
    assert rights.dashboard(UserId("anna")) == {"view"}
    assert rights.dashboard(UserId("bob")) == set()
    rights.book.note(OF_ANNA)
    assert rights.dashboard(UserId("anna")) == set(), "who is blocked has none"
    rights.book.note(Grant(subject="web:operator", kind="person", role="blocked", granted_by="x", at=1))
    assert rights.dashboard(UserId("operator")) == DASHBOARD_RIGHTS, "but nobody is shut out of their own machine"


@dataclass(frozen=True, slots=True)
class Work:
    """A goal or plan, as rights see it."""

    conversation: ConversationId
    owner: Owner


def test_work_of_somebody_who_was_blocked_since_has_no_rights(tmp_path: Path) -> None:
    settings = read({"access": {"allow": [BOB]}}, {}, home=tmp_path, source=None)
    rights = Rights(Live(settings), AccessBook(), Decisions(), IdentityBook())
    work = Work(ConversationId(BOB), Owner(person=PersonId(BOB), role="member"))
    held = rights.role_of(work)
    assert held is not None
    assert held.role == "member"
    rights.book.note(BLOCK)
    assert rights.role_of(work) is None


@pytest.mark.requirement("G-69")
@pytest.mark.parametrize(
    ("person", "conversation", "role"),
    [
        pytest.param("web:operator", "web:operator:main", "owner", id="the owner"),
        pytest.param("web:anna", "web:anna:main", "member", id="another account"),
        pytest.param(None, "web:operator:main", "owner", id="nobody is named in the owner's own chat"),
        pytest.param(None, "web:anna:main", "member", id="nor in another's"),
        pytest.param(None, "console:main", "owner", id="nor in the terminal"),
    ],
)
def test_work_of_the_web_chat_has_the_rank_of_its_account(person: str | None, conversation: str, role: str) -> None:
    who = PersonId(person) if person is not None else None
    assert role_today(AccessBook(), AccessSettings(), who, ConversationId(conversation), "owner") == role
