"""What calls of models used and cost, one row a call (SPEC §6.3). Sums are asked of the database."""

from typing import Any

from sqlalchemy import Connection, bindparam, case, func, insert, select

from agent.core.ids import ConversationId, PersonId, SessionId
from agent.sessions.records import CallUsage, UsageTotals
from agent.storage.hot import Hot
from agent.storage.tables import usage

_ADD = Hot(insert(usage))
_TOTALS = select(
    func.count(),
    func.coalesce(func.sum(usage.c.prompt), 0),
    func.coalesce(func.sum(usage.c.output), 0),
    func.coalesce(func.sum(usage.c.cache_creation), 0),
    func.coalesce(func.sum(usage.c.cache_read), 0),
    func.coalesce(func.sum(usage.c.cost_usd), 0.0),
    func.coalesce(func.sum(case((usage.c.cost_usd.is_(None), 1), else_=0)), 0),
    func.coalesce(func.sum(case((usage.c.estimated, 1), else_=0)), 0),
)
_OF_CONVERSATION = usage.c.conv == bindparam("conversation")
_SINCE = _TOTALS.where(_OF_CONVERSATION, usage.c.created_at >= bindparam("since"))
_OF_SESSION = _TOTALS.where(_OF_CONVERSATION, usage.c.session_id == bindparam("session"))


def add(
    conn: Connection,
    call: CallUsage,
    *,
    conversation: ConversationId,
    session: SessionId,
    inbox_id: int | None,
    person: PersonId | None,
    at: int,
) -> None:
    """Note one call; `inbox_id` None: it belongs to no turn."""
    values = {
        "conv": conversation,
        "session_id": session,
        "inbox_id": inbox_id,
        "person": person,
        "purpose": call.purpose,
        "provider": call.provider,
        "model": call.model,
        "prompt": call.prompt,
        "output": call.output,
        "cache_creation": call.cache_creation,
        "cache_read": call.cache_read,
        "cost_usd": call.cost_usd,
        "estimated": call.estimated,
        "created_at": at,
    }
    _ADD.run(conn, values)


def totals_since(conn: Connection, conversation: ConversationId, since: int) -> UsageTotals:
    """The conversation's calls from `since` (UTC microseconds) on; 0: all."""
    return _totals(conn.execute(_SINCE, {"conversation": conversation, "since": since}).one())


def totals_of_session(conn: Connection, conversation: ConversationId, session: SessionId) -> UsageTotals:
    return _totals(conn.execute(_OF_SESSION, {"conversation": conversation, "session": session}).one())


def _totals(row: Any) -> UsageTotals:
    calls, prompt, output, creation, read, cost, unpriced, estimated = row
    return UsageTotals(
        calls=calls,
        prompt=int(prompt),
        output=int(output),
        cache_creation=int(creation),
        cache_read=int(read),
        cost_usd=float(cost),
        unpriced=int(unpriced),
        estimated=int(estimated),
    )
