"""Notes what the calls of a run took, as the meter told it; the ledger keeps them one by one."""

from collections.abc import Iterable

from agent.providers.metering import Spent, read_of
from agent.turn.run import Run


def note_spent(spent: Spent, run: Run) -> None:
    """Add one call to the run; a sub-agent's counts against its parent's limits too."""
    run.usage.append(spent)
    run.progress.tokens_in += read_of(spent.usage)
    run.progress.tokens_out += spent.usage.output
    run.progress.cost_usd += spent.cost_usd or 0.0
    if run.parent is not None:
        note_spent(spent, run.parent)


def note_tool_time(elapsed_ms: int, run: Run) -> None:
    """Add how long a call ran; a sub-agent's counts against its parent's limit too."""
    run.progress.tool_ms += elapsed_ms
    if run.parent is not None:
        note_tool_time(elapsed_ms, run.parent)


def total_cost(calls: Iterable[Spent]) -> float | None:
    """The sum of a run; None when one of its calls has no known price."""
    total = 0.0
    for call in calls:
        if call.cost_usd is None:
            return None
        total += call.cost_usd
    return total
