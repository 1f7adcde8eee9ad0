"""The record of tool calls: one row each, added in the transaction that stores the call's result, never changed.

Who writes takes secrets out first. Old rows go with `[retention] audit_days`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import Connection, Row, bindparam, func, insert, or_, select

from agent.core.ids import ConversationId, SessionId
from agent.storage.statements import or_ignore
from agent.storage.tables import tool_call

Verdict = Literal["ran", "failed", "denied", "refused", "stopped", "interrupted"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One call and what became of it. `refused`: it was never a call (no such tool, wrong arguments, out of scope).

    `result` is its beginning, as the tool gave it; `at` in UTC microseconds. `original_tokens` and `shortened_tokens`
    where a model shortened it, so that the conversation has other words than stand here (Z-144).
    """

    conversation: ConversationId
    session: SessionId | None  # None: written before this was kept (Z-110)
    inbox_id: int
    run: str
    call: str
    tool: str
    arguments: str
    verdict: Verdict
    approval: str | None
    person: str | None
    result: str
    elapsed_ms: int
    at: int
    original_tokens: int | None = None
    shortened_tokens: int | None = None


_ADD = or_ignore(insert(tool_call))
_RECENT = (
    select(tool_call.c.tool, func.max(tool_call.c.id).label("last"), func.count().label("uses"))
    .where(tool_call.c.conv == bindparam("conversation"), tool_call.c.verdict.in_(("ran", "failed")))
    .group_by(tool_call.c.tool)
    .order_by(func.max(tool_call.c.id).desc())
    .limit(bindparam("most"))
)
_LIST = select(tool_call).order_by(tool_call.c.id.desc()).limit(bindparam("most"))


def add(conn: Connection, records: Sequence[Record]) -> None:
    """Write them down, one at least; a call that stands there already is left as it is."""
    conn.execute(_ADD, [_values(record) for record in records])


def recent_tools(conn: Connection, conversation: ConversationId, *, most: int = 50) -> Mapping[str, int]:
    """Tools that ran in the conversation, the last used first, and how often each (W-33)."""
    found = conn.execute(_RECENT, {"conversation": conversation, "most": most})
    return {row.tool: row.uses for row in found}


def newest(conn: Connection, *, conversation: ConversationId | None = None, most: int = 100) -> tuple[Record, ...]:
    """The last calls, of one conversation or of all, newest first."""
    statement = _LIST if conversation is None else _LIST.where(tool_call.c.conv == conversation)
    return tuple(map(_read, conn.execute(statement, {"most": most})))


def denied_within(conn: Connection, place: ConversationId, *, most: int) -> tuple[Record, ...]:
    """The last calls that were denied there, and in the topics and threads of the place, newest first."""
    prefix = f"{place}:"
    within = or_(tool_call.c.conv == place, func.substr(tool_call.c.conv, 1, len(prefix)) == prefix)
    found = conn.execute(_LIST.where(within, tool_call.c.verdict == "denied"), {"most": most})
    return tuple(map(_read, found))


def of_run(conn: Connection, conversation: ConversationId, inbox_id: int, *, most: int = 200) -> tuple[Record, ...]:
    """The newest calls of that piece of work, oldest first."""
    theirs = (tool_call.c.conv == conversation, tool_call.c.inbox_id == inbox_id)
    return tuple(map(_read, reversed(conn.execute(_LIST.where(*theirs), {"most": most}).all())))


def last_run(conn: Connection, conversation: ConversationId, tools: Sequence[str]) -> Record | None:
    """The last call of one of these tools that ran there."""
    ran = (tool_call.c.conv == conversation, tool_call.c.tool.in_(tools), tool_call.c.verdict == "ran")
    row = conn.execute(_LIST.where(*ran), {"most": 1}).one_or_none()
    return _read(row) if row is not None else None


def _read(row: Row[Any]) -> Record:
    return Record(
        conversation=ConversationId(row.conv),
        session=SessionId(row.session_id) if row.session_id is not None else None,
        inbox_id=row.inbox_id,
        run=row.run_id,
        call=row.call_id,
        tool=row.tool,
        arguments=row.arguments,
        verdict=row.verdict,
        approval=row.approval,
        person=row.person,
        result=row.result,
        elapsed_ms=row.elapsed_ms,
        at=row.created_at,
        original_tokens=row.original_tokens,
        shortened_tokens=row.shortened_tokens,
    )


def _values(record: Record) -> Mapping[str, object]:
    return {
        "conv": record.conversation,
        "session_id": record.session,
        "inbox_id": record.inbox_id,
        "run_id": record.run,
        "call_id": record.call,
        "tool": record.tool,
        "arguments": record.arguments,
        "verdict": record.verdict,
        "approval": record.approval,
        "person": record.person,
        "result": record.result,
        "elapsed_ms": record.elapsed_ms,
        "created_at": record.at,
        "original_tokens": record.original_tokens,
        "shortened_tokens": record.shortened_tokens,
    }
