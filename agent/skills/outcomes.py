"""What a finished turn says about the skill that was hinted in it (W-54). Pure.

That a turn went well says little about a skill that nobody can see used: a model is often right without one.
"""

from typing import Literal

from agent.skills.bandit import Outcome

# What became of the hinted skill: the model or a person called it up; its text stood before the model, which may have
# followed it; or the model answered without it, or with another one.
Use = Literal["used", "shown", "unused"]
LITTLE = 0.25  # of a success or a failure: what cannot be seen, and a hint that nobody took

_SUCCEEDED = frozenset({"answered", "waiting"})  # the model's turn ended, or it asked by a tool and waits
_NEVER_RAN = frozenset({"refused", "suspended"})


def outcome_of(verdict: str, *, stopped: bool, preempted: bool = False, declined: bool = False) -> Outcome:
    """EndTurn and ToolUse are successes; the cap on calls, an error and a stop are failures; the rest says nothing.

    `stopped`: a person or a deadline ended it. `gave_way`: it ended early for a person's sake. `declined`: the model
    did not want to answer, which is about what was asked.
    """
    if verdict in _NEVER_RAN or preempted or declined:
        return "neutral"
    if verdict in _SUCCEEDED:
        return "success"
    if verdict == "cancelled" and not stopped:
        return "neutral"  # left for later: a question that it asked is still open
    return "failure"


def counted(outcome: Outcome, use: Use) -> tuple[Outcome, float]:
    """What a turn with that outcome counts for the skill that was hinted in it, and how much (0..1)."""
    if outcome != "success" or use == "used":
        return outcome, 1.0
    return ("success" if use == "shown" else "failure"), LITTLE
