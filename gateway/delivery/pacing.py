"""How often a conversation may be touched: pure policy over frozen values; moments are monotonic seconds."""

from dataclasses import dataclass, replace

# An answer that is done within this time is sent once instead of being shown growing: half the calls for short replies,
# and no eye sees the difference.
FIRST_FRAME_AFTER_S = 0.05
LONGEST_WAIT_S = 60.0
RESERVE = 1.0  # what frames and status leave in the bucket for the final message


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucket:
    """A token bucket: `tokens` at the moment `at`, growing by `per_s` up to `capacity`."""

    capacity: float
    per_s: float
    tokens: float
    at: float


def full(capacity: float, per_s: float, now: float) -> Bucket:
    return Bucket(capacity=capacity, per_s=per_s, tokens=capacity, at=now)


def refilled(bucket: Bucket, now: float) -> Bucket:
    grown = min(bucket.capacity, bucket.tokens + max(0.0, now - bucket.at) * bucket.per_s)
    return replace(bucket, tokens=grown, at=now)


def take(bucket: Bucket, now: float, *, reserve: float = 0.0) -> tuple[Bucket, float]:
    """The bucket after taking one token, and 0; or the untouched bucket and how long to wait for one.

    A caller that must not use up what is kept for others leaves `reserve` in it.
    """
    current = refilled(bucket, now)
    missing = 1.0 + reserve - current.tokens
    if missing > 1e-9:
        return current, missing / current.per_s
    return replace(current, tokens=current.tokens - 1.0), 0.0


def spend(bucket: Bucket, now: float) -> Bucket:
    """The bucket after something that does not wait for it: the final message. May go below zero."""
    current = refilled(bucket, now)
    return replace(current, tokens=max(current.tokens - 1.0, -current.capacity))


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """When the next frame of a preview may go. `refusals` counts the platform's refusals in a row."""

    interval_s: float
    not_before: float
    refusals: int = 0


def first_frame(interval_s: float, now: float) -> Pace:
    """The first frame goes (almost) at once, the others `interval_s` apart (SPEC §1.3)."""
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
    return max(after_s, min(0.5 * 2.0 ** min(failures - 1, 20), LONGEST_WAIT_S))
