"""The small rules of a turn: what fits, when to halt, which hints."""

import pytest

from agent.providers.provider import CacheTier, Prices, Usage
from agent.providers.usage import Spent, cost_of
from agent.run.guards import Progress, ceiling, halt_before_call
from agent.run.run import total_cost
from agent.run.settings import AgentSettings, BudgetSettings, ContextSettings
from agent.turn.requests import cache_tier_for, code_ratio_of, routing_hint_for


@pytest.mark.requirement("W-24", "W-70", "B-77")
@pytest.mark.parametrize(
    ("window", "most"),
    [
        pytest.param(128_000, 105_000, id="window − 20,000 − 3,000"),
        pytest.param(0, 105_000, id="an unknown window is 128,000"),
        pytest.param(8_000, 8_000 - 2_000 - 500, id="a small window keeps room for the question"),
    ],
)
def test_ceiling(window: int, most: int) -> None:
    assert ceiling(window, ContextSettings()) == most


AGENT, BUDGET = AgentSettings(max_turns=5), BudgetSettings(max_tokens_in=1000, max_tokens_out=100, max_cost_usd=2.0)


@pytest.mark.requirement("W-22", "W-23", "B-39", "B-80", "R-38", "R-40")
@pytest.mark.parametrize(
    ("progress", "phrase"),
    [
        pytest.param(Progress(), None, id="at the start"),
        pytest.param(Progress(model_calls=4), None, id="one call left"),
        pytest.param(Progress(model_calls=5), "max_turns", id="the cap of calls"),
        pytest.param(Progress(tool_rounds=9), None, id="nine rounds of tools"),
        pytest.param(Progress(tool_rounds=10), "max_tool_iterations", id="ten rounds of tools"),
        pytest.param(Progress(steps=200), "step_budget", id="the step budget"),
        pytest.param(Progress(tool_failures=5), None, id="five failures are allowed"),
        pytest.param(Progress(tool_failures=6), "recovery_budget", id="the sixth failure is one too many"),
        pytest.param(Progress(tokens_in=1000), "budget_tokens", id="tokens read"),
        pytest.param(Progress(tokens_out=100), "budget_tokens", id="tokens written"),
        pytest.param(Progress(model_calls=1, cost_usd=2.0), "budget_cost", id="money"),
        pytest.param(Progress(tool_ms=14_400_000), "budget_tool_time", id="time of tools"),
        pytest.param(Progress(tool_ms=14_399_999), None, id="nearly all time of tools"),
        pytest.param(Progress(cost_usd=2.0), "budget_cost", id="money that others have spent for it"),
    ],
)
def test_halt_before_call(progress: Progress, phrase: str | None) -> None:
    halt = halt_before_call(progress, AGENT, BUDGET)
    assert (halt.phrase if halt else None) == phrase


@pytest.mark.requirement("W-22")
def test_there_is_no_cap_of_calls_unless_set() -> None:
    assert halt_before_call(Progress(model_calls=10_000), AgentSettings(), BudgetSettings()) is None


@pytest.mark.requirement("W-36")
@pytest.mark.parametrize(
    ("tokens", "reuse_s", "tier"),
    [(1023, 3600.0, "none"), (1024, 3600.0, "1h"), (1024, 300.0, "5m"), (1024, 301.0, "1h")],
)
def test_cache_tier_for(tokens: int, reuse_s: float, tier: CacheTier) -> None:
    assert cache_tier_for(tokens, reuse_s) == tier


@pytest.mark.parametrize(
    ("tokens", "calls", "code", "vision", "hint"),
    [
        (9000, 3, 1.0, True, "premium:requires_vision"),
        (8001, 3, 1.0, False, "premium:large_context"),
        (8000, 3, 1.0, False, "premium:tool_heavy"),
        (100, 2, 0.30, False, "balanced:code_heavy"),
        (100, 2, 0.29, False, "cheap:simple"),
    ],
)
def test_routing_hint_for(tokens: int, calls: int, code: float, vision: bool, hint: str) -> None:
    assert routing_hint_for(tokens, tool_calls=calls, code_ratio=code, vision=vision) == hint


def test_code_ratio_of() -> None:
    assert code_ratio_of("why?\n```py\nx = 1\n```") == 0.25
    assert code_ratio_of("") == code_ratio_of("no code") == 0.0


@pytest.mark.requirement("R-15")
def test_a_call_costs_by_four_tiers_and_an_unknown_price_is_no_price() -> None:
    usage = Usage(prompt=1_000_000, output=1_000_000, cache_creation=1_000_000, cache_read=1_000_000)
    assert cost_of(usage, Prices(input=3, output=15, cache_write=3.75, cache_read=0.3)) == pytest.approx(22.05)
    assert cost_of(usage, None) is None

    def call(cost: float | None) -> Spent:
        return Spent(provider="p", model="m", usage=usage, cost_usd=cost, estimated=False)

    assert total_cost([call(0.5), call(0.25)]) == 0.75
    assert total_cost([call(0.5), call(None)]) is None
