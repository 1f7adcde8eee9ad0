"""Erases what work has left behind of the words: boxes, checkpoints, calls, questions, titles, goals, misses.

Plain functions over a `Connection`. What is being worked on at this moment is left to its end.
"""

import json
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, delete, select, update

from agent.memory.target import FORGOTTEN, Target, chunks
from agent.storage.memory_tables import skill_outcomes
from agent.storage.payloads import decode_incoming, decode_say, encode_incoming, encode_say
from agent.storage.tables import (
    approval,
    approval_rule,
    goal,
    inbox,
    outbox,
    plan,
    session,
    session_goal,
    task,
    tool_call,
    turn,
)

COMMAND = "/memory forget"  # what is left of the command that named the words


def sessions(conn: Connection, target: Target, conversations: Sequence[str], touched: Collection[str]) -> None:
    """Titles are first words, summaries tell of what was said."""
    statement = select(session.c.id, session.c.title, session.c.summary).where(session.c.conv.in_(conversations))
    for row in conn.execute(statement).all():
        meant = row.id in touched or target.holds(row.title) or target.holds(row.summary or "")
        if meant:
            title = FORGOTTEN if not target.words or target.holds(row.title) else row.title
            values = {"title": title, "summary": None, "summary_upto": None}
            conn.execute(update(session).where(session.c.id == row.id).values(**values))


def goals(conn: Connection, target: Target, conversations: Sequence[str], touched: Collection[str]) -> None:
    """What sessions were after, in people's words; kept goals, which go on being worked on, lose theirs once ended."""
    of_them = select(session.c.id).where(session.c.conv.in_(conversations))
    for row in conn.execute(select(session_goal).where(session_goal.c.session_id.in_(of_them))).all():
        if target.holds(row.text) or (not target.words and row.session_id in touched):
            conn.execute(delete(session_goal).where(session_goal.c.session_id == row.session_id))
    for row in conn.execute(select(goal).where(goal.c.conv.in_(conversations))).all():
        if target.only_by is not None and row.person != target.only_by:
            continue
        if target.holds(row.text) or (target.everything and row.status in ("completed", "cleared")):
            conn.execute(update(goal).where(goal.c.id == row.id).values(text=FORGOTTEN))
        if row.auto and (target.everything or target.holds(json.dumps(json.loads(row.auto), ensure_ascii=False))):
            worked = json.loads(row.auto) | {"said": "", "digest": "", "recent": [], "verdict": ""}
            conn.execute(update(goal).where(goal.c.id == row.id).values(auto=json.dumps(worked)))


def plans(conn: Connection, target: Target, conversations: Sequence[str]) -> None:
    """What was planned, once it has ended."""
    for row in conn.execute(select(plan).where(plan.c.conv.in_(conversations))).all():
        theirs = target.only_by is None or row.person == target.only_by
        over = row.status in ("completed", "failed", "cancelled")
        if theirs and over and (target.everything or target.holds(f"{row.goal}\n{row.tasks}")):
            conn.execute(update(plan).where(plan.c.id == row.id).values(goal=FORGOTTEN, tasks="[]", status="cancelled"))


def tasks(conn: Connection, target: Target, conversations: Sequence[str], touched: Collection[str]) -> None:
    """What sessions have set themselves to do tells of what was said in them."""
    for row in conn.execute(select(task).where(task.c.conv.in_(conversations))).all():
        meant = target.holds(row.description) or target.holds(row.output)
        if meant or (not target.words and row.session_id in touched):
            conn.execute(delete(task).where(task.c.id == row.id))


