"""What is going on, for whoever takes messages in: is a turn under way, end it, forget its agent."""

from collections.abc import Callable

from agent.core.ids import ConversationId
from gateway.conversations.registry import Registry


class Conversations:
    """The registry's agents, and (by `is_running`, of the dispatcher) which of them have a turn under way."""

    def __init__(self, registry: Registry, is_running: Callable[[ConversationId], bool]) -> None:
        self._registry = registry
        self._is_running = is_running

    def is_running(self, conversation: ConversationId) -> bool:
        return self._is_running(conversation)

    def stop(self, conversation: ConversationId, reason: str) -> bool:
        """Ask the turn under way to end; False when there is none."""
        return self._registry.stop(conversation, reason)

    async def forget(self, conversation: ConversationId) -> None:
        """Let go of the agent once its turn is over: its state is in the database."""
        await self._registry.forget(conversation)
