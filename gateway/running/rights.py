"""Rights: the grants as the process knows them, and what a person who set something up earlier may do today."""

from collections.abc import Sequence
from dataclasses import dataclass

from agent.core.ids import ConversationId, PersonId
from agent.goals.service import Owned
from agent.inbox import AccessRole
from gateway.access.grants import AccessBook
from gateway.access.policy import OPERATOR_PLATFORMS, Decisions, Role, role_everywhere
from gateway.access.settings import AccessSettings
from gateway.channels.keys import ConversationKey
from gateway.commands.handler import ROLES
from gateway.config.live import Live
from gateway.router.messages import ROLE_NAMES
from gateway.running.basics import Basics
from gateway.storage import grants


@dataclass(frozen=True, slots=True)
class Rights:
    """The grants, and the decisions about messages that `/why` tells."""

    live: Live
    book: AccessBook
    decisions: Decisions

    def access(self) -> AccessSettings:
        """The settings of now."""
        return self.live.settings.access

    def owners(self) -> Sequence[str]:
        return (*self.access().admins, *self.book.owners)

    def role_everywhere(self, person: PersonId | None) -> Role:
        """The person's role for the whole bot: an admin of a single place or group is nobody there."""
        return role_everywhere(person, self.access(), self.book.grants) if person is not None else Role.STRANGER

    def is_admin(self, person: PersonId | None) -> bool:
        """Whether the person is an admin of the whole bot."""
        return self.role_everywhere(person) >= Role.ADMIN

    def role_of(self, work: Owned) -> AccessRole | None:
        """The role of today of whom the goal or plan belongs to; None for one who was blocked since."""
        owner = work.owner
        if is_blocked(self.book, self.access(), owner.person):
            return None
        return role_today(self.book, self.access(), owner.person, work.conversation, owner.role)


async def install_rights(basics: Basics) -> Rights:
    """With the grants that are stored."""
    return Rights(basics.live, AccessBook(await basics.database.read(grants.all_grants)), Decisions())


def is_blocked(book: AccessBook, access: AccessSettings, person: PersonId | None) -> bool:
    return person is not None and role_everywhere(person, access, book.grants) is Role.BLOCKED


def role_today(
    book: AccessBook, access: AccessSettings, person: PersonId | None, conversation: ConversationId, then: AccessRole
) -> AccessRole:
    """The role that the person has there, and at most what they had `then`."""
    key = ConversationKey.parse(conversation)
    places = frozenset(f"{key.platform}:{one.channel_id}" for one in (key, key.around or key))
    now = max(book.grants.role(person or "", places), Role.MEMBER)
    if person in access.admins:
        now = max(now, Role.ADMIN)
    if key.platform in OPERATOR_PLATFORMS:
        now = Role.OWNER
    return ROLE_NAMES[min(now, ROLES[then])]
