"""The trace of one turn: its parts with begin, length and cost. Pure; names and numbers, never what was said."""

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import TypeAdapter

from agent.core.ids import ConversationId, PersonId, RunId
from gateway.traces.settings import TraceSettings

Kind = Literal[
    "queue", "context", "recall", "model", "retry", "tool", "approval", "compaction", "subagent", "commit", "delivery"
]

FAILED = frozenset({"failed", "broken"})  # outcomes that are kept always, and counted as failures
HASHES = 2**32
DENIED = "denied"  # the outcome of a tool call that was not run


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """One part of a turn. Milliseconds; `start_ms` counts from the turn's begin, and is below 0 for the queue.

    `name` is that of the tool, the provider, the stage of compaction, the strategy of recall or the agent's definition.
    Of a model call: `tokens_in` are all that it read, `tokens_cached` those of them that came from the provider's
    cache; `cost_usd` None: its price is unknown; `retries` came before it, `instead_of` is the provider in whose place
    it answered. `beside`: work beside the turn, such as a summary made ahead of time, which the sums leave out.
    `outcome` of a tool call that was not run is `DENIED`.
    `size` counts characters of a tool's result, things recalled, tokens that a compaction freed, or messages sent.
    """

    kind: Kind
    start_ms: int
    ms: int
    name: str = ""
    model: str = ""
    purpose: str = ""
    tokens_in: int = 0
    tokens_cached: int = 0
    tokens_out: int = 0
    cost_usd: float | None = None
    estimated: bool = False
    first_token_ms: int | None = None
    retries: int = 0
    instead_of: str = ""
    outcome: str = ""
    is_error: bool = False
    size: int = 0
    subagent: bool = False
    beside: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnTrace:
    """One attempt at a turn. Moments in UTC microseconds.

    `attempt` above 1: the run was taken up again after a crash or a shutdown; an attempt that a crash cut off has left
    no trace. `elapsed_ms` is from its begin to its end, without the queue and the delivery. `first_token_ms` is when
    the first piece of a model's answer came. `delivered_ms`: from the commit until the last message was sent, None if
    that was not known when the trace was written. `cost_usd` None: the price of one of its calls is unknown.
    """

    run: RunId
    attempt: int
    conversation: ConversationId
    inbox_id: int
    person: PersonId | None
    started_at: int
    ended_at: int
    outcome: str
    waited_ms: int
    elapsed_ms: int
    first_token_ms: int | None
    delivered_ms: int | None
    model_calls: int
    tool_calls: int
    tokens_in: int
    tokens_cached: int
    tokens_out: int
    cost_usd: float | None
    unpriced: int
    spans: tuple[Span, ...]
    provider: str | None = None
    id: int = 0  # of its row, by which pages are turned; 0: not read from the database

    @property
    def asked_ms(self) -> int:
        """How much of `elapsed_ms` it waited for a person's word; questions that waited together count once."""
        waits = sorted((span.start_ms, span.start_ms + span.ms) for span in self.spans if span.kind == "approval")
        waited = reached = 0
        for start, end in waits:
            waited += max(0, end - max(start, reached))
            reached = max(reached, end)
        return min(waited, self.elapsed_ms)

    @property
    def worked_ms(self) -> int:
        """The length of the turn without the time that a person took to decide."""
        return self.elapsed_ms - self.asked_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedTurn:
    """An attempt at a turn that has ended and leaves a trace, before its messages are sent, for who sends it elsewhere.

    Its `spans` stand beside the trace, which has none yet. `runs` tells the run of each span: the turn's own, or that
    of a sub-agent, which `made` names by the place of its span. `contents` are texts by the place of their span.
    `forgotten` is what had been forgotten at its begin.
    """

    trace: TurnTrace
    spans: tuple[Span, ...]
    agent: str
    traceparent: str
    forgotten: int
    runs: tuple[RunId, ...]
    made: Mapping[int, RunId]
    contents: Mapping[int, object]


_SPANS: TypeAdapter[tuple[Span, ...]] = TypeAdapter(tuple[Span, ...])


def encode(spans: Sequence[Span]) -> str:
    """The spans as JSON, without what is as usual."""
    return _SPANS.dump_json(tuple(spans), exclude_defaults=True).decode()


def decode(text: str) -> tuple[Span, ...]:
    """The spans of such a text. Raises ValidationError."""
    return _SPANS.validate_json(text)


def is_sampled(run: RunId, share: float) -> bool:
    """Whether that run is one of the share (0..1): the same for each attempt at it, and in each process."""
    return zlib.crc32(run.encode()) < share * HASHES


def keeps(settings: TraceSettings, run: RunId, *, outcome: str, took_ms: int) -> bool:
    """Whether the trace of a turn is kept; `took_ms` has its time in the queue in it."""
    if outcome in FAILED or took_ms > settings.always_slower_s * 1000:
        return True
    return is_sampled(run, settings.sample)
