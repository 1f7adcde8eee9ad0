"""Rows of plans and their wake-ups. Nothing here decides. Plain functions over a `Connection`.

Whoever changes a plan has locked its conversation's row and read it in the same transaction.
"""

from typing import Any, cast

from pydantic import TypeAdapter
from sqlalchemy import Connection, bindparam, exists, insert, literal_column, or_, select, text, update

from agent.core.ids import ConversationId, PersonId
from agent.core.untrusted_text import whole
from agent.goals.goal import Owner, Reason
from agent.goals.store import short
from agent.inbox import ChatType, Incoming, PlanStep, read_role, written_role
from agent.plans.plan import GATE, Estimate, Plan, Status, Tasks
from agent.storage import inbox_rows
from agent.storage.payloads import dump, encode_incoming
from agent.storage.statements import or_ignore
from agent.storage.tables import PLAN_IS_OPEN, inbox
from agent.storage.tables import plan as table
from agent.storage.timestamps import from_timestamp

MOST_LISTED = 50

_TASKS: TypeAdapter[Tasks] = TypeAdapter(Tasks)
_ESTIMATE: TypeAdapter[Estimate] = TypeAdapter(Estimate)
_REASON: TypeAdapter[Reason] = TypeAdapter(Reason)

_CONV = table.c.conv == bindparam("conversation")
_IS_OPEN = text(PLAN_IS_OPEN)
_ONE = select(table).where(table.c.id == bindparam("row"))
_OPEN = select(table).where(_CONV, _IS_OPEN)
_BY_ORIGIN = select(table).where(table.c.origin == bindparam("name"))
_LAST = select(table).where(_CONV).order_by(table.c.id.desc()).limit(1)
_LIST = select(table).where(_CONV).order_by(table.c.id.desc()).limit(MOST_LISTED)
_AT_WORK = select(table).where(_IS_OPEN, table.c.status == literal_column("'running'")).order_by(table.c.id)
_ALL_OPEN = select(table).where(_IS_OPEN).order_by(table.c.updated_at.desc(), table.c.id).limit(bindparam("most"))
_OFFERED = select(table).where(
    _IS_OPEN, table.c.status.in_(("drafting", "proposed")), table.c.origin.startswith(GATE, autoescape=True)
)
_UNSETTLED = select(table.c.id).where(table.c.screen == literal_column("'open'")).order_by(table.c.id)
_SCREEN_OF = select(table.c.screen).where(table.c.id == bindparam("row"))
_SCREEN = update(table).where(table.c.id == bindparam("row")).values(screen=bindparam("now"))
_ADD = or_ignore(insert(table)).returning(table)
_CHANGED = ("status", "tasks", "estimate", "why", "decided_by", "ticks")
_SAVE = (
    update(table)
    .where(table.c.id == bindparam("row"))
    .values(updated_at=bindparam("at"), **{name: bindparam(f"new_{name}") for name in _CHANGED})
)


def add(
    conn: Connection,
    *,
    conversation: ConversationId,
    origin: str,
    owner: Owner,
    goal: str,
    redacted: bool,
    at: int,
) -> Plan | None:
    """Keep a new one, without tasks yet; None when `origin` has made one already, or another is open there."""
    values = {
        "conv": conversation,
        "origin": origin,
        "person": owner.person,
        "display": whole(owner.display),
        "language": owner.language,
        "role": written_role(owner.role, owner.roles),
        "chat_type": owner.chat_type,
        "goal": goal,
        "redacted": redacted,
        "status": "drafting",
        "tasks": "[]",
        "created_at": at,
        "updated_at": at,
    }
    return _first(conn.execute(_ADD, values).one_or_none())


def save(conn: Connection, plan: Plan, at: int) -> None:
    """Write what may change of it."""
    values: dict[str, Any] = {
        "status": plan.status,
        "tasks": dump(_TASKS, plan.tasks),
        "estimate": dump(_ESTIMATE, plan.estimate) if plan.estimate is not None else None,
        "why": dump(_REASON, plan.why) if plan.why is not None else None,
        "decided_by": whole(plan.decided_by),
        "ticks": plan.ticks,
    }
    conn.execute(_SAVE, {"row": plan.id, "at": at, **{f"new_{name}": value for name, value in values.items()}})


def find(conn: Connection, id: int) -> Plan | None:
    return _first(conn.execute(_ONE, {"row": id}).one_or_none())


def by_origin(conn: Connection, origin: str) -> Plan | None:
    """The plan that this message made."""
    return _first(conn.execute(_BY_ORIGIN, {"name": origin}).one_or_none())


