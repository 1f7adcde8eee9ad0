"""Rows of goals: those of sessions, those that are kept, and their wake-ups. Nothing here decides.

Plain functions over a `Connection`. Whoever changes a goal has locked its conversation's row and read it in the same
transaction; `save` refuses what was read earlier.
"""

from collections.abc import Sequence
from typing import Any, cast

from pydantic import TypeAdapter
from sqlalchemy import Connection, bindparam, delete, func, insert, literal_column, select, update

from agent.core.errors import Transient
from agent.core.ids import ConversationId, PersonId, SessionId
from agent.goals.goal import IDLE, LIVE, Auto, Goal, Limits, Owner, Reason, SessionGoal, State, Status, Used
from agent.inbox import ChatType, Incoming, WakeUp, read_role, written_role
from agent.storage import inbox_rows
from agent.storage.payloads import encode_incoming
from agent.storage.statements import CompiledStatement, or_ignore, or_update
from agent.storage.tables import goal as goal_table
from agent.storage.tables import session_goal
from agent.storage.timestamps import from_timestamp, to_timestamp

MOST_LISTED = 50  # goals in one answer

_AUTO: TypeAdapter[Auto] = TypeAdapter(Auto)
_REASON: TypeAdapter[Reason] = TypeAdapter(Reason)

_OF_SESSION = select(session_goal.c.state, session_goal.c.text).where(session_goal.c.session_id == bindparam("session"))
_PUT = or_update(insert(session_goal), key=("session_id",), columns=("state", "text", "updated_at"))
_DROP = delete(session_goal).where(session_goal.c.session_id == bindparam("session"))

# Written out: behind a parameter a prepared plan of PostgreSQL could not use the partial index.
_IS_ACTIVE = goal_table.c.status == literal_column("'active'")
_CONV = goal_table.c.conv == bindparam("conversation")
_ADD = or_ignore(insert(goal_table)).returning(goal_table)
_BY_ORIGIN = select(goal_table).where(goal_table.c.origin == bindparam("name"))
_ACTIVE = select(goal_table).where(_CONV, _IS_ACTIVE)
_ACTIVE_ID = CompiledStatement(select(goal_table.c.id).where(_CONV, _IS_ACTIVE))
_ONE = select(goal_table).where(goal_table.c.id == bindparam("row"))
_LIST = select(goal_table).where(_CONV).order_by(goal_table.c.id.desc()).limit(MOST_LISTED)
_LIVE = goal_table.c.auto_state.in_(sorted(LIVE))
_RUNNING = select(goal_table).where(_IS_ACTIVE, _LIVE).order_by(goal_table.c.id)
_COUNT_RUNNING = select(func.count()).select_from(goal_table).where(_IS_ACTIVE, _LIVE)
_AUTONOMOUS = (
    select(goal_table)
    .where(goal_table.c.auto_state.is_not(None))
    .order_by((goal_table.c.status != literal_column("'active'")), goal_table.c.updated_at.desc())
)
_FLEET = _AUTONOMOUS.limit(MOST_LISTED)
_PAGE = (
    select(goal_table)
    .order_by((goal_table.c.status != literal_column("'active'")), goal_table.c.id.desc())
    .limit(bindparam("most"))
    .offset(bindparam("skip"))
)
_FLEET_OF = _FLEET.where(_CONV)
_CHANGED = (
    "status", "why", "max_turns", "max_tokens", "max_usd", "turns", "tokens", "usd", "unpriced", "auto_state", "auto",
)  # fmt: skip
_SAVE = (
    update(goal_table)
    .where(goal_table.c.id == bindparam("row"), goal_table.c.updated_at == bindparam("seen"))
    .values(updated_at=bindparam("at"), **{name: bindparam(f"new_{name}") for name in _CHANGED})
)


class GoalChanged(Transient):
    """Somebody else changed the goal in between; read it again."""


# -- goals of sessions


def of_session(conn: Connection, session: SessionId) -> SessionGoal:
    row = conn.execute(_OF_SESSION, {"session": session}).one_or_none()
    return IDLE if row is None else SessionGoal(state=cast(State, row.state), text=row.text)


def put_of_session(conn: Connection, session: SessionId, goal: SessionGoal, at: int) -> None:
    """Keep it; an idle one is no row."""
    if goal.state == "idle":
        conn.execute(_DROP, {"session": session})
    else:
        conn.execute(_PUT, {"session_id": session, "state": goal.state, "text": goal.text, "updated_at": at})


# -- kept goals


def add(
    conn: Connection,
    *,
    conversation: ConversationId,
    origin: str | None,
    owner: Owner,
    text: str,
    limits: Limits,
    auto: Auto | None,
    at: int,
) -> Goal | None:
    """Keep a new one, active; None when `origin` has made one already. The active one before it must be put down."""
    row = conn.execute(
        _ADD,
        {
            "conv": conversation,
            "origin": origin,
            "person": owner.person,
            "display": owner.display,
            "language": owner.language,
            "role": written_role(owner.role, owner.roles),
            "chat_type": owner.chat_type,
            "text": text,
            "status": "active",
            "max_turns": limits.turns,
            "max_tokens": limits.tokens,
            "max_usd": limits.usd,
            "auto_state": auto.state if auto is not None else None,
            "auto": _AUTO.dump_json(auto).decode() if auto is not None else None,
            "created_at": at,
            "updated_at": at,
        },
    ).one_or_none()
    return None if row is None else _goal(row)


def by_origin(conn: Connection, origin: str) -> Goal | None:
    """The goal that this message made."""
    return _first(conn.execute(_BY_ORIGIN, {"name": origin}).one_or_none())


