"""The section `[plans]`. Light: the configuration imports it before anything slow is loaded."""

from dataclasses import dataclass, field
from math import isfinite
from typing import Any, ClassVar, Literal

from agent.core.settings_section import SECTION_CONFIG, refuse

Strategy = Literal["abort", "retry", "skip", "ask"]

MOST_TASKS = 20  # of one plan


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowSettings:
    """`[plans.workflow]`: whether a plan is offered for a message that sounds like work in many steps.

    `synthesis_timeout_secs` is the time to make the plan, `approval_secs` to approve it; later it is a normal turn.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = SECTION_CONFIG

    mode: Literal["off", "live"] = "off"
    synthesis_timeout_secs: float = 60.0
    approval_secs: float = 300.0

    def __post_init__(self) -> None:
        self.validate()

    def validate(self) -> None:
        """Raise ValueError that names every impossible key and what it may be."""
        refuse(_not_positive(self, "synthesis_timeout_secs", "approval_secs"))


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanSettings:
    """Limits of plans. `failure_strategy` holds for tasks whose plan names none.

    `answer_tokens` and `model_timeout_secs` are those of the two calls that make the plan and put its results together,
    `provider` makes them (None: the conversation's own). `give_way_secs` is how long running tasks may go on after a
    person has written.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = SECTION_CONFIG

    enabled: bool = True
    max_tasks: int = MOST_TASKS
    max_parallel: int = 4
    failure_strategy: Strategy = "abort"
    max_retries: int = 3
    task_timeout_secs: float = 300.0
    dependency_context_chars: int = 16_384
    answer_tokens: int = 4_096
    model_timeout_secs: float = 120.0
    give_way_secs: float = 20.0
    provider: str | None = None
    workflow: WorkflowSettings = field(default_factory=WorkflowSettings)

    def __post_init__(self) -> None:
        self.validate()

    def validate(self) -> None:
        """Raise ValueError that names every impossible key and what it may be."""
        found = _not_positive(self, "task_timeout_secs", "model_timeout_secs")
        if not 1 <= self.max_tasks <= 100:
            found.append(f"max_tasks is {self.max_tasks}; it must be 1 to 100")
        if not 1 <= self.max_parallel <= 16:
            found.append(f"max_parallel is {self.max_parallel}; it must be 1 to 16")
        if not 0 <= self.max_retries <= 10:
            found.append(f"max_retries is {self.max_retries}; it must be 0 to 10")
        if self.dependency_context_chars < 0:
            found.append(f"dependency_context_chars is {self.dependency_context_chars}; it must be 0 or more")
        if self.answer_tokens < 1:
            found.append(f"answer_tokens is {self.answer_tokens}; it must be 1 or more")
        if not (isfinite(self.give_way_secs) and self.give_way_secs >= 0):
            found.append(f"give_way_secs is {self.give_way_secs}; it must be 0 or more")
        refuse(found)


def _not_positive(section: object, *keys: str) -> list[str]:
    values = [(key, float(getattr(section, key))) for key in keys]
    wrong = [(key, value) for key, value in values if not (isfinite(value) and value > 0)]
    return [f"{key} is {value:g}; it must be more than 0" for key, value in wrong]
