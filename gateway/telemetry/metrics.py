"""Metrics: listens to the event bus and counts. Never waits, never asks anybody.

Each metric is declared once, in the tables here; `exposition` writes them for Prometheus, at a scrape.
Names: OpenTelemetry's GenAI semantic conventions where they have one (gen_ai_*), else `tieline_*`.
"""

import logging
from bisect import bisect_left
from collections import deque
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
CONVERSATIONS_KEPT = 5_000  # least recently heard of goes; only the turns between hard compactions need them

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


Labels = tuple[str, ...]

_MODEL = ("gen_ai_operation_name", "gen_ai_provider_name", "gen_ai_request_model")
_PROVIDER = ("gen_ai_provider_name",)
TOKENS, COST, UNPRICED = "gen_ai_client_token_usage_tokens", "tieline_cost_usd", "tieline_unpriced_calls"
TURNS_ENDED = "tieline_turns"


@dataclass(frozen=True, slots=True)
class Family:
    """A metric with the names of its labels; those of a histogram have bounds."""

    text: str
    labels: Labels = ()
    bounds: tuple[float, ...] = SECONDS


# A counter's name gets `_total` from the library.
COUNTERS: Mapping[str, Family] = {
    TOKENS: Family("Tokens billed by providers.", (*_MODEL, "gen_ai_token_type")),
    COST: Family("Money spent, as far as prices are known.", (*_MODEL, "tieline_purpose")),
    UNPRICED: Family("Calls whose price is unknown.", _MODEL),
    "tieline_estimated_calls": Family("Calls whose tokens are estimated.", _MODEL),
    TURNS_ENDED: Family("Turns that ended.", ("outcome",)),
    "tieline_schedules": Family("Moments of schedules.", ("outcome",)),
    "tieline_tool_calls": Family("Calls of tools.", ("tool", "outcome")),
    "tieline_llm_retries": Family("Repeated model calls.", _PROVIDER),
    "tieline_failovers": Family("Answers taken over by another provider.", (*_PROVIDER, "fallback")),
    "tieline_cache_breaks": Family("Falls of what is read from a provider's cache.", ("cause",)),
    "tieline_escalated_answers": Family("Cut answers asked for whole.", _PROVIDER),
    "tieline_degraded_contexts": Family("Turns that went on without a full context."),
    "tieline_skill_hints": Family("Turns in which a skill was hinted."),
    "tieline_skill_drafts": Family("Skills that were drafted."),
    "tieline_learning_failures": Family("What could not be learnt."),
    "tieline_compactions": Family("Summaries that took the place of messages."),
    "tieline_hard_compactions": Family("Those at the hard threshold."),
    "tieline_compaction_tokens_saved": Family("Tokens they freed."),
    "tieline_tool_outputs_pruned": Family("Results of tools that pruning left out."),
    "tieline_summary_questions": Family("Questions that summaries were asked."),
    "tieline_summary_questions_answered": Family("Those they could answer."),
    "tieline_summary_facts_put_back": Family("What they lacked and hold now."),
    "tieline_looked_up_again": Family("Times a model looked up what had just left."),
    "tieline_memory_evicted": Family("Kept things that sweeps of the memory took."),
    "tieline_compaction_breaker_trips": Family("Times the breaker of summaries opened."),
    "tieline_event_listener_failures": Family("Events a listener could not take."),
    "tieline_otel_dropped": Family("Spans and points that no collector took.", ("signal",)),
}
HISTOGRAMS: Mapping[str, Family] = {
    "gen_ai_client_operation_duration_seconds": Family("Time of one model call.", _MODEL),
    "gen_ai_client_operation_time_to_first_chunk_seconds": Family(
        "Time to the first piece of a model's answer.", _MODEL
    ),
    "tieline_turn_duration_seconds": Family("Time of one turn.", ("outcome",)),
    "tieline_schedule_lateness_seconds": Family("From a schedule's moment to its start."),
    "tieline_turns_after_hard_compaction": Family("Turns until the next hard compaction.", bounds=TURNS),
}
NEWEST: Mapping[str, Family] = {  # values that the newest event of their kind brought
    "tieline_compaction_last_before_tokens": Family("Newest compaction: before."),
    "tieline_compaction_last_after_tokens": Family("Newest compaction: after."),
    "tieline_compaction_last_timestamp_ms": Family("When, 0 for never."),  # Z-72
    "tieline_context_tokens": Family("Tokens of the newest request."),
    "tieline_context_max_tokens": Family("Window of the model it went to."),
}


