"""Which stage of the ladder a request calls for: thresholds, order, what a turn may still do (SPEC §8.1). Pure."""

from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum, auto

from agent.compaction.settings import Level, MemorySettings


class Step(Enum):
    """The stages; `order_of` says in which order one pass may take them."""

    MICROCOMPACT = auto()  # all old results are cleared
    FOLD = auto()  # deferred pair summaries take their pairs' places
    PRUNE = auto()
    MID = auto()
    FLUSH = auto()
    HIGH = auto()  # a model's structured summary
    HARD = auto()  # a model's full summary
    DIGEST = auto()  # mechanical: what must go so that the request fits at all


PRUNE_SLACK = 0.5  # of the soft threshold: freeing more at once keeps the prefix still, and cached, for many turns
BY_MODEL = frozenset({Step.HIGH, Step.HARD})
_CHOOSING = (Step.FOLD, Step.PRUNE, Step.MID)
_LAST = (Step.FLUSH, Step.HIGH, Step.HARD, Step.DIGEST)


def order_of(*, clears_first: bool) -> tuple[Step, ...]:
    """The order of the stages: clearing first leaves little to choose among, clearing last takes what is left."""
    if clears_first:
        return (Step.MICROCOMPACT, *_CHOOSING, *_LAST)
    return (*_CHOOSING, Step.MICROCOMPACT, *_LAST)


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
    """What a pass must know besides the tokens.

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
    folds_wait: bool
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


def next_step(tokens: int, done: Collection[Step], limits: Limits, standing: PolicyInput) -> Step | None:
    """The next stage of this pass, or None: the request can go out, or nothing is left that could make it smaller.

    Steps are taken in their order and each once; a stage that asks a model closes the pass for the other one.
    """
    order = order_of(clears_first=standing.clear_from is not None)
    taken = max((order.index(step) for step in done), default=-1)
    for step in order[taken + 1 :]:
        if _calls(step, tokens, done, limits, standing):
            return step
    return None


def _calls(step: Step, tokens: int, done: Collection[Step], limits: Limits, standing: PolicyInput) -> bool:
    if step is Step.MICROCOMPACT:
        return tokens > limits.soft if standing.clear_from is None else tokens >= standing.clear_from
    if standing.level == "off":
        return False
    match step:
        case Step.FOLD:
            return standing.folds_wait and tokens > limits.soft
        case Step.PRUNE:
            # Where the prefix is broken anyway, so much goes that this is rare.
            return tokens > (limits.pruned if Step.FOLD in done else limits.soft) or standing.prune_pays
        case Step.MID:
            return tokens > limits.soft
        case Step.FLUSH:
            return standing.first and standing.flush_due and tokens > limits.flush
        case Step.HIGH:
            return standing.first and standing.may_ask and limits.high < tokens <= limits.hard
        case Step.HARD:
            asked = any(stage in done for stage in BY_MODEL)
            return standing.first and standing.may_ask and not asked and standing.hard_ready and tokens > limits.hard
        case _:
            return tokens > limits.room
