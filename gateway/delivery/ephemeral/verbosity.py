"""Visible events and their words: a pure table from event to status line."""

from typing import Literal

from agent.core.events import (
    ContextDegraded,
    DecisionCompleted,
    Event,
    OutputSlotEscalated,
    ProviderFailedOver,
    ProviderReturned,
    ProviderSwitched,
    RetryScheduled,
    TokensUsed,
    ToolEnded,
    ToolOutputCompressed,
    ToolStarted,
)
from agent.core.phrases import Phrases

Verbosity = Literal["quiet", "normal", "verbose"]


def line_for(event: Event, verbosity: Verbosity, phrase: Phrases, language: str) -> str | None:
    """The status line that shows this event; None for what this verbosity leaves out.

    Compaction and goals set their status themselves and are shown even by a quiet channel.
    """
    if verbosity == "quiet":
        return None
    match event:
        case ToolStarted(runs=True):
            return phrase("tool_running", language, tool=event.tool_name)
        case RetryScheduled():
            return phrase("show_retry", language, attempt=event.attempt)
        case ProviderFailedOver():
            key = "show_stood_in_budget" if event.over_budget else "show_stood_in"
            return phrase(key, language, name=event.instead_of, provider=event.provider)
        case ProviderReturned():
            return phrase("show_returned", language, provider=event.provider)
        case OutputSlotEscalated():
            return phrase("show_escalated", language)
        case ContextDegraded():
            return phrase("show_degraded", language)
        case ToolOutputCompressed():
            sizes = {"before": f"{event.original_tokens:,}", "after": f"{event.compressed_tokens:,}"}
            return phrase("show_shortened", language, tool=event.tool_name, **sizes)
        case ToolEnded(is_error=True) if verbosity == "verbose":
            return phrase("show_tool_failed", language, tool=event.tool_name)
        case ProviderSwitched() if verbosity == "verbose":
            return phrase("show_switched", language, provider=event.provider, model=event.model)
        case DecisionCompleted() if verbosity == "verbose":
            seconds = f"{event.elapsed_ms / 1000:.1f}"
            return phrase("show_decided", language, provider=event.provider, model=event.model, seconds=seconds)
        case TokensUsed() if verbosity == "verbose":
            return phrase("show_usage", language, prompt=event.prompt, output=event.output)
        case _:
            return None
