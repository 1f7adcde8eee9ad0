"""Metrics: listens to the event bus and counts. Never waits, never asks anybody.

The names that go to Prometheus are in `exposition`; here are plain values, for `/status` and the dashboard too.
"""

import logging
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice

from agent.core.bounded_map import BoundedMap
from agent.core.clock import Clock
from agent.core.events import (
    AutoCompactCircuitBreakerTripped,
    CacheBreakDetected,
    CallBilled,
    CompactComplete,
    ContextBuilt,
    ContextDegraded,
    DecisionCompleted,
    LearningFailed,
    LookedUpAgain,
    LoopEnded,
    LoopFailed,
    OutputSlotEscalated,
    ProviderFailedOver,
    ProviderSwitched,
    Published,
    RetryScheduled,
    SkillDrafted,
    SkillPicked,
    SummaryProbed,
    ToolEnded,
    ToolOutputsPruned,
)
from agent.core.ids import ConversationId

COUNTED = (
    AutoCompactCircuitBreakerTripped,
    CompactComplete,
    CacheBreakDetected,
    CallBilled,
    ContextBuilt,
    ContextDegraded,
    DecisionCompleted,
    LearningFailed,
    LookedUpAgain,
    LoopEnded,
    LoopFailed,
    OutputSlotEscalated,
    ProviderFailedOver,
    ProviderSwitched,
    RetryScheduled,
    SkillDrafted,
    SkillPicked,
    SummaryProbed,
    ToolEnded,
    ToolOutputsPruned,
)
CONVERSATIONS_KEPT = 5_000  # least recently heard of goes; totals are not touched by that

# Buckets of OpenTelemetry's GenAI semantic conventions (gen-ai-metrics: operation duration, time to first token).
SECONDS = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)

TURNS = (1, 2, 4, 8, 16, 32, 64, 128, 256)  # between two hard compactions


@dataclass(slots=True)
class Histogram:
    """Counts per bucket; `bounds` are inclusive upper ends, one more bucket is above them."""

    bounds: tuple[float, ...] = SECONDS
    counts: list[int] = field(default_factory=list)
    total: float = 0.0

    def __post_init__(self) -> None:
        self.counts = self.counts or [0] * (len(self.bounds) + 1)

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    @property
    def count(self) -> int:
        return sum(self.counts)


@dataclass(slots=True)
class MetricsSnapshot:
    """One conversation, or everything together, since the process started. Tokens and money as the ledger has them;
    `unpriced_calls` counts calls whose price is unknown, `estimated_calls` those whose tokens are guessed.
    """

    turns: int = 0
    failed_turns: int = 0
    tool_calls: int = 0
    tool_errors: int = 0
    llm_calls: int = 0
    retries: int = 0
    degraded_contexts: int = 0
    skill_hints: int = 0
    skill_drafts: int = 0
    learning_failures: int = 0
    prompt_tokens: int = 0
    output_tokens: int = 0
    cache_creation_tokens: int = 0
    cache_read_tokens: int = 0
    cost_usd: float = 0.0
    unpriced_calls: int = 0
    estimated_calls: int = 0
    context_tokens: int = 0
    context_max_tokens: int = 0
    compactions: int = 0
    hard_compactions: int = 0
    turns_at_hard: int = 0  # how many turns there were when the newest of these came
    compaction_tokens_saved: int = 0
    compaction_last_before: int = 0
    compaction_last_after: int = 0
    compaction_last_at_ms: int = 0  # 0: never (Z-72)
    pruned_outputs: int = 0
    looked_up_again: int = 0
    probe_questions: int = 0  # to summaries, and those they answered; what they lacked and was put back into them
    probe_answered: int = 0
    probe_put_back: int = 0
    breaker_trips: int = 0
    provider: str = ""
    model: str = ""
    last_turn_ms: int = 0


@dataclass(slots=True)
class Billed:
    """Usage by calls of one purpose to one model."""

    prompt: int = 0
    output: int = 0
    cache_creation: int = 0
    cache_read: int = 0
    cost_usd: float = 0.0
    unpriced: int = 0
    estimated: int = 0

    def add(self, billed: CallBilled) -> None:
        self.prompt += billed.prompt
        self.output += billed.output
        self.cache_creation += billed.cache_creation
        self.cache_read += billed.cache_read
        self.cost_usd += billed.cost_usd or 0.0
        self.unpriced += billed.cost_usd is None
        self.estimated += billed.estimated


