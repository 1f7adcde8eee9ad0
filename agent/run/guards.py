"""Guards of a run: caps on turns, steps, failures, tokens and money. Pure."""

from dataclasses import dataclass, field

from agent.run.settings import AgentSettings, BudgetSettings


@dataclass(slots=True, kw_only=True)
class Progress:
    """How far a run has come. `cost_usd` sums calls whose price is known."""

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
