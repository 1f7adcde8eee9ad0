"""What a goal may still take, in words, and the button that goes on with it. Pure."""

from agent.core.outbox import Button
from agent.core.phrases import Phrases
from agent.goals.stored import Goal, Limits, raised, spent_limit
from agent.goals.telling import Buttons
from gateway.commands.command import PRESS


def go_on_button(goal: Goal, phrase: Phrases, language: str) -> Buttons:
    """Goes on with a paused goal. At a limit it names the next one; where none helps there is no button."""
    if spent_limit(goal.limits, goal.used) is None:
        auto = " --auto" if goal.auto is not None else ""
        label, command = phrase("button_goal_go_on", language), f"/goal resume {goal.id}{auto}"
    elif command := raising(goal):
        more = told_limits(raised(goal.limits, goal.used), phrase, language)
        label = phrase("button_goal_more", language, limits=more)
    else:
        return ()
    return ((Button(label=label, action=f"{PRESS}{command}", style="primary"),),)


def raising(goal: Goal) -> str:
    """The command that gives a goal as much again of what it has used up; "" where that would not do."""
    more = raised(goal.limits, goal.used)
    if more == Limits() or (goal.limits.usd is not None and goal.used.unpriced):
        return ""
    words = [f"/goal resume {goal.id}"]
    if goal.auto is not None and more.turns is None:
        words.append("--auto")  # beside it --turns would be those of the next work by itself
    if more.turns is not None:
        words.append(f"--turns {more.turns}")
    if more.tokens is not None:
        words.append(f"--tokens {more.tokens}")
    if more.usd is not None:
        words.append(f"--usd {more.usd:g}")
    return " ".join(words)


def told_turns(count: int, phrase: Phrases, language: str) -> str:
    return phrase("goal_limit_turns" if count != 1 else "goal_limit_one_turn", language, limit=count)


def told_limits(limits: Limits, phrase: Phrases, language: str) -> str:
    """Those that are set; "" where none is."""
    shown = []
    if limits.turns is not None:
        shown.append(told_turns(limits.turns, phrase, language))
    if limits.tokens is not None:
        shown.append(phrase("goal_limit_tokens", language, limit=f"{limits.tokens:,}"))
    if limits.usd is not None:
        shown.append(phrase("goal_limit_usd", language, limit=f"{limits.usd:g}"))
    return " · ".join(shown)
