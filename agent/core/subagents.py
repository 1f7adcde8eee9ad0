"""What is asked of a sub-agent and what it gives back (SPEC §13.1): the port that everything goes through that has one
run: the `Agent` tool, a person's command, the tasks of a plan.
"""

from dataclasses import dataclass
from typing import Protocol

from agent.core.cancel import CancelToken

AGENT = "Agent"  # what the tool is called
STEPS = 10  # calls of the model in one sub-agent task
TIMEOUT_S = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SubagentTask:
    """One piece of work, told in full: who does it knows nothing of the conversation but `context`.

    `tools` are the only ones it may call, of those the conversation has; None: all of them. `context` is told beside
    the text, such as what the work before has found; it is data. `agent` names a definition (`agents/<name>.md`),
    whose steps and time count then.
    """

    text: str
    tools: frozenset[str] | None = None
    steps: int = STEPS
    timeout_s: float = TIMEOUT_S
    context: str = ""
    agent: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What a sub-agent task came to. `steps` are the replies of the model it took, `cost` is in USD or None."""

    text: str
    is_error: bool = False
    steps: int = 0
    cost: float | None = 0.0


class Subagents(Protocol):
    """Runs sub-agent tasks of one conversation, each with a history of its own."""

    async def run(self, subagent_task: SubagentTask, *, request: str, cancel: CancelToken) -> Finding:
        """Run it to its end. `request` is the id its calls are audited and logged under: `<parent>-sub`.

        Every end of the work is a Finding, also a stop by `cancel` (within a second), the time limit and a used-up
        budget. Raises Fenced or StorageTrouble only.
        """
