"""Erases what work has left behind of the words: boxes, checkpoints, calls, questions, titles, goals, remarks, misses.

Plain functions over a `Connection`, each for some rows of one kind. What is being worked on now is left to its end.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import Column, Connection, delete, select, update

from agent.memory.gathering import Meant, is_said, is_within
from agent.memory.target import FORGOTTEN, Target, chunks
from agent.storage.goal_tables import goal, plan, session_goal, task
from agent.storage.learning_tables import feedback
from agent.storage.memory_tables import skill_outcomes
from agent.storage.payloads import decode_incoming, decode_outgoing, encode_incoming, encode_outgoing
from agent.storage.tables import approval, approval_rule, inbox, outbox, tool_call, turn
from agent.storage.transcript_tables import session

COMMAND = "/memory forget"  # what is left of the command that named the words
Erase = Callable[..., None]  # of a connection, the target, what is meant, and the ids of rows to look at
Left = Sequence[tuple[Erase, Sequence[Any]]]


def left_behind(conn: Connection, meant: Meant) -> Left:
    """Where to look: every row of these conversations that may have something left. Changes nothing."""

    def of(id: Column[Any], place: Column[Any], places: Sequence[str]) -> list[Any]:
        found: list[Any] = []
        for some in chunks(places):
            found += conn.execute(select(id).where(place.in_(some))).scalars()
        return found

    here = meant.conversations
    return (
        (_sessions, meant.sessions),
        (_session_goals, meant.sessions),
        (_goals, of(goal.c.id, goal.c.conv, here)),
        (_plans, of(plan.c.id, plan.c.conv, here)),
        (_tasks, of(task.c.id, task.c.session_id, meant.sessions)),
        (_came, of(inbox.c.id, inbox.c.conv, here)),
        (_sent, of(outbox.c.id, outbox.c.conv, here)),
        (_checkpoints, of(turn.c.id, turn.c.conv, here)),
        (_calls, of(tool_call.c.id, tool_call.c.conv, here)),
        (_questions, of(approval.c.id, approval.c.conv, here)),
        (_rules, of(approval_rule.c.id, approval_rule.c.conv, here)),
        (_remarks, of(feedback.c.id, feedback.c.conv, here)),
        (_misses, of(skill_outcomes.c.id, skill_outcomes.c.conv, here)),
    )


def commands(conn: Connection, target: Target, conversations: Sequence[str]) -> None:
    """The words of commands that forget: of those that have ended, and of this one, whose words are gone now.

    Others that are still to be carried out would forget nothing without theirs.
    """
    columns = (inbox.c.id, inbox.c.payload, inbox.c.status, inbox.c.attempts)
    for some in chunks(conversations):
        named = inbox.c.payload.icontains(COMMAND, autoescape=True)
        for row in conn.execute(select(*columns).where(inbox.c.conv.in_(some), named)).all():
            came = decode_incoming(row.payload)
            own = row.attempts and (not target.words or target.holds(" ".join(came.text.split())))
            if _forgets(came.text) and (row.status != "new" or own):
                left = replace(came, text=COMMAND, quoted=None, notes=())
                conn.execute(update(inbox).where(inbox.c.id == row.id).values(payload=encode_incoming(left)))


def _forgets(text: str) -> bool:
    return text.lstrip().lower().startswith(COMMAND)


def _sessions(conn: Connection, target: Target, meant: Meant, ids: Sequence[str]) -> None:
    """Titles are first words, summaries tell of what was said."""
    statement = select(session.c.id, session.c.title, session.c.summary).where(session.c.id.in_(ids))
    for row in conn.execute(statement).all():
        if row.id in meant.touched or target.holds(row.title) or target.holds(row.summary or ""):
            title = FORGOTTEN if not target.words or target.holds(row.title) else row.title
            values = {"title": title, "summary": None, "summary_upto": None}
            conn.execute(update(session).where(session.c.id == row.id).values(**values))


def _session_goals(conn: Connection, target: Target, meant: Meant, ids: Sequence[str]) -> None:
    """What sessions were after, in people's words."""
    for row in conn.execute(select(session_goal).where(session_goal.c.session_id.in_(ids))).all():
        if target.holds(row.text) or (not target.words and row.session_id in meant.touched):
            conn.execute(delete(session_goal).where(session_goal.c.session_id == row.session_id))


def _goals(conn: Connection, target: Target, meant: Meant, ids: Sequence[int]) -> None:
    """Kept goals, which go on being worked on, lose their words once ended."""
    for row in conn.execute(select(goal).where(goal.c.id.in_(ids))).all():
        if target.only_by is not None and row.person != target.only_by:
            continue
        if target.holds(row.text) or (target.everything and row.status in ("completed", "cleared")):
            conn.execute(update(goal).where(goal.c.id == row.id).values(text=FORGOTTEN))
        if row.auto and (target.everything or target.holds(json.dumps(json.loads(row.auto), ensure_ascii=False))):
            worked = json.loads(row.auto) | {"said": "", "digest": "", "recent": [], "verdict": ""}
            conn.execute(update(goal).where(goal.c.id == row.id).values(auto=json.dumps(worked)))


def _plans(conn: Connection, target: Target, meant: Meant, ids: Sequence[int]) -> None:
    """What was planned, once it has ended."""
    for row in conn.execute(select(plan).where(plan.c.id.in_(ids))).all():
        theirs = target.only_by is None or row.person == target.only_by
        over = row.status in ("completed", "failed", "cancelled")
        if theirs and over and (target.everything or target.holds(f"{row.goal}\n{row.tasks}")):
            conn.execute(update(plan).where(plan.c.id == row.id).values(goal=FORGOTTEN, tasks="[]", status="cancelled"))


