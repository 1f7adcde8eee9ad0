"""What a run cost (SPEC §6.3). Pure."""

from collections.abc import Iterable

from agent.sessions.records import CallUsage


def total_cost(calls: Iterable[CallUsage]) -> float | None:
    """The sum of a run; None when one of its calls has no known price."""
    total = 0.0
    for call in calls:
        if call.cost_usd is None:
            return None
        total += call.cost_usd
    return total
