"""What one conversation may still send: shared by its previews and its status, with a share kept for final messages."""

from collections.abc import Callable

from gateway.delivery import pacing

BUSY_PAUSE_S = 0.5  # before a busy process looks again whether it has time for what may be left out
BUSY_LONGEST_S = 5.0  # a machine that is always slow still shows that something goes on
BURST = 4.0  # calls in a row that every platform takes in one chat


class Budget:
    """A bucket with a memory. Moments are monotonic seconds; while `is_busy` little goes that may be left out."""

    def __init__(self, per_s: float, now: float, is_busy: Callable[[], bool] = lambda: False) -> None:
        self._is_busy = is_busy
        self._bucket = pacing.full(BURST, per_s, now)
        self._held_since: float | None = None

    def wait(self, now: float) -> float:
        """How long something that may be left out has to wait; 0: it may go now."""
        wait_s = pacing.take(self._bucket, now, reserve=pacing.RESERVE)[1]
        return max(wait_s, BUSY_PAUSE_S) if self._is_held(now) else wait_s

    def spend(self, now: float) -> None:
        """Something was sent."""
        self._bucket = pacing.spend(self._bucket, now)
        self._held_since = None

    def _is_held(self, now: float) -> bool:
        if not self._is_busy():
            self._held_since = None
            return False
        if self._held_since is None:
            self._held_since = now
        return now - self._held_since < BUSY_LONGEST_S
