"""What the gateway says on its own account: short rows in the outbox, each once, whatever is repeated."""

from collections.abc import Callable

from sqlalchemy import Connection

from agent.core.clock import Clock
from agent.core.ids import ConversationId
from agent.core.outbox import OutgoingMessage
from agent.storage import conversation_rows, outbox_rows
from agent.storage.database import Database
from agent.storage.timestamps import to_timestamp
from gateway.channels.keys import ConversationKey


class Notices:
    """Writes rows and wakes delivery."""

    def __init__(self, database: Database, clock: Clock, wake: Callable[[ConversationKey], None]) -> None:
        self._database = database
        self._clock = clock
        self._wake = wake

    async def say(self, key: ConversationKey, say: OutgoingMessage, *, dedup: str) -> None:
        """Say it there; a second time with the same `dedup` does nothing."""
        await self._database.write(lambda conn: self.add(conn, key, say, dedup=dedup))
        self._wake(key)

    def add(
        self, conn: Connection, key: ConversationKey, say: OutgoingMessage, *, dedup: str, inbox_id: int | None = None
    ) -> None:
        """The same within a transaction of the caller, who calls `committed` afterwards."""
        conversation, at = ConversationId(str(key)), to_timestamp(self._clock.now())
        conversation_rows.ensure(conn, conversation, at)
        outbox_rows.add(
            conn, conversation=conversation, inbox_id=inbox_id, part=0, dedup=f"notice:{dedup}", say=say, at=at
        )

    def committed(self, key: ConversationKey) -> None:
        self._wake(key)
