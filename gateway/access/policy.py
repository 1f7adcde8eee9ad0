"""Access policy: whether a message may be answered, flood limits, pairing codes, the log of refusals."""

import hashlib
from collections import deque
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum, IntEnum
from typing import Literal

from agent.core.bounded_map import BoundedMap
from gateway.access.identities import NOBODY_LINKED, Identities
from gateway.access.settings import AccessSettings
from gateway.channels.adapter import Ids
from gateway.channels.inbound import ChatType, Mention, Received
from gateway.channels.kit.rate_limits import Rate, TokenBucket


class Role(IntEnum):
    """The rights of a person, in growing order."""

    BLOCKED = -1
    STRANGER = 0
    GUEST = 1  # speaks in a place that is open to everybody, and was let in by nobody
    MEMBER = 2
    ADMIN = 3
    OWNER = 4


MentionRule = Literal["always", "ambient", "replied", "mentioned", "never"]
Why = Literal[
    "blocked",
    "a linked account is blocked",
    "a bot wrote it",
    "bot loop guard",
    "unknown person",
    "direct messages are closed",
    "group not allowed",
    "groups are closed",
    "no mention of the bot",
]

NO_MENTION: Why = "no mention of the bot"

OWNER = "web:operator"  # who proved to the machine itself to run it
TERMINAL = "console"  # everybody there has proved it
ACCOUNTS = "web"  # everybody there was given an account by the owner
KEYS = "api"  # and here a key


@dataclass(frozen=True, slots=True)
class Allowed:
    role: Role


@dataclass(frozen=True, slots=True)
class Ignored:
    why: Why


@dataclass(frozen=True, slots=True)
class Unpaired:
    """An unknown person in a direct chat where pairing is on: give a code, nothing else."""


Decision = Allowed | Ignored | Unpaired


@dataclass(frozen=True, slots=True, kw_only=True)
class Grants:
    """Grants given while running: roles by subject, everywhere (`telegram:77`) or in one place (subject, place).

    `identities` tells which accounts are one person.
    """

    everywhere: Mapping[str, Role]
    in_place: Mapping[tuple[str, str], Role]
    places: frozenset[str]
    identities: Identities = NOBODY_LINKED

    def role(self, person: str, places: frozenset[str]) -> Role:
        """The highest role given, but BLOCKED wins over all."""
        found = [self.everywhere.get(person, Role.STRANGER)]
        found += [self.in_place.get((person, place), Role.STRANGER) for place in places]
        return Role.BLOCKED if Role.BLOCKED in found else max(found)


NO_GRANTS = Grants(everywhere={}, in_place={}, places=frozenset())


def subject_kind(name: str, ids: Ids) -> Literal["person", "place", None]:
    """Whether `<platform>:<id>` names a person or a group; None where nobody there can have such an id.

    One of Discord's counts as a person's, and holds for the server or channel that has it as well: Discord counts
    people, servers and channels in one row of numbers.
    """
    _, _, id = name.partition(":")
    if ids.place is not None and ids.place.fullmatch(id):
        return "place"
    return "person" if id and (ids.person is None or ids.person.fullmatch(id)) else None


def person_name(inbound: Received) -> str:
    """The sender's name in grants and settings: `<platform>:<user id>`."""
    return f"{inbound.key.platform}:{inbound.sender.id}"


def place_names(inbound: Received) -> frozenset[str]:
    """The place's names there: in full, by its last part (a Slack channel without its team), by what holds it."""
    platform, place = inbound.key.platform, inbound.place
    return frozenset(f"{platform}:{name}" for name in (place, place.rpartition(":")[2], *inbound.grantable))


def is_let_in(inbound: Received, settings: AccessSettings, grants: Grants, *, by_name: bool = False) -> bool:
    """Whether the group may be answered at all. `by_name`: because somebody let in this very group.

    Anybody can make a group, bring the bot into it and administer it there.
    """
    names = place_names(inbound)
    given = {grants.everywhere.get(name, Role.STRANGER) for name in names} - {Role.STRANGER}
    if settings.groups == "closed" or Role.BLOCKED in given:
        return False
    named = bool(names & set(settings.allow_groups) or names & grants.places or given)
    return named or (settings.groups == "open" and not by_name)


def is_owner(person: str) -> bool:
    """Whether the account proves by itself that its person runs the gateway; nothing shuts them out."""
    return person == OWNER or person.partition(":")[0] == TERMINAL