def _tasks(conn: Connection, target: Target, meant: Meant, ids: Sequence[int]) -> None:
    """What sessions have set themselves to do tells of what was said in them."""
    for row in conn.execute(select(task).where(task.c.id.in_(ids))).all():
        told = target.holds(row.description) or target.holds(row.output)
        if told or (not target.words and row.session_id in meant.touched):
            conn.execute(delete(task).where(task.c.id == row.id))


def _came(conn: Connection, target: Target, meant: Meant, ids: Sequence[int]) -> None:
    """What came. Commands that forget wait for the end: they are what is done again after a crash."""
    columns = (inbox.c.id, inbox.c.payload, inbox.c.status, inbox.c.created_at)
    for row in conn.execute(select(*columns).where(inbox.c.id.in_(ids))).all():
        came = decode_incoming(row.payload)
        if row.status == "new" or _forgets(came.text):  # new: not answered yet
            continue
        texts = (came.text, came.quoted or "", *(file.name for file in came.files))
        whole = is_within(meant, row.created_at) or (target.everything and target.only_by is None)
        if row.id in meant.runs or any(map(target.holds, texts)) or whole:
            left = replace(came, text=FORGOTTEN, quoted=None, notes=())
            conn.execute(update(inbox).where(inbox.c.id == row.id).values(payload=encode_incoming(left)))


def _sent(conn: Connection, target: Target, meant: Meant, ids: Sequence[int]) -> None:
    """What was sent, as it still stands in the outbox."""
    ended = outbox.c.status.in_(("sent", "dead", "dropped"))
    columns = (outbox.c.id, outbox.c.payload, outbox.c.inbox_id, outbox.c.created_at)
    for row in conn.execute(select(*columns).where(outbox.c.id.in_(ids), ended)).all():
        said = decode_outgoing(row.payload)
        if is_said(target, meant.runs, row.inbox_id, said) or is_within(meant, row.created_at):
            left = replace(said, text=FORGOTTEN, buttons=(), files=())
            conn.execute(update(outbox).where(outbox.c.id == row.id).values(payload=encode_outgoing(left)))


def _checkpoints(conn: Connection, target: Target, meant: Meant, ids: Sequence[int]) -> None:
    """How far runs have come, once they have ended."""
    ended = (turn.c.id.in_(ids), turn.c.state != "running", turn.c.checkpoint.is_not(None))
    for row in conn.execute(select(turn.c.id, turn.c.inbox_id, turn.c.checkpoint).where(*ended)).all():
        if row.inbox_id in meant.runs or target.holds(row.checkpoint) or target.everything:
            conn.execute(update(turn).where(turn.c.id == row.id).values(checkpoint=None))


def _is_meant(row: Any, target: Target, meant: Meant, *texts: str) -> bool:
    told = row.inbox_id in meant.runs or any(map(target.holds, texts))
    return told or (target.everything and target.only_by is None)


def _calls(conn: Connection, target: Target, meant: Meant, ids: Sequence[int]) -> None:
    """The record of calls keeps who ran what and when, and loses the words."""
    for row in conn.execute(select(tool_call).where(tool_call.c.id.in_(ids))).all():
        if _is_meant(row, target, meant, row.arguments, row.result):
            emptied = {"arguments": "{}", "result": FORGOTTEN}
            conn.execute(update(tool_call).where(tool_call.c.id == row.id).values(**emptied))


def _questions(conn: Connection, target: Target, meant: Meant, ids: Sequence[str]) -> None:
    """So do questions that are answered."""
    for row in conn.execute(select(approval).where(approval.c.id.in_(ids), approval.c.status != "pending")).all():
        offered = json.loads(row.choices) if row.choices is not None else ()
        said = (row.arguments, row.reason, row.shown, row.covers or "", row.answer or "", *offered)
        if _is_meant(row, target, meant, *said):
            asked_for = {"arguments": "{}", "reason": "", "shown": FORGOTTEN, "covers": None}
            if row.choices is not None:
                asked_for |= {"choices": "[]", "answer": FORGOTTEN}
            conn.execute(update(approval).where(approval.c.id == row.id).values(**asked_for))


def _rules(conn: Connection, target: Target, meant: Meant, ids: Sequence[int]) -> None:
    """What is allowed for good names what it covers: it is asked for again."""
    for row in conn.execute(select(approval_rule).where(approval_rule.c.id.in_(ids))).all():
        if any(map(target.holds, (row.covers, row.shown))) or (target.everything and target.only_by is None):
            conn.execute(delete(approval_rule).where(approval_rule.c.id == row.id))


def _remarks(conn: Connection, target: Target, meant: Meant, ids: Sequence[int]) -> None:
    """What people said of answers goes with the answers, and where it holds the words."""
    for row in conn.execute(select(feedback).where(feedback.c.id.in_(ids))).all():
        theirs = target.everything and target.only_by in (None, row.person)
        if row.inbox_id in meant.runs or target.holds(row.text) or theirs:
            conn.execute(delete(feedback).where(feedback.c.id == row.id))


def _misses(conn: Connection, target: Target, meant: Meant, ids: Sequence[int]) -> None:
    statement = select(skill_outcomes.c.id, skill_outcomes.c.query).where(skill_outcomes.c.id.in_(ids))
    gone = [row.id for row in conn.execute(statement).all() if target.everything or target.holds(row.query)]
    conn.execute(delete(skill_outcomes).where(skill_outcomes.c.id.in_(gone)))
