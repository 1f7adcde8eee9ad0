"""Rights: the grants as the process knows them, and what a person who set something up earlier may do today."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from agent.assembly import built_in_tool_names, known_tools
from agent.core.ids import ConversationId, PersonId
from agent.goals.service import Owned
from agent.inbox import AccessRole, HeldRoles
from agent.tools.mcp.resources import RESOURCE_TOOLS
from gateway.access.grants import AccessBook
from gateway.access.identities import IdentityBook
from gateway.access.policy import ACCOUNTS, Decisions, Role, is_owner, lent_role, role_everywhere
from gateway.access.roles import (
    RANK_NAMES,
    RANKS,
    dashboard_rights,
    deciders,
    grants_without_effect,
    roles_today,
    without_effect,
)
from gateway.access.settings import AccessSettings, DashboardRight
from gateway.channels.keys import ConversationKey, UserId
from gateway.commands.all import all_commands
from gateway.config.live import Live
from gateway.config.settings import Settings
from gateway.running.basics import Basics
from gateway.storage import grants, identities


@dataclass(frozen=True, slots=True)
class Rights:
    """The grants, the linked accounts, and the decisions about messages that `/why` tells."""

    live: Live
    book: AccessBook
    decisions: Decisions
    identities: IdentityBook

    def access(self) -> AccessSettings:
        """The settings of now."""
        return self.live.settings.access

    def owners(self) -> Sequence[str]:
        return (*self.access().admins, *self.book.owners)

    def role_everywhere(self, person: PersonId | None) -> Role:
        """The person's role for the whole bot: an admin of a single place or group is nobody there."""
        return role_everywhere(person, self.access(), self.book.grants) if person is not None else Role.STRANGER

    def dashboard(self, user: UserId) -> frozenset[DashboardRight]:
        """The rights in the dashboard of a user of the web server; nobody who is blocked has any."""
        person = PersonId(f"{ACCOUNTS}:{user}")
        if is_blocked(self.book, self.access(), person):
            return frozenset()
        return dashboard_rights(person, self.live.settings.roles, self.book.grants.identities)

    def is_admin(self, person: PersonId | None) -> bool:
        """Whether the person is an admin of the whole bot."""
        return self.role_everywhere(person) >= Role.ADMIN

    def role_of(self, work: Owned) -> HeldRoles | None:
        """The roles of today of whom the goal or plan belongs to; None for one who was blocked since."""
        owner = work.owner
        if is_blocked(self.book, self.access(), owner.person):
            return None
        then = HeldRoles(owner.role, owner.roles)
        return roles_held_today(self.book, self.live, owner.person, work.conversation, then)

    def is_decider_known(self, conversation: ConversationId, tool: str) -> bool:
        """Whether anybody is known who may approve a call there that somebody else asked for."""
        settings, key = self.live.settings, ConversationKey.parse(conversation)
        return deciders(
            tool,
            key.platform,
            _places(key),
            access=settings.access,
            grants=self.book.grants,
            roles=settings.roles,
            approvers=settings.approvals.approvers,
        )


async def install_rights(basics: Basics) -> Rights:
    """With the grants and links that are stored."""
    given, linked = await basics.database.read(lambda conn: (grants.all_grants(conn), identities.all_accounts(conn)))
    book, people = AccessBook(given), IdentityBook(linked, basics.settings.people)
    people.listen(book.link)
    basics.live.listen(lambda settings: people.configure(settings.people))
    return Rights(basics.live, book, Decisions(), people)


def roles_without_effect(settings: Settings, servers: Collection[str]) -> list[str]:
    """Rules of `[[roles]]`, and tools of `[[webhooks]]`, that stand for no tool, MCP server of these, or command."""
    tools = known_tools(built_in_tool_names() | RESOURCE_TOOLS)
    granted = {hook.name: hook.tools for hook in settings.webhooks}
    return [
        *without_effect(settings.roles, tools=tools, servers=servers, commands=all_commands().names),
        *grants_without_effect(granted, tools=tools, servers=servers),
    ]


def is_blocked(book: AccessBook, access: AccessSettings, person: PersonId | None) -> bool:
    return person is not None and role_everywhere(person, access, book.grants) is Role.BLOCKED


def role_today(
    book: AccessBook, access: AccessSettings, person: PersonId | None, conversation: ConversationId, then: AccessRole
) -> AccessRole:
    """The role that the person has there, and at most what they had `then`."""
    key = ConversationKey.parse(conversation)
    now = max(book.grants.role(person or "", _places(key)), lent_role(person or "", access, book.grants), Role.MEMBER)
    if person in access.admins:
        now = max(now, Role.ADMIN)
    if is_owner(person or _at_home(key)):
        now = Role.OWNER
    return RANK_NAMES[min(now, RANKS[then])]


def roles_held_today(
    book: AccessBook, live: Live, person: PersonId | None, conversation: ConversationId, then: HeldRoles
) -> HeldRoles:
    """`role_today`, and the named roles of today."""
    role = role_today(book, live.settings.access, person, conversation, then.role)
    return HeldRoles(role, roles_today(person or "", then.roles, live.settings.roles, book.grants.identities))


def _at_home(key: ConversationKey) -> str:
    """The account whose conversation it is, where a platform has only direct chats: for what names nobody."""
    return f"{key.platform}:{key.channel_id.partition(':')[0] if key.platform == ACCOUNTS else ''}"


def _places(key: ConversationKey) -> frozenset[str]:
    """The names by which a grant may name the place of a conversation, as far as its key tells them."""
    return frozenset(f"{key.platform}:{one.channel_id}" for one in (key, key.around or key))
