"""Which sub-agents work now, in all conversations of the process: for people to see. Nothing here is stored."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime

from agent.core.ids import ConversationId
from agent.turn.run import Run


@dataclass(frozen=True, slots=True, kw_only=True)
class Working:
    """One of them. `agent` is its definition ("": none), `step` the one it is at, of `steps`."""

    conversation: ConversationId
    request: str
    agent: str
    task: str
    since: datetime
    step: int
    steps: int


class SubagentRegistry:
    """Those of one process."""

    def __init__(self) -> None:
        self._working: dict[str, tuple[Working, Run]] = {}

    @contextmanager
    def joined(self, one: Working, run: Run) -> Iterator[None]:
        """It works for as long as this is open."""
        self._working[one.request] = (one, run)
        try:
            yield
        finally:
            self._working.pop(one.request, None)

    def working(self, conversation: ConversationId | None) -> tuple[Working, ...]:
        """Those of one conversation, or (None) of all."""
        return tuple(
            Working(
                conversation=one.conversation,
                request=one.request,
                agent=one.agent,
                task=one.task,
                since=one.since,
                step=min(run.progress.steps + 1, one.steps),
                steps=one.steps,
            )
            for one, run in self._working.values()
            if conversation is None or one.conversation == conversation
        )
