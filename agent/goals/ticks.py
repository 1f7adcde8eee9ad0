"""Wake-ups of goals: rows of the conversation's inbox, so that neither sleep nor death loses one (DESIGN §13.3).

Each is named by goal, session and number: writing it twice is writing it once.
"""

from sqlalchemy import Connection

from agent.goals.stored import Goal
from agent.inbox import Incoming, WakeUp
from agent.storage import inbox_rows
from agent.storage.payloads import encode_incoming
from agent.storage.timestamps import from_timestamp

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
