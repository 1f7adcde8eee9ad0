"""The stages of compaction and when each applies: thresholds, order, cooldown, circuit breaker, gauge. Pure.

The function and the event of each stage stand in the table of `Engine`.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Literal

from agent.compaction.settings import Level, MemorySettings


class Stage(StrEnum):
    """A stage of compaction; the value is what hooks are told and what is stored with a summary.

    `order_of` gives the order of those that one pass may take. L0 to L3 are their numbers in the requirements.
    """

    STALE = "stale"  # L0t: after a long silence, results that are cheap to get again are cleared
    MICROCOMPACT = "microcompact"  # L0: all old results are cleared
    SUMMARIES = "fold"  # deferred pair summaries take their pairs' places
    PRUNE = "prune"  # results go by their scores
    MID = "mid"  # L2: a summary made ahead takes the place of the oldest part; L1: a mechanical digest does
    FLUSH = "flush"  # lasting notes are written before a model compacts
    HIGH = "high"  # L3: a model's structured summary
    HARD = "hard"  # a model's full summary
    REACTIVE = "reactive"  # the same, after a provider has refused the request as too long; no pass takes it
    DIGEST = "digest"  # mechanical: what must go so that the request fits at all


PRUNE_SLACK = 0.5  # of the soft threshold: freeing more at once keeps the prefix still, and cached, for many turns
BY_MODEL = frozenset({Stage.HIGH, Stage.HARD})
_CHOOSING = (Stage.SUMMARIES, Stage.PRUNE, Stage.MID)
_LAST = (Stage.FLUSH, Stage.HIGH, Stage.HARD, Stage.DIGEST)


def order_of(*, clears_first: bool) -> tuple[Stage, ...]:
    """The order of the stages: clearing first leaves little to choose among, clearing last takes what is left."""
    if clears_first:
        return (Stage.MICROCOMPACT, *_CHOOSING, *_LAST)
    return (*_CHOOSING, Stage.MICROCOMPACT, *_LAST)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Scaled tokens of a whole request at which each stage begins. `room` is the most a request may hold at all.

    `hard` never lies above `room`: there is no use in a threshold that the ceiling keeps anybody from reaching.
    """

    window: int
    room: int
    pruned: int  # what pruning aims at
    soft: int
    high: int
    hard: int
    flush: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyInput:
    """Input of a pass besides the tokens.

    `first`: nothing of this turn was sent yet; after that no stage may ask a model. `may_ask`: no model compacted in
    this turn so far. `hard_ready`: the state machine allows the hard stage. `flush_due`: there is a memory, and it was
    not yet flushed in this cycle. `clear_from`: old results are cleared first, from so many tokens on; None: they are
    cleared above the soft threshold, after the stages that choose. `prune_pays`: what may be pruned is worth the cached
    prefix that it breaks, though there is room.
    """

    level: Level
    first: bool
    may_ask: bool
    hard_ready: bool
    flush_due: bool
    prune_pays: bool
    summaries_wait: bool
    clear_from: int | None


