"""How an account is doing, as its parts report it and `health` tells it."""

from gateway.channels.adapter import AdapterContext, Health, State


class HealthMonitor:
    """The account's state and its last sign of life."""

    def __init__(self, adapter_context: AdapterContext) -> None:
        self._clock = adapter_context.clock
        self._health = Health(state=State.STARTING)

    @property
    def health(self) -> Health:
        return self._health

    @property
    def state(self) -> State:
        return self._health.state

    def sign(self) -> None:
        """Slack was heard."""
        now = self._clock.now()
        self._health = Health(state=self._health.state, detail=self._health.detail, last_event_at=now)

    def turn(self, state: State, detail: str = "") -> None:
        self._health = Health(state=state, detail=detail, last_event_at=self._health.last_event_at)
