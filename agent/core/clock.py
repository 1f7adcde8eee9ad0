"""Time as an argument: the only module that asks the machine what time it is."""

from datetime import UTC, datetime
from time import monotonic
from typing import Protocol

import anyio


class Clock(Protocol):
    """Where the house takes its time from."""

    def now(self) -> datetime:
        """The moment in UTC, aware."""

    def monotonic(self) -> float:
        """Seconds that never run backwards; only differences mean something."""

    async def sleep(self, seconds: float) -> None:
        """Wait; cancellable. What is not above 0 is no wait: the moment passed while it was being reckoned."""


class SystemClock:
    """The machine's own time."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return monotonic()

    async def sleep(self, seconds: float) -> None:
        await anyio.sleep(max(seconds, 0.0))