def operation_of(purpose: str) -> str:
    """The operation of a call, in the conventions' words as far as they have one: "chat" for all that writes text."""
    return purpose if purpose in ("transcription", "embeddings", "speech", "images") else "chat"


class Metrics:
    """Give `listen` to the bus for the kinds in COUNTED; read the numbers, by the names of the tables, whenever.

    A metric without labels is there from the start, as is each outcome of a turn; others once they are counted.
    """

    def __init__(self) -> None:
        self.counts: dict[str, dict[Labels, float]] = {
            name: {} if family.labels else {(): 0} for name, family in COUNTERS.items()
        }
        self.histograms: dict[str, dict[Labels, Histogram]] = {
            name: {} if family.labels else {(): Histogram(family.bounds)} for name, family in HISTOGRAMS.items()
        }
        self.newest: dict[str, float] = dict.fromkeys(NEWEST, 0)
        for outcome in ("success", "error"):
            self.counts[TURNS_ENDED][(outcome,)] = 0
            self.histograms["tieline_turn_duration_seconds"][(outcome,)] = Histogram()
        self._since_hard: BoundedMap[ConversationId, int] = BoundedMap(CONVERSATIONS_KEPT)  # turns, where there was one

    def sum(self, name: str, **labels: str) -> float:
        """The counter's value in all, or of the series with these labels."""
        names = COUNTERS[name].labels
        wanted = [(names.index(label), value) for label, value in labels.items()]
        series = self.counts[name].items()
        return sum(count for key, count in series if all(key[place] == value for place, value in wanted))

    def listen(self, published: Published) -> None:
        """A listener for the event bus."""
        match published.event:
            case LoopEnded(conversation=conversation, success=success, duration_ms=duration_ms):
                outcome = "success" if success else "error"
                self._observe("tieline_turn_duration_seconds", duration_ms / 1000, outcome)
                self._turn_ended(conversation, outcome)
            case LoopFailed(conversation=conversation):
                self._turn_ended(conversation, "error")
            case DecisionCompleted(provider=provider, model=model, elapsed_ms=elapsed, first_token_ms=first):
                self._observe("gen_ai_client_operation_duration_seconds", elapsed / 1000, "chat", provider, model)
                if first is not None:
                    name = "gen_ai_client_operation_time_to_first_chunk_seconds"
                    self._observe(name, first / 1000, "chat", provider, model)
            case CallBilled() as billed:
                self._bill(billed)
            case ToolEnded(tool_name=tool, is_error=is_error, exists=exists):
                # A name that the model made up is no label: anybody who talks to it could make any number of series.
                self._count("tieline_tool_calls", tool if exists else "unknown", "error" if is_error else "success")
            case ContextBuilt(token_estimate=tokens):
                self.newest["tieline_context_tokens"] = tokens
            case ProviderSwitched(context_max_tokens=most):
                self.newest["tieline_context_max_tokens"] = most
            case RetryScheduled(provider=provider):
                self._count("tieline_llm_retries", provider)
            case ProviderFailedOver(provider=provider, instead_of=chosen):
                self._count("tieline_failovers", chosen, provider)
            case CacheBreakDetected(causes=causes):
                for cause in causes or ("unknown",):
                    self._count("tieline_cache_breaks", cause)
            case OutputSlotEscalated(provider=provider):
                self._count("tieline_escalated_answers", provider)
            case CompactComplete() as compaction:
                self._compacted(compaction)
            case ToolOutputsPruned(pruned=pruned):
                self._count("tieline_tool_outputs_pruned", by=pruned)
            case LookedUpAgain():
                self._count("tieline_looked_up_again")
            case SummaryProbed(asked=asked, answered=answered, put_back=put_back):
                self._count("tieline_summary_questions", by=asked)
                self._count("tieline_summary_questions_answered", by=answered)
                self._count("tieline_summary_facts_put_back", by=put_back)
            case AutoCompactCircuitBreakerTripped():
                self._count("tieline_compaction_breaker_trips")
            case ContextDegraded():
                self._count("tieline_degraded_contexts")
            case SkillPicked():
                self._count("tieline_skill_hints")
            case SkillDrafted():
                self._count("tieline_skill_drafts")
            case LearningFailed():
                self._count("tieline_learning_failures")
            case _:
                pass

    def fired(self, outcome: str, after_s: float) -> None:
        """A schedule's moment has come; `after_s` seconds ago."""
        self._count("tieline_schedules", outcome)
        if outcome == "fired":
            self._observe("tieline_schedule_lateness_seconds", max(0.0, after_s))

    def swept(self, evicted: int) -> None:
        """A sweep of the memory took so many things."""
        self._count("tieline_memory_evicted", by=evicted)

    def dropped(self, signal: str, number: int) -> None:
        """So many spans ("traces") or points ("metrics") did not reach a collector, and are lost."""
        self._count("tieline_otel_dropped", signal, by=number)

    def listener_failed(self, error: Exception, event: object) -> None:
        """The `on_error` of the bus, together with a log line."""
        self._count("tieline_event_listener_failures")

    def _count(self, name: str, *labels: str, by: float = 1) -> None:
        series = self.counts[name]
        series[labels] = series.get(labels, 0) + by

    def _observe(self, name: str, value: float, *labels: str) -> None:
        series = self.histograms[name]
        histogram = series.get(labels)
        if histogram is None:
            histogram = series[labels] = Histogram(HISTOGRAMS[name].bounds)
        histogram.observe(value)

    def _turn_ended(self, conversation: ConversationId, outcome: str) -> None:
        self._count(TURNS_ENDED, outcome)
        turns = self._since_hard.get(conversation)
        if turns is not None:
            self._since_hard[conversation] = turns + 1
            self._since_hard.move_to_end(conversation)

    def _compacted(self, compaction: CompactComplete) -> None:
        before, after = compaction.tokens_before, compaction.tokens_after
        self._count("tieline_compactions")
        if compaction.stage == "hard":
            self._count("tieline_hard_compactions")
            turns = self._since_hard.get(compaction.conversation)
            if turns is not None:
                self._observe("tieline_turns_after_hard_compaction", turns)
            self._since_hard[compaction.conversation] = 0
        if after < before:
            self._count("tieline_compaction_tokens_saved", by=before - after)
            self.newest["tieline_compaction_last_before_tokens"] = before
            self.newest["tieline_compaction_last_after_tokens"] = after
            self.newest["tieline_compaction_last_timestamp_ms"] = compaction.at_ms

    def _bill(self, billed: CallBilled) -> None:
        """Money in the ledger. The operation is "chat" in the conventions' words; other calls have their own."""
        operation = operation_of(billed.purpose)
        model = (operation, billed.provider, billed.model)
        self._count(TOKENS, *model, "input", by=billed.prompt)
        self._count(TOKENS, *model, "output", by=billed.output)
        self._count(TOKENS, *model, "cache_creation", by=billed.cache_creation)
        self._count(TOKENS, *model, "cache_read", by=billed.cache_read)
        self._count(COST, *model, billed.purpose, by=billed.cost_usd or 0.0)
        self._count(UNPRICED, *model, by=billed.cost_usd is None)
        self._count("tieline_estimated_calls", *model, by=billed.estimated)


# Readings of this moment, which a scrape asks of the gateway. Pure data.


@dataclass(frozen=True, slots=True, kw_only=True)
class Gauges:
    """`queue_depth` counts inbox rows that are new, `outbox_open` rows not yet sent, `outbox_dead` dead letters.

    `adapters` says per channel type whether the account hears, `providers` by name whether the model answers as far as
    is known, `budgets` by scope and span how full the fullest one is. None of a size: it cannot be read.
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
    providers: Mapping[str, bool] = field(default_factory=dict)
    queue_oldest_s: float = 0.0
    disk_free_bytes: int | None = None
    database_bytes: int | None = None
    backup_at: float = 0.0  # of the newest backup, in POSIX seconds


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
