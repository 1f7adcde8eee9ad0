"""What became of the window: facts for the bus (SPEC §8)."""

from dataclasses import dataclass
from typing import ClassVar

from agent.core.events import Event


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
    """A mechanical digest took the place of the oldest part (SPEC §8.5)."""

    name: ClassVar[str] = "mid_compact_layer1_ran"
    messages: int
    reclaimed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MidCompactLayer2Ran(Event):
    """The session's own summary did (SPEC §8.5)."""

    name: ClassVar[str] = "mid_compact_layer2_ran"
    messages: int
    reclaimed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimatorCalibrated(Event):
    """By what the model reported, a counted token is `scale` of its own now (SPEC §6.9): the mean of `samples` calls.

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
    """By a turn that begins, or by a tool; no event holds what was looked for."""

    name: ClassVar[str] = "memory:search"
    strategy: str
    results: int


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
    """Compacting gains nothing any more (SPEC §8.7)."""

    name: ClassVar[str] = "compact_exhausted"
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoCompactCircuitBreakerTripped(Event):
    """Summaries failed this often in a row; digests without a model take their place for a while (R-43)."""

    name: ClassVar[str] = "auto_compact_circuit_breaker_tripped"
    failures: int
