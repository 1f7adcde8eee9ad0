"""What a finished turn says about the skill that was hinted in it (W-54). Pure."""

from agent.skills.bandit import Outcome

_SUCCEEDED = frozenset({"answered", "waiting"})  # the model's turn ended, or it asked by a tool and waits
_NEVER_RAN = frozenset({"refused", "suspended"})


def outcome_of(verdict: str, *, stopped: bool, gave_way: bool = False, declined: bool = False) -> Outcome:
    """EndTurn and ToolUse are successes; the cap on calls, an error and a stop are failures; the rest says nothing.

    `stopped`: a person or a deadline ended it. `gave_way`: it ended early for a person's sake. `declined`: the model
    did not want to answer, which is about what was asked.
    """
    if verdict in _NEVER_RAN or gave_way or declined:
        return "neutral"
    if verdict in _SUCCEEDED:
        return "success"
    if verdict == "cancelled" and not stopped:
        return "neutral"  # left for later: a question that it asked is still open
    return "failure"
