"""That something was forgotten, for whoever goes on with what was read before: windows, recalled facts, sub-agents.

Counts alone, and of this process: what sleeps reads the database when it wakes.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from agent.core.ids import ConversationId
from agent.memory.audience import Audience


class Forgotten:
    """Told after the commit. Who compares a count with the one from before it read knows whether to read again."""

    def __init__(self) -> None:
        self._facts: Counter[Audience] = Counter()
        self._words: Counter[ConversationId] = Counter()
        self._going_on: Counter[ConversationId] = Counter()
        self._listeners: list[Callable[[ConversationId], object]] = []

    def tell(self, audience: Audience, conversations: Iterable[ConversationId] = ()) -> None:
        """Something of that audience is gone; in `conversations` what was said was rewritten, too."""
        self._facts[audience] += 1
        for conversation in conversations:
            self._words[conversation] += 1
            for listener in self._listeners:
                listener(conversation)

    @contextmanager
    def going_on(self, conversations: Iterable[ConversationId]) -> Iterator[None]:
        """What was said there is being rewritten, in steps: nothing read before its end may be written back."""
        here = tuple(conversations)
        self._going_on.update(here)
        try:
            yield
        finally:
            self._going_on.subtract(here)

    def may_write(self, conversation: ConversationId, since: int) -> bool:
        """Whether what was made of words read at the count `since` may be stored. Any thread may ask."""
        return not self._going_on[conversation] and self._words[conversation] == since

    def listen(self, listener: Callable[[ConversationId], object]) -> None:
        """Be told of each conversation whose words were rewritten; must not wait."""
        self._listeners.append(listener)

    def facts(self, audiences: Iterable[Audience]) -> int:
        """How often something that any of these may see was forgotten."""
        return sum(self._facts[audience] for audience in audiences)

    def words(self, conversation: ConversationId) -> int:
        """How often what was said there was rewritten."""
        return self._words[conversation]