def open_in(conn: Connection, conversation: ConversationId) -> Plan | None:
    """The one that is not over there; there is one at most."""
    return _first(conn.execute(_OPEN, {"conversation": conversation}).one_or_none())


def last_of(conn: Connection, conversation: ConversationId) -> Plan | None:
    """The newest."""
    return _first(conn.execute(_LAST, {"conversation": conversation}).one_or_none())


def all_of(conn: Connection, conversation: ConversationId) -> tuple[Plan, ...]:
    """The newest 50, newest first."""
    return tuple(_plan(row) for row in conn.execute(_LIST, {"conversation": conversation}).all())


def running(conn: Connection) -> tuple[Plan, ...]:
    """All plans that are carried out."""
    return tuple(_plan(row) for row in conn.execute(_AT_WORK).all())


def all_open(conn: Connection, *, most: int) -> tuple[Plan, ...]:
    """Plans of all conversations that are not over, the one changed last first."""
    return tuple(_plan(row) for row in conn.execute(_ALL_OPEN, {"most": most}).all())


def offered(conn: Connection) -> tuple[Plan, ...]:
    """All plans that the workflow gate made and nobody has decided about."""
    return tuple(_plan(row) for row in conn.execute(_OFFERED).all())


def unsettled(conn: Connection) -> tuple[int, ...]:
    """Plans whose message may show something else than what holds."""
    return tuple(conn.execute(_UNSETTLED).scalars())


def screen_of(conn: Connection, id: int) -> str | None:
    """Whether its message is kept true; None: it has none."""
    return cast(str | None, conn.execute(_SCREEN_OF, {"row": id}).scalar_one())


def set_screen(conn: Connection, id: int, screen: str) -> None:
    conn.execute(_SCREEN, {"row": id, "now": screen})


def _first(row: Any) -> Plan | None:
    return None if row is None else _plan(row)


def _plan(row: Any) -> Plan:
    role, roles = read_role(row.role)
    return Plan(
        id=row.id,
        conversation=ConversationId(row.conv),
        origin=row.origin,
        owner=Owner(
            person=PersonId(row.person) if row.person is not None else None,
            display=row.display,
            language=row.language,
            role=role,
            roles=roles,
            chat_type=cast(ChatType, row.chat_type),
        ),
        goal=row.goal,
        redacted=bool(row.redacted),
        status=cast(Status, row.status),
        tasks=_TASKS.validate_json(row.tasks),
        estimate=_ESTIMATE.validate_json(row.estimate) if row.estimate else None,
        why=_REASON.validate_json(row.why) if row.why else None,
        decided_by=row.decided_by,
        ticks=row.ticks,
        created_at=from_timestamp(row.created_at),
        updated_at=from_timestamp(row.updated_at),
    )


# Wake-ups of plans: rows of the conversation's inbox, so that no sleep and no crash loses one.

_OTHERS = select(
    exists().where(
        inbox.c.conv == bindparam("conversation"),
        inbox.c.status == literal_column("'new'"),
        inbox.c.id != bindparam("but"),
        or_(inbox.c.not_before.is_(None), inbox.c.not_before <= bindparam("now")),
    )
)


def schedule_wake_up(conn: Connection, plan: Plan, *, at: int) -> None:
    """Wake the plan's conversation, behind everything that people say. `plan.ticks` is the number of this wake-up."""
    owner = plan.owner
    incoming = Incoming(
        text=f"[plan {plan.id}] {short(plan.goal)}",
        person=owner.person,
        display=owner.display,
        language=owner.language,
        role=owner.role,
        roles=owner.roles,
        chat_type=owner.chat_type,
        plan=PlanStep(plan=plan.id, tick=plan.ticks),
        received_at=from_timestamp(at),
    )
    inbox_rows.admit(
        conn,
        conversation=plan.conversation,
        kind="system",
        dedup=f"{_prefix(plan)}{plan.ticks}",
        payload=encode_incoming(incoming),
        at=at,
        not_before=at,
    )


def cancel_wake_ups(conn: Connection, plan: Plan, *, begun: bool = False) -> tuple[int, ...]:
    """End its wake-ups that wait; those that were `begun` too, where their process is dead."""
    note = f"plan {plan.id} rests"
    return tuple(inbox_rows.withdraw(conn, plan.conversation, prefix=_prefix(plan), note=note, begun=begun))


def others_wait(conn: Connection, conversation: ConversationId, *, but: int, now: int) -> bool:
    """Whether there is other work in the conversation that is due: it comes before the next task."""
    return bool(conn.execute(_OTHERS, {"conversation": conversation, "but": but, "now": now}).scalar_one())


def _prefix(plan: Plan) -> str:
    return f"plan:{plan.id}:"
