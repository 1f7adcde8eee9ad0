"""The port for side calls: one question to a model, one answer in text, no tools."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from agent.core.messages import Message, SummaryPart

Purpose = Literal[
    "compaction", "pair_summary", "subgoal", "task_goal", "focus", "sidequest", "taco", "graph", "plan", "recap"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """`provider` names a configured one; "" takes the one the conversation uses now. `timeout_s` bounds the whole call.

    `text` may hold what strangers wrote: put it between tags and say in `system` that it is data.
    """

    purpose: Purpose
    system: str
    text: str
    max_tokens: int
    timeout_s: float
    provider: str = ""


class WriteSummary(Protocol):
    """Has the service of the conversation's model write and seal a summary of messages, where it offers that."""

    async def __call__(self, messages: Sequence[Message]) -> SummaryPart | None:
        """None where it does not offer it, or where another provider may stand in for it, which could not read it.

        Raises AgentError or TimeoutError when it offers it and fails. Counted under the purpose "compaction".
        """


class Ask(Protocol):
    """Asks, counts what it cost, and returns the words of the answer, trimmed."""

    async def __call__(self, question: Question) -> str:
        """Raises ContextTooLong when the question does not fit, TimeoutError, or another AgentError.

        One attempt, nothing is shown to people; the usage is noted under the question's purpose.
        """
