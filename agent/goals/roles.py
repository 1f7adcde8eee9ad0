"""In which role the turns of a goal are run: the owner's of today, which the house knows."""

from collections.abc import Callable

from agent.goals.stored import Goal
from agent.inbox import AccessRole

RoleOf = Callable[[Goal], AccessRole | None]  # None: the owner may not have it worked on any more


def role_then(goal: Goal) -> AccessRole | None:
    """Where nobody knows better: the role that they had when they set it."""
    return goal.owner.role
