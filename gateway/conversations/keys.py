"""Which conversation a message belongs to: usually its place; by configuration one a person or one a group (SPEC §1.3).

Pure. The key of a split conversation still tells the place to answer in.
"""

from dataclasses import dataclass, replace

from agent.core.ids import ConversationId
from gateway.channels.inbound import ChatType, Received
from gateway.channels.keys import ConversationKey, UserId

_MARK = "~"  # before a person's id; stands in no platform's ids


@dataclass(frozen=True, slots=True, kw_only=True)
class Splitting:
    """How places become conversations. Direct chats and their threads are never changed.

    `groups_by_person`: in groups everybody talks with an agent of their own. `threads_by_person`: the same inside
    topics and threads. `threads_share_parent`: topics and threads belong to the conversation of their group, whose
    agent answers there.
    """

    groups_by_person: bool = False
    threads_by_person: bool = False
    threads_share_parent: bool = False


def conversation_key(inbound: Received, splitting: Splitting) -> ConversationKey:
    """The conversation of what came in. `inbound.place` is the group itself, `inbound.key` perhaps a thread in it."""
    key = inbound.key
    if inbound.chat_type is ChatType.DIRECT:
        return key
    is_thread = key.channel_id != inbound.place
    if is_thread and splitting.threads_share_parent:
        key, is_thread = replace(key, channel_id=inbound.place), False
    by_person = splitting.threads_by_person if is_thread else splitting.groups_by_person
    return replace(key, channel_id=f"{key.channel_id}{_MARK}{inbound.sender.id}") if by_person else key


def address(key: ConversationKey) -> ConversationKey:
    """Where to answer: the key that the platform's adapter knows."""
    return replace(key, channel_id=key.channel_id.partition(_MARK)[0])


def only_person(key: ConversationKey) -> UserId | None:
    """Whose conversation it is, when a place was split by person."""
    _, mark, person = key.channel_id.partition(_MARK)
    return UserId(person) if mark else None


def conversation_id(key: ConversationKey) -> ConversationId:
    """The name an agent and the database know it by."""
    return ConversationId(str(key))
