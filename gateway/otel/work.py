"""Deliveries, and the contexts of their turns as the database knows them: after a restart, or in another process."""

from dataclasses import dataclass

from sqlalchemy import Connection, and_, bindparam, select

from agent.core.ids import RunId
from agent.storage.payloads import decode_incoming
from agent.storage.statements import CompiledStatement
from agent.storage.tables import inbox, turn
from agent.storage.watch_tables import turn_trace
from gateway.otel.context import TurnContext
from gateway.traces.trace import is_sampled


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """A message that was sent or given up, from its commit on. Moments in UTC microseconds.

    `row` is its number in the outbox, `attempt` how often it was taken for sending.
    """

    inbox_id: int
    row: int
    conversation: str
    platform: str
    kind: str
    begun_at: int
    ended_at: int
    attempt: int
    sent: bool


_OF_WORK = CompiledStatement(
    select(turn.c.run_id, inbox.c.attempts, inbox.c.payload, turn_trace.c.id.label("kept"))
    .join_from(turn, inbox, inbox.c.id == turn.c.inbox_id)
    .join(
        turn_trace,
        and_(turn_trace.c.run_id == turn.c.run_id, turn_trace.c.attempt == inbox.c.attempts),
        isouter=True,
    )
    .where(turn.c.inbox_id == bindparam("work"))
)


def context_of_work(conn: Connection, inbox_id: int) -> TurnContext | None:
    """The context of the newest attempt at the turn for that work; None where there was none, or its words are gone.

    What is done for the turn elsewhere, or later, is a part of its trace by this.
    """
    found = _OF_WORK.rows(conn, {"work": inbox_id})
    return _context(found[0]) if found else None


def kept_context(conn: Connection, inbox_id: int, sample: float) -> TurnContext | None:
    """The same, where the turn leaves a trace: its row is there, or it is one of the share (0..1)."""
    found = _OF_WORK.rows(conn, {"work": inbox_id})
    if not found or (found[0].kept is None and not is_sampled(RunId(found[0].run_id), sample)):
        return None
    return _context(found[0])


def _context(row: object) -> TurnContext | None:
    try:
        traceparent = decode_incoming(row.payload).traceparent  # type: ignore[attr-defined]
    except ValueError:  # it cannot be read any more, or was emptied
        traceparent = ""
    return TurnContext(RunId(row.run_id), row.attempts, traceparent)  # type: ignore[attr-defined]
