"""What the models cost and who answers: facts for the bus."""

from dataclasses import dataclass
from typing import ClassVar

from agent.core.events import Event


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
    prefix: str = ""  # a hash of what the request began with; it changes for named reasons only (`agent.turn.prefix`)


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
    """One attempt at a call of a model was entered in the ledger (SPEC §6.3). `cost_usd` None: its price is unknown."""

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
