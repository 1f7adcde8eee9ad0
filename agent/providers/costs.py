"""What a call cost, by the four tiers of price (SPEC §6.3). Pure."""

from agent.providers.provider import Prices, Usage

PER = 1_000_000


def cost_of(usage: Usage, prices: Prices | None) -> float | None:
    """USD; None when the price is unknown."""
    if prices is None:
        return None
    return (
        usage.prompt * prices.input
        + usage.output * prices.output
        + usage.cache_creation * prices.of_cache_write
        + usage.cache_read * prices.of_cache_read
    ) / PER
