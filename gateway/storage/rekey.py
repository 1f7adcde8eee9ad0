"""Renaming of a place (a Telegram group became a supergroup): everything follows, at once."""

from dataclasses import replace

from sqlalchemy import Column, Connection, Table, and_, delete, exists, select, update

from agent.core.ids import ConversationId
from agent.goals import store as goals
from agent.goals.goal import Reason, rested
from agent.ledger import rows as ledger_rows
from agent.ledger import sums
from agent.memory.rows import follow
from agent.plans import store as plans
from agent.plans.plan import aborted
from agent.storage.conversation_rows import ensure, lock_row
from agent.storage.tables import (
    approval_rule,
    conversation,
    ephemeral,
    group_message,
    group_stream,
    guideline,
    memory_place,
    metadata,
)
from gateway.storage.tables import access_grant, channel_setting, schedule


def rekey(conn: Connection, old: ConversationId, new: ConversationId) -> bool:
    """Move history, queue, outbox and settings from `old` to `new`; False when there is no `old`.

    Where there can be one only, a setting of the new place stays, and the older place's session goes on. Both epochs
    are over: an agent that runs under either name is fenced.
    """
    former = conn.execute(select(conversation).where(conversation.c.key == old)).one_or_none()
    if former is None or old == new:
        return False
    ensure(conn, new, former.created_at)
    for key in sorted((old, new)):
        lock_row(conn, key)
    present = conn.execute(select(conversation).where(conversation.c.key == new)).one()
    conn.execute(
        update(conversation)
        .where(conversation.c.key == new)
        .values(
            epoch=max(former.epoch, present.epoch) + 1,
            session_id=former.session_id or present.session_id,
            created_at=min(former.created_at, present.created_at),
            state="open",
            worker=None,
            run_id=None,
            acquired_at=None,
            expires_at=None,
        )
    )
    conn.execute(delete(conversation).where(conversation.c.key == old))
    _move_settings(conn, old, new)
    _free_names(conn, old, new)
    _leave_rules(conn, old, new)
    _keep_guidelines(conn, old, new)
    _keep_one_goal(conn, old, new)
    _keep_one_plan(conn, old, new)
    follow(conn, old, new)
    sums.follow(conn, old, new)
    ledger_rows.follow(conn, old, new)
    # Shown messages are gone with the old place, and their ids may mean something else in the new one.
    conn.execute(delete(ephemeral).where(ephemeral.c.conv == old))
    _keep_one_stream(conn, old, new)
    for table in metadata.sorted_tables:
        if "conv" in table.c and table is not channel_setting and table is not memory_place:
            _move(conn, table, old, new)
    return True


def rekey_grants(conn: Connection, old_place: str, new_place: str) -> None:
    """Let grants of the place (`telegram:-1005`), and those that hold in it, follow; the new place's own stay."""
    for column, other in ((access_grant.c.subject, "place"), (access_grant.c.place, "subject")):
        taken = access_grant.alias()
        same = and_(taken.c[column.name] == new_place, taken.c[other] == access_grant.c[other])
        conn.execute(delete(access_grant).where(column == old_place, exists().where(same)))
        conn.execute(update(access_grant).where(column == old_place).values({column.name: new_place}))


def _move(conn: Connection, table: Table, old: str, new: str) -> None:
    column: Column[str] = table.c.conv
    conn.execute(update(table).where(column == old).values(conv=new))


def _keep_one_stream(conn: Connection, old: str, new: str) -> None:
    """Let the talk around the bot follow; how far the new place was read stays."""
    here = group_message.c.conv == old
    kept = select(group_message.c.ref).where(group_message.c.conv == new)
    conn.execute(delete(group_message).where(here, group_message.c.ref.in_(kept)))
    conn.execute(update(group_message).where(group_message.c.stream == old).values(stream=new))
    if conn.execute(select(group_stream.c.conv).where(group_stream.c.conv == new)).first() is not None:
        conn.execute(delete(group_stream).where(group_stream.c.conv == old))


def _move_settings(conn: Connection, old: str, new: str) -> None:
    kept = select(channel_setting.c.key).where(channel_setting.c.conv == new)
    conn.execute(delete(channel_setting).where(channel_setting.c.conv == old, channel_setting.c.key.in_(kept)))
    _move(conn, channel_setting, old, new)


def _free_names(conn: Connection, old: str, new: str) -> None:
    """A schedule whose name is taken in the new place is known by its number from now on."""
    taken = select(schedule.c.name).where(schedule.c.conv == new, schedule.c.name.is_not(None))
    conn.execute(update(schedule).where(schedule.c.conv == old, schedule.c.name.in_(taken)).values(name=None))


def _leave_rules(conn: Connection, old: str, new: str) -> None:
    """Keep once a rule that both places have for good."""
    kept = approval_rule.alias()
    same = and_(kept.c.conv == new, kept.c.tool == approval_rule.c.tool, kept.c.covers == approval_rule.c.covers)
    conn.execute(delete(approval_rule).where(approval_rule.c.conv == old, exists().where(same)))


def _keep_guidelines(conn: Connection, old: str, new: str) -> None:
    """Keep the guidelines of the session that goes on, the older place's."""
    former = guideline.alias()
    gone = and_(guideline.c.conv == new, exists().where(former.c.conv == old))
    conn.execute(delete(guideline).where(gone))


def _keep_one_goal(conn: Connection, old: str, new: str) -> None:
    """One goal is active in a place: that of the new one stays so. A wake-up of the other finds it paused."""
    goal = goals.active(conn, ConversationId(old))
    if goal is not None and goals.active(conn, ConversationId(new)) is not None:
        goals.save(conn, rested(goal, "paused", "aborted", Reason(key="goal_why_replaced")), at=0)


def _keep_one_plan(conn: Connection, old: str, new: str) -> None:
    """One plan is open in a place: that of the new one stays so. A wake-up of the other finds it cancelled."""
    plan = plans.open_in(conn, ConversationId(old))
    if plan is not None and plans.open_in(conn, ConversationId(new)) is not None:
        ended = replace(plan, status="cancelled", tasks=aborted(plan.tasks), why=Reason(key="plan_why_replaced"))
        plans.save(conn, ended, at=0)
