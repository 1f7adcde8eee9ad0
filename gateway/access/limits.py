"""How much one sender may send: token buckets as values, bounded in memory (DESIGN §13.22, SPEC §1.3)."""

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, replace
from enum import Enum


@dataclass(frozen=True, slots=True)
class Bucket:
    """`tokens` at the moment `at` (monotonic seconds); `told` whether the sender heard that it is empty."""

    tokens: float
    at: float
    told: bool = False


class Take(Enum):
    TAKEN = "taken"
    REFUSED_FIRST = "refused, tell them once"
    REFUSED = "refused"


def take(bucket: Bucket, now: float, *, per_s: float, burst: float) -> tuple[Bucket, Take]:
    """Take one token of a bucket that refills by `per_s` up to `burst`; the first refusal in a row wants a notice."""
    tokens = min(burst, bucket.tokens + (now - bucket.at) * per_s)
    if tokens >= 1:
        return Bucket(tokens - 1, now), Take.TAKEN
    verdict = Take.REFUSED if bucket.told else Take.REFUSED_FIRST
    return replace(bucket, tokens=tokens, at=now, told=True), verdict


class Flood:
    """Buckets by key, the least recently used forgotten beyond `most`."""

    def __init__(self, *, per_s: float, burst: float, most: int = 4096) -> None:
        self._per_s, self._burst, self._most = per_s, burst, most
        self._buckets: OrderedDict[Hashable, Bucket] = OrderedDict()

    def take(self, key: Hashable, now: float) -> Take:
        bucket = self._buckets.pop(key, Bucket(self._burst, now))
        self._buckets[key], verdict = take(bucket, now, per_s=self._per_s, burst=self._burst)
        if len(self._buckets) > self._most:
            self._buckets.popitem(last=False)
        return verdict


# 30 automatic answers in 600 s, over 4,096 conversations (SPEC §1.3, bot-to-bot).
def bot_loop_guard() -> Flood:
    return Flood(per_s=30 / 600, burst=30, most=4096)