def is_let_in_by_name(person: str, settings: AccessSettings) -> bool:
    """Whether the configuration, or the owner who made an account of the web server or a key, lets this very one in."""
    return person in settings.allow or person.partition(":")[0] in (ACCOUNTS, KEYS)


def role_of(inbound: Received, settings: AccessSettings, grants: Grants) -> Role:
    """The sender's role in this place, before any policy for strangers."""
    person = person_name(inbound)
    if is_owner(person):
        return Role.OWNER
    granted = grants.role(person, place_names(inbound))
    if granted is Role.BLOCKED or blocked_account(person, settings, grants):
        return Role.BLOCKED
    granted = max(granted, lent_role(person, settings, grants))
    if person in settings.admins:
        return max(granted, Role.ADMIN)
    counts = inbound.chat_type is ChatType.DIRECT or is_let_in(inbound, settings, grants)
    if settings.platform_admins and inbound.sender.is_chat_admin and counts:
        return max(granted, Role.ADMIN)
    return max(granted, Role.MEMBER) if is_let_in_by_name(person, settings) else granted


def role_everywhere(person: str, settings: AccessSettings, grants: Grants) -> Role:
    """A person's role for the whole bot: an admin of one place, or of one of the platform's groups, is nobody."""
    if is_owner(person):
        return Role.OWNER
    own = _own_role(person, settings, grants)
    if blocked_account(person, settings, grants):
        return Role.BLOCKED
    return max(own, lent_role(person, settings, grants))


def blocked_account(person: str, settings: AccessSettings, grants: Grants) -> str | None:
    """The account of the person that is blocked everywhere, this one first: a block holds for all that are linked."""
    for account in grants.identities.accounts(person):
        if account in settings.block or grants.everywhere.get(account) is Role.BLOCKED:
            return account
    return None


def lent_role(person: str, settings: AccessSettings, grants: Grants) -> Role:
    """The highest role for the whole bot of the person's other accounts, as far as an admin let it hold here too.

    Nobody has one by a link alone. What holds in one place, or comes from a platform, stays where it is.
    """
    others = grants.identities.with_rights_of(person)[1:]
    roles = [_own_role(other, settings, grants) for other in others]
    roles += [Role.MEMBER for other in others if is_let_in_by_name(other, settings)]
    return max(roles, default=Role.STRANGER)


def _own_role(account: str, settings: AccessSettings, grants: Grants) -> Role:
    """The role for the whole bot that this very account has, blocks left out."""
    if is_owner(account):
        return Role.OWNER
    granted = max(grants.everywhere.get(account, Role.STRANGER), Role.STRANGER)
    return max(granted, Role.ADMIN) if account in settings.admins else granted


def decide(
    inbound: Received,
    settings: AccessSettings,
    grants: Grants,
    *,
    mention: Mention,
    rule: MentionRule = "replied",
    is_command: bool = False,
    bot_allowed: bool = False,
) -> Decision:
    """May it be answered, and as whom?

    `rule` is the place's own on what must address the bot in a group. `is_command` tells that the text is one of our
    slash commands: it needs no mention. `bot_allowed` is the loop guard's word on a message written by a bot.
    """
    role = role_of(inbound, settings, grants)
    if role is Role.BLOCKED:
        blocked = blocked_account(person_name(inbound), settings, grants)
        return Ignored("blocked" if blocked in (None, person_name(inbound)) else "a linked account is blocked")
    if inbound.sender.is_bot:
        if settings.bots == "ignore" or mention is not Mention.DIRECT:
            return Ignored("a bot wrote it")
        if not bot_allowed:
            return Ignored("bot loop guard")
    if inbound.chat_type is ChatType.DIRECT:
        return _decide_direct(role, settings)
    return _decide_group(inbound, role, settings, grants, addressed=is_command or addresses(mention, rule))


def addresses(mention: Mention, rule: MentionRule) -> bool:
    """Whether a message that mentions the bot in this way is one to answer."""
    match rule:
        case "always":
            return True
        case "replied" | "ambient":  # an ambient place begins unasked turns of its own (gateway.router.unaddressed)
            return mention is not Mention.NONE
        case "mentioned":
            return mention is Mention.DIRECT
        case "never":
            return False


def _decide_direct(role: Role, settings: AccessSettings) -> Decision:
    if settings.dm == "closed":
        return Allowed(role) if role >= Role.ADMIN else Ignored("direct messages are closed")
    if role >= Role.MEMBER:
        return Allowed(role)
    if settings.dm == "open":
        return Allowed(Role.MEMBER)
    return Unpaired() if settings.dm == "pairing" else Ignored("unknown person")


