"""The list of tasks that a model keeps while it works: those of one session (SPEC §13.2)."""

from dataclasses import dataclass
from typing import Literal, Protocol

TaskStatus = Literal["pending", "in_progress", "completed", "failed"]
STATUSES: tuple[TaskStatus, ...] = ("pending", "in_progress", "completed", "failed")
MOST_TASKS = 200  # in one session
LONGEST_DESCRIPTION, LONGEST_OUTPUT = 2_000, 8_000  # characters


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One of them. `output` is what it came to."""

    id: int
    description: str
    status: TaskStatus = "pending"
    output: str = ""


class Tasks(Protocol):
    """The tasks of the session that a call belongs to; those of others are unknown here."""

    async def create(self, description: str, status: TaskStatus, *, call: str) -> Task:
        """Add one; the same `call` adds it once. Raises ToolError when the list is full."""

    async def update(self, id: int, *, status: TaskStatus | None, output: str | None) -> Task:
        """Change it. Raises ToolError when there is none."""

    async def find(self, id: int) -> Task:
        """Raises ToolError when there is none."""

    async def all(self) -> tuple[Task, ...]:
        """All of them, the oldest first."""
