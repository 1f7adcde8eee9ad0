"""Cooperative cancellation: one token a run, fired by /stop, a button or a shutdown (SPEC §2.6)."""

import anyio


class CancelToken:
    """Says that a run should end. Firing twice is firing once; a token is never un-fired."""

    def __init__(self) -> None:
        self._fired = anyio.Event()
        self.reason = ""

    @property
    def fired(self) -> bool:
        return self._fired.is_set()

    def fire(self, reason: str) -> None:
        if not self.fired:
            self.reason = reason
            self._fired.set()

    async def wait(self) -> None:
        """Return once the token was fired."""
        await self._fired.wait()
