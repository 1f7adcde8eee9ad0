"""Events: frozen facts with ids and numbers, and the bus that carries them.

`name` is the public one: Brain's names for the loop, Roku's in snake case beside them.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import ClassVar

from agent.core.ids import ConversationId, PersonId, RunId, SessionId


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One fact. `sequence` grows by one within a conversation's life in this process; the bus fills it."""

    name: ClassVar[str] = "event"
    conversation: ConversationId
    run: RunId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopStarted(Event):
    """`inbox_id` is the work, `attempt` counts the runs begun for it; it was stored `waited_ms` before.

    `agent` is the name of its definition, `traceparent` the caller's context (W3C), "" where nobody gave one.
    """

    name: ClassVar[str] = "loop:start"
    session: SessionId
    inbox_id: int = 0
    person: PersonId | None = None
    attempt: int = 1
    waited_ms: int = 0
    agent: str = ""
    traceparent: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextBuilt(Event):
    name: ClassVar[str] = "loop:context"
    token_estimate: int
    window: int  # tokens that the model holds


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecuteStarted(Event):
    name: ClassVar[str] = "loop:execute"
    tool_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolStarted(Event):
    """`runs` False: a person or a rule has kept it from running; its end follows at once."""

    name: ClassVar[str] = "tool:start"
    tool_name: str
    tool_call_id: str
    runs: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolEnded(Event):
    """`exists`: there is such a tool; else the name is the model's own. `result_chars`: the length of its result."""

    name: ClassVar[str] = "tool:end"
    tool_name: str
    tool_call_id: str
    elapsed_ms: int
    is_error: bool
    result_summary: str
    exists: bool = True
    result_chars: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolOutputCompressed(Event):
    """A model shortened a tool's output before it was stored; the raw one is in a file of that name (Z-144)."""

    name: ClassVar[str] = "tool_output_compressed"
    tool_name: str
    tool_call_id: str
    original_tokens: int
    compressed_tokens: int
    raw_output: str  # "" where it could not be kept


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamDelta(Event):
    name: ClassVar[str] = "stream:delta"
    content: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PersistStarted(Event):
    name: ClassVar[str] = "loop:persist"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopEnded(Event):
    """The three `_updated`: whether the transcript, the session and the memory have new content of the run (B-51).

    `verdict` is how it ended, `messages` are those that it has committed at its end.
    """

    name: ClassVar[str] = "loop:end"
    success: bool
    duration_ms: int
    transcript_updated: bool = False
    session_updated: bool = False
    memory_updated: bool = False
    verdict: str = "answered"
    messages: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopFailed(Event):
    """`verdict` and `messages` as those of LoopEnded; a verdict of "broken": nothing of its end was stored."""

    name: ClassVar[str] = "loop:error"
    error: str
    verdict: str = "failed"
    messages: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StepCompleted(Event):
    name: ClassVar[str] = "step_complete"
    step_index: int
    remaining_steps: int


@dataclass(frozen=True, slots=True)
class Published:
    """An event with its place in the order of its conversation."""

    sequence: int
    event: Event


Listener = Callable[[Published], None]


class EventBus:
    """Carries events to listeners in order; a listener that raises is reported and never fails a turn (R-46).

    Listeners run at once and must only note or queue what they hear: the bus has no queue of its own that could fill.
    """

    def __init__(self, on_error: Callable[[Exception, Event], None]) -> None:
        self._listeners: list[tuple[Listener, frozenset[type[Event]] | None]] = []
        self._audiences: dict[type[Event], tuple[Listener, ...]] = {}
        self._sequences: dict[ConversationId, int] = {}
        self._on_error = on_error

    def listen(self, listener: Listener, only: Iterable[type[Event]] | None = None) -> Callable[[], None]:
        """Hear every event from now on, or every one of the kinds in `only`; call what is returned to stop."""
        entry = (listener, None if only is None else frozenset(only))
        self._listeners.append(entry)
        self._audiences.clear()

        def stop() -> None:
            if entry in self._listeners:
                self._listeners.remove(entry)
                self._audiences.clear()

        return stop

    def hears(self, kind: type[Event]) -> bool:
        """Whether anybody listens to such events: one that comes by the thousand and is not heard need not be made."""
        return bool(self._audience(kind))

    def publish(self, event: Event) -> None:
        sequence = self._sequences.get(event.conversation, 0) + 1
        self._sequences[event.conversation] = sequence
        audience = self._audience(type(event))
        if not audience:
            return
        published = Published(sequence, event)
        for listener in audience:
            try:
                listener(published)
            except Exception as error:  # noqa: BLE001 - the event seam
                self._on_error(error, event)

    def _audience(self, kind: type[Event]) -> tuple[Listener, ...]:
        found = self._audiences.get(kind)
        if found is None:
            found = tuple(listener for listener, only in self._listeners if only is None or kind in only)
            self._audiences[kind] = found
        return found

    def forget(self, conversation: ConversationId) -> None:
        """Its agent went to sleep: its numbering starts anew."""
        self._sequences.pop(conversation, None)


