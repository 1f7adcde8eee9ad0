"""Which places have the same people in them, for what may be remembered from one to the other. Pure.

Everybody in a channel of Slack's can read its threads, everybody in a group of Telegram's its topics: one home each.
A thread of Discord's may be private: it sees what its channel knows, and the channel nothing of it.
"""

from agent.core.ids import ConversationId
from agent.memory.audience import Places
from gateway.channels.keys import ConversationKey


def places_of(key: ConversationKey, parent: str | None, place_parts: int | None) -> Places:
    """The home of a conversation; `parent` is the channel that an adapter said it is a thread of.

    `place_parts` is the platform's (`ChannelSettings`).
    """
    parts = key.channel_id.split(":")
    if place_parts is not None and len(parts) > place_parts:
        return Places(home=_id(key, ":".join(parts[:place_parts])))
    return Places(home=_id(key, key.channel_id), around=(_id(key, parent),) if parent else ())


def _id(key: ConversationKey, channel_id: str) -> ConversationId:
    return ConversationId(str(ConversationKey(key.channel_type, channel_id)))
