"""What a call cost (SPEC §6.3). Pure."""

from collections.abc import Iterable

from agent.providers.provider import Prices, Usage
from agent.sessions.records import CallUsage

PER = 1_000_000


def cost_of(usage: Usage, prices: Prices | None) -> float | None:
    """USD by the four tiers; None when the price is unknown."""
    if prices is None:
        return None
    return (
        usage.prompt * prices.input
        + usage.output * prices.output
        + usage.cache_creation * prices.cache_write
        + usage.cache_read * prices.cache_read
    ) / PER


def total_cost(calls: Iterable[CallUsage]) -> float | None:
    """The sum of a run; None when one of its calls has no known price."""
    total = 0.0
    for call in calls:
        if call.cost_usd is None:
            return None
        total += call.cost_usd
    return total
