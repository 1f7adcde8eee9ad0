"""What happens to plans, for metrics and traces: ids and numbers only (SPEC §13.3, §13.4)."""

from dataclasses import dataclass
from typing import ClassVar

from agent.core.events import Event
from agent.core.ids import RunId


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanMoved(Event):
    """A stretch of work on a plan is over: it stands so now, with so many of its tasks completed."""

    name: ClassVar[str] = "plan_moved"
    plan: int
    status: str
    completed: int
    tasks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowOffered(Event):
    """A message sounded like work in many steps, so a plan is made of it; `confidence` is 0..1."""

    name: ClassVar[str] = "workflow_offered"
    run: RunId
    plan: int
    confidence: float
