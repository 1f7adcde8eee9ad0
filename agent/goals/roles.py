"""In which role the turns of a goal are run: the owner's of today, which the house knows."""

from collections.abc import Callable
from typing import Protocol

from agent.core.ids import ConversationId
from agent.goals.stored import Owner
from agent.inbox import AccessRole


class Owned(Protocol):
    """A goal or a plan."""

    @property
    def conversation(self) -> ConversationId: ...

    @property
    def owner(self) -> Owner: ...


RoleOf = Callable[[Owned], AccessRole | None]  # None: the owner may not have it worked on any more


def role_then(goal: Owned) -> AccessRole | None:
    """Where nobody knows better: the role that they had when they set it."""
    return goal.owner.role
