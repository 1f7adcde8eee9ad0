"""Is the connection alive, or only open? Verdicts from heartbeats and sequence numbers (PEERS §3, themes 4-6). Pure."""

from dataclasses import dataclass
from enum import Enum

LONGEST_PAUSE_S = 60.0


class Verdict(Enum):
    WELL = "well"
    PROBE = "probe"  # nothing came for long: ask for something that must come
    DEAF = "deaf"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionStats:
    """One shard. `heard_s`: since anything came; `acked_s`: since a heartbeat was answered; `quiet_s`: since an event
    came; `down_s`: for how long it has not been signed in (0: it is)."""

    shard_id: int
    heard_s: float
    acked_s: float
    quiet_s: float
    down_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """`rebuild_s` bounds a reconnect of the library's own: past it the connection is built anew."""

    deaf_s: float
    probe_s: float
    rebuild_s: float


def verdict(stats: ConnectionStats, timeouts: Timeouts) -> Verdict:
    if stats.down_s > 0:
        return Verdict.DEAF if stats.down_s > timeouts.rebuild_s else Verdict.WELL
    if stats.acked_s > timeouts.deaf_s:
        return Verdict.DEAF
    return Verdict.PROBE if stats.quiet_s > timeouts.probe_s else Verdict.WELL


def pause_s(failures: int, asked_s: float = 0.0) -> float:
    """How long to wait before the next attempt, after so many failed ones in a row; never less than Discord asked."""
    return max(min(2.0 ** min(failures, 10), LONGEST_PAUSE_S), asked_s)
