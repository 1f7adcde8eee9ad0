"""What calls of models took, as a goal counts it. The one place that knows in what shape a run reports it. Pure."""

from collections.abc import Iterable

from agent.goals.stored import Used
from agent.sessions.records import CallUsage


def spent_on(calls: Iterable[CallUsage], *, turns: int = 0) -> Used:
    """Tokens in and out, whatever cache they came from, and money as far as prices are known."""
    every = tuple(calls)
    return Used(
        turns=turns,
        tokens=sum(call.prompt + call.output + call.cache_creation + call.cache_read for call in every),
        usd=sum(call.cost_usd or 0.0 for call in every),
        unpriced=sum(call.cost_usd is None for call in every),
    )
