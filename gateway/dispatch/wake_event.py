"""Rings when there may be work, and remembers that it rang until somebody has looked."""

import anyio


class WakeEvent:
    """Ring after the commit, silence before looking: then no message falls between looking and waiting."""

    def __init__(self) -> None:
        self._stage = anyio.Event()

    @property
    def rang(self) -> bool:
        return self._stage.is_set()

    def ring(self) -> None:
        self._stage.set()

    def silence(self) -> None:
        if self._stage.is_set():
            self._stage = anyio.Event()

    async def wait(self, longest_s: float) -> bool:
        """Whether it rang within that time."""
        with anyio.move_on_after(longest_s):
            await self._stage.wait()
        return self.rang
