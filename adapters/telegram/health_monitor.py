"""Is the account able to hear? Judged by completed round trips, never by "the task still runs" (PEERS §3.4)."""

from datetime import datetime

from agent.core.clock import Clock
from gateway.channels.adapter import Health, State


class HealthMonitor:
    """`deaf_after_s`: how long after the last sign of life the account counts as deaf."""

    def __init__(self, clock: Clock, deaf_after_s: float) -> None:
        self._clock = clock
        self._deaf_after_s = deaf_after_s
        self._state = State.STARTING
        self._detail = ""
        self._last_at: datetime | None = None
        self._last_beat = 0.0

    def beat(self) -> None:
        """The platform answered as it should."""
        self._state, self._detail = State.CONNECTED, ""
        self._last_at, self._last_beat = self._clock.now(), self._clock.monotonic()

    def trouble(self, detail: str) -> None:
        self._state, self._detail = State.RECONNECTING, detail

    def failed(self, detail: str) -> None:
        self._state, self._detail = State.FAILED, detail

    def health(self) -> Health:
        silent_s = self._clock.monotonic() - self._last_beat
        if self._state is State.CONNECTED and silent_s > self._deaf_after_s:
            detail = f"Telegram has not answered for {silent_s:.0f} s"
            return Health(state=State.RECONNECTING, detail=detail, last_event_at=self._last_at)
        return Health(state=self._state, detail=self._detail, last_event_at=self._last_at)
