"""Slack's rate limits as policy: a bucket per channel for posts, one per method for the rest. Pure; never waits.

Source: docs.slack.dev, "Rate limits": one message a second in a channel, tiers of calls a minute for the rest.
"""

from dataclasses import dataclass, field, replace

FRAME_RESERVE = 0.4  # share of a bucket that frames of a preview leave to final texts
MAX_CHANNELS = 4096
FIRST_DELAY_S, MAX_DELAY_S = 0.5, 30.0


@dataclass(frozen=True, slots=True)
class Rate:
    """`per_s` calls a second in the long run, `burst` at once."""

    per_s: float
    burst: float


POST = Rate(per_s=1.0, burst=4.0)
_TIER_2, _TIER_3, _TIER_4 = (Rate(per_s=minute / 60, burst=float(minute)) for minute in (20, 50, 100))
RATES = {
    "chat.postMessage": POST,
    "chat.postEphemeral": _TIER_4,
    "chat.update": _TIER_3,
    "chat.delete": _TIER_3,
    "chat.startStream": _TIER_2,
    "chat.appendStream": _TIER_4,
    "chat.stopStream": _TIER_2,
    "reactions.add": _TIER_3,
    "reactions.remove": _TIER_2,
    "assistant.threads.setStatus": _TIER_4,
    "conversations.history": _TIER_3,
    "conversations.replies": _TIER_3,
    "conversations.info": _TIER_3,
    "users.info": _TIER_4,
    "files.info": _TIER_4,
    "files.getUploadURLExternal": _TIER_4,
    "files.completeUploadExternal": _TIER_4,
}
_FREE = Rate(per_s=1000.0, burst=1000.0)  # of no account until a 429 says otherwise


def rate_of(method: str) -> Rate:
    return RATES.get(method, _FREE)


@dataclass(frozen=True, slots=True)
class Bucket:
    """What was left at the moment `at` (monotonic seconds); nothing before `closed_until`."""

    level: float
    at: float
    closed_until: float = 0.0


def wait_s(bucket: Bucket, rate: Rate, now: float, *, reserve: float = 0.0) -> float:
    """Seconds until a call may go out that leaves `reserve` calls behind; 0 is now."""
    level = _level(bucket, rate, now)
    missing = 1.0 + reserve - level
    refill = missing / rate.per_s if missing > 1e-9 else 0.0
    return max(refill, bucket.closed_until - now, 0.0)


def taken(bucket: Bucket, rate: Rate, now: float) -> Bucket:
    """The bucket after a call."""
    return replace(bucket, level=_level(bucket, rate, now) - 1.0, at=now)


def closed(bucket: Bucket, now: float, after_s: float) -> Bucket:
    """The bucket after Slack said `Retry-After`: shut for that long, then open for one call."""
    return Bucket(level=1.0, at=now + after_s, closed_until=max(bucket.closed_until, now + after_s))


def _level(bucket: Bucket, rate: Rate, now: float) -> float:
    return min(rate.burst, bucket.level + max(0.0, now - bucket.at) * rate.per_s)


def delay_s(attempt: int, jitter: float) -> float:
    """How long to wait before the next try to connect; `jitter` is 0..1, `attempt` counts from 0."""
    full = min(MAX_DELAY_S, FIRST_DELAY_S * 2.0 ** min(attempt, 16))
    return full * (0.5 + jitter / 2)


@dataclass(slots=True)
class Buckets:
    """The state of one account's limits. A 429 shuts one channel for posts, one method for the rest."""

    _buckets: dict[tuple[str, str], Bucket] = field(default_factory=dict)

    def ask(self, method: str, channel: str, now: float, *, frame: bool = False) -> float:
        """0 and the call is counted; else the seconds to wait, and it is not."""
        rate = rate_of(method)
        key = _key(method, channel)
        bucket = self._buckets.get(key, Bucket(rate.burst, now))
        wait = wait_s(bucket, rate, now, reserve=rate.burst * FRAME_RESERVE if frame else 0.0)
        if wait == 0.0:
            self._put(key, taken(bucket, rate, now), now)
        return wait

    def shut(self, method: str, channel: str, now: float, after_s: float) -> None:
        """Slack answered 429."""
        key = _key(method, channel)
        self._put(key, closed(self._buckets.get(key, Bucket(rate_of(method).burst, now)), now, after_s), now)

    def _put(self, key: tuple[str, str], bucket: Bucket, now: float) -> None:
        self._buckets[key] = bucket
        if len(self._buckets) > MAX_CHANNELS:
            full = [k for k, b in self._buckets.items() if _level(b, rate_of(k[0]), now) >= rate_of(k[0]).burst]
            for k in full or list(self._buckets)[: MAX_CHANNELS // 8]:
                self._buckets.pop(k, None)


def _key(method: str, channel: str) -> tuple[str, str]:
    return (method, channel if method == "chat.postMessage" else "")
