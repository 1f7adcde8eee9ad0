"""Which places have the same people in them, for what may be remembered from one to the other. Pure.

Everybody in a channel of Slack's can read its threads, everybody in a group of Telegram's its topics: one home each.
A thread of Discord's may be private: it sees what its channel knows, and the channel nothing of it.
"""

from agent.core.ids import ConversationId
from agent.memory.audience import Places
from gateway.channels.keys import ConversationKey

SAME_PEOPLE = {"telegram": 2, "slack": 3}  # parts of the id of a topic or thread


def places_of(key: ConversationKey, parent: str | None) -> Places:
    """The home of a conversation; `parent` is the channel that an adapter said it is a thread of."""
    parts = key.channel_id.split(":")
    most = SAME_PEOPLE.get(key.platform)
    if most is not None and len(parts) >= most:
        return Places(home=_id(key, ":".join(parts[: most - 1])))
    return Places(home=_id(key, key.channel_id), around=(_id(key, parent),) if parent else ())


def _id(key: ConversationKey, channel_id: str) -> ConversationId:
    return ConversationId(str(ConversationKey(key.channel_type, channel_id)))
