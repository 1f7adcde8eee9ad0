"""The provider of a place: its own choice, else that of its group, its account, the gateway."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlalchemy import Connection

from agent.core.ids import ConversationId
from agent.memory.records import Places
from agent.providers.routing import Choice, Scope
from gateway.channels.keys import ConversationKey
from gateway.config.live import Live
from gateway.conversations.place_settings import PlaceSettings
from gateway.storage import preferences
from gateway.storage.preferences import Preference

ACCOUNT = "*"  # stands for a place: what is kept under it holds for every chat of an account


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """The choice in force in a place. `choice` None: the default of the gateway. `locked`: admins alone change it."""

    choice: Choice | None = None
    locked: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Configured:
    """The `[[channels]]` section of an account; `provider` "": none."""

    provider: str = ""
    locked: bool = False


NOTHING = Configured()


def account_of(key: ConversationKey) -> ConversationKey:
    """The place under which an account's own choice is kept."""
    return ConversationKey(key.channel_type, ACCOUNT)


def held(
    conn: Connection, key: ConversationKey, around: Sequence[ConversationKey], configured: Configured = NOTHING
) -> Held:
    """The choice for `key`, whose enclosing places are `around`, the nearest first. A lock holds for all within."""
    places: list[tuple[Scope, ConversationKey]] = [("channel", key)]
    places += [("group", place) for place in around]
    places.append(("account", account_of(key)))
    found = [(scope, preferences.load(conn, place.channel_type, place.channel_id)) for scope, place in places]
    locked = configured.locked or any(preference is not None and preference.locked for _, preference in found)
    for scope, preference in found:
        if preference is not None:
            return Held(choice=_choice(preference, scope), locked=locked)
    return replace(configured_only(configured), locked=locked)


def configured_only(configured: Configured) -> Held:
    """The choice where nothing is kept of what people choose (Z-68)."""
    if not configured.provider:
        return Held(locked=configured.locked)
    return Held(choice=Choice(provider=configured.provider, source="admin", scope="account"), locked=configured.locked)


def _choice(preference: Preference, scope: Scope) -> Choice:
    return Choice(provider=preference.provider, model=preference.model, source=preference.source, scope=scope)


# Places with the same people, which share what may be remembered.


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
