"""Places with the same people, which share what may be remembered."""

from agent.core.ids import ConversationId
from agent.memory.records import Places
from gateway.channels.keys import ConversationKey
from gateway.config.live import Live
from gateway.conversations.place_settings import PlaceSettings


def places(live: Live, place_settings: PlaceSettings, conversation: ConversationId) -> Places:
    """Places that share what is remembered there: its platform may tell how many parts of a key name a place."""
    key = ConversationKey.parse(conversation)
    place_parts = next((one.place_parts for one in live.settings.channels if one.type == key.platform), None)
    parts = key.channel_id.split(":")
    if place_parts is not None and len(parts) > place_parts:
        return Places(home=_id(key, ":".join(parts[:place_parts])))
    parent = place_settings.parent_of(conversation)  # the channel that an adapter said it is a thread of
    return Places(home=conversation, around=(_id(key, parent),) if parent else ())


def _id(key: ConversationKey, channel_id: str) -> ConversationId:
    return ConversationId(str(ConversationKey(key.channel_type, channel_id)))
