"""What one conversation may still send: shared by its previews and its status, with a share kept for final messages."""

from collections.abc import Callable

from gateway.delivery import pacing

BUSY_PAUSE_S = 0.5  # before a busy process looks again whether it has time for what may be left out
BUSY_LONGEST_S = 5.0  # a machine that is always slow still shows that something goes on
BURST = 4.0  # calls in a row that every platform takes in one chat


class Holding:
    """Whether a busy process leaves out what may be left out: not for ever. Moments are monotonic seconds."""

    def __init__(self, is_busy: Callable[[], bool]) -> None:
        self._is_busy = is_busy
        self._since: float | None = None

    def holds(self, now: float) -> bool:
        if not self._is_busy():
            self._since = None
            return False
        if self._since is None:
            self._since = now
        return now - self._since < BUSY_LONGEST_S

    def went(self) -> None:
        """Something was shown: the next thing waits as long."""
        self._since = None


class Budget:
    """A bucket with a memory. Moments are monotonic seconds; while `is_busy` little goes that may be left out."""

    def __init__(self, per_s: float, now: float, is_busy: Callable[[], bool] = lambda: False) -> None:
        self._holding = Holding(is_busy)
        self._bucket = pacing.full(BURST, per_s, now)

    def wait(self, now: float) -> float:
        """How long something that may be left out has to wait; 0: it may go now."""
        wait_s = pacing.take(self._bucket, now, reserve=pacing.RESERVE)[1]
        return max(wait_s, BUSY_PAUSE_S) if self._holding.holds(now) else wait_s

    def spend(self, now: float) -> None:
        """Something was sent."""
        self._bucket = pacing.spend(self._bucket, now)
        self._holding.went()
