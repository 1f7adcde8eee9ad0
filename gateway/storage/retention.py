"""Removes rows that nobody needs any more, some at a time so that no turn waits. Transcripts are never touched."""

from sqlalchemy import Connection, delete, select

from agent.storage.tables import inbox, outbox, turn
from gateway.storage import pairings
from gateway.storage.tables import schedule_run

BATCH = 500


def prune(conn: Connection, *, inbox_before: int, outbox_before: int, runs_before: int, now: int) -> int:
    """Remove up to 500 ended rows of each kind that are older (UTC microseconds); returns how many went.

    `runs_before` is for the ledger of schedules. Dead letters stay for as long as other ended rows; what is new or open
    is never removed.
    """
    old_inbox = (
        select(inbox.c.id).where(inbox.c.status != "new", inbox.c.created_at < inbox_before).limit(BATCH).subquery()
    )
    old_outbox = (
        select(outbox.c.id)
        .where(outbox.c.status.in_(("sent", "dead")), outbox.c.created_at < outbox_before)
        .limit(BATCH)
        .subquery()
    )
    old_turns = (
        select(turn.c.id).where(turn.c.state != "running", turn.c.created_at < inbox_before).limit(BATCH).subquery()
    )
    old_runs = (
        select(schedule_run.c.id)
        .where(schedule_run.c.ended_at.is_not(None), schedule_run.c.at < runs_before)
        .limit(BATCH)
        .subquery()
    )
    removed = 0
    for table, old in ((inbox, old_inbox), (outbox, old_outbox), (turn, old_turns), (schedule_run, old_runs)):
        removed += conn.execute(delete(table).where(table.c.id.in_(select(old.c.id)))).rowcount
    return removed + pairings.prune(conn, now)
