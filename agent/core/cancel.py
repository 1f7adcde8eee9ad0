"""Cooperative cancellation: one token a run, fired by /stop, a button or a shutdown (SPEC §2.6)."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import anyio


class CancelToken:
    """Says that a run should end. Firing twice is firing once; a token is never un-fired."""

    def __init__(self) -> None:
        self._fired = anyio.Event()
        self._told: list[Callable[[], object]] = []
        self.reason = ""

    @property
    def fired(self) -> bool:
        return self._fired.is_set()

    def fire(self, reason: str) -> None:
        if not self.fired:
            self.reason = reason
            self._fired.set()
            for told in tuple(self._told):
                told()

    def tells(self, told: Callable[[], object]) -> None:
        """Call it as soon as the token is fired: no task has to wait for that."""
        self._told.append(told)

    @contextmanager
    def telling(self, told: Callable[[], object]) -> Iterator[None]:
        """In here it is called when the token is fired, and at once if it was fired before."""
        self.tells(told)
        try:
            if self.fired:
                told()
            yield
        finally:
            self._told.remove(told)

    async def wait(self) -> None:
        """Return once the token was fired."""
        await self._fired.wait()