class Metrics:
    """Give `listen` to the bus for the kinds in COUNTED; read `totals`, `of(conversation)`, the histograms whenever."""

    def __init__(self) -> None:
        self.totals = MetricsSnapshot()
        self.turn_seconds: dict[str, Histogram] = {"success": Histogram(), "error": Histogram()}
        self.llm_seconds: dict[tuple[str, str], Histogram] = {}  # by provider and model
        self.first_token_seconds: dict[tuple[str, str], Histogram] = {}
        self.tools: Counter[tuple[str, str]] = Counter()  # by tool and outcome
        self.retries: Counter[str] = Counter()  # by provider
        self.attributions: dict[tuple[str, str, str], Billed] = {}  # by purpose, provider and model
        self.schedules: Counter[tuple[str]] = Counter()  # by outcome
        self.lateness_seconds = Histogram()  # of schedules, from their moment to its row
        self.fallbacks: Counter[tuple[str, str]] = Counter()  # by the provider that failed and who took over
        self.cache_breaks: Counter[str] = Counter()  # by cause
        self.escalations: Counter[str] = Counter()  # by provider
        self.turns_after_hard = Histogram(TURNS)  # until the next one in the same conversation
        self.evicted = 0  # things that sweeps of the memory took
        self.lost_events = 0
        self._conversations: BoundedMap[ConversationId, MetricsSnapshot] = BoundedMap(CONVERSATIONS_KEPT)

    def of(self, conversation: ConversationId) -> MetricsSnapshot:
        """A conversation's own numbers; zeros for one that was not heard of."""
        return self._conversations.get(conversation) or MetricsSnapshot()

    def listen(self, published: Published) -> None:
        """A listener for the event bus."""
        event, own = published.event, self._own(published.event.conversation)
        if isinstance(event, CompactComplete) and event.stage == "hard" and own.hard_compactions:
            self.turns_after_hard.observe(own.turns - own.turns_at_hard)
        for numbers in (self.totals, own):
            _count(numbers, published)
        match event:
            case LoopEnded(success=success, duration_ms=duration_ms):
                self.turn_seconds["success" if success else "error"].observe(duration_ms / 1000)
            case DecisionCompleted(provider=provider, model=model, elapsed_ms=elapsed, first_token_ms=first):
                self.llm_seconds.setdefault((provider, model), Histogram()).observe(elapsed / 1000)
                if first is not None:
                    self.first_token_seconds.setdefault((provider, model), Histogram()).observe(first / 1000)
            case ToolEnded(tool_name=tool, is_error=is_error, exists=exists):
                # A name that the model made up is no label: anybody who talks to it could make any number of series.
                self.tools[tool if exists else "unknown", "error" if is_error else "success"] += 1
            case RetryScheduled(provider=provider):
                self.retries[provider] += 1
            case ProviderFailedOver(provider=provider, instead_of=chosen):
                self.fallbacks[chosen, provider] += 1
            case CacheBreakDetected(causes=causes):
                self.cache_breaks.update(causes or ("unknown",))
            case OutputSlotEscalated(provider=provider):
                self.escalations[provider] += 1
            case CallBilled(purpose=purpose, provider=provider, model=model):
                self.attributions.setdefault((purpose, provider, model), Billed()).add(event)
            case _:
                pass

    def fired(self, outcome: str, after_s: float) -> None:
        """A schedule's moment has come; `after_s` seconds ago."""
        self.schedules[(outcome,)] += 1
        if outcome == "fired":
            self.lateness_seconds.observe(max(0.0, after_s))

    def swept(self, evicted: int) -> None:
        """A sweep of the memory took so many things."""
        self.evicted += evicted

    def listener_failed(self, error: Exception, event: object) -> None:
        """The `on_error` of the bus, together with a log line."""
        self.lost_events += 1

    def _own(self, conversation: ConversationId) -> MetricsSnapshot:
        numbers = self._conversations.setdefault(conversation, MetricsSnapshot())
        self._conversations.move_to_end(conversation)
        return numbers


