"""Settings of turns: the defaults, and impossible ones refused with key and fix."""

import pytest
from pydantic import BaseModel, ValidationError

from agent.run.settings import AgentSettings, BudgetSettings, ContextSettings, TimeoutSettings, ToolSettings


@pytest.mark.requirement("B-80", "B-81")
def test_defaults() -> None:
    agent, timeouts = AgentSettings(), TimeoutSettings()
    assert (agent.max_tool_iterations, agent.execution_timeout_ms, agent.max_turns) == (10, 600_000, None)
    assert (timeouts.context_prep, timeouts.no_providers_backoff, timeouts.llm_stream) == (30.0, 2.0, 300.0)
    assert (timeouts.tool_exec, timeouts.tool_mcp, timeouts.tool_info, timeouts.tool_edit) == (600, 120, 30, 30)


@pytest.mark.parametrize(
    ("build", "key"),
    [
        (lambda: AgentSettings(max_tool_iterations=101), "max_tool_iterations is 101; it must be 1 to 100"),
        (lambda: AgentSettings(max_turns=0), "max_turns"),
        (lambda: AgentSettings(execution_timeout_ms=0), "execution_timeout_ms"),
        (lambda: TimeoutSettings(llm=0), "llm is 0"),
        (lambda: TimeoutSettings(context_prep=-1), "context_prep"),
        (lambda: TimeoutSettings(stop_grace=float("inf")), "stop_grace"),
        (lambda: BudgetSettings(max_cost_usd=float("nan")), "max_cost_usd"),
        (lambda: BudgetSettings(max_tokens_in=0), "max_tokens_in"),
        (lambda: ContextSettings(output_reserve=-1), "output_reserve"),
        (lambda: ContextSettings(output_reserve=1_999_999), "output_reserve + emergency_buffer"),
        (lambda: ToolSettings(max_parallel=0), "max_parallel"),
        (lambda: ToolSettings(max_retries=11), "max_retries"),
    ],
)
def test_impossible_settings_are_refused(build: "type[object]", key: str) -> None:
    with pytest.raises(ValueError, match=key.replace("+", r"\+")):
        build()


def test_all_mistakes_come_at_once() -> None:
    with pytest.raises(ValueError, match=r"max_tool_iterations.*step_budget"):
        AgentSettings(max_tool_iterations=0, step_budget=0)


def test_a_configuration_can_embed_them_and_refuses_unknown_keys() -> None:
    class File(BaseModel):
        agent: AgentSettings

    assert File.model_validate({"agent": {"max_turns": 3}}).agent.max_turns == 3
    with pytest.raises(ValidationError, match="max_turn\n"):
        File.model_validate({"agent": {"max_turn": 3}})
    with pytest.raises(ValidationError, match="it must be 1 to 100"):
        File.model_validate({"agent": {"max_tool_iterations": 1000}})