# Events of compaction.


@dataclass(frozen=True, slots=True, kw_only=True)
class MicrocompactRan(Event):
    """Old results were cleared; `freed` is in calibrated tokens."""

    name: ClassVar[str] = "microcompact_ran"
    cleared: int
    reclaimed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SummariesApplied(Event):
    """Deferred summaries took the places of their pairs (Z-28)."""

    name: ClassVar[str] = "deferred_summaries_applied"
    pairs: int
    reclaimed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolOutputsPruned(Event):
    name: ClassVar[str] = "tool_outputs_pruned"
    strategy: str
    pruned: int
    reclaimed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MidCompactLayer1Ran(Event):
    """A mechanical digest took the place of the oldest part."""

    name: ClassVar[str] = "mid_compact_layer1_ran"
    messages: int
    reclaimed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MidCompactLayer2Ran(Event):
    """The session's own summary did."""

    name: ClassVar[str] = "mid_compact_layer2_ran"
    messages: int
    reclaimed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimatorCalibrated(Event):
    """By what the model reported, a counted token is `scale` of its own now: the mean of `samples` calls.

    Published where that has changed by a hundredth or more.
    """

    name: ClassVar[str] = "estimator_calibrated"
    provider: str
    model: str
    scale: float
    samples: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryFlushed(Event):
    name: ClassVar[str] = "memory:flush"
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryRead(Event):
    """The notes stand in the turn's prompt; `size` in characters."""

    name: ClassVar[str] = "memory:read"
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryWritten(Event):
    """A tool of the memory has kept something; `delta` in characters, below 0 where notes became shorter."""

    name: ClassVar[str] = "memory:write"
    kind: str  # fact | notes
    delta: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySearched(Event):
    """By a turn that begins, or by a tool, whose call tells the time (0 here); no event holds what was looked for."""

    name: ClassVar[str] = "memory:search"
    strategy: str
    results: int
    elapsed_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryCompacted(Event):
    """Shorter notes took the place of longer ones; both in characters."""

    name: ClassVar[str] = "memory:compact"
    before: int
    after: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactTriggered(Event):
    """A stage that replaces messages by a summary is about to run; listeners cannot hold it up (W-26)."""

    name: ClassVar[str] = "compact_triggered"
    stage: str
    tokens_before: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReactiveCompactTriggered(Event):
    """The provider found the request too long (R-21)."""

    name: ClassVar[str] = "reactive_compact_triggered"
    tokens_before: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactComplete(Event):
    """`stage` is high, hard, digest or reactive; `mechanical`: no model wrote the summary. Scaled tokens."""

    name: ClassVar[str] = "compact_complete"
    stage: str
    messages: int
    tokens_before: int
    tokens_after: int
    mechanical: bool
    at_ms: int  # UTC


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryProbed(Event):
    """A summary was asked what its text can answer; `put_back` of what it did not know stands in it now.

    `stage` is mid (made ahead of time), high, hard or reactive.
    """

    name: ClassVar[str] = "summary_probed"
    stage: str
    asked: int
    answered: int
    put_back: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LookedUpAgain(Event):
    """A model looked up what had left its window `turns` turns before; later compactions keep more of that kind.

    `tool` names whose result it was, "" for words of the conversation. `again`: the same call was made again.
    """

    name: ClassVar[str] = "looked_up_again"
    tool: str
    again: bool
    turns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactExhausted(Event):
    """Compacting gains nothing any more."""

    name: ClassVar[str] = "compact_exhausted"
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoCompactCircuitBreakerTripped(Event):
    """Summaries failed this often in a row; digests without a model take their place for a while (R-43)."""

    name: ClassVar[str] = "auto_compact_circuit_breaker_tripped"
    failures: int


