"""Is the account able to hear? As the adapter's parts report it and `Adapter.health` tells it."""

from datetime import datetime

from agent.core.clock import Clock
from gateway.channels.adapter import Health, State, Withheld


class HealthMonitor:
    """Judges by what came from the platform, never by "the task still runs".

    With `deaf_after_s` an account that is connected counts as deaf so long after the last sign of life; an adapter that
    watches its connection itself leaves it out. `platform` is how people name it. `withheld` is what the platform keeps
    from the account, for the adapter to set.
    """

    def __init__(self, clock: Clock, platform: str, *, deaf_after_s: float | None = None) -> None:
        self._clock = clock
        self._platform = platform
        self._deaf_after_s = deaf_after_s
        self._state = State.STARTING
        self._detail = ""
        self._last_at: datetime | None = None
        self._last_heard = 0.0
        self.withheld: tuple[Withheld, ...] = ()

    @property
    def state(self) -> State:
        """The state that was reported last, deaf or not."""
        return self._state

    def heard(self) -> None:
        """A sign of life, which says nothing about whether events come."""
        self._last_at, self._last_heard = self._clock.now(), self._clock.monotonic()

    def connected(self, detail: str = "") -> None:
        """The platform answered as it should: events come from now on."""
        self._state, self._detail = State.CONNECTED, detail
        self.heard()

    def trouble(self, detail: str) -> None:
        """Nothing can be heard now; it is being tried again."""
        self._state, self._detail = State.RECONNECTING, detail

    def failed(self, detail: str) -> None:
        """Nothing will be heard until somebody mends it."""
        self._state, self._detail = State.FAILED, detail

    def health(self) -> Health:
        silent_s = self._clock.monotonic() - self._last_heard
        if self._state is State.CONNECTED and self._deaf_after_s is not None and silent_s > self._deaf_after_s:
            detail = f"{self._platform} has not answered for {silent_s:.0f} s"
            return self._told(State.RECONNECTING, detail)
        return self._told(self._state, self._detail)

    def _told(self, state: State, detail: str) -> Health:
        return Health(state=state, detail=detail, last_event_at=self._last_at, withheld=self.withheld)
