"""Wake-ups of plans: rows of the conversation's inbox, so that neither sleep nor death loses one (DESIGN §13.3).

Each is named by plan and number: writing it twice is writing it once.
"""

from sqlalchemy import Connection, bindparam, exists, literal_column, or_, select

from agent.core.ids import ConversationId
from agent.goals.ticks import short
from agent.inbox import Incoming, PlanStep
from agent.plans.stored import Plan
from agent.storage import inbox_rows
from agent.storage.payloads import encode_incoming
from agent.storage.tables import inbox
from agent.storage.timestamps import from_timestamp

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
