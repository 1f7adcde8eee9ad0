"""Removes rows that nobody needs any more, some at a time so that no turn waits. Transcripts: `agent.memory.expiry`.

There is no index on `created_at`: it would cost every message something, for an hourly look. Ids grow with time, so
the place where a table becomes younger than a moment is found by halving, in about twenty steps.
"""

from sqlalchemy import Connection, and_, delete, select, true

from agent.plans.plan import OPEN
from agent.storage.statements import first_since
from agent.storage.tables import approval, inbox, outbox, plan, session, task, tool_call, turn
from gateway.storage import identities, pairings, rate_buckets, web_sign_ins
from gateway.storage.tables import alert, operator_action, schedule_run, setting_change

BATCH = 500


def prune(
    conn: Connection, *, inbox_before: int, outbox_before: int, runs_before: int, audit_before: int, now: int
) -> int:
    """Remove up to 500 ended rows of each kind that are older (UTC microseconds); returns how many went.

    `runs_before` is for the ledger of schedules, `audit_before` for tool calls, approvals, plans, changes of settings,
    the audit log of operators and the tasks of ended sessions. Alerts go with the outbox. Dead letters stay for as long
    as other ended rows; what is new or open stays.
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
        (setting_change, setting_change.c.at, true(), audit_before),
        (operator_action, operator_action.c.at, true(), audit_before),
        (alert, alert.c.created_at, alert.c.state != "open", outbox_before),
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
    identities.prune(conn, now)
    web_sign_ins.prune(conn, now)
    rate_buckets.prune(conn, now)
    return removed + pairings.prune(conn, now)