def _count(numbers: MetricsSnapshot, published: Published) -> None:
    match published.event:
        case LoopEnded(duration_ms=duration_ms, success=success):
            numbers.turns += 1
            numbers.failed_turns += not success
            numbers.last_turn_ms = duration_ms
        case LoopFailed():
            numbers.turns += 1
            numbers.failed_turns += 1
        case ContextBuilt(token_estimate=tokens):
            numbers.context_tokens = tokens
        case CompactComplete(tokens_before=before, tokens_after=after, stage=stage, at_ms=at_ms):
            numbers.compactions += 1
            if stage == "hard":
                numbers.hard_compactions += 1
                numbers.turns_at_hard = numbers.turns
            if after < before:
                numbers.compaction_tokens_saved += before - after
                numbers.compaction_last_before, numbers.compaction_last_after = before, after
                numbers.compaction_last_at_ms = at_ms
        case ToolOutputsPruned(pruned=pruned):
            numbers.pruned_outputs += pruned
        case LookedUpAgain():
            numbers.looked_up_again += 1
        case SummaryProbed(asked=asked, answered=answered, put_back=put_back):
            numbers.probe_questions += asked
            numbers.probe_answered += answered
            numbers.probe_put_back += put_back
        case AutoCompactCircuitBreakerTripped():
            numbers.breaker_trips += 1
        case ContextDegraded():
            numbers.degraded_contexts += 1
        case SkillPicked():
            numbers.skill_hints += 1
        case SkillDrafted():
            numbers.skill_drafts += 1
        case LearningFailed():
            numbers.learning_failures += 1
        case DecisionCompleted(provider=provider, model=model):
            numbers.llm_calls += 1
            numbers.provider, numbers.model = provider, model
        case ToolEnded(is_error=is_error):
            numbers.tool_calls += 1
            numbers.tool_errors += is_error
        case RetryScheduled():
            numbers.retries += 1
        case ProviderSwitched(provider=provider, model=model, context_max_tokens=most):
            numbers.provider, numbers.model, numbers.context_max_tokens = provider, model, most
        case CallBilled() as billed:
            numbers.prompt_tokens += billed.prompt
            numbers.output_tokens += billed.output
            numbers.cache_creation_tokens += billed.cache_creation
            numbers.cache_read_tokens += billed.cache_read
            numbers.cost_usd += billed.cost_usd or 0.0
            numbers.unpriced_calls += billed.cost_usd is None
            numbers.estimated_calls += billed.estimated
        case _:
            pass


# Readings of this moment, which a scrape asks of the gateway. Pure data.


@dataclass(frozen=True, slots=True, kw_only=True)
class Gauges:
    """`queue_depth` counts inbox rows that are new, `outbox_open` rows not yet sent, `outbox_dead` dead letters.

    `adapters` says per channel type whether the account hears, `budgets` by scope and span how full the fullest one is.
    """

    version: str = ""
    ready: bool = False
    queue_depth: int = 0
    outbox_open: int = 0
    outbox_dead: int = 0
    awake: int = 0
    tasks: int = 0  # of the event loop, alive now
    troubles_open: int = 0
    loop_lag_s: float = 0.0
    loop_lag_worst_s: float = 0.0
    adapters: Mapping[str, bool] = field(default_factory=dict)
    budgets: Mapping[tuple[str, str], float] = field(default_factory=dict)


# Lag of the event loop: the surplus of a short sleep. Says nothing about the cause.

EVERY_S = 0.5
WINDOW = 120  # samples: one minute
RECENT = 4  # samples
BUSY_S = 0.25  # an idle loop is late by a millisecond or two, on a machine that others use by tens of them
WARN_S = 1.0

log = logging.getLogger("tieline.telemetry")


class LoopLag:
    """Run it beside everything else; `last_s` and `worst_s` (of the last minute) are in seconds."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._samples: deque[float] = deque(maxlen=WINDOW)

    @property
    def last_s(self) -> float:
        return self._samples[-1] if self._samples else 0.0

    @property
    def worst_s(self) -> float:
        return max(self._samples, default=0.0)

    def is_busy(self) -> bool:
        """It was late in the last two seconds: what may be left out should be, it makes all else later."""
        return any(late > BUSY_S for late in islice(reversed(self._samples), RECENT))

    async def run(self) -> None:
        """Measure until cancelled."""
        while True:
            before = self._clock.monotonic()
            await self._clock.sleep(EVERY_S)
            late = max(0.0, self._clock.monotonic() - before - EVERY_S)
            self._samples.append(late)
            if late > WARN_S:
                log.warning("the event loop stood still for %.1f s", late)
