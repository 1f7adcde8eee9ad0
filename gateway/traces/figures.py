"""Figures over time, counted by the hour, and quantiles from the buckets of a fixed histogram. Pure."""

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, get_args

HOUR_US = 3600 * 1_000_000

Name = Literal[
    "turns", "failed_turns", "model_calls", "tokens_in", "tokens_cached", "tokens_out", "cost_usd", "unpriced_calls",
    "received", "sent", "dead_letters", "waiting_ms", "first_token_ms", "turn_ms", "call_ms", "call_first_token_ms",
    "failed_calls",
]  # fmt: skip
# Those that have a histogram and a sum; the last two have one for each provider.
Times = Literal["waiting_ms", "first_token_ms", "turn_ms", "call_ms", "call_first_token_ms"]
NAMES: tuple[Name, ...] = get_args(Name)
SUM = "sum"  # the label of the sum of a histogram's values
ABOVE = "+"  # that of the bucket above the highest bound

# Milliseconds, inclusive upper ends. They stand in rows as labels: a bound that is taken out makes old rows unreadable.
BOUNDS = (
    10, 20, 50, 100, 200, 300, 500, 700, 1_000, 1_500, 2_000, 3_000, 5_000, 7_000, 10_000, 15_000, 20_000, 30_000,
    60_000, 120_000, 300_000, 600_000, 1_800_000,
)  # fmt: skip
LABELS = (*map(str, BOUNDS), ABOVE)

MOST_SERIES = 5_000  # that wait to be written; people may name any model
OTHER = "other"

Key = tuple[Name, int, str]  # name, begin of the hour in UTC microseconds, label


def hour_of(at: int) -> int:
    """The begin of its hour; both in UTC microseconds."""
    return at - at % HOUR_US


def bucket_of(ms: float) -> str:
    """The label of the bucket that the time falls into."""
    return LABELS[bisect_left(BOUNDS, ms)]


def _labelled(of: str, label: str) -> str:
    return f"{of} {label}" if of else label


def apart(values: Mapping[str, float]) -> Mapping[str, Mapping[str, float]]:
    """The values by label of each provider; what has no provider is left out."""
    found: dict[str, dict[str, float]] = {}
    for whole, value in values.items():
        of, _, label = whole.rpartition(" ")
        if of:
            found.setdefault(of, {})[label] = value
    return found


class Figures:
    """Figures that wait to be written. Bounded: beyond `MOST_SERIES`, new labels are counted as one."""

    def __init__(self) -> None:
        self._values: dict[Key, float] = {}

    def __bool__(self) -> bool:
        return bool(self._values)

    def add(self, at: int, name: Name, label: str = "", by: float = 1) -> None:
        """Count it in the hour of `at` (UTC microseconds)."""
        if not by:
            return
        key = name, hour_of(at), label
        if key not in self._values and len(self._values) >= MOST_SERIES:
            key = name, hour_of(at), OTHER
        self._values[key] = self._values.get(key, 0) + by

    def observe(self, at: int, name: Times, ms: float, of: str = "") -> None:
        """Count the time in its bucket, and add it to the sum; `of` is the provider whose histogram it is."""
        self.add(at, name, _labelled(of, bucket_of(ms)))
        self.add(at, name, _labelled(of, SUM), ms)

    def take(self) -> Mapping[Key, float]:
        """All values so far; counting begins anew."""
        taken, self._values = self._values, {}
        return taken


@dataclass(frozen=True, slots=True)
class Point:
    """The values of one figure, by label, in the step that begins at `at` (UTC microseconds)."""

    at: int
    values: Mapping[str, float]


def counts_of(values: Mapping[str, float]) -> Iterator[tuple[float, float, float]]:
    """Lower end, upper end and count of each bucket in order; above the highest bound the two ends are the same."""
    low = 0.0
    for bound, label in zip((*BOUNDS, BOUNDS[-1]), LABELS, strict=True):
        yield low, float(bound), values.get(label, 0.0)
        low = float(bound)


def quantile(values: Mapping[str, float], share: float) -> float | None:
    """The time in milliseconds below which that share (0..1) lies; None where nothing was counted.

    Within a bucket all are taken to lie evenly. Above the highest bound it is that bound: at least so much.
    """
    total = sum(count for _, _, count in counts_of(values))
    if not total:
        return None
    rank, below = share * total, 0.0
    for low, high, count in counts_of(values):
        if count and below + count >= rank:
            return low + (high - low) * max(0.0, rank - below) / count
        below += count
    return float(BOUNDS[-1])


def mean(values: Mapping[str, float]) -> float | None:
    """The mean in milliseconds; None where nothing was counted."""
    total = sum(count for _, _, count in counts_of(values))
    return values.get(SUM, 0.0) / total if total else None
