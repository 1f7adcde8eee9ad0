"""What people are told of a goal: the line that follows it while it is worked on, and how it came out."""

from collections.abc import Callable
from typing import Literal

from agent.core.money import money
from agent.core.outbox import Button, OutgoingMessage
from agent.core.phrases import Phrases
from agent.goals.stored import Goal, Reason
from agent.goals.ticks import short

# The buttons below a goal's line ("stop") and below what is said when it rests ("go_on"); who hands them in knows how
# a press comes back.
Offer = Literal["stop", "go_on"]
Buttons = tuple[tuple[Button, ...], ...]
Buttoned = Callable[[Offer, Goal], Buttons]


def no_buttons(_: Offer, __: Goal) -> Buttons:
    return ()


def live_line(goal: Goal, phrases: Phrases) -> str:
    """The one message that stays while work goes on: what for, how far, what it took, what the last check found."""
    auto, language = goal.auto, goal.owner.language
    assert auto is not None
    lines = [phrases("goal_live", language, goal=short(goal.text)), progress(goal, phrases)]
    if auto.state == "verifying":
        lines.append(phrases("goal_live_checking", language))
    elif auto.state == "waiting":
        lines.append(phrases("goal_live_waiting", language))
    elif auto.verdict:
        lines.append(phrases("goal_live_verdict", language, turn=auto.verified_at, reason=short(auto.verdict, 160)))
    return "\n".join(lines)


def progress(goal: Goal, phrases: Phrases, language: str | None = None) -> str:
    """Turns, tokens and money."""
    auto = goal.auto
    turns = f"{auto.turns}/{auto.most}" if auto is not None else str(goal.used.turns)
    language, usd = language or goal.owner.language, money(goal.used.usd, unpriced=bool(goal.used.unpriced))
    cost = phrases("goal_cost", language, money=usd) if usd else ""
    return phrases("goal_progress", language, turns=turns, tokens=f"{goal.used.tokens:,}", cost=cost)


def why_of(reason: Reason | None, phrases: Phrases, language: str) -> str:
    return phrases(reason.key, language, **reason.values) if reason is not None else "–"


def ending(goal: Goal, phrases: Phrases, buttons: Buttoned, *, answer: bool) -> tuple[OutgoingMessage, ...]:
    """What is said when it is over: the last answer of work by itself, then how it came out and what can be done."""
    auto, language = goal.auto, goal.owner.language
    says = [OutgoingMessage(text=auto.said, kind="reply")] if answer and auto is not None and auto.said.strip() else []
    key = "goal_over_reached" if goal.status == "completed" else "goal_over_paused"
    lines = [phrases(key, language, goal=short(goal.text), id=goal.id)]
    if goal.status == "completed":
        lines += [auto.verdict] if auto is not None and auto.verdict else []
    else:
        lines.append(why_of(goal.why, phrases, language))
    lines.append(progress(goal, phrases))
    offered = buttons("go_on", goal) if goal.status == "paused" else ()
    return (*says, OutgoingMessage(text="\n".join(lines), kind="notice", buttons=offered, verbatim=True))
