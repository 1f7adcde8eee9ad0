"""What happened, in numbers: listens to the event bus and counts. Never waits, never asks anybody.

The names that go to Prometheus are in `exposition`; here are plain values, for `/status` and the dashboard too.
"""

from bisect import bisect_left
from collections import Counter, OrderedDict
from dataclasses import dataclass, field

from agent.core.events import (
    AutoCompactCircuitBreakerTripped,
    CompactComplete,
    ContextBuilt,
    ContextDegraded,
    DecisionCompleted,
    LoopEnded,
    LoopFailed,
    ProviderSwitched,
    Published,
    RetryScheduled,
    TokensUsed,
    ToolEnded,
    ToolOutputsPruned,
)
from agent.core.ids import ConversationId

COUNTED = (
    AutoCompactCircuitBreakerTripped,
    CompactComplete,
    ContextBuilt,
    ContextDegraded,
    DecisionCompleted,
    LoopEnded,
    LoopFailed,
    ProviderSwitched,
    RetryScheduled,
    TokensUsed,
    ToolEnded,
    ToolOutputsPruned,
)
CONVERSATIONS_KEPT = 5_000  # least recently heard of goes; totals are not touched by that

# Buckets of OpenTelemetry's GenAI semantic conventions (gen-ai-metrics: operation duration, time to first token).
SECONDS = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)


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
    """One conversation, or everything together, since the process started. Tokens and money as the provider reported;
    `unpriced_runs` counts runs whose price is unknown, `estimated_runs` those whose tokens are guessed (DESIGN §13.10).
    """

    turns: int = 0
    failed_turns: int = 0
    tool_calls: int = 0
    tool_errors: int = 0
    llm_calls: int = 0
    retries: int = 0
    degraded_contexts: int = 0
    prompt_tokens: int = 0
    output_tokens: int = 0
    cache_creation_tokens: int = 0
    cache_read_tokens: int = 0
    cost_usd: float = 0.0
    unpriced_runs: int = 0
    estimated_runs: int = 0
    context_tokens: int = 0
    context_max_tokens: int = 0
    compactions: int = 0
    hard_compactions: int = 0
    compaction_tokens_saved: int = 0
    compaction_last_before: int = 0
    compaction_last_after: int = 0
    compaction_last_at_ms: int = 0  # 0: never (Z-72)
    pruned_outputs: int = 0
    breaker_trips: int = 0
    provider: str = ""
    model: str = ""
    last_turn_ms: int = 0


class Metrics:
    """Give `listen` to the bus for the kinds in COUNTED; read `totals`, `of(conversation)`, the histograms whenever."""

    def __init__(self) -> None:
        self.totals = MetricsSnapshot()
        self.turn_seconds: dict[str, Histogram] = {"success": Histogram(), "error": Histogram()}
        self.llm_seconds: dict[tuple[str, str], Histogram] = {}  # by provider and model
        self.first_token_seconds: dict[tuple[str, str], Histogram] = {}
        self.tools: Counter[tuple[str, str]] = Counter()  # by tool and outcome
        self.retries: Counter[str] = Counter()  # by provider
        self.lost_events = 0
        self._conversations: OrderedDict[ConversationId, MetricsSnapshot] = OrderedDict()

    def of(self, conversation: ConversationId) -> MetricsSnapshot:
        """A conversation's own numbers; zeros for one that was not heard of."""
        return self._conversations.get(conversation) or MetricsSnapshot()

    def listen(self, published: Published) -> None:
        """A listener for the event bus."""
        event = published.event
        for numbers in (self.totals, self._own(event.conversation)):
            _count(numbers, published)
        match event:
            case LoopEnded(success=success, duration_ms=duration_ms):
                self.turn_seconds["success" if success else "error"].observe(duration_ms / 1000)
            case DecisionCompleted(provider=provider, model=model, elapsed_ms=elapsed, first_token_ms=first):
                self.llm_seconds.setdefault((provider, model), Histogram()).observe(elapsed / 1000)
                if first is not None:
                    self.first_token_seconds.setdefault((provider, model), Histogram()).observe(first / 1000)
            case ToolEnded(tool_name=tool, is_error=is_error):
                self.tools[tool, "error" if is_error else "success"] += 1
            case RetryScheduled(provider=provider):
                self.retries[provider] += 1
            case _:
                pass

    def listener_failed(self, error: Exception, event: object) -> None:
        """What to give the bus as `on_error`, together with a log line."""
        self.lost_events += 1

    def _own(self, conversation: ConversationId) -> MetricsSnapshot:
        numbers = self._conversations.setdefault(conversation, MetricsSnapshot())
        self._conversations.move_to_end(conversation)
        if len(self._conversations) > CONVERSATIONS_KEPT:
            self._conversations.popitem(last=False)
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
        case CompactComplete(tokens_before=before, tokens_after=after, rung=rung, at_ms=at_ms):
            numbers.compactions += 1
            numbers.hard_compactions += rung == "hard"
            if after < before:
                numbers.compaction_tokens_saved += before - after
                numbers.compaction_last_before, numbers.compaction_last_after = before, after
                numbers.compaction_last_at_ms = at_ms
        case ToolOutputsPruned(pruned=pruned):
            numbers.pruned_outputs += pruned
        case AutoCompactCircuitBreakerTripped():
            numbers.breaker_trips += 1
        case ContextDegraded():
            numbers.degraded_contexts += 1
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
        case TokensUsed() as used:
            numbers.prompt_tokens += used.prompt
            numbers.output_tokens += used.output
            numbers.cache_creation_tokens += used.cache_creation
            numbers.cache_read_tokens += used.cache_read
            numbers.cost_usd += used.cost_usd or 0.0
            numbers.unpriced_runs += used.cost_usd is None
            numbers.estimated_runs += used.estimated
        case _:
            pass
