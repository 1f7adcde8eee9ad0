"""What the gateway knows of those that goals work for: the owner's role of today, and whether anybody can be told."""

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


Reachable = Callable[[ConversationId], bool]  # False: the platform refuses the account's login

RoleOf = Callable[[Owned], AccessRole | None]  # None: the owner may not have it worked on any more


def role_then(goal: Owned) -> AccessRole | None:
    """Where nobody knows better: the role that they had when they set it."""
    return goal.owner.role


def always_reachable(conversation: ConversationId) -> bool:
    """Where nobody knows better: what is said there arrives."""
    return True
