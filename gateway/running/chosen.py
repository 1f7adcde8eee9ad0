"""What people set for single conversations, kept in memory so that no message asks the database."""

from dataclasses import dataclass, replace
from typing import cast

from agent.core.ids import ConversationId
from agent.storage.database import Database
from gateway.channels.keys import ConversationKey
from gateway.commands.queue import MODE_SETTING
from gateway.commands.status import VERBOSITY_SETTING
from gateway.config.live import Live
from gateway.delivery.delivery import Delivery
from gateway.delivery.settings import Settings as DeliverySettings
from gateway.delivery.verbosity import Verbosity
from gateway.dispatch.queue_modes import QueueMode
from gateway.storage import settings_rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """The stored settings by conversation; the configuration where there is none."""

    modes: dict[ConversationId, str]
    verbosities: dict[ConversationId, str]

    def mode(self, conversation: ConversationId, live: Live) -> QueueMode:
        around = ConversationKey.parse(conversation).around
        chosen = self.modes.get(conversation) or self.modes.get(ConversationId(str(around)))
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


async def load_chosen(database: Database) -> Chosen:
    """As it was stored by earlier processes."""
    return Chosen(
        modes=dict(await database.read(lambda conn: settings_rows.everywhere(conn, MODE_SETTING))),
        verbosities=dict(await database.read(lambda conn: settings_rows.everywhere(conn, VERBOSITY_SETTING))),
    )
