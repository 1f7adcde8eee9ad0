"""The remainder that a goal may still spend."""

from typing import Any

import pytest

from agent.core.errors import ProviderUnpriced
from agent.ledger.spending import Allowance, CapReached, SpendingCap, SpendingCaps, Sum


def spending_cap(allowance: Allowance, spent: dict[str, Any]) -> SpendingCap:
    return SpendingCap("1", allowance, Sum(**spent))


@pytest.mark.parametrize(
    ("allowance", "spent", "usd", "tokens", "refused"),
    [
        pytest.param(Allowance(), {}, None, 10**9, None, id="without limits everything passes"),
        pytest.param(Allowance(usd=1.0), {"usd": 0.4}, 0.6, 1, None, id="exactly what is left may be taken"),
        pytest.param(Allowance(usd=1.0), {"usd": 0.5}, 0.6, 1, "usd", id="more than is left in money"),
        pytest.param(Allowance(usd=1.0), {"held_usd": 0.5}, 0.6, 1, "usd", id="what another call may take is not left"),
        pytest.param(Allowance(usd=1.0), {"usd": 2.0}, None, 1, None, id="the house's cap lets unknown prices pass"),
        pytest.param(Allowance(usd=1.0, priced=True), {}, None, 1, "usd", id="its own refuses them"),
        pytest.param(Allowance(tokens=100), {"tokens": 60}, None, 40, None, id="exactly the tokens that are left"),
        pytest.param(Allowance(tokens=100), {"tokens": 60}, None, 41, "tokens", id="one token too many"),
        pytest.param(Allowance(tokens=100), {"held_tokens": 60}, None, 41, "tokens", id="tokens set aside"),
    ],
)
def test_a_call_passes_if_the_goal_can_pay_for_it(
    allowance: Allowance, spent: dict[str, Any], usd: float | None, tokens: int, refused: str | None
) -> None:
    found = spending_cap(allowance, spent)
    if refused is None:
        found.check(usd=usd, tokens=tokens)
        return
    with pytest.raises(CapReached) as raised:
        found.check(usd=usd, tokens=tokens)
    assert raised.value.unit == refused
    assert isinstance(raised.value, ProviderUnpriced) == (usd is None and refused == "usd"), "another may have a price"


def test_opening_it_again_forgets_nothing_that_was_spent_a_moment_ago() -> None:
    spending_caps = SpendingCaps()
    spending_caps.open("1", Allowance(tokens=100), usd=0.0, tokens=10)
    first = spending_caps.find("1")
    assert first is not None
    first.sum.tokens += 30  # not in the database yet
    spending_caps.open("1", Allowance(tokens=200), usd=0.0, tokens=20)
    second = spending_caps.find("1")
    assert second is not None
    assert (second.sum.tokens, second.allowance.tokens) == (40, 200)
    spending_caps.close("1")
    assert spending_caps.find("1") is None
