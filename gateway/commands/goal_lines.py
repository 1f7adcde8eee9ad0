"""A goal in a line or two, as commands show it: what it is for, how its own work stands. It changes nothing."""

from agent.goals.stored import Auto, Goal
from agent.goals.ticks import short
from gateway.commands.command import Call

_MARKS = {"active": "▸", "paused": "⏸", "completed": "✓", "cleared": "–"}
_AUTO_MARKS = {"achieved": "✓", "orphaned": "⚠", "stuck": "⚠", "failed": "⚠", "aborted": "⏸"}


def goal_line(call: Call, goal: Goal) -> str:
    """Number, state and what it is for."""
    phrase, language = call.deps.phrase, call.incoming.language
    status = phrase(f"goal_{goal.status}", language)
    return phrase("goal_line", language, mark=_MARKS[goal.status], id=goal.id, status=status, goal=short(goal.text))


def subagent_line(call: Call, goal: Goal) -> str:
    """State, turns, time and what the last check said."""
    phrase, language, auto = call.deps.phrase, call.incoming.language, goal.auto
    assert auto is not None
    line = phrase(
        "agents_line",
        language,
        mark=_AUTO_MARKS.get(auto.state, "▸"),
        id=goal.id,
        state=phrase(f"auto_{auto.state}", language),
        turns=auto.turns,
        most=auto.most,
        elapsed=_elapsed(call, goal),
        goal=short(goal.text),
    )
    return f"{line}\n   {_checked(call, auto)}"


def work_line(call: Call, goal: Goal) -> str:
    """The same below the goal itself: what was said of it there is not said again."""
    phrase, language, auto = call.deps.phrase, call.incoming.language, goal.auto
    assert auto is not None
    state = f" · {phrase(f'auto_{auto.state}', language)}" if goal.is_autonomous else ""
    elapsed = _elapsed(call, goal)
    line = phrase("goal_work", language, turns=auto.turns, most=auto.most, elapsed=elapsed, state=state)
    return f"{line}\n   {_checked(call, auto)}"


def _elapsed(call: Call, goal: Goal) -> str:
    until = call.deps.clock.now() if goal.is_autonomous else goal.updated_at
    minutes = max(0, int((until - goal.created_at).total_seconds())) // 60
    return f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min"


def _checked(call: Call, auto: Auto) -> str:
    phrase, language = call.deps.phrase, call.incoming.language
    if not auto.verified_at:
        return phrase("agents_unchecked", language)
    return phrase("agents_verdict", language, turn=auto.verified_at, reason=auto.verdict or "–")
