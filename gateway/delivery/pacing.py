"""Pacing of a conversation: pure policy over frozen values; moments are monotonic seconds."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from agent.core.backoff import Backoff
from gateway.channels.kit.rate_limits import Rate, TokenBucket

# An answer that is done within this time is sent once instead of being shown growing: half the calls for short replies,
# and no eye sees the difference.
FIRST_FRAME_AFTER_S = 0.05
LONGEST_WAIT_S = 60.0
REFUSED = Backoff(first_s=0.5, longest_s=LONGEST_WAIT_S)
RESERVE = 1.0  # what frames and status leave in the bucket for the final message


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """When the next frame of a preview may go. `refusals` counts the platform's refusals in a row."""

    interval_s: float
    not_before: float
    refusals: int = 0


def first_frame(interval_s: float, now: float) -> Pace:
    """The first frame goes (almost) at once, the others `interval_s` apart."""
    return Pace(interval_s=interval_s, not_before=now + FIRST_FRAME_AFTER_S)


def after_frame(pace: Pace, now: float) -> Pace:
    return replace(pace, not_before=now + pace.interval_s, refusals=0)


def after_refusal(pace: Pace, now: float, after_s: float) -> Pace:
    """The platform said "later": wait as long as it said, and from now on twice as long between frames."""
    slower = min(pace.interval_s * 2, LONGEST_WAIT_S)
    return Pace(interval_s=slower, not_before=now + max(after_s, slower), refusals=pace.refusals + 1)


def wait_for(pace: Pace, now: float) -> float:
    return max(0.0, pace.not_before - now)


def retry_after(after_s: float, failures: int) -> float:
    """How long a message waits after its `failures`th refusal in a row (from 1): never less than the platform asked."""
    return REFUSED.wait_s(failures, asked_s=after_s)


# Send budget of one conversation, shared by previews and status, with a share for final messages.

BUSY_PAUSE_S = 0.5  # before a busy process looks again whether it has time for what may be left out
BUSY_LONGEST_S = 5.0  # a machine that is always slow still shows that something goes on
BURST = 4.0  # calls in a row that every platform takes in one chat


@dataclass(slots=True, eq=False)
class Holding:
    """Whether a busy process leaves out what may be left out: not for ever. Moments are monotonic seconds."""

    is_busy: Callable[[], bool]
    _since: float | None = field(default=None, init=False)

    def holds(self, now: float) -> bool:
        if not self.is_busy():
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
        self._bucket = TokenBucket.full(Rate(per_s=per_s, burst=BURST, reserve=RESERVE), now)

    def wait(self, now: float) -> float:
        """How long something that may be left out has to wait; 0: it may go now."""
        wait_s = self._bucket.wait_s(now, frame=True)
        return max(wait_s, BUSY_PAUSE_S) if self._holding.holds(now) else wait_s

    def spend(self, now: float) -> None:
        """Something was sent; a final message does not wait until it may be."""
        self._bucket = self._bucket.taken(now, debt=BURST)
        self._holding.went()
