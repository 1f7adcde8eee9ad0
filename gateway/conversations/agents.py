"""What a conversation's agent is, seen from the gateway; `agent.agent.Agent` is one."""

from typing import Protocol

from agent.inbox import Source


class Agent(Protocol):
    """The mind of one conversation, in memory; everything that matters is in the database."""

    async def run(self, source: Source) -> None:
        """Do all the work of the source. Raises Fenced when the conversation was taken, StorageTrouble and defects."""

    def stop(self, reason: str) -> bool:
        """Cancel the turn that is under way; False when there is none."""

    async def rest(self) -> None:
        """Nobody has needed it for long: it will be put to sleep now."""

    async def aclose(self) -> None:
        """Finish the work between turns and let go of everything."""
