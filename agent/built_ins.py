"""The port to the built-in commands, which run before the model is asked."""

from dataclasses import dataclass
from typing import Protocol

from agent.core.messages import FilePart, ToolUse
from agent.core.outbox import OutgoingMessage
from agent.inbox import Brought, Quotation, Work
from agent.operations import Operations


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandResult:
    """The result of a command: things to say, perhaps words to run a turn with, perhaps the end of the loop.

    `go_on_call` is run in that turn in place of asking the model.
    """

    says: tuple[OutgoingMessage, ...] = ()
    go_on_with: str | None = None
    go_on_files: tuple[FilePart, ...] = ()
    go_on_quoted: Quotation | None = None
    go_on_call: ToolUse | None = None
    go_on_brought: Brought | None = None
    end: bool = False


class BuiltIns(Protocol):
    """The commands of the gateway."""

    def concerns(self, work: Work) -> bool:
        """Whether `run` has anything to do with it. Called in the storage's thread: it only looks at the words."""

    async def run(self, work: Work, agent: Operations) -> CommandResult | None:
        """Run the command that the work is; None: it is none.

        Nothing may be said but through the result: the agent commits it together with the end of the inbox row and
        with what was staged in `agent`. After a crash before that commit it is called again.
        """