def boxes(
    conn: Connection, target: Target, conversations: Sequence[str], runs: Collection[int]
) -> list[tuple[str, bool]]:
    """What came and what was sent, as it still stands in inbox, outbox and the checkpoints of runs.

    Returns the files that were sent, and whether what they were sent with is gone.
    """
    files: list[tuple[str, bool]] = []
    for row in conn.execute(
        select(inbox.c.id, inbox.c.payload, inbox.c.status).where(inbox.c.conv.in_(conversations))
    ).all():
        came = decode_incoming(row.payload)
        command = came.text.lstrip().lower().startswith(COMMAND)
        if row.status == "new" and not command:
            continue  # not answered yet
        texts = (came.text, came.quoted or "", *(file.name for file in came.files))
        if row.id in runs or command or any(map(target.holds, texts)) or (target.everything and target.only_by is None):
            left = replace(came, text=COMMAND if command else FORGOTTEN, quoted=None, notes=())
            conn.execute(update(inbox).where(inbox.c.id == row.id).values(payload=encode_incoming(left)))
    sent = select(outbox.c.id, outbox.c.payload, outbox.c.inbox_id).where(
        outbox.c.conv.in_(conversations), outbox.c.status.in_(("sent", "dead", "dropped"))
    )
    for row in conn.execute(sent).all():
        said = decode_say(row.payload)
        named = any(target.holds(file.name) for file in said.files)
        meant = row.inbox_id in runs or target.holds(said.text) or named
        meant = meant or (target.everything and target.only_by is None)
        files += [(file.path, meant) for file in said.files]
        if meant:
            left_over = replace(said, text=FORGOTTEN, buttons=(), files=())
            conn.execute(update(outbox).where(outbox.c.id == row.id).values(payload=encode_say(left_over)))
    ended = (turn.c.conv.in_(conversations), turn.c.state != "running", turn.c.checkpoint.is_not(None))
    for row in conn.execute(select(turn.c.id, turn.c.inbox_id, turn.c.checkpoint).where(*ended)).all():
        if row.inbox_id in runs or target.holds(row.checkpoint) or target.everything:
            conn.execute(update(turn).where(turn.c.id == row.id).values(checkpoint=None))
    return files


def calls(conn: Connection, target: Target, conversations: Sequence[str], runs: Collection[int]) -> None:
    """The record of calls keeps who ran what and when, and loses the words; so do questions that are answered."""

    def meant(row: Any, *texts: str) -> bool:
        return row.inbox_id in runs or any(map(target.holds, texts)) or (target.everything and target.only_by is None)

    for row in conn.execute(select(tool_call).where(tool_call.c.conv.in_(conversations))).all():
        if meant(row, row.arguments, row.result):
            emptied = {"arguments": "{}", "result": FORGOTTEN}
            conn.execute(update(tool_call).where(tool_call.c.id == row.id).values(**emptied))
    asked = select(approval).where(approval.c.conv.in_(conversations), approval.c.status != "pending")
    for row in conn.execute(asked).all():
        offered = json.loads(row.choices) if row.choices is not None else ()
        if meant(row, row.arguments, row.reason, row.shown, row.covers or "", row.answer or "", *offered):
            asked_for = {"arguments": "{}", "reason": "", "shown": FORGOTTEN, "covers": None}
            if row.choices is not None:
                asked_for |= {"choices": "[]", "answer": FORGOTTEN}
            conn.execute(update(approval).where(approval.c.id == row.id).values(**asked_for))
    # What is allowed for good names what it covers: it is asked for again.
    for row in conn.execute(select(approval_rule).where(approval_rule.c.conv.in_(conversations))).all():
        if any(map(target.holds, (row.covers, row.shown))) or (target.everything and target.only_by is None):
            conn.execute(delete(approval_rule).where(approval_rule.c.id == row.id))


def misses(conn: Connection, target: Target, conversations: Sequence[str]) -> None:
    statement = select(skill_outcomes.c.id, skill_outcomes.c.query).where(skill_outcomes.c.conv.in_(conversations))
    gone = [row.id for row in conn.execute(statement).all() if target.everything or target.holds(row.query)]
    for some in chunks(gone):
        conn.execute(delete(skill_outcomes).where(skill_outcomes.c.id.in_(some)))
