"""The clock: the only module that asks the machine for the time."""

import asyncio
import time
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Protocol


def shown_zone(name: str) -> str:
    """An IANA name as people and models read it: `Etc/GMT-2`, whose sign is the wrong way round (POSIX), is UTC+2."""
    area, _, offset = name.partition("Etc/GMT")
    return name if area or offset[:1] not in ("+", "-") else f"UTC{'-' if offset[0] == '+' else '+'}{offset[1:]}"


class Clock(Protocol):
    """Where the gateway takes its time from."""

    def now(self) -> datetime:
        """The moment in UTC, aware."""

    def monotonic(self) -> float:
        """Seconds that never run backwards; only differences mean something."""

    async def sleep(self, seconds: float, /) -> None:
        """Wait; cancellable. What is not above 0 is no wait: the moment passed while it was being reckoned."""


class SystemClock:
    """The machine's own time."""

    now = staticmethod(partial(datetime.now, UTC))
    monotonic = staticmethod(time.monotonic)
    sleep = staticmethod(asyncio.sleep)  # anyio's own refuses what is below 0


class AdjustableClock(SystemClock):
    """The machine's time, unless a database that many machines share tells another."""

    def __init__(self) -> None:
        self._ahead = timedelta()

    def now(self) -> datetime:
        return datetime.now(UTC) + self._ahead

    def shift(self, seconds: float) -> None:
        """From now on the time is later by so much."""
        self._ahead += timedelta(seconds=seconds)
