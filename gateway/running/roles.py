"""What somebody may do now who set something up earlier: who lost a role must not keep it in what goes on."""

from agent.core.ids import ConversationId, PersonId
from agent.inbox import AccessRole
from gateway.access.book import AccessBook
from gateway.access.policy import OPERATOR_PLATFORMS, Role, role_everywhere
from gateway.access.settings import AccessSettings
from gateway.channels.keys import ConversationKey
from gateway.commands.handler import ROLES
from gateway.router.incoming import ROLE_NAMES


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
