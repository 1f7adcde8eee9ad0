"""Rate limits of calls to a platform. Pure: moments are seconds of a clock that never runs backwards."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Generic, Protocol, TypeVar

from agent.core.bounded_map import BoundedMap

Key = TypeVar("Key")

NEARLY = 1e-9  # so much of a token is missing only in the reckoning


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """`per_s` calls a second in the long run, `burst` at once.

    `reserve` of the burst is kept for final messages: frames of a preview, and whatever else may be left out, leave it.
    """

    per_s: float
    burst: float
    reserve: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenBucket:
    """`tokens` at the moment `at`, which may lie ahead: calls are booked before they are made."""

    rate: Rate
    tokens: float
    at: float

    @classmethod
    def full(cls, rate: Rate, now: float) -> "TokenBucket":
        return cls(rate=rate, tokens=rate.burst, at=now)

    def wait_s(self, now: float, *, frame: bool = False) -> float:
        """Seconds until one more call may go, 0 if it may go now; a `frame` leaves the reserve."""
        missing = 1.0 + (self.rate.reserve if frame else 0.0) - self._level(now)
        return missing / self.rate.per_s if missing > NEARLY else 0.0

    def taken(self, at: float, *, debt: float | None = None) -> "TokenBucket":
        """After a call at that moment, whether there is a token for it or not; with a `debt` never more below empty."""
        tokens = self._level(at) - 1.0
        return replace(self, tokens=tokens if debt is None else max(tokens, -debt), at=at)

    def closed(self, until: float) -> "TokenBucket":
        """After the platform said to wait: nothing before that moment, then one call."""
        next_at = self.at + (1.0 - self.tokens) / self.rate.per_s
        return replace(self, tokens=1.0, at=max(until, next_at))

    def _level(self, now: float) -> float:
        return min(self.rate.burst, self.tokens + (now - self.at) * self.rate.per_s)


class RateLimits(Generic[Key]):
    """A bucket for each key; beyond `most` keys the one that was asked for least recently starts anew."""

    def __init__(self, rate_of: Callable[[Key], Rate], *, most: int = 4096) -> None:
        self._rate_of = rate_of
        self._buckets: BoundedMap[Key, TokenBucket] = BoundedMap(most)

    def __len__(self) -> int:
        return len(self._buckets)

    def ask(self, key: Key, now: float, *, frame: bool = False) -> float:
        """0 and the call is counted; else the seconds to wait, and it is not."""
        bucket = self._bucket(key, now)
        wait_s = bucket.wait_s(now, frame=frame)
        self._buckets[key] = bucket if wait_s else bucket.taken(now)
        return wait_s

    def close(self, key: Key, now: float, after_s: float) -> None:
        """The platform said to leave it alone for so long."""
        self._buckets[key] = self._bucket(key, now).closed(now + after_s)

    def _bucket(self, key: Key, now: float) -> TokenBucket:
        return self._buckets.get(key) or TokenBucket.full(self._rate_of(key), now)


# Limits that several processes keep to together.

DIVIDED = 0.5  # part of a limit that is divided among the processes; from the rest each draws what it needs


def divided(rate: Rate, processes: int) -> tuple[Rate | None, Rate]:
    """The share of each of so many processes, and what all draw from. None: a share would be less than one call."""
    part = DIVIDED / processes
    if rate.burst * part < 1.0:
        return None, rate
    return _scaled(rate, part), _scaled(rate, 1.0 - DIVIDED)


def _scaled(rate: Rate, factor: float) -> Rate:
    return Rate(per_s=rate.per_s * factor, burst=rate.burst * factor, reserve=rate.reserve * factor)


class SharedRates(Protocol):
    """Limits of one account at its platform that all processes keep to together, by key. Never raises."""

    async def ask(self, key: str, rate: Rate, *, frame: bool = False) -> float:
        """0 and the call is counted; else the seconds to wait, and it is not. A `frame` leaves the reserve."""

    async def close(self, key: str, after_s: float) -> None:
        """The platform said to leave it alone for so long: no process is let through before."""
