"""Expiry: messages that are older than a conversation may keep leave the database, with everything made of them.

Whole runs go, the oldest first, so that a history is cut between turns. Facts, goals, plans, schedules, the ledger of
money and the record of calls stay: each has a life of its own.
"""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from sqlalchemy import Connection, case, delete, func, insert, literal_column, select, text, update

from agent.core.clock import Clock
from agent.core.ids import ConversationId, SessionId
from agent.memory import rows
from agent.memory.memory import Memory
from agent.memory.records import Audience, audience_of_place
from agent.memory.rows import chunks
from agent.sessions.store import STEP
from agent.storage import conversation_rows
from agent.storage.database import wait_for_writers
from agent.storage.statements import first_since
from agent.storage.tables import (
    PLAN_IS_OPEN,
    cleared_result,
    conversation,
    feedback,
    goal,
    guideline,
    inbox,
    memory,
    memory_erasure,
    message,
    passage,
    plan,
    session,
    session_goal,
    task,
    turn,
)
from agent.storage.timestamps import to_timestamp
from agent.storage.watch_tables import turn_trace

BATCH = 100  # messages of one transaction: some 30 ms, in which nobody else writes
PAGE = 1_000  # messages that are looked at for their sessions at once
PAUSE_S = 0.1  # between two transactions
DAY_US = 24 * 3600 * 1_000_000
LATE_US = DAY_US  # a turn that goes on is not disturbed for less: sub-agents of it would have to stop
CLEANED_EVERY_US = DAY_US  # the file is rebuilt for expired messages at most so often

_TIME = message.c.created_at
_HAS_TURN = select(turn.c.inbox_id).where(turn.c.state == "running")
# To be answered, or tried anew by an operator: the run goes on from what it has stored.
_AWAITED = select(inbox.c.id).where(inbox.c.status.in_(("new", "dead")))

log = logging.getLogger("tieline.upkeep")


@dataclass(frozen=True, slots=True, kw_only=True)
class Removed:
    """One transaction's work. `audiences` are those whose memory has lost something; `after`: where the next begins."""

    messages: int
    audiences: frozenset[Audience]
    after: int
    is_last: bool


async def expire(kept: Memory, *, before: int, clock: Clock) -> int:
    """Remove messages from before that moment (UTC microseconds), some at a time; how many. Raises StorageError.

    Agents that are awake read their windows again before their next request. What is open stays whole.
    """
    below = await kept.database.read(lambda conn: first_since(conn, message.c.id, _TIME, before))
    after, seen, gone = 0, set[SessionId](), 0
    while True:
        after_page = after
        found, after = await kept.database.read(partial(sessions_between, after=after_page, below=below))
        if after == after_page:
            break
        for id, place in found:
            if id not in seen:
                seen.add(id)
                gone += await _expire_session(kept, id, place, before=before, below=below, clock=clock)
    if gone:
        log.info("%d messages were older than conversations may keep, and are removed", gone)
    return gone


async def _expire_session(
    kept: Memory, id: SessionId, place: ConversationId, *, before: int, below: int, clock: Clock
) -> int:
    gone, after, audiences = 0, 0, frozenset[Audience]()
    with kept.forgotten.going_on((place,)):
        try:
            while True:
                step = partial(remove_some, id=id, place=place, before=before, below=below, after=after)
                removed = await kept.database.write(partial(step, at=to_timestamp(clock.now())))
                gone, after, audiences = gone + removed.messages, removed.after, audiences | removed.audiences
                if removed.is_last:
                    break
                await clock.sleep(PAUSE_S)
        finally:  # also if the database failed: what is gone is gone
            if audiences and kept.vectors is not None:
                kept.vectors.forget()
            for audience in audiences:
                kept.forgotten.tell(audience)
            if gone:
                kept.forgotten.tell(audience_of_place(place), (place,))
    return gone


def sessions_between(
    conn: Connection, *, after: int, below: int
) -> tuple[Sequence[tuple[SessionId, ConversationId]], int]:
    """Sessions of the next messages up to `below` (exclusive), and the last one of these; `after` if none is left."""
    page = select(message.c.id, message.c.session_id, message.c.conv).where(message.c.id > after, message.c.id < below)
    found = conn.execute(page.order_by(message.c.id).limit(PAGE)).all()
    sessions = dict.fromkeys((SessionId(row.session_id), ConversationId(row.conv)) for row in found)
    return tuple(sessions), found[-1].id if found else after


def remove_some(
    conn: Connection, *, id: SessionId, place: ConversationId, before: int, below: int, after: int, at: int
) -> Removed:
    """Remove the next runs of that session whose last message is older, and what was made of them.

    Where a turn goes on, nothing goes that is late by less than a day.
    """
    wait_for_writers(conn, (place,))
    page = select(message.c.id, message.c.inbox_id, message.c.created_at).where(
        message.c.session_id == id, message.c.id > after, message.c.id < below, message.c.created_at < before
    )
    found = conn.execute(page.order_by(message.c.id).limit(BATCH)).all()
    if found and found[0].created_at >= before - LATE_US and _is_at_work(conn, place, at):
        return Removed(messages=0, audiences=frozenset(), after=after, is_last=True)
    runs = _over(conn, place, {row.inbox_id for row in found if row.inbox_id is not None}, before)
    ids = [row.id for row in found if row.inbox_id is None]
    for some in chunks(sorted(runs)):
        ids += conn.execute(select(message.c.id).where(message.c.inbox_id.in_(some))).scalars()
    audiences = _remove(conn, id, ids, runs) if ids else frozenset[Audience]()
    if ids:
        _clear_session(conn, id, place, removed=len(ids), before=before)
        _note(conn, len(ids), at)
    return Removed(
        messages=len(ids),
        audiences=audiences,
        after=found[-1].id if found else after,
        is_last=len(found) < BATCH,
    )


