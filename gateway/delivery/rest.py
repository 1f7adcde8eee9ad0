"""A sleep that somebody else may end early."""

import asyncio

import anyio

from agent.core.clock import Clock


class Rest:
    """One sleeper at a time."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._scope: anyio.CancelScope | None = None

    async def sleep(self, seconds: float) -> None:
        """Until the time is over or `end` is called."""
        with anyio.CancelScope() as self._scope:
            await self._clock.sleep(seconds)
        self._scope = None

    def end(self) -> None:
        """Wake the sleeper, if there is one."""
        if self._scope is not None:
            # Not from within a task: anyio writes down which one cancels, and that text costs more than the rest of it.
            asyncio.get_running_loop().call_soon(self._scope.cancel)
