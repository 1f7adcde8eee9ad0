"""Notes what each call of a model used: as reported, else estimated and said to be (DESIGN §13.10)."""

from agent.providers.costs import cost_of
from agent.providers.provider import Provider, Usage
from agent.providers.replies import Reply
from agent.sessions.records import CallUsage
from agent.turn.run import Run
from agent.turn.states import States


def note_call(provider: Provider, raw_tokens: int, reply: Reply, run: Run, states: States) -> None:
    """Add one call to the run; also one that was cut off, since it is paid for all the same."""
    estimator, reported = states.metrics.estimator, reply.usage
    estimated = reported is None or reported == Usage()
    if reported is None or estimated:
        written = (reply.text, *(f"{call.name}{dict(call.input)}" for call in reply.calls))
        usage = Usage(prompt=estimator.scaled(raw_tokens), output=estimator.scaled(sum(map(estimator.text, written))))
    else:
        usage = reported
        estimator.learn(raw_tokens, _read(usage))  # the raw value: a calibrated one would calibrate itself
    cost = cost_of(usage, provider.prices)
    run.usage.append(
        CallUsage(
            provider=provider.name,
            model=provider.model,
            prompt=usage.prompt,
            output=usage.output,
            cache_creation=usage.cache_creation,
            cache_read=usage.cache_read,
            cost_usd=cost,
            estimated=estimated,
        )
    )
    run.progress.tokens_in += _read(usage)
    run.progress.tokens_out += usage.output
    run.progress.cost_usd += cost or 0.0


def _read(usage: Usage) -> int:
    return usage.prompt + usage.cache_creation + usage.cache_read
