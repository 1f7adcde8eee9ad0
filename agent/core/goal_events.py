"""Goals that move: facts for the bus (SPEC §10)."""

from dataclasses import dataclass
from typing import ClassVar

from agent.core.events import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class GoalCompleted(Event):
    """The session's goal, or (`goal`) a kept one, is reached (Z-93)."""

    name: ClassVar[str] = "goal_completed"
    goal: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GoalMoved(Event):
    """Work by itself on a kept goal stands so now (SPEC §10.5)."""

    name: ClassVar[str] = "goal_moved"
    goal: int
    state: str
    turns: int
