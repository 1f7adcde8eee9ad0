"""Settings of single conversations, kept in memory so that no message asks the database."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import cast

from agent.core.clock import Clock
from agent.core.ids import ConversationId
from agent.storage.database import Database
from agent.storage.timestamps import to_timestamp
from gateway.channels.keys import ConversationKey
from gateway.commands.queue import MODE_SETTING
from gateway.commands.status import VERBOSITY_SETTING
from gateway.config.live import Live
from gateway.delivery.ephemeral.verbosity import Verbosity
from gateway.delivery.outbox.delivery import Delivery
from gateway.delivery.settings import Settings as DeliverySettings
from gateway.dispatch.queue_modes import QueueMode
from gateway.storage import settings_rows

PARENT_SETTING = "parent"
KEPT = (MODE_SETTING, VERBOSITY_SETTING, PARENT_SETTING)  # those that the path of a message asks for
DEEPEST = 4  # places within places


@dataclass(frozen=True, slots=True)
class Chosen:
    """The stored settings by name (`KEPT`) and conversation; the configuration where there is none.

    That of `PARENT_SETTING` is the place whose threads keys do not tell of: a Discord thread's key names the thread
    alone. To keep another one name it in `KEPT`, and ask for it by `nearest`: it counts in threads and topics, too.
    """

    stored: Mapping[str, dict[ConversationId, str]]

    def of(self, name: str, conversation: ConversationId) -> str | None:
        """The choice made there itself."""
        return self.stored[name].get(conversation)

    def nearest(self, name: str, conversation: ConversationId) -> str | None:
        """The choice made there, or in the nearest place around it."""
        key = ConversationKey.parse(conversation)
        found = (self.of(name, ConversationId(str(place))) for place in (key, *self.around(key)))
        return next((value for value in found if value), None)

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
        return self.of(PARENT_SETTING, ConversationId(str(key))) == parent

    async def learn(self, key: ConversationKey, parent: str, database: Database, clock: Clock) -> None:
        """An adapter told that `key` is a thread of the place with that channel id."""
        conversation, at = ConversationId(str(key)), to_timestamp(clock.now())
        await database.write(lambda conn: settings_rows.put(conn, conversation, PARENT_SETTING, parent, at=at))
        self.stored[PARENT_SETTING][conversation] = parent

    def mode(self, conversation: ConversationId, live: Live) -> QueueMode:
        return cast(QueueMode, self.nearest(MODE_SETTING, conversation) or live.settings.queue.mode)

    def delivery(self, live: Live) -> DeliverySettings:
        base = live.settings.delivery
        stored = {str(key): cast(Verbosity, mode) for key, mode in self.stored[VERBOSITY_SETTING].items()}
        return replace(base, verbosities={**base.verbosities, **stored})

    def change(self, conversation: ConversationId, key: str, value: str, live: Live, delivery: Delivery) -> None:
        """Somebody set it in the chat: it counts from now on."""
        if key not in self.stored:
            return
        self.stored[key][conversation] = value
        if key == VERBOSITY_SETTING:  # delivery holds its settings
            delivery.settings = self.delivery(live)

    def _parent(self, key: ConversationKey) -> ConversationKey | None:
        parent = self.of(PARENT_SETTING, ConversationId(str(key)))
        return ConversationKey(key.channel_type, parent) if parent is not None else None


async def load_chosen(database: Database) -> Chosen:
    """As it was stored by earlier processes."""
    return Chosen({name: dict(await database.read(partial(settings_rows.everywhere, key=name))) for name in KEPT})
