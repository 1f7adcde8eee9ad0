"""What people set for single conversations, kept in memory so that no message asks the database."""

from dataclasses import dataclass, replace
from typing import cast

from agent.core.clock import Clock
from agent.core.ids import ConversationId
from agent.storage.database import Database
from agent.storage.moments import to_us
from gateway.channels.keys import ConversationKey
from gateway.commands.queue import MODE_SETTING
from gateway.commands.status import VERBOSITY_SETTING
from gateway.config.live import Live
from gateway.delivery.delivery import Delivery
from gateway.delivery.settings import Settings as DeliverySettings
from gateway.delivery.verbosity import Verbosity
from gateway.dispatch.queue_modes import QueueMode
from gateway.storage import settings_rows

PARENT_SETTING = "parent"
DEEPEST = 4  # places within places


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """The stored settings by conversation; the configuration where there is none.

    `parents` are the places whose threads keys do not tell of: a Discord thread's key names the thread alone.
    """

    modes: dict[ConversationId, str]
    verbosities: dict[ConversationId, str]
    parents: dict[ConversationId, str]

    def around(self, key: ConversationKey) -> tuple[ConversationKey, ...]:
        """The places that it is part of, the nearest first: what was chosen there counts here."""
        found: list[ConversationKey] = []
        place = key
        while len(found) < DEEPEST:
            parent = place.around or self._parent(place)
            if parent is None or parent == key or parent in found:
                break
            found.append(parent)
            place = parent
        return tuple(found)

    def knows(self, key: ConversationKey, parent: str) -> bool:
        return self.parents.get(ConversationId(str(key))) == parent

    async def learn(self, key: ConversationKey, parent: str, database: Database, clock: Clock) -> None:
        """An adapter told that `key` is a thread of the place with that channel id."""
        conversation, at = ConversationId(str(key)), to_us(clock.now())
        await database.write(lambda conn: settings_rows.put(conn, conversation, PARENT_SETTING, parent, at=at))
        self.parents[conversation] = parent

    def mode(self, conversation: ConversationId, live: Live) -> QueueMode:
        key = ConversationKey.parse(conversation)
        places = (key, *self.around(key))
        chosen = next(filter(None, (self.modes.get(ConversationId(str(place))) for place in places)), None)
        return cast(QueueMode, chosen or live.settings.queue.mode)

    def delivery(self, live: Live) -> DeliverySettings:
        base = live.settings.delivery
        stored = {str(key): cast(Verbosity, mode) for key, mode in self.verbosities.items()}
        return replace(base, verbosities={**base.verbosities, **stored})

    def change(self, conversation: ConversationId, key: str, value: str, live: Live, delivery: Delivery) -> None:
        """Somebody set it in the chat: it counts from now on."""
        if key == MODE_SETTING:
            self.modes[conversation] = value
        elif key == VERBOSITY_SETTING:
            self.verbosities[conversation] = value
            delivery.settings = self.delivery(live)

    def _parent(self, key: ConversationKey) -> ConversationKey | None:
        parent = self.parents.get(ConversationId(str(key)))
        return ConversationKey(key.channel_type, parent) if parent is not None else None


async def load_chosen(database: Database) -> Chosen:
    """As it was stored by earlier processes."""
    modes = await database.read(lambda conn: settings_rows.everywhere(conn, MODE_SETTING))
    verbosities = await database.read(lambda conn: settings_rows.everywhere(conn, VERBOSITY_SETTING))
    parents = await database.read(lambda conn: settings_rows.everywhere(conn, PARENT_SETTING))
    return Chosen(modes=dict(modes), verbosities=dict(verbosities), parents=dict(parents))
