"""The limits that apply to a call, and how two calls share the rest."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.ledger.spending import Account, Accounts, Limit, Names, OverBudget, Rules, Spending, Unpriced, period_of

NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)
NEXT_DAY = datetime(2026, 11, 23, 0, 0, 1, tzinfo=UTC)
NEXT_MONTH = datetime(2026, 12, 1, tzinfo=UTC)
ANN: Names = {
    "gateway": ("",),
    "provider": ("main",),
    "channel": ("telegram:-1005:7", "telegram:-1005", "telegram"),
    "person": ("telegram:77",),
}


def rules(*limits: Limit, **more: Any) -> Rules:
    return Rules.of(Spending(limits=limits, **more))


def applied(given: Rules, names: Names = ANN) -> set[tuple[str, str, float | None]]:
    periods = {"day": period_of(NOON, "day"), "month": period_of(NOON, "month")}
    found = given.applying(names, periods)  # type: ignore[arg-type]
    return {(one.account.name, one.account.period, one.limit.usd) for one in found}


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        pytest.param([Limit(scope="gateway", usd=5)], {("", "2026-11-22", 5)}, id="the gateway's holds for everybody"),
        pytest.param(
            [Limit(scope="person", per="month", usd=9)], {("telegram:77", "2026-11", 9)}, id="each person has their own"
        ),
        pytest.param(
            [Limit(scope="person", usd=2), Limit(scope="person", name="telegram:77", usd=8)],
            {("telegram:77", "2026-11-22", 8)},
            id="a limit by name takes the general one's place",
        ),
        pytest.param([Limit(scope="person", name="telegram:99", usd=2)], set(), id="somebody else's does not hold"),
        pytest.param(
            [Limit(scope="channel", usd=1), Limit(scope="channel", name="telegram:-1005", usd=3)],
            {("telegram:-1005:7", "2026-11-22", 1), ("telegram:-1005", "2026-11-22", 3)},
            id="a topic comes under its own and its group's",
        ),
        pytest.param(
            [Limit(scope="provider", name="MAIN", usd=1)], {("main", "2026-11-22", 1)}, id="names ignore case"
        ),
        pytest.param([Limit(scope="job", usd=1), Limit(scope="goal", usd=1)], set(), id="no job and no goal"),
    ],
)
def test_which_limits_a_call_comes_under(limits: list[Limit], expected: set[tuple[str, str, float | None]]) -> None:
    assert applied(rules(*limits)) == expected


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Limit(scope="person"), "usd and tokens are both missing"),
        (lambda: Limit(scope="person", usd=float("nan")), "a finite number of 0 or more"),
        (lambda: Limit(scope="person", tokens=-1), "0 or more"),
        (lambda: Limit(scope="gateway", name="x", usd=1), "the gateway has none"),
        (lambda: Spending(warn_at=0), "warn_at"),
        (lambda: Spending(more=0), "more"),
        (lambda: Spending(limits=(Limit(scope="person", usd=1), Limit(scope="person", usd=2))), "keep one"),
    ],
)
def test_impossible_limits_are_refused(make: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        make()


def take(
    accounts: Accounts, given: Rules, usd: float | None, tokens: int = 100, at: datetime = NOON, names: Names = ANN
) -> Any:
    return accounts.hold(given, names, at, usd=usd, tokens=tokens, provider="main", model="m")


@pytest.mark.requirement("W-23")
def test_two_calls_at_once_cannot_both_take_the_last() -> None:
    accounts, given = Accounts(), rules(Limit(scope="gateway", usd=1.0))
    first = take(accounts, given, 0.6)
    with pytest.raises(OverBudget) as caught:
        take(accounts, given, 0.6)
    assert (caught.value.limit, round(caught.value.left, 9), caught.value.needed) == (1.0, 0.4, 0.6)
    accounts.settle(first, usd=0.1, tokens=40)
    take(accounts, given, 0.9)  # what was set aside and not used is there again


def test_a_refused_call_sets_nothing_aside_anywhere() -> None:
    accounts = Accounts()
    given = rules(Limit(scope="gateway", usd=10), Limit(scope="person", usd=0.5))
    for _ in range(3):
        with pytest.raises(OverBudget):
            take(accounts, given, 0.6)
    take(accounts, rules(Limit(scope="gateway", usd=10)), 10)


def test_tokens_are_a_budget_of_their_own() -> None:
    accounts, given = Accounts(), rules(Limit(scope="person", tokens=150))
    accounts.settle(take(accounts, given, None), usd=None, tokens=60)
    with pytest.raises(OverBudget, match="90 of 150 tokens left"):
        take(accounts, given, None)


def test_a_call_of_unknown_price_is_not_free() -> None:
    accounts, limit = Accounts(), Limit(scope="gateway", usd=1)
    with pytest.raises(Unpriced, match=r"\[spending\] unpriced"):
        take(accounts, rules(limit), None)
    given = rules(limit, unpriced="allow")
    accounts.settle(take(accounts, given, None), usd=None, tokens=60)
    [standing] = accounts.everything(given, NOON)
    assert (standing.spent_usd, standing.unpriced) == (0.0, 1)


@pytest.mark.parametrize(
    ("at", "left_of_day", "left_of_month"),
    [
        pytest.param(NOON, 0.0, 4.0, id="the same day"),
        pytest.param(NEXT_DAY, 1.0, 4.0, id="a new day"),
        pytest.param(NEXT_MONTH, 1.0, 5.0, id="a new month"),
    ],
)
def test_budgets_begin_anew_at_midnight_utc(at: datetime, left_of_day: float, left_of_month: float) -> None:
    accounts = Accounts()
    given = rules(Limit(scope="gateway", usd=1), Limit(scope="gateway", per="month", usd=5))
    accounts.settle(take(accounts, given, 1.0), usd=1.0, tokens=10)
    standings = {one.account.per: one for one in accounts.standings(given, ANN, at)}
    assert {span: (one.usd or 0) - one.spent_usd for span, one in standings.items()} == {
        "day": left_of_day,
        "month": left_of_month,
    }


def test_a_call_over_midnight_is_paid_by_the_day_it_began_in() -> None:
    accounts, given = Accounts(), rules(Limit(scope="gateway", usd=1))
    hold = take(accounts, given, 0.9)
    take(accounts, given, 0.9, at=NEXT_DAY)
    accounts.settle(hold, usd=0.9, tokens=10)
    [standing] = accounts.standings(given, ANN, NEXT_DAY)
    assert standing.spent_usd == 0


def test_near_is_said_once_and_again_after_an_approval() -> None:
    accounts, given = Accounts(), rules(Limit(scope="person", usd=1), warn_at=0.5)

    def spend(usd: float) -> list[float]:
        hold = take(accounts, given, usd)
        accounts.settle(hold, usd=usd, tokens=1)
        return [round(one.share, 3) for one in accounts.newly_near(given, hold)]

    assert (spend(0.4), spend(0.2), spend(0.1)) == ([], [0.6], [])
    assert accounts.approve(given, Account("person", "telegram:77", "2026-11-22"), usd=1.0, tokens=0) == 1
    assert (spend(0.1), spend(0.3)) == ([], [0.55])


def test_what_an_earlier_process_spent_counts_and_is_not_warned_of_again() -> None:
    accounts, given = Accounts(), rules(Limit(scope="gateway", usd=1))
    accounts.spent(ANN, accounts.periods(NOON), usd=0.9, tokens=10, unpriced=0)
    accounts.take_warnings_as_said(given, NOON)
    hold = take(accounts, given, 0.05)
    accounts.settle(hold, usd=0.05, tokens=1)
    assert list(accounts.newly_near(given, hold)) == []
    with pytest.raises(OverBudget):
        take(accounts, given, 0.06)


@pytest.mark.parametrize("both", [False, True], ids=["a new place", "a place that has spent"])
def test_a_renamed_place_keeps_what_it_spent_and_was_allowed_also_by_calls_under_way(both: bool) -> None:
    accounts, given = Accounts(), rules(Limit(scope="channel", usd=1))
    old: Names = {"channel": ("telegram:-5",)}
    new: Names = {"channel": ("telegram:-1005",)}
    accounts.settle(take(accounts, given, 0.5, names=old), usd=0.5, tokens=10)
    accounts.approve(given, Account("channel", "telegram:-5", "2026-11-22"), usd=2.0, tokens=0)
    under_way = take(accounts, given, 0.25, names=old)
    if both:
        accounts.settle(take(accounts, given, 0.25, names=new), usd=0.25, tokens=1)
        accounts.approve(given, Account("channel", "telegram:-1005", "2026-11-22"), usd=1.0, tokens=0)
    accounts.rename("telegram:-5", "telegram:-1005")
    accounts.settle(under_way, usd=0.125, tokens=5)
    [standing] = accounts.standings(given, new, NOON)
    assert (standing.usd, standing.spent_usd, standing.spent_tokens, standing.approvals) == (
        (4.0, 0.875, 16, 2) if both else (3.0, 0.625, 15, 1)
    )
    assert {one.account.name for one in accounts.everything(given, NOON)} == {"telegram:-1005"}
    take(accounts, given, (standing.usd or 0) - standing.spent_usd, names=new)  # nothing is held any more
    assert accounts.next_approval(standing.account) == standing.approvals + 1


def test_what_only_holds_others_is_no_payer() -> None:
    accounts, given = Accounts(), rules(Limit(scope="channel", usd=1))
    accounts.settle(take(accounts, given, 0.5), usd=0.5, tokens=1)
    assert [one.account.name for one in accounts.everything(given, NOON)] == ["telegram:-1005:7"]


@pytest.mark.parametrize(
    ("general", "of_place", "told"),
    [
        pytest.param(10, [2, 5], 2, id="one of the place"),
        pytest.param(1, [2], 1, id="the general one"),
        pytest.param(3, [], 3, id="the only one"),
    ],
)
def test_of_several_limits_of_one_account_the_one_that_is_used_up_most_is_told(
    general: float, of_place: list[float], told: float
) -> None:
    place: Names = {"channel": ("telegram:77",)}
    accounts, given = (
        Accounts(),
        Rules.of(
            Spending(limits=(Limit(scope="channel", usd=general),)),
            of_place=lambda payer, own: [Limit(scope="channel", name=payer, usd=usd) for usd in of_place],
        ),
    )
    hold = accounts.hold(given, place, NOON, usd=0.1, tokens=1, provider="main", model="m")
    accounts.settle(hold, usd=0.1, tokens=1)
    standing = accounts.find(given, Account("channel", "telegram:77", period_of(NOON, "day")), NOON)
    assert standing is not None
    assert standing.usd == told
    assert [one.usd for one in accounts.everything(given, NOON)] == [told]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["take", "settle", "release"]), st.integers(0, 50), st.integers(0, 50))))
def test_no_order_of_calls_spends_more_than_was_set_aside_for(steps: list[tuple[str, int, int]]) -> None:
    """Calls within their reservation never pass the limit, and no reservation stays for ever."""
    # In 128ths, which are exact: a hundredth more or less is not what this is about.
    accounts, given, limit = Accounts(), rules(Limit(scope="gateway", usd=100 / 128, tokens=100)), 100
    open_holds: list[tuple[Any, int]] = []
    spent = 0
    for what, size, used in steps:
        if what == "take":
            try:
                open_holds.append((take(accounts, given, size / 128, size), size))
            except OverBudget:
                assert spent + sum(held for _, held in open_holds) + size > limit
        elif open_holds:
            hold, size = open_holds.pop(used % len(open_holds))
            if what == "settle":
                used = min(used, size)
                accounts.settle(hold, usd=used / 128, tokens=used)
                spent += used
            else:
                accounts.release(hold)
        assert spent + sum(held for _, held in open_holds) <= limit
    for hold, _ in open_holds:
        accounts.release(hold)
    if spent < limit:
        take(accounts, given, (limit - spent) / 128, limit - spent)


# Linked accounts of one person.

LINKED = {"telegram:77": ("telegram:77", "discord:5"), "discord:5": ("discord:5", "telegram:77")}


def joined(*limits: Limit) -> Rules:
    return Rules.of(Spending(limits=limits), accounts_of=lambda name: LINKED.get(name, (name,)))


@pytest.mark.requirement("G-57")
def test_a_persons_limit_counts_all_their_accounts_and_each_its_own_without_the_link() -> None:
    accounts, together, apart = Accounts(), joined(Limit(scope="person", usd=1)), rules(Limit(scope="person", usd=1))
    far = {**ANN, "person": ("discord:5",)}
    take(accounts, together, 0.6)
    with pytest.raises(OverBudget) as error:
        take(accounts, together, 0.6, names=far)
    assert error.value.left == pytest.approx(0.4)
    take(accounts, apart, 0.6, names=far)
    assert [round(one.spent_usd, 1) for one in accounts.standings(apart, far, NOON)] == [0.0], "held, not spent yet"


@pytest.mark.requirement("G-57")
def test_a_limit_that_names_one_account_holds_for_the_others() -> None:
    accounts, given = Accounts(), joined(Limit(scope="person", name="telegram:77", usd=0.5))
    with pytest.raises(OverBudget):
        take(accounts, given, 0.6, names={**ANN, "person": ("discord:5",)})


@pytest.mark.requirement("G-57")
def test_more_for_one_account_is_more_for_all_and_is_numbered_by_account() -> None:
    accounts, given = Accounts(), joined(Limit(scope="person", usd=1))
    one, other = (Account("person", name, "2026-11-22") for name in ("telegram:77", "discord:5"))
    accounts.approve(given, one, usd=1.0, tokens=0)
    standing = accounts.find(given, other, NOON)
    assert standing is not None
    assert (standing.usd, standing.approvals) == (2.0, 1)
    assert (accounts.next_approval(one), accounts.next_approval(other)) == (2, 1)
    take(accounts, given, 1.5, names={**ANN, "person": ("discord:5",)})
    assert [str(found.account) for found in accounts.everything(given, NOON)] == ["person telegram:77"], "shown once"


@pytest.mark.requirement("G-57")
def test_a_limit_of_another_account_of_the_person_is_listed_with_what_counts_against_it() -> None:
    accounts = Accounts()
    given = joined(Limit(scope="person", usd=9), Limit(scope="person", name="telegram:77", usd=1))
    far: Names = {"gateway": ("",), "person": ("discord:5",)}
    accounts.settle(take(accounts, given, 0.6, names=far), usd=0.5, tokens=1)
    found = [(one.account.name, one.usd, one.spent_usd) for one in accounts.everything(given, NOON)]
    assert found == [("telegram:77", 1, 0.5), ("discord:5", 9, 0.5)]
    accounts.take_warnings_as_said(joined(Limit(scope="person", name="telegram:77", usd=0.5)), NOON)
    told = joined(Limit(scope="person", name="telegram:77", usd=0.5))
    assert not list(accounts.newly_near(told, take(accounts, given, 0.0, names=far))), "an earlier process told it"
