"""Waits that mostly end before their time: sleeps that others end, and jobs that are over before they begin."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Protocol

import anyio

from agent.core.clock import Clock


class Postponed(Protocol):
    """A job that is worth beginning only if it still matters by then."""

    @property
    def is_over(self) -> bool: ...

    async def run(self) -> None: ...


class Later:
    """Begins jobs a fixed time after they were given, unless they are over by then.

    One task waits for all of them: a job that is over in time, as most are, costs no task, timer or cancellation.
    `spawn` runs something beside the rest, or says that it cannot.
    """

    def __init__(self, after_s: float, clock: Clock, spawn: Callable[[Callable[[], Awaitable[None]]], bool]) -> None:
        self._after_s = after_s
        self._clock = clock
        self._spawn = spawn
        self._waiting: deque[tuple[float, Postponed]] = deque()  # in the order in which they are due
        self._is_running = False

    def start(self, job: Postponed) -> None:
        """Run it `after_s` seconds from now; not at all where nothing can be run."""
        self._waiting.append((self._clock.monotonic() + self._after_s, job))
        if not self._is_running:
            self._is_running = self._spawn(self._run)
            if not self._is_running:
                self._waiting.clear()

    async def _run(self) -> None:
        try:
            while self._waiting:
                due_at, job = self._waiting[0]
                wait_s = due_at - self._clock.monotonic()
                if wait_s > 0 and not job.is_over:
                    await self._clock.sleep(wait_s)
                    continue
                self._waiting.popleft()
                if not job.is_over:
                    self._spawn(job.run)
        finally:
            self._is_running = False
            self._waiting.clear()


@dataclass(slots=True, eq=False)
class InterruptibleSleep:
    """One sleeper at a time."""

    clock: Clock
    _scope: anyio.CancelScope | None = field(default=None, init=False)

    async def sleep(self, seconds: float) -> None:
        """Until the time is over or `end` is called."""
        with anyio.CancelScope() as self._scope:
            await self.clock.sleep(seconds)
        self._scope = None

    def end(self) -> None:
        """Wake the sleeper, if there is one."""
        if self._scope is not None:
            # Not from within a task: anyio writes down which one cancels, and that text costs more than the rest of it.
            asyncio.get_running_loop().call_soon(self._scope.cancel)
