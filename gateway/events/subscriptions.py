"""Subscriptions of the configuration in force: writes the rows of events, in the transaction of what they tell of."""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta

from sqlalchemy import Connection

from agent.core.ids import ConversationId
from agent.storage.database import Database
from agent.storage.timestamps import from_timestamp, to_timestamp
from gateway.channels.keys import ConversationKey
from gateway.config.events import EventSettings, EventType
from gateway.events.event import Event
from gateway.storage import event_rows

GIVEN_UP_AFTER = timedelta(days=1)

Around = Callable[[ConversationId], Sequence[ConversationKey]]


def digest_of(address: str) -> str:
    """A name of the address that does not tell it."""
    return hashlib.blake2b(address.encode(), digest_size=16).hexdigest()


class Subscriptions:
    """`around` gives a conversation's place and those around it. Rows are written in the database's thread."""

    def __init__(
        self, configured: Callable[[], Sequence[EventSettings]], around: Around, redact: Callable[[str], str]
    ) -> None:
        self._configured = configured
        self._around = around
        self._redact = redact
        self._off: dict[str, str] = {}  # digests of the addresses that ended their subscriptions
        self._has_added = False
        self._wake: Callable[[], None] = lambda: None

    async def load(self, database: Database) -> None:
        """Take up which ones were ended. Before anything happens."""
        self._off = dict(await database.read(event_rows.switched_off))

    def connect(self, wake: Callable[[], None]) -> None:
        """Call `wake` when rows were committed."""
        self._wake = wake

    @property
    def all(self) -> Sequence[EventSettings]:
        """All of the configuration."""
        return self._configured()

    def named(self, name: str) -> EventSettings | None:
        return next((one for one in self.all if one.name == name), None)

    def is_on(self, subscription: EventSettings) -> bool:
        """Whether its receiver has not ended it at this address."""
        off = self._off.get(subscription.name) if self._off else None
        return off is None or off != digest_of(subscription.address)

    def switched_off(self, subscription: EventSettings) -> None:
        """It is on disk that its receiver ended it."""
        self._off[subscription.name] = digest_of(subscription.address)

    def switched_on(self, name: str) -> None:
        self._off.pop(name, None)

    def hear(self, *kinds: EventType) -> bool:
        """Whether anybody is told of any of these events, somewhere."""
        return any((not one.events or set(one.events) & set(kinds)) and self.is_on(one) for one in self.all)

    def add(self, conn: Connection, event: Event) -> None:
        """Keep it for each who is told of it; call `committed` afterwards. Telling the same again adds nothing."""
        give_up_at = to_timestamp(from_timestamp(event.at) + GIVEN_UP_AFTER)
        for one in self._told_of(event):
            self._has_added |= event_rows.add(
                conn,
                one.name,
                message=event.id,
                type=event.type,
                conversation=event.conversation,
                inbox_id=event.inbox_id,
                body=event.encoded(with_texts=one.include_text, redact=self._redact),
                at=event.at,
                give_up_at=give_up_at,
            )

    def committed(self) -> None:
        """Rows may have been written: those that were are sent now."""
        if self._has_added:
            self._has_added = False
            self._wake()

    def _told_of(self, event: Event) -> Iterator[EventSettings]:
        if not self.all or event.type == "test":
            return
        places = self._around(event.conversation) if event.conversation else ()
        yield from (one for one in self.all if one.wants(event.type, places) and self.is_on(one))
