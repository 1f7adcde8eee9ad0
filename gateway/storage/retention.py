"""Removes rows that nobody needs any more, some at a time so that no turn waits. Transcripts are never touched.

There is no index on `created_at`: it would cost every message something, for an hourly look. Ids grow with time, so
the place where a table becomes younger than a moment is found by halving, in about twenty steps.
"""

from sqlalchemy import Column, Connection, and_, bindparam, delete, func, select, true

from agent.plans.plan import OPEN
from agent.storage.tables import approval, inbox, outbox, plan, session, task, tool_call, turn
from gateway.storage import pairings
from gateway.storage.tables import schedule_run

BATCH = 500


def prune(
    conn: Connection, *, inbox_before: int, outbox_before: int, runs_before: int, audit_before: int, now: int
) -> int:
    """Remove up to 500 ended rows of each kind that are older (UTC microseconds); returns how many went.

    `runs_before` is for the ledger of schedules, `audit_before` for tool calls, approvals, plans and the tasks of ended
    sessions. Dead letters stay for as long as other ended rows; what is new or open is never removed.
    """
    removed = 0
    over = and_(plan.c.status.not_in(OPEN), plan.c.screen.is_distinct_from("open"), plan.c.updated_at < audit_before)
    past = task.c.session_id.in_(select(session.c.id).where(session.c.state != "active"))
    for table, moment, ended, before in (
        (inbox, inbox.c.created_at, inbox.c.status != "new", inbox_before),
        (outbox, outbox.c.created_at, outbox.c.status.in_(("sent", "dead", "dropped")), outbox_before),
        (turn, turn.c.created_at, turn.c.state != "running", inbox_before),
        (tool_call, tool_call.c.created_at, true(), audit_before),
        (plan, plan.c.created_at, over, audit_before),
        (task, task.c.created_at, and_(past, task.c.updated_at < audit_before), audit_before),
        (schedule_run, schedule_run.c.at, schedule_run.c.ended_at.is_not(None), runs_before),
    ):
        old = (
            select(table.c.id)
            .where(table.c.id < first_since(conn, table.c.id, moment, before), ended, moment < before)
            .limit(BATCH)
            .subquery()
        )
        removed += conn.execute(delete(table).where(table.c.id.in_(select(old.c.id)))).rowcount
    decided = and_(approval.c.created_at < audit_before, approval.c.status != "pending", approval.c.screen == "settled")
    removed += conn.execute(delete(approval).where(decided)).rowcount
    return removed + pairings.prune(conn, now)


def first_since(conn: Connection, id: Column[int], at: Column[int], moment: int) -> int:
    """The id from which on rows are no older than `moment`; one more than the last where all are.

    A clock that was set back makes it err by the rows written meanwhile: then some go later.
    """
    # One by one: SQLite looks both up in the key, but reads the whole table for the two together.
    lowest = conn.execute(select(func.min(id))).scalar_one()
    highest = conn.execute(select(func.max(id))).scalar_one()
    if lowest is None:
        return 0
    at_or_after = select(id, at.label("at")).where(id >= bindparam("from_id")).order_by(id).limit(1)
    low, high = int(lowest), int(highest) + 1
    while low < high:
        middle = (low + high) // 2
        row = conn.execute(at_or_after, {"from_id": middle}).one()
        if row.at < moment:
            low = row.id + 1
        else:
            high = middle
    return low
