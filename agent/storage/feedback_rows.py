"""Rows of feedback on answers: one for each answer and person; the newest word counts.

Plain functions over a `Connection`.
"""

from dataclasses import dataclass

from sqlalchemy import Connection, bindparam, func, insert, select

from agent.core.ids import ConversationId, PersonId, SessionId
from agent.storage.statements import or_update
from agent.storage.tables import feedback, message

LONGEST_TEXT = 1_000  # characters of a remark


@dataclass(frozen=True, slots=True, kw_only=True)
class Feedback:
    """`inbox_id` is the run whose answer is meant; `at` in UTC microseconds."""

    conversation: ConversationId
    session: SessionId
    inbox_id: int
    person: PersonId
    up: bool
    text: str
    at: int


_PUT = or_update(insert(feedback), key=("inbox_id", "person"), columns=("up", "text", "created_at"))
_ANSWERED = (
    select(message.c.inbox_id)
    .where(
        message.c.session_id == bindparam("session"),
        message.c.role == "assistant",
        message.c.user_visible,
        message.c.inbox_id.is_not(None),
    )
    .order_by(message.c.id.desc())
    .limit(1)
)
_NEWEST = select(feedback).order_by(feedback.c.created_at.desc(), feedback.c.id.desc()).limit(bindparam("most"))


def last_answer(conn: Connection, session: SessionId) -> int | None:
    """The run that gave the newest answer which people of the session can still see; None: there is none."""
    found: int | None = conn.execute(_ANSWERED, {"session": session}).scalar_one_or_none()
    return found


def put(conn: Connection, one: Feedback) -> None:
    """Keep it; what the person said of the same answer before is replaced."""
    values = {
        "conv": one.conversation,
        "session_id": one.session,
        "inbox_id": one.inbox_id,
        "person": one.person,
        "up": one.up,
        "text": one.text,
        "created_at": one.at,
    }
    conn.execute(_PUT, values)


def newest(
    conn: Connection, *, since: int = 0, conversation: ConversationId | None = None, most: int = 100
) -> tuple[Feedback, ...]:
    """The newest first, of one conversation or of all, from `since` (UTC microseconds) on."""
    statement = _NEWEST.where(feedback.c.created_at >= since)
    if conversation is not None:
        statement = statement.where(feedback.c.conv == conversation)
    return tuple(
        Feedback(
            conversation=ConversationId(row.conv),
            session=SessionId(row.session_id),
            inbox_id=row.inbox_id,
            person=PersonId(row.person),
            up=bool(row.up),
            text=row.text,
            at=row.created_at,
        )
        for row in conn.execute(statement, {"most": most})
    )


def counts(conn: Connection, conversation: ConversationId) -> tuple[int, int]:
    """How many answers of the conversation were praised, and how many were not."""
    of_each = select(feedback.c.up, func.count()).where(feedback.c.conv == conversation).group_by(feedback.c.up)
    found = {bool(up): int(count) for up, count in conn.execute(of_each)}
    return found.get(True, 0), found.get(False, 0)
