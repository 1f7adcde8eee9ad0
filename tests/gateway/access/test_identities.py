"""Accounts that are one person, and the ranks and roles that hold among them: one row a rule."""

from dataclasses import dataclass

import pytest

from agent.tools.settings import RoleSettings
from gateway.access.grants import AccessBook
from gateway.access.identities import Identities, IdentityBook
from gateway.access.policy import Grants, Role, blocked_account, lent_role, role_everywhere
from gateway.access.roles import deciders, roles_of, roles_today
from gateway.access.settings import AccessSettings, PersonSettings
from gateway.storage.grants import Grant

T, D, S, W = "telegram:77", "discord:123", "slack:U0ANN", "web:operator"


@dataclass(frozen=True)
class Row:
    """A linked account."""

    person: str
    identity: str = "i"
    rights: str | None = None


def person(*accounts: str, rights: bool = False) -> PersonSettings:
    return PersonSettings(name="ann", accounts=accounts, rights=rights)


@pytest.mark.requirement("G-55", "G-58")
@pytest.mark.parametrize(
    ("rows", "people", "accounts"),
    [
        pytest.param((), (), (T,), id="an account is a person by itself"),
        pytest.param((Row(T), Row(D)), (), (T, D), id="linked accounts are one"),
        pytest.param((Row(D), Row(T)), (), (T, D), id="the one that is asked about comes first"),
        pytest.param((Row(T), Row(D, "j"), Row(S, "j")), (), (T,), id="others are others"),
        pytest.param((), (person(T, D),), (T, D), id="the configuration links"),
        pytest.param((Row(D), Row(S)), (person(T, D),), (T, D, S), id="what overlaps is one person"),
        pytest.param((Row(S), Row(W)), (person(T, D), person(D, S)), (T, D, S, W), id="over several links"),
    ],
)
def test_all_accounts_of_one_person(
    rows: tuple[Row, ...], people: tuple[PersonSettings, ...], accounts: tuple[str, ...]
) -> None:
    assert Identities.of(rows, people).accounts(T) == accounts


SHARED = (Row(T, rights="r"), Row(D, rights="r"))
APART = (Row(T), Row(D))


@pytest.mark.requirement("G-56")
@pytest.mark.parametrize(
    ("rows", "access", "lent"),
    [
        pytest.param(APART, AccessSettings(admins=(T,)), Role.STRANGER, id="a link alone lends nothing"),
        pytest.param(SHARED, AccessSettings(admins=(T,)), Role.ADMIN, id="an admin's yes lends an admin's rank"),
        pytest.param(SHARED, AccessSettings(allow=(T,)), Role.MEMBER, id="and membership"),
        pytest.param(SHARED, AccessSettings(admins=(D,)), Role.STRANGER, id="one's own rank is not lent"),
        pytest.param(
            (Row(T, rights="r"), Row(D, rights="s")),
            AccessSettings(admins=(T,)),
            Role.STRANGER,
            id="two yeses are two, also where their accounts were linked later",
        ),
        pytest.param(
            (*SHARED, Row(W, rights="r")), AccessSettings(), Role.OWNER, id="the web chat is the owner's"
        ),
    ],
)  # fmt: skip
def test_the_rank_that_other_accounts_lend(rows: tuple[Row, ...], access: AccessSettings, lent: Role) -> None:
    grants = Grants(everywhere={}, in_place={}, places=frozenset(), identities=Identities.of(rows))
    assert lent_role(D, access, grants) is lent


@pytest.mark.requirement("G-56")
def test_a_block_holds_for_all_accounts_but_the_operators_own() -> None:
    linked = Identities.of((Row(T), Row(D), Row(W)))
    grants = Grants(everywhere={T: Role.BLOCKED}, in_place={}, places=frozenset(), identities=linked)
    assert blocked_account(D, AccessSettings(), grants) == T
    assert role_everywhere(D, AccessSettings(admins=(D,)), grants) is Role.BLOCKED
    assert role_everywhere(W, AccessSettings(), grants) is Role.OWNER
    assert role_everywhere(S, AccessSettings(admins=(S,)), grants) is Role.ADMIN
    by_settings = Grants(everywhere={}, in_place={}, places=frozenset(), identities=linked)
    assert role_everywhere(D, AccessSettings(block=(T,)), by_settings) is Role.BLOCKED


OPS = RoleSettings(name="ops", people=(T,), approve=("shell",))


@pytest.mark.requirement("G-56")
def test_named_roles_go_with_the_rank() -> None:
    assert roles_of(D, (), (OPS,), Identities.of(APART)) == ()
    assert roles_of(D, (), (OPS,), Identities.of(SHARED)) == ("ops",)
    assert roles_today(D, (), (OPS,), Identities.of(APART)) == ()
    assert roles_today(D, (), (OPS,), Identities.of(SHARED)) == ("ops",)


@pytest.mark.requirement("G-56")
@pytest.mark.parametrize(("rows", "known"), [(APART, False), (SHARED, True)])
def test_somebody_is_known_to_decide_there_by_another_account(rows: tuple[Row, ...], known: bool) -> None:
    grants = Grants(everywhere={}, in_place={}, places=frozenset(), identities=Identities.of(rows))
    access = AccessSettings(admins=(T,))
    assert deciders("shell", "discord", (), access=access, grants=grants, roles=(), approvers=()) is known


@pytest.mark.requirement("G-56", "G-58")
def test_the_books_follow_each_change() -> None:
    grant = Grant(subject=T, kind="person", role="admin", granted_by="operator", at=1)
    book, links = AccessBook([grant]), IdentityBook()
    links.listen(book.link)
    assert lent_role(D, AccessSettings(), book.grants) is Role.STRANGER
    links.relink([Row(T, rights="r"), Row(D, rights="r")])
    assert lent_role(D, AccessSettings(), book.grants) is Role.ADMIN
    assert lent_role(D, AccessSettings(), book.as_of(0)) is Role.STRANGER, "nor was it there before it was given"
    links.relink([])
    assert lent_role(D, AccessSettings(), book.grants) is Role.STRANGER
    links.configure([person(T, D)])
    assert links.accounts(D) == (D, T)
    assert links.configured(D) == (T, D)
    assert links.configured(S) == ()


@pytest.mark.requirement("G-58")
def test_mistakes_of_a_person_are_named() -> None:
    assert PersonSettings(name="ann", accounts=(T, D)).mistakes() == []
    wrong = PersonSettings(name=" ", accounts=("77", "77")).mistakes()
    assert [one.partition(":")[0] for one in wrong] == ["accounts", "accounts", "accounts", "name"]
