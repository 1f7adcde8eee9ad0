"""Ended turns for tests, with what matters in them."""

from typing import Any

from agent.core.ids import RunId
from gateway.traces.trace import EndedTurn, TurnTrace


def ended(trace: TurnTrace, **more: Any) -> EndedTurn:
    """The end of the turn of that trace, of which `more` may be said otherwise."""
    values: dict[str, Any] = {
        "spans": trace.spans,
        "agent": "",
        "traceparent": "",
        "forgotten": 0,
        "runs": tuple(trace.run for _ in trace.spans),
        "made": dict[int, RunId](),
        "contents": dict[int, object](),
    }
    return EndedTurn(trace=trace, **values | more)
