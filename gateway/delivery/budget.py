"""What one conversation may still send: shared by its previews and its status, with a share kept for final messages."""

from gateway.delivery import pacing

BURST = 4.0  # calls in a row that every platform takes in one chat


class Budget:
    """A bucket with a memory. Moments are monotonic seconds."""

    def __init__(self, per_s: float, now: float) -> None:
        self._bucket = pacing.full(BURST, per_s, now)

    def wait(self, now: float) -> float:
        """How long something that may be left out has to wait; 0: it may go now."""
        return pacing.take(self._bucket, now, reserve=pacing.RESERVE)[1]

    def spend(self, now: float) -> None:
        """Something was sent."""
        self._bucket = pacing.spend(self._bucket, now)
