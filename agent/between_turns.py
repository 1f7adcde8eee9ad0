"""Background work of agents: it belongs to the process's task group and ends with its agent. No turn waits for it."""

import logging
from collections.abc import Callable, Coroutine
from typing import Any

import anyio
from anyio.abc import TaskGroup

from agent.core.ids import ConversationId

Job = Callable[[], Coroutine[Any, Any, None]]

log = logging.getLogger("tieline.agent")


class BetweenTurns:
    """The background of all agents; `run` owns its tasks. What is started while nobody runs it is left undone."""

    def __init__(self) -> None:
        self._group: TaskGroup | None = None

    async def run(self) -> None:
        """Run what is started, until cancelled."""
        async with anyio.create_task_group() as group:
            self._group = group
            try:
                await anyio.sleep_forever()
            finally:
                self._group = None

    def start(self, job: Job) -> None:
        if self._group is not None:
            self._group.start_soon(job)


class Jobs:
    """One agent's share of it; without a conversation, that of the process."""

    def __init__(self, background: BetweenTurns, conversation: ConversationId | None = None) -> None:
        self._background = background
        self._conversation = conversation
        self._open: set[anyio.CancelScope] = set()
        self._closed = False

    def start(self, job: Job) -> None:
        """Run the job soon. One that breaks is reported and takes nothing with it."""
        if not self._closed:
            self._background.start(lambda: self._run(job))

    def close(self) -> None:
        """The agent goes to sleep: what is not done yet is left undone."""
        self._closed = True
        for scope in tuple(self._open):
            scope.cancel()

    async def _run(self, job: Job) -> None:
        with anyio.CancelScope() as scope:
            self._open.add(scope)
            try:
                await job()
            except Exception:  # the turn's seam, for what a turn has left to be done after it
                extra = {"conversation": self._conversation} if self._conversation is not None else None
                log.exception("work between turns broke; its result is lost", extra=extra)
            finally:
                self._open.discard(scope)