def _is_at_work(conn: Connection, place: ConversationId, at: int) -> bool:
    lease = conversation_rows.lease(conn, place)
    return lease is not None and lease.expires_at > at


def _over(conn: Connection, place: ConversationId, runs: set[int], before: int) -> set[int]:
    """Runs among these that are over, and older to their last message; also than the work that goes on there."""
    since = min((before, *_open_work(conn, place)))
    over: set[int] = set()
    for some in chunks(sorted(runs)):
        newest = select(message.c.inbox_id, func.max(_TIME).label("at")).where(message.c.inbox_id.in_(some))
        old = {row.inbox_id for row in conn.execute(newest.group_by(message.c.inbox_id)) if row.at < since}
        old.difference_update(conn.execute(_HAS_TURN.where(turn.c.inbox_id.in_(some))).scalars())
        old.difference_update(conn.execute(_AWAITED.where(inbox.c.id.in_(some))).scalars())
        over |= old
    return over


def _open_work(conn: Connection, place: ConversationId) -> Iterator[int]:
    """When the plan that is open there was begun, and the goal that is worked on by itself: its turns stay."""
    begun = select(plan.c.created_at).where(plan.c.conv == place, text(PLAN_IS_OPEN))
    yield from conn.execute(begun).scalars()
    active = (goal.c.conv == place, goal.c.status == literal_column("'active'"), goal.c.auto_state.is_not(None))
    yield from conn.execute(select(goal.c.created_at).where(*active)).scalars()


def _remove(conn: Connection, id: SessionId, ids: Sequence[int], runs: set[int]) -> frozenset[Audience]:
    """Remove the messages, and summaries that stand at or before the last of them: they tell of it."""
    standing = select(message.c.id).where(
        message.c.session_id == id,
        message.c.place < (max(ids) + 1) * STEP,
        message.c.inbox_id.is_(None),
    )
    every = sorted({*ids, *conn.execute(standing).scalars()})
    audiences: set[Audience] = set()
    for some in chunks(every):
        of_them = select(memory.c.id, memory.c.audience).where(memory.c.message_id.in_(some), memory.c.kind != "fact")
        items = conn.execute(of_them).all()
        rows.remove(conn, [item.id for item in items])
        audiences.update(Audience(item.audience) for item in items)
        for made in (passage, cleared_result):
            conn.execute(delete(made).where(made.c.message_id.in_(some)))
        conn.execute(delete(message).where(message.c.id.in_(some)))
    for some_runs in chunks(sorted(runs)):
        conn.execute(delete(feedback).where(feedback.c.inbox_id.in_(some_runs)))
        conn.execute(delete(turn).where(turn.c.inbox_id.in_(some_runs)))
        conn.execute(delete(turn_trace).where(turn_trace.c.inbox_id.in_(some_runs)))
    return frozenset(audiences)


def _clear_session(conn: Connection, id: SessionId, place: ConversationId, *, removed: int, before: int) -> None:
    """Take out of the session what its first messages have left there; remove those that are empty and left."""
    count = session.c.message_count
    left = case((count > removed, count - removed), else_=0)
    nothing = {"title": "", "summary": None, "summary_upto": None}
    conn.execute(update(session).where(session.c.id == id).values(message_count=left, **nothing))
    conn.execute(delete(guideline).where(guideline.c.conv == place, guideline.c.at < before))
    current = select(conversation.c.session_id).where(conversation.c.key == place).scalar_subquery()
    has_messages = select(message.c.id).where(message.c.session_id == session.c.id).exists()
    empty = select(session.c.id, (session.c.id == current).label("is_current")).where(
        session.c.conv == place, session.c.updated_at < before, ~has_messages
    )
    found = conn.execute(empty).all()
    for some in chunks([row.id for row in found]):
        conn.execute(delete(session_goal).where(session_goal.c.session_id.in_(some)))
    for some in chunks([row.id for row in found if not row.is_current]):
        conn.execute(delete(task).where(task.c.session_id.in_(some)))
        conn.execute(delete(session).where(session.c.id.in_(some)))


def _note(conn: Connection, messages: int, at: int) -> None:
    """Have the database's file rebuilt, which keeps removed bytes until then: once a day at most."""
    last = conn.execute(select(func.max(memory_erasure.c.at)).where(memory_erasure.c.conv == "")).scalar_one()
    if last is None or at - last >= CLEANED_EVERY_US:
        values: dict[str, Any] = {"conv": "", "person": None, "items": 0, "messages": messages, "at": at}
        conn.execute(insert(memory_erasure).values(**values))
