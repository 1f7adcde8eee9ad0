"""The end of a turn for goals: the session's own, and the kept one that it worked on or counts for.

All of it is written in the turn's commit, so it happens once; what follows is done afterwards.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlalchemy import Connection

from agent.core.ids import SessionId
from agent.core.outbox import OutgoingMessage
from agent.goals import goal as lifecycle
from agent.goals import store
from agent.goals.driver import Came, Moved, Outcome, Tick, after_person, after_turn
from agent.goals.goal import Goal, Reason, SessionGoal, Used, claims
from agent.goals.service import ending
from agent.ledger import rows
from agent.ledger.spending import CapReached, amount
from agent.run.run import Executed, Run
from agent.storage import conversation_rows, outbox_rows
from agent.turn.states import States

# Ends that are the end of one turn and not of the work: the next turn goes on.
BOUNDS = frozenset({"max_tool_iterations", "max_turns", "step_budget"})
# Ends that may be another time: the network, the service, the clock.
PASSING = frozenset(
    {"provider_busy", "no_providers", "model_slow", "model_cut", "execution_timeout", "empty_answer", "recovery_budget"}
)
# A call was not made, for a limit would not have allowed it.
BARRED = ("over_budget_", "goal_why_", "unpriced")


@dataclass(frozen=True, slots=True, kw_only=True)
class Closed:
    """Changes of goals by the commit of a turn; None: there was none, or nothing changed."""

    session: SessionId | None = None  # whose goal was looked at
    of_session: SessionGoal | None = None
    completed: bool = False
    by_phrase: bool = False
    moved: Moved | None = None


def close_goals(conn: Connection, executed: Executed, run: Run, states: States, at: int) -> Closed:
    """Write what the turn means. Call it once, in its commit, after the end of its run was noted."""
    work, settings = run.work, run.settings.agent.goal
    closed = Closed()
    if not settings.enabled or (not run.opened and work.incoming.wake_up is None):
        return closed
    if run.opened and run.reaches_goal and executed.verdict == "answered":
        return _complete_session(conn, run, states, at) if settings.follows_session else closed
    if run.opened and work.kind == "message" and settings.follows_session:
        closed = _close_session(conn, executed, run, states, at)
    if work.kind == "message" or work.incoming.wake_up is not None:
        closed = replace(closed, moved=_close_kept(conn, executed, run, states, at))
    return closed


def settle_goals(closed: Closed, states: States) -> None:
    """It is on disk: let the states follow."""
    goal = states.goal
    if closed.session is not None and closed.of_session is not None:
        goal.known_for, goal.of_session = closed.session, closed.of_session
    if closed.completed:
        goal.completed, goal.by_phrase = closed.of_session, closed.by_phrase
    goal.moved = closed.moved


def write_move(conn: Connection, moved: Moved, states: States, at: int, *, answer: bool) -> None:
    """Write a goal as it is now, its next wake-up, and what its person is told when it is over.

    With `answer` the last answer is said too: those of turns by itself have been shown to nobody.
    """
    goal = moved.goal
    store.save(conn, goal, at)
    if isinstance(moved.next, Tick):
        store.schedule_wake_up(conn, goal, after_s=moved.next.after_s, at=at)
    if moved.ended:
        store.cancel_wake_ups(conn, goal)
        says = ending(goal, states.runtime.phrases, states.goal.buttons, answer=answer)
        for part, say in enumerate(says):
            outbox_rows.add(
                conn,
                conversation=goal.conversation,
                inbox_id=None,
                part=part,
                dedup=f"goal:{goal.id}:{goal.auto.round if goal.auto else 0}:{goal.used.turns}:end:{part}",
                say=say,
                at=at,
            )


def _close_session(conn: Connection, executed: Executed, run: Run, states: States, at: int) -> Closed:
    goal, settings = states.goal, run.settings.agent.goal
    before = goal.of_session if goal.known_for == run.session else store.of_session(conn, run.session)
    after = lifecycle.after_message(before, run.work.incoming.text)
    if executed.verdict == "answered":
        pattern = lifecycle.completion_pattern(settings.completion_phrases)
        after = lifecycle.after_reply(after, executed.text, tool_calls=bool(actions_of(run)), completion=pattern)
    if after != before:
        store.put_of_session(conn, run.session, after, at)
    done = after != before and after.state == "completed"
    return Closed(session=run.session, of_session=after, completed=done, by_phrase=done)


def _complete_session(conn: Connection, run: Run, states: States, at: int) -> Closed:
    """A plan is completed, and with it what the session is after (Z-91)."""
    before = store.of_session(conn, run.session)
    after = lifecycle.completed(before)
    if after != before:
        store.put_of_session(conn, run.session, after, at)
    return Closed(session=run.session, of_session=after, completed=after != before)


def _close_kept(conn: Connection, executed: Executed, run: Run, states: States, at: int) -> Moved | None:
    wake_up = run.work.incoming.wake_up
    if run.goal is None:
        return None
    conversation_rows.lock_row(conn, states.session.conversation)
    goal = store.find(conn, run.goal)
    if goal is None:
        return None
    settings, spent = run.settings.agent.goal, spent_on(conn, goal, turns=1)
    if wake_up is None:
        if goal.status != "active":  # put down while the turn ran
            store.save(conn, replace(goal, used=goal.used.plus(spent)), at)
            return None
        moved = after_person(goal, spent, settings)
    elif goal.auto is None or goal.auto.round != wake_up.round:
        return None  # a newer session has begun; this turn belongs to the one before
    else:
        moved = after_turn(goal, outcome_of(executed, run), spent, settings)
    write_move(conn, moved, states, at, answer=wake_up is not None)
    return moved


def spent_on(conn: Connection, goal: Goal, *, turns: int = 0) -> Used:
    """Entries in the ledger for the goal since it was looked at last."""
    totals, used = rows.totals(conn, goal=str(goal.id)), goal.used
    return Used(
        turns=turns,
        tokens=max(0, totals.tokens - used.tokens),
        usd=max(0.0, totals.cost_usd - used.usd),
        unpriced=max(0, totals.unpriced - used.unpriced),
    )


def sentence_of(error: CapReached) -> tuple[str, dict[str, object]]:
    """Why a call for the goal was not made: key and values of the sentence."""
    if error.needed is None:
        return "goal_why_unpriced", {}
    values = {"limit": error.limit, "left": error.left, "needed": error.needed}
    return "goal_why_left", {name: amount(value, error.unit) for name, value in values.items()}


def outcome_of(executed: Executed, run: Run) -> Outcome:
    """The result of the turn, as the driver of its goal counts it."""
    notice, came, why = executed.notice, _came(executed, run), None
    if notice is not None and came in ("broke", "gave_up", "barred"):
        why = Reason(key=notice.phrase, values={name: str(value) for name, value in notice.values.items()})
    elif came == "gave_up":
        why = Reason(key="goal_why_gave_up")
    pattern = lifecycle.completion_pattern(run.settings.agent.goal.completion_phrases)
    claimed = came == "went" and claims(executed.text, pattern)
    return Outcome(came=came, text=executed.text, actions=actions_of(run), claims=claimed, why=why)


def actions_of(run: Run) -> tuple[str, ...]:
    """The tools that the run called, with what they were given."""
    return tuple(
        f"{use.name} {json.dumps(dict(use.input), sort_keys=True, default=str)}"[:200]
        for message in run.messages
        for use in message.tool_uses
    )


def _came(executed: Executed, run: Run) -> Came:
    phrase = executed.notice.phrase if executed.notice is not None else ""
    match executed.verdict:
        case "waiting":
            return "waits"
        case "cancelled":
            return "gave_way"
        case "answered":
            return "gave_way" if run.preempted else "went"
    if phrase in BOUNDS:
        return "went"
    if phrase.startswith(BARRED):
        return "barred"
    return "broke" if phrase in PASSING else "gave_up"


def said_now(executed: Executed, says: Sequence[OutgoingMessage]) -> tuple[OutgoingMessage, ...]:
    """Of a goal's own turn only a question to a person is said at once; answers wait for the end."""
    return tuple(says) if executed.verdict == "waiting" else ()
