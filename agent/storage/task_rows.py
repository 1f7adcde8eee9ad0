"""Rows of the task lists: plain functions over a `Connection`. Each knows one session only."""

from typing import Any, cast

from sqlalchemy import Connection, Row, bindparam, func, insert, select, update

from agent.core.ids import ConversationId, SessionId
from agent.core.tools import Task, TaskStatus
from agent.storage.statements import or_ignore
from agent.storage.tables import task


def add(
    conn: Connection,
    session: SessionId,
    conversation: ConversationId,
    *,
    dedup: str,
    description: str,
    status: TaskStatus,
    at: int,
) -> Task:
    """The new task, or the one that the same `dedup` has added before."""
    values = {"session_id": session, "conv": conversation, "dedup": dedup, "description": description}
    conn.execute(or_ignore(insert(task)), {**values, "status": status, "created_at": at, "updated_at": at})
    return _read(conn.execute(select(task).where(task.c.dedup == dedup)).one())


def change(
    conn: Connection, session: SessionId, id: int, *, status: TaskStatus | None, output: str | None, at: int
) -> Task | None:
    """The changed task; None: the session has none of that number."""
    given = {"status": status, "output": output}
    values = {key: value for key, value in given.items() if value is not None} | {"updated_at": at}
    conn.execute(update(task).where(task.c.id == id, task.c.session_id == session).values(values))
    return find(conn, session, id)


def find(conn: Connection, session: SessionId, id: int) -> Task | None:
    row = conn.execute(select(task).where(task.c.id == id, task.c.session_id == session)).one_or_none()
    return _read(row) if row is not None else None


def all_of(conn: Connection, session: SessionId) -> tuple[Task, ...]:
    """The oldest first."""
    return tuple(map(_read, conn.execute(select(task).where(task.c.session_id == session).order_by(task.c.id))))


def count(conn: Connection, session: SessionId) -> int:
    found: int = conn.execute(select(func.count()).where(task.c.session_id == session)).scalar_one()
    return found


def hand_on(conn: Connection, session: SessionId, conversation: ConversationId) -> None:
    """Let the conversation's next session have what is still to be done; what is done stays with this one."""
    open_ones = (task.c.session_id == session, task.c.status.in_(("pending", "in_progress")))
    conn.execute(update(task).where(*open_ones).values(session_id=_waiting(conversation)))


def handed_on(conn: Connection, conversation: ConversationId) -> tuple[Task, ...]:
    """Tasks that wait for the conversation's next session."""
    return all_of(conn, SessionId(_waiting(conversation)))


def take_over(conn: Connection, session: SessionId, conversation: ConversationId) -> None:
    """A session begins: what the one before has handed on is its own."""
    conn.execute(_TAKE_OVER, {"waits": _waiting(conversation), "taker": session})


def _waiting(conversation: ConversationId) -> str:
    """The stand-in for a session's id while no session has begun; no id looks like that."""
    return f"next:{conversation}"


_TAKE_OVER = update(task).where(task.c.session_id == bindparam("waits")).values(session_id=bindparam("taker"))


def _read(row: Row[Any]) -> Task:
    return Task(id=row.id, description=row.description, status=cast(TaskStatus, row.status), output=row.output)