# Events of model calls: their cost, and the provider that answered.


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionCompleted(Event):
    name: ClassVar[str] = "llm_decision_complete"
    provider: str
    model: str
    stop_reason: str
    tool_calls: int
    elapsed_ms: int
    first_token_ms: int | None
    routing_hint: str = ""  # how heavy the request was, and why: `tier:reason` (W-38)
    prefix: str = ""  # a hash of what the request began with; it changes for named reasons only (`agent.run.prefix`)


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputSlotEscalated(Event):
    """An answer was cut at the usual length; it is asked for once more at the model's limit (R-22)."""

    name: ClassVar[str] = "output_slot_escalated"
    provider: str
    model: str
    max_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheBreakDetected(Event):
    """Much less was read from the provider's cache than in the call before (R-11). `causes`: what of ours changed."""

    name: ClassVar[str] = "cache_break_detected"
    causes: tuple[str, ...]
    tokens_before: int
    tokens_after: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TokensUsed(Event):
    """Totals of a run, by cache tier (R-15, R-47). The cost is None when a price is unknown."""

    name: ClassVar[str] = "token_usage"
    prompt: int
    output: int
    cache_creation: int
    cache_read: int
    estimated_cost_usd: float | None
    estimated: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CallBilled(Event):
    """One attempt at a call of a model was entered in the ledger, and has taken `elapsed_ms`.

    `cost_usd` None: its price is unknown.
    """

    name: ClassVar[str] = "llm_call_billed"
    purpose: str
    provider: str
    model: str
    prompt: int
    output: int
    cache_creation: int
    cache_read: int
    cost_usd: float | None
    estimated: bool
    elapsed_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CallFailed(Event):
    """One attempt at a call of a model failed, not by the request's own fault. `reason` is the name of the error."""

    name: ClassVar[str] = "llm_call_failed"
    provider: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetReached(Event):
    """A limit of `[spending]` came near, or (`hard`) a call was refused for it. USD and tokens, in that UTC period."""

    name: ClassVar[str] = "budget_reached"
    scope: str
    payer: str
    period: str
    hard: bool
    approvals: int
    usd: float | None
    tokens: int | None
    spent_usd: float
    spent_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryScheduled(Event):
    name: ClassVar[str] = "llm_retry"
    provider: str
    attempt: int
    after_s: float
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextDegraded(Event):
    """Context preparation took too long; the turn went on with what was cached (Z-24)."""

    name: ClassVar[str] = "context_degraded"
    after_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderSwitched(Event):
    name: ClassVar[str] = "provider_switched"
    provider: str
    model: str
    context_max_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderFailedOver(Event):
    """The chosen provider cannot answer, or has no budget left; another one does until it can."""

    name: ClassVar[str] = "provider_stood_in"
    provider: str
    model: str
    instead_of: str
    over_budget: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderReturned(Event):
    """The chosen provider answers again."""

    name: ClassVar[str] = "provider_returned"
    provider: str
    model: str


# Events of approvals and hooks.


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRequired(Event):
    """A person must allow a call. `correlation` names the question on its buttons; a model never sees it (W-49)."""

    name: ClassVar[str] = "approval_required"
    tool_name: str
    tool_call_id: str
    correlation: str
    reason: str
    expires_in_s: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspended(Event):
    """The run rests until a person answers; a restart does not end that (capability `hitl_suspend`)."""

    name: ClassVar[str] = "suspend"
    correlation: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalResumed(Event):
    """The run goes on: `status` is how the question ended."""

    name: ClassVar[str] = "approval_resume"
    correlation: str
    status: str
    waited_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PermissionDenied(Event):
    """A call was not run. `by` names what said no: policy, person, hook, scope or time."""

    name: ClassVar[str] = "permission_denied"
    tool_name: str
    tool_call_id: str
    by: str


# Events of goals.


@dataclass(frozen=True, slots=True, kw_only=True)
class GoalCompleted(Event):
    """The session's goal, or (`goal`) a kept one, is reached (Z-93)."""

    name: ClassVar[str] = "goal_completed"
    goal: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GoalMoved(Event):
    """Work by itself on a kept goal stands so now."""

    name: ClassVar[str] = "goal_moved"
    goal: int
    state: str
    turns: int


# Events of plans, for metrics and traces: ids and numbers only.


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanMoved(Event):
    """A stretch of work on a plan is over: it stands so now, with so many of its tasks completed."""

    name: ClassVar[str] = "plan_moved"
    plan: int
    status: str
    completed: int
    tasks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowOffered(Event):
    """A message sounded like work in many steps, so a plan is made of it; `confidence` is 0..1."""

    name: ClassVar[str] = "workflow_offered"
    run: RunId
    plan: int
    confidence: float


# Events of sub-agents, for dashboards and dumps. `run` is the run that they work for.


@dataclass(frozen=True, slots=True, kw_only=True)
class SubagentStarted(Event):
    """`request` is the id that its own calls go by, `agent` its definition ("": none)."""

    name: ClassVar[str] = "subagent_start"
    request: str
    agent: str
    steps: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SubagentEnded(Event):
    """`steps` are those it took; the others are given back."""

    name: ClassVar[str] = "subagent_end"
    request: str
    steps: int
    elapsed_ms: int
    is_error: bool


# Events of skills and of what is learnt about them.


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillsReloaded(Event):
    """Skills were changed; they count for this conversation from its next turn on (Z-08)."""

    name: ClassVar[str] = "skills_reloaded"
    usable: int
    waiting: int  # for somebody's approval


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillPicked(Event):
    """A skill is hinted in this turn. `asked_for`: a person named it."""

    name: ClassVar[str] = "skill_picked"
    skill: str
    asked_for: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillDrafted(Event):
    """A draft of a skill waits for approval."""

    name: ClassVar[str] = "skill_drafted"
    skill: str
    evidence: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CorrectionHeard(Event):
    """A person's words sound as if the answer before was not what they wanted (Z-05)."""

    name: ClassVar[str] = "correction_heard"
    kind: str
    confidence: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LearningFailed(Event):
    """Something could not be learnt; the turn went on. `step`: priors, draft, outcomes or correction."""

    name: ClassVar[str] = "learning_failed"
    step: str
