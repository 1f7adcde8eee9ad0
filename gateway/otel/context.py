"""Trace contexts: ids that follow from the run, so that any process finds them again, and W3C's header. Pure.

A trace is the run's, and each attempt at a turn is a run of its own; in the trace of a caller all of them stand. A
span's id follows from the run, the attempt and its place. Nothing needs to be stored for that but the caller's own
context, which stands with the message in the inbox.
"""

import re
from dataclasses import dataclass
from hashlib import blake2b

from agent.core.ids import RunId

_HEADER = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-[!-~]{0,200})?")


@dataclass(frozen=True, slots=True)
class Caller:
    """The span of another program that a turn is a part of."""

    trace_id: bytes
    span_id: bytes


def caller_of(header: str) -> Caller | None:
    """The caller that a `traceparent` names; None for one that is not valid, which is passed over.

    https://www.w3.org/TR/trace-context/#traceparent-header: later versions may have more behind the four fields.
    """
    found = _HEADER.fullmatch(header.strip())
    if found is None or found[1] == "ff" or (found[1] == "00" and found[5]):
        return None
    trace_id, span_id = bytes.fromhex(found[2]), bytes.fromhex(found[3])
    return Caller(trace_id, span_id) if any(trace_id) and any(span_id) else None


def accepted(header: str) -> str:
    """The header as it is kept with a message: the four fields that are known, "" for one that is not valid."""
    return header.strip()[:55] if caller_of(header) is not None else ""


@dataclass(frozen=True, slots=True)
class TurnContext:
    """The context of one attempt at a turn: of its own spans, and of what happens for it later and elsewhere."""

    run: RunId
    attempt: int
    traceparent: str = ""  # of the caller, "" for none

    @property
    def trace_id(self) -> bytes:
        caller = caller_of(self.traceparent)
        return caller.trace_id if caller is not None else _id(16, self.run)

    @property
    def parent_id(self) -> bytes:
        """Of the turn's own span; empty where nobody called."""
        caller = caller_of(self.traceparent)
        return caller.span_id if caller is not None else b""

    @property
    def turn_id(self) -> bytes:
        """The id of the turn's own span."""
        return self.part_id("turn")

    def part_id(self, place: object) -> bytes:
        """The id of the part at that place among the turn's."""
        return _id(8, self.run, self.attempt, place)

    def delivery_id(self, row: int) -> bytes:
        """The id of the delivery of that row of the outbox, whatever process makes it."""
        return self.part_id(f"outbox {row}")


def _id(size: int, *of: object) -> bytes:
    return blake2b("\0".join(map(str, of)).encode(), digest_size=size, person=b"tieline otel").digest()
