"""When a run has gone far enough: turn caps, steps, failures, tokens, money, the window (W-24). Pure."""

from dataclasses import dataclass, field

from agent.core.messages import Message, ToolResult
from agent.run.settings import DEFAULT_WINDOW, AgentSettings, BudgetSettings, ContextSettings


@dataclass(slots=True, kw_only=True)
class Progress:
    """Progress of a run. `cost_usd` sums calls whose price is known."""

    model_calls: int = 0
    tool_rounds: int = 0
    steps: int = 0
    tool_failures: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    cost_usd: float = 0.0
    tool_ms: int = 0


@dataclass(frozen=True, slots=True)
class Halt:
    """Why the loop must not go on: a sentence of the catalogue and its values."""

    phrase: str
    values: dict[str, object] = field(default_factory=dict)


def halt_before_call(progress: Progress, agent: AgentSettings, budget: BudgetSettings) -> Halt | None:
    """The limit that forbids another call of the model, or None."""
    if agent.max_turns is not None and progress.model_calls >= agent.max_turns:
        return Halt("max_turns", {"limit": agent.max_turns})
    if progress.tool_rounds >= agent.max_tool_iterations:
        return Halt("max_tool_iterations", {"limit": agent.max_tool_iterations})
    if progress.steps >= agent.step_budget:
        return Halt("step_budget", {"limit": agent.step_budget})
    if progress.tool_failures > agent.recovery_budget:
        return Halt("recovery_budget", {"limit": progress.tool_failures})
    if budget.max_tokens_in is not None and progress.tokens_in >= budget.max_tokens_in:
        return Halt("budget_tokens")
    if budget.max_tokens_out is not None and progress.tokens_out >= budget.max_tokens_out:
        return Halt("budget_tokens")
    longest = budget.max_tool_runtime_secs
    if longest is not None and progress.tool_ms >= longest * 1000:
        return Halt("budget_tool_time", {"limit": f"{longest:g}"})
    spent = progress.model_calls > 0 or progress.cost_usd > 0  # by a sub-agent it may be others who have spent it
    if budget.max_cost_usd is not None and progress.cost_usd >= budget.max_cost_usd and spent:
        return Halt("budget_cost", {"limit": f"{budget.max_cost_usd:g}"})
    return None


def ceiling(window: int, settings: ContextSettings) -> int:
    """The most tokens a request may hold: window − output_reserve − emergency_buffer; an unknown window is 128,000.

    In a small window the reserves take a quarter and a sixteenth at most, else nothing would be left.
    """
    size = window if window > 0 else DEFAULT_WINDOW
    return size - min(settings.output_reserve, size // 4) - min(settings.emergency_buffer, size // 16)


def begins_exchange(message: Message) -> bool:
    """Whether a request may start with this message: a person's, not the results of calls made before it."""
    return message.role == "user" and not any(isinstance(part, ToolResult) for part in message.parts)
