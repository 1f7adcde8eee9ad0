"""Commands that an operator gives in somebody's conversation: queued there as the person's own would be."""

import secrets

from sqlalchemy import Connection

from agent.core.clock import Clock
from agent.core.ids import ConversationId, PersonId
from agent.inbox import Incoming
from agent.storage import inbox_rows
from agent.storage.database import Database
from agent.storage.payloads import encode_incoming
from agent.storage.timestamps import to_timestamp
from gateway.operations.callbacks import OperationCallbacks


class OperatorCommands:
    """Stores them in the inbox: they run in turn, once, and are answered in the chat, so that nobody there wonders."""

    def __init__(self, database: Database, clock: Clock, callbacks: OperationCallbacks) -> None:
        self._database = database
        self._clock = clock
        self._callbacks = callbacks

    async def give(
        self, conversation: ConversationId, text: str, *, person: PersonId, display: str, language: str
    ) -> None:
        """Queue the command `text` (`/clear`) there, as an owner who is called so; `language` is that of the people."""
        now = self._clock.now()
        # As in a direct chat: nobody is asked in the group whether the operator means it.
        incoming = Incoming(text=text, person=person, display=display, language=language, role="owner", received_at=now)

        def work(conn: Connection) -> None:
            inbox_rows.admit(
                conn,
                conversation=conversation,
                kind="message",
                dedup=f"operator:{secrets.token_hex(12)}",
                payload=encode_incoming(incoming),
                at=to_timestamp(now),
                limit=None,
            )

        await self._database.write(work)
        self._callbacks.work(conversation)
