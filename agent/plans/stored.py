"""A plan that is kept: its goal, its tasks, how far it has come. Values; nothing here reads or writes (SPEC §13.3)."""

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal

from agent.core.ids import ConversationId
from agent.goals.stored import Owner, Reason
from agent.plans.graph import Tasks, interrupted

# drafting: the planner is asked. proposed: a person must confirm it. waiting: a person must say what a failed task
# means. interrupted: a restart or a stop cut it off; a person must say that it goes on.
Status = Literal["drafting", "proposed", "running", "waiting", "interrupted", "completed", "failed", "cancelled"]

OPEN: frozenset[Status] = frozenset({"drafting", "proposed", "running", "waiting", "interrupted"})
GATE = "gate:"  # begins the origin of a plan that the workflow gate made
AT_WORK: frozenset[Status] = frozenset({"drafting", "running"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """What carrying it out may take: calls of the model, tokens, and money (None: no price is known)."""

    calls: int
    tokens: int
    usd: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """`origin` is the message that asked for it, or `gate:<inbox row>` where the workflow gate made it. `ticks` numbers
    its wake-ups. `why` tells why it rests; `redacted`: something was taken out of the goal. `decided_by` is shown.
    """

    id: int
    conversation: ConversationId
    origin: str
    owner: Owner
    goal: str
    status: Status
    tasks: Tasks = ()
    estimate: Estimate | None = None
    why: Reason | None = None
    redacted: bool = False
    decided_by: str = ""
    ticks: int = 0
    created_at: datetime
    updated_at: datetime

    @property
    def is_open(self) -> bool:
        return self.status in OPEN


def paused(plan: Plan, why: Reason) -> Plan:
    """Nobody works on it any more: one that was being made ends, one that ran waits for a person's word."""
    if plan.status == "drafting":
        return replace(plan, status="failed", why=why)
    return replace(plan, status="interrupted", tasks=interrupted(plan.tasks), why=why)