def limits_for(window: int, room: int, settings: MemorySettings, *, reserve_floor: int, flush_threshold: int) -> Limits:
    """The thresholds for a window; in small ones the reserves leave less, and the stages move down with them.

    Compaction begins at window - reserve_floor at the latest (B-19), the flush at 0.70 of the window at the latest and
    always before the first stage that asks a model (B-20, G-21).
    """
    soft = min(settings.soft_compaction_threshold * window, 0.80 * room)
    high = min(settings.high_compaction_threshold * window, 0.92 * room)
    hard = min(
        settings.hard_compaction_threshold * window, float(window - min(reserve_floor, window // 8)), float(room)
    )
    flush = min(window - min(flush_threshold, window // 4), 0.70 * window, (soft + 2 * high) / 3)
    return Limits(
        window=window,
        room=room,
        pruned=int(soft * (1 - PRUNE_SLACK)),
        soft=int(soft),
        high=int(high),
        hard=int(hard),
        flush=int(flush),
    )


def next_stage(tokens: int, done: Collection[Stage], limits: Limits, standing: PolicyInput) -> Stage | None:
    """The next stage of this pass, or None: the request can go out, or nothing is left that could make it smaller.

    Stages are taken in their order and each once; a stage that asks a model closes the pass for the other one.
    """
    order = order_of(clears_first=standing.clear_from is not None)
    taken = max((order.index(stage) for stage in done), default=-1)
    for stage in order[taken + 1 :]:
        if _applies(stage, tokens, done, limits, standing):
            return stage
    return None


def _applies(stage: Stage, tokens: int, done: Collection[Stage], limits: Limits, standing: PolicyInput) -> bool:
    if stage is Stage.MICROCOMPACT:
        return tokens > limits.soft if standing.clear_from is None else tokens >= standing.clear_from
    if standing.level == "off":
        return False
    match stage:
        case Stage.SUMMARIES:
            return standing.summaries_wait and tokens > limits.soft
        case Stage.PRUNE:
            # Where the prefix is broken anyway, so much goes that this is rare.
            return tokens > (limits.pruned if Stage.SUMMARIES in done else limits.soft) or standing.prune_pays
        case Stage.MID:
            return tokens > limits.soft
        case Stage.FLUSH:
            return standing.first and standing.flush_due and tokens > limits.flush
        case Stage.HIGH:
            return standing.first and standing.may_ask and limits.high < tokens <= limits.hard
        case Stage.HARD:
            asked = any(one in done for one in BY_MODEL)
            return standing.first and standing.may_ask and not asked and standing.hard_ready and tokens > limits.hard
        case _:
            return tokens > limits.room


# Cooldown of the hard stage. Pure: each function gives the next state.

Phase = Literal["ready", "compacted", "cooling", "exhausted"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cooldown:
    """`left` turns of cooling remain. `warned`: the person was told that nothing more can be compacted."""

    phase: Phase = "ready"
    left: int = 0
    warned: bool = False

    @property
    def is_ready(self) -> bool:
        return self.phase == "ready"


def advanced(state: Cooldown) -> Cooldown:
    """A turn begins, before anything in it may compact."""
    match state.phase:
        case "compacted":
            return Cooldown(phase="cooling", left=state.left) if state.left else Cooldown()
        case "cooling":
            return replace(state, left=state.left - 1) if state.left > 1 else Cooldown()
        case _:
            return state


def compacted(turns: int) -> Cooldown:
    """A hard compaction was done in this turn; the hard stage rests for `turns` turns after it."""
    return Cooldown(phase="compacted", left=turns)


def exhausted(state: Cooldown, *, warned: bool = False) -> Cooldown:
    """Compacting gained nothing; it is not tried again until /clear, /new, /compact or another provider."""
    return Cooldown(phase="exhausted", warned=state.warned or warned)


# Circuit breaker of summaries: stops asking a model after repeated failures, and tries again later. Pure.

MAX_CONSECUTIVE_AUTOCOMPACT_FAILURES = 3
HALF_OPEN_AFTER_TURNS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Breaker:
    """`opened_at` is the turn in which it tripped; None while it is closed."""

    failures: int = 0
    opened_at: int | None = None

    def allows(self, turn: int) -> bool:
        """Whether a model may be asked in this turn: while closed, and for one try once it has rested long enough."""
        return self.opened_at is None or turn - self.opened_at >= HALF_OPEN_AFTER_TURNS

    def failed(self, turn: int) -> "Breaker":
        """One more failure in a row. The third trips it, and so does a failed try of a half-open one (R-43, G-20)."""
        failures = self.failures + 1
        tripped = failures >= MAX_CONSECUTIVE_AUTOCOMPACT_FAILURES
        return replace(self, failures=failures, opened_at=turn if tripped else self.opened_at)

    def half_opened(self, turn: int) -> "Breaker":
        """Somebody asked for a compaction, or the provider changed: the next try is allowed at once."""
        return self if self.opened_at is None else replace(self, opened_at=turn - HALF_OPEN_AFTER_TURNS)


# Gauge and badge: the fill of a window as a colour, and the savings of the newest compaction (Z-76, Z-77). Pure.

Colour = Literal["green", "yellow", "red"]

YELLOW_FROM, RED_ABOVE = 0.70, 0.90


def colour_of(used: int, window: int) -> Colour | None:
    """Green below 70 %, yellow to 90 %, red above; None while the window is unknown."""
    if window <= 0:
        return None
    share = used / window
    if share < YELLOW_FROM:
        return "green"
    return "yellow" if share <= RED_ABOVE else "red"


def badge_of(before: int, after: int, at_ms: int, now_ms: int) -> str:
    """`{before}k→{after}k (-{saved}k) {elapsed}`; "" before the first compaction. Tokens, moments in milliseconds."""
    if not at_ms:
        return ""
    return f"{_k(before)}→{_k(after)} (-{_k(before - after)}) {_elapsed(max(0, now_ms - at_ms) // 1000)}"


def _k(tokens: int) -> str:
    return f"{tokens / 1000:.1f}k" if tokens < 10_000 else f"{tokens / 1000:.0f}k"


def _elapsed(seconds: int) -> str:
    if seconds < 60:
        return f"{seconds}s"
    minutes, hours = seconds // 60, seconds // 3600
    return f"{minutes}m" if hours == 0 else f"{hours}h" if hours < 48 else f"{hours // 24}d"