def active(conn: Connection, conversation: ConversationId) -> Goal | None:
    """The one that is active there."""
    return _first(conn.execute(_ACTIVE, {"conversation": conversation}).one_or_none())


def active_id(conn: Connection, conversation: ConversationId) -> int | None:
    """Its number; asked at the start of every turn."""
    id: int | None = _ACTIVE_ID.scalar(conn, {"conversation": conversation})
    return id


def find(conn: Connection, id: int) -> Goal | None:
    return _first(conn.execute(_ONE, {"row": id}).one_or_none())


def all_of(conn: Connection, conversation: ConversationId) -> tuple[Goal, ...]:
    """The newest 50, newest first."""
    return _goals(conn.execute(_LIST, {"conversation": conversation}))


def running(conn: Connection) -> tuple[Goal, ...]:
    """All goals that are worked on by themselves."""
    return _goals(conn.execute(_RUNNING))


def count_running(conn: Connection) -> int:
    return int(conn.execute(_COUNT_RUNNING).scalar_one())


def worked_alone(conn: Connection, conversation: ConversationId | None) -> tuple[Goal, ...]:
    """The goals that are or were worked on by themselves, of one conversation or (None) of all; running ones first."""
    if conversation is None:
        return _goals(conn.execute(_FLEET))
    return _goals(conn.execute(_FLEET_OF, {"conversation": conversation}))


def everywhere(conn: Connection, *, status: str = "", most: int, skip: int = 0) -> tuple[Goal, ...]:
    """A page of the goals of all places, the active ones first, the newest of these first; those of one status."""
    query = _PAGE.where(goal_table.c.status == status) if status else _PAGE
    return _goals(conn.execute(query, {"most": most, "skip": skip}))


def save(conn: Connection, goal: Goal, at: int) -> None:
    """Write what changed; `goal.updated_at` says which state the change was made from. Raises GoalChanged."""
    seen, auto = to_timestamp(goal.updated_at), goal.auto
    values: dict[str, Any] = {
        "status": goal.status,
        "why": _REASON.dump_json(goal.why).decode() if goal.why is not None else None,
        "max_turns": goal.limits.turns,
        "max_tokens": goal.limits.tokens,
        "max_usd": goal.limits.usd,
        "turns": goal.used.turns,
        "tokens": goal.used.tokens,
        "usd": goal.used.usd,
        "unpriced": goal.used.unpriced,
        "auto_state": auto.state if auto is not None else None,
        "auto": _AUTO.dump_json(auto).decode() if auto is not None else None,
    }
    written = {f"new_{name}": value for name, value in values.items()}
    if not conn.execute(_SAVE, {"row": goal.id, "seen": seen, "at": max(at, seen + 1), **written}).rowcount:
        raise GoalChanged(f"goal {goal.id} was changed by somebody else")


def _first(row: Any) -> Goal | None:
    return None if row is None else _goal(row)


def _goals(rows: Any) -> tuple[Goal, ...]:
    found: Sequence[Any] = rows.all()
    return tuple(_goal(row) for row in found)


def _goal(row: Any) -> Goal:
    role, roles = read_role(row.role)
    return Goal(
        id=row.id,
        conversation=ConversationId(row.conv),
        owner=Owner(
            person=PersonId(row.person) if row.person is not None else None,
            display=row.display,
            language=row.language,
            role=role,
            roles=roles,
            chat_type=cast(ChatType, row.chat_type),
        ),
        text=row.text,
        status=cast(Status, row.status),
        why=_REASON.validate_json(row.why) if row.why else None,
        limits=Limits(turns=row.max_turns, tokens=row.max_tokens, usd=row.max_usd),
        used=Used(turns=row.turns, tokens=int(row.tokens), usd=float(row.usd), unpriced=int(row.unpriced)),
        auto=_AUTO.validate_json(row.auto) if row.auto else None,
        created_at=from_timestamp(row.created_at),
        updated_at=from_timestamp(row.updated_at),
    )


# Wake-ups of goals: rows of the conversation's inbox, so that no sleep and no crash loses one.

SHOWN = 80  # characters of a goal where it is only named


def schedule_wake_up(conn: Connection, goal: Goal, *, after_s: float, at: int) -> None:
    """Wake the goal's conversation `after_s` from `at` (UTC microseconds) on: behind everything that people say."""
    auto, owner = goal.auto, goal.owner
    assert auto is not None
    incoming = Incoming(
        text=f"[autonomous] {short(goal.text)}",
        person=owner.person,
        display=owner.display,
        language=owner.language,
        role=owner.role,
        roles=owner.roles,
        chat_type=owner.chat_type,
        wake_up=WakeUp(goal=goal.id, round=auto.round, tick=auto.ticks),
        received_at=from_timestamp(at),
    )
    inbox_rows.admit(
        conn,
        conversation=goal.conversation,
        kind="system",
        dedup=f"{_prefix(goal)}{auto.round}:{auto.ticks}",
        payload=encode_incoming(incoming),
        at=at,
        not_before=at + round(after_s * 1_000_000),
    )


def cancel_wake_ups(conn: Connection, goal: Goal, *, begun: bool = False) -> tuple[int, ...]:
    """End the wake-ups of the goal that wait; those whose turn was `begun` too, where its process is dead."""
    note = f"goal {goal.id} rests"
    return tuple(inbox_rows.withdraw(conn, goal.conversation, prefix=_prefix(goal), note=note, begun=begun))


def short(text: str, most: int = SHOWN) -> str:
    """On one line, cut."""
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


def _prefix(goal: Goal) -> str:
    return f"goal:{goal.id}:"
