"""Clocks that move when told, or too fast."""

from datetime import UTC, datetime, timedelta

import anyio

from agent.core.clock import SystemClock


class FakeClock:
    """Starts at 2026-01-01 12:00 UTC. `sleep` returns once `advance` has passed its end."""

    def __init__(self, start: datetime | None = None) -> None:
        self._now = start or datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
        self._monotonic = 1000.0
        self._sleepers: list[tuple[float, anyio.Event]] = []

    def now(self) -> datetime:
        return self._now

    def monotonic(self) -> float:
        return self._monotonic

    @property
    def sleepers(self) -> int:
        """The number of sleepers, so that a test can advance only when there are some."""
        return len(self._sleepers)

    @property
    def woken(self) -> int:
        """The number of sleepers whose time has come and who have not gone on yet."""
        return sum(due <= self._monotonic for due, _ in self._sleepers)

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await anyio.lowlevel.checkpoint()
            return
        entry = (self._monotonic + seconds, anyio.Event())
        self._sleepers.append(entry)
        try:
            await entry[1].wait()
        finally:
            if entry in self._sleepers:
                self._sleepers.remove(entry)

    def set_wall_clock(self, *, hours: float) -> None:
        """Set the wall clock by so much; the stopwatch goes on as before."""
        self._now += timedelta(hours=hours)

    def advance(self, seconds: float) -> None:
        self._now += timedelta(seconds=seconds)
        self._monotonic += seconds
        for entry in [entry for entry in self._sleepers if entry[0] <= self._monotonic]:
            entry[1].set()


class HastyClock(SystemClock):
    """The real one, in a hurry: `pace` seconds pass in one."""

    def __init__(self, pace: float = 20.0) -> None:
        self.pace = pace

    def monotonic(self) -> float:
        return super().monotonic() * self.pace

    async def sleep(self, seconds: float) -> None:
        await super().sleep(seconds / self.pace)
