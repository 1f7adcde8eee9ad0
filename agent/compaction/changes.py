"""What a stage may do to a window: four kinds of change, as values. No I/O.

Positions count from 0 and are those of the window before the change; the system prompt is no part of it, so what the
SPEC calls index i is position i - 1 here. Every change keeps tool calls and their results together.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, assert_never

from agent.core.messages import Message


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleared:
    """The result of one call gives way to `text`; the transcript keeps it."""

    position: int
    call: str  # the tool_use_id
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Stubbed:
    """What a call was given gives way to `arguments`, which are shorter; the transcript keeps it."""

    position: int
    call: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Clearing:
    """Results are cleared and arguments stubbed where they stand: no position moves."""

    results: tuple[Cleared, ...] = ()
    calls: tuple[Stubbed, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedSummary:
    """A call and its results (`response` is `request` + 1) give way to one message at `request`."""

    request: int
    response: int
    summary: Message


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedSummaries:
    """Pairs are folded, in ascending order: a position behind k of them moves down by k."""

    pairs: tuple[AppliedSummary, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Drain:
    """[start, end) gives way to the summary (if there is one), then its pinned, then its active messages.

    With s = 1 for a summary and 0 for none, P pinned and A active: the summary stands at `start`, the k-th pinned at
    start + s + k, the k-th active at start + s + P + k, and i >= end becomes i - end + start + s + P + A.
    `pinned` and `active` are ascending positions inside the span and share none.
    """

    start: int
    end: int
    summary: Message | None
    pinned: tuple[int, ...] = ()
    active: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """A message of the gateway (a knowledge block, say) gives way to a newer one in its place: no position moves."""

    position: int
    message: Message


Change = Clearing | AppliedSummaries | Drain | Replacement


def moved(border: int, change: Change) -> int | None:
    """Where the border before position `border` is after the change; None when the change took in both of its sides."""
    match change:
        case Clearing() | Replacement():
            return border
        case AppliedSummaries():
            return border - sum(pair.response < border for pair in change.pairs)
        case Drain():
            if border <= change.start:
                return border
            if border < change.end:
                return None
            kept = (change.summary is not None) + len(change.pinned) + len(change.active)
            return border - change.end + change.start + kept
        case _:
            assert_never(change)


def moved_out(border: int, change: Change) -> int:
    """Like `moved`; a border inside of what was drained moves behind what took its place."""
    new = moved(border, change)
    if new is not None:
        return new
    assert isinstance(change, Drain)
    return change.start + (change.summary is not None) + len(change.pinned) + len(change.active)
