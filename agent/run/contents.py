"""The port through which an agent tells the texts of its models and tools, for a part that exports them."""

from typing import Protocol

from agent.core.ids import RunId
from agent.core.messages import ToolUse
from agent.providers.provider import Request
from agent.providers.replies import Reply


class Contents(Protocol):
    """Hears of texts at the moment at which they are known, just before the event that tells the same without words.

    Must only note what it is given, which never changes: it is called on the way of the turn.
    """

    def model_answered(self, run: RunId, request: Request, reply: Reply, /) -> None:
        """A call of a model by a turn or a sub-agent has its whole reply."""

    def tool_ended(self, run: RunId, use: ToolUse, result: str, /) -> None:
        """A call of a tool has its result, or the reason why it was not run."""
