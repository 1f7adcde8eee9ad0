"""Choice among the skills that fit: Thompson sampling over Beta distributions. Pure: chance is an argument."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from typing import Literal, Protocol

Outcome = Literal["success", "failure", "neutral"]

UNDECIDED = 0.5  # drawn for counts of which no Beta distribution can be made
POINTS = 5  # simulated successes of a measured score of 1.0
MOST_UNMEASURED = 1  # of a draft whose score nobody measured: 0.7 would be four successes that never were (G-26)


class Chance(Protocol):
    """Where draws come from; a seeded `random.Random` is one."""

    def betavariate(self, alpha: float, beta: float) -> float: ...


class NoCandidates(Exception):
    """There is no skill to choose from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """How often the hint of a skill was right and wrong, in turns; decay and little evidence make fractions of it."""

    successes: float = 0.0
    failures: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Draw:
    """The skill with the highest sample, that sample (0..1), and among how many it was."""

    name: str
    value: float
    arm: Arm
    among: int


def sample(arm: Arm, chance: Chance) -> float:
    """One draw from Beta(successes + 1, failures + 1); 0.5 where there is no such distribution."""
    alpha, beta = arm.successes + 1.0, arm.failures + 1.0
    if not (isfinite(alpha) and isfinite(beta) and alpha > 0 and beta > 0):
        return UNDECIDED
    return chance.betavariate(alpha, beta)


def choose(candidates: Sequence[str], arm_of: Callable[[str], Arm], chance: Chance) -> Draw:
    """Draw once for each candidate and take the highest (W-06). Raises NoCandidates."""
    best: Draw | None = None
    for name in candidates:
        arm = arm_of(name)
        value = sample(arm, chance)
        if best is None or value > best.value:
            best = Draw(name=name, value=value, arm=arm, among=len(candidates))
    if best is None:
        raise NoCandidates
    return best


def credited(arm: Arm, outcome: Outcome, weight: float = 1.0) -> Arm:
    """The arm after a turn that tells so much (0..1); a neutral outcome changes neither count (W-55)."""
    match outcome:
        case "success":
            return replace(arm, successes=arm.successes + weight)
        case "failure":
            return replace(arm, failures=arm.failures + weight)
        case "neutral":
            return arm


def aged(arm: Arm, days: float, decay: float) -> Arm:
    """The counts left after so many days; a `decay` of 1.0 keeps them for ever."""
    if decay >= 1.0 or days <= 0:
        return arm
    share = decay**days
    return Arm(successes=max(0.0, arm.successes * share), failures=max(0.0, arm.failures * share))


def prior_of(score: float, *, measured: bool) -> int:
    """The simulated successes that a stored score (0..1) gives a skill with no outcomes yet."""
    if not isfinite(score):
        return 0
    points = round(min(1.0, max(0.0, score)) * POINTS)
    return points if measured else min(points, MOST_UNMEASURED)


def priors_by_rank(names: Sequence[str]) -> dict[str, int]:
    """Simulated successes of skills that somebody put into order, best first: 3, 2, 1 and 0 by quarter."""
    return {name: 3 - place * 4 // len(names) for place, name in enumerate(names)}


# Outcome of a finished turn for the skill that was hinted in it (W-54). Pure.

# Uses of the hinted skill: the model or a person called it up; its text stood before the model, which may have
# followed it; or the model answered without it, or with another one.
Use = Literal["used", "shown", "unused"]
LITTLE = 0.25  # of a success or a failure: what cannot be seen, and a hint that nobody took

_SUCCEEDED = frozenset({"answered", "waiting"})  # the model's turn ended, or it asked by a tool and waits
_NEVER_RAN = frozenset({"refused", "suspended"})


def outcome_of(verdict: str, *, stopped: bool, preempted: bool = False, declined: bool = False) -> Outcome:
    """EndTurn and ToolUse are successes; the cap on calls, an error and a stop are failures; the rest says nothing.

    `stopped`: a person or a deadline ended it. `preempted`: it ended early for a person's sake. `declined`: the model
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
    """The count of a turn with that outcome for the skill that was hinted in it, and its weight (0..1)."""
    if outcome != "success" or use == "used":
        return outcome, 1.0
    return ("success" if use == "shown" else "failure"), LITTLE