def _decide_group(
    inbound: Received, role: Role, settings: AccessSettings, grants: Grants, *, addressed: bool
) -> Decision:
    if not addressed:
        return Ignored(NO_MENTION)
    # An admin may speak (and say /allow) in any group; everybody else only where the group was let in.
    if role >= Role.ADMIN:
        return Allowed(role)
    if settings.groups == "closed":
        return Ignored("groups are closed")
    names = place_names(inbound)
    given = {grants.everywhere.get(name, Role.STRANGER) for name in names}  # to a server or channel, by its id
    if Role.BLOCKED in given:
        return Ignored("blocked")
    if is_let_in(inbound, settings, grants, by_name=True):
        return Allowed(max(role, Role.MEMBER))
    return Allowed(max(role, Role.GUEST)) if settings.groups == "open" else Ignored("group not allowed")


# Flood limit of one sender: token buckets as values, bounded in memory.


class Take(Enum):
    TAKEN = "taken"
    REFUSED_FIRST = "refused, tell them once"
    REFUSED = "refused"


class Flood:
    """Buckets by key, the least recently used forgotten beyond `most`; the first refusal in a row wants a notice."""

    def __init__(self, *, per_s: float, burst: float, most: int = 4096) -> None:
        self._rate = Rate(per_s=per_s, burst=burst)
        self._buckets: BoundedMap[Hashable, tuple[TokenBucket, bool]] = BoundedMap(most)  # and: was it told?

    def take(self, key: Hashable, now: float) -> Take:
        bucket, told = self._buckets.get(key) or (TokenBucket.full(self._rate, now), False)
        if bucket.wait_s(now):
            self._buckets[key] = (bucket, True)
            return Take.REFUSED if told else Take.REFUSED_FIRST
        self._buckets[key] = (bucket.taken(now), False)
        return Take.TAKEN


# 30 automatic answers in 600 s, over 4,096 conversations.
def bot_loop_guard() -> Flood:
    return Flood(per_s=30 / 600, burst=30, most=4096)


# Pairing codes: their form and lifetime. The store keeps only their hash.

LIFETIME = timedelta(minutes=10)
LENGTH = 8
MOST_PENDING = 50  # open requests over all accounts; beyond it strangers hear nothing
WRONG_TRIES = 10  # wrong codes an hour before `approve` refuses
# Without letters and digits that look alike.
ALPHABET = "ABCDEFGHJKMNPQRSTVWXYZ23456789"


def code_from(entropy: bytes) -> str:
    """The code that these random bytes (at least 8) spell."""
    if len(entropy) < LENGTH:
        raise ValueError(f"{len(entropy)} random bytes are too few for a code of {LENGTH}")
    number = int.from_bytes(entropy)
    letters = []
    for _ in range(LENGTH):
        number, index = divmod(number, len(ALPHABET))
        letters.append(ALPHABET[index])
    return "".join(letters)


def normalised(code: str) -> str:
    """The code as it was made, from what people type: upper case, no blanks or dashes."""
    return "".join(letter for letter in code.upper() if letter.isalnum())


def digest(code: str, purpose: Literal["pairing", "link"] = "pairing") -> str:
    """The stored form of a code. One for another purpose is another code."""
    return hashlib.sha256(f"tieline {purpose} {normalised(code)}".encode()).hexdigest()


# Decisions: the last messages without an answer, and the reason, for `/why`. In memory and bounded.

PER_CONVERSATION, CONVERSATIONS = 5, 2048


@dataclass(frozen=True, slots=True, kw_only=True)
class Unanswered:
    message_id: str
    person: str
    why: str
    at: datetime


class Decisions:
    """Remembers the newest few of each conversation; the conversation longest untouched is forgotten first."""

    def __init__(self) -> None:
        self._kept: BoundedMap[str, deque[Unanswered]] = BoundedMap(CONVERSATIONS)

    def note(self, conversation: str, unanswered: Unanswered) -> None:
        kept = self._kept.get(conversation) or deque(maxlen=PER_CONVERSATION)
        kept.append(unanswered)
        self._kept[conversation] = kept

    def of(self, conversation: str) -> tuple[Unanswered, ...]:
        """The unanswered messages of the conversation and of the threads and topics in it, newest first: on Slack each
        message to the bot begins a thread, and a command is given in the channel.
        """
        within = f"{conversation}:"
        kept = (kept for name, kept in self._kept.items() if name == conversation or name.startswith(within))
        newest = sorted((one for some in kept for one in reversed(some)), key=lambda one: one.at, reverse=True)
        return tuple(newest[:PER_CONVERSATION])
