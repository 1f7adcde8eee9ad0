"""Traces for tests, with what matters in them."""

from typing import Any

from agent.core.ids import ConversationId, RunId
from gateway.traces.trace import Span, TurnTrace

HERE = ConversationId("telegram:77")
SPANS = (
    Span(kind="queue", start_ms=-40, ms=40),
    Span(
        kind="model", start_ms=5, ms=900, name="main", model="m", purpose="turn", tokens_in=900, tokens_cached=700,
        tokens_out=20, cost_usd=0.002, first_token_ms=300, outcome="end_turn",
    ),
    Span(kind="tool", start_ms=910, ms=30, name="calculate", is_error=True, size=12),
)  # fmt: skip


def trace(run: str = "run", **more: Any) -> TurnTrace:
    """A turn of a second, of which `more` may be said otherwise."""
    values: dict[str, Any] = {
        "run": RunId(run),
        "attempt": 1,
        "conversation": HERE,
        "inbox_id": 1,
        "person": None,
        "started_at": 1_000_000,
        "ended_at": 2_000_000,
        "outcome": "answered",
        "waited_ms": 40,
        "elapsed_ms": 1000,
        "first_token_ms": 305,
        "delivered_ms": 20,
        "model_calls": 1,
        "tool_calls": 1,
        "tokens_in": 900,
        "tokens_cached": 700,
        "tokens_out": 20,
        "cost_usd": 0.002,
        "unpriced": 0,
        "spans": SPANS,
    }
    return TurnTrace(**values | more)
