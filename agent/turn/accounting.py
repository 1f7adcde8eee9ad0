"""Notes what the calls of a run took, as the meter told it."""

from agent.providers.metering import Spent, read_of
from agent.sessions.records import CallUsage
from agent.turn.run import Run


def note_spent(spent: Spent, run: Run) -> None:
    """Add one call to the run."""
    usage = spent.usage
    run.usage.append(
        CallUsage(
            provider=spent.provider,
            model=spent.model,
            prompt=usage.prompt,
            output=usage.output,
            cache_creation=usage.cache_creation,
            cache_read=usage.cache_read,
            cost_usd=spent.cost_usd,
            estimated=spent.estimated,
        )
    )
    run.progress.tokens_in += read_of(usage)
    run.progress.tokens_out += usage.output
    run.progress.cost_usd += spent.cost_usd or 0.0
