"""Sending by tools: rows of the outbox like everything else that must arrive, each once (`agent.tools.sending`)."""

import hashlib
from collections.abc import Callable
from pathlib import Path

import anyio
from sqlalchemy import Connection, select

from agent.core.clock import Clock
from agent.core.ids import ConversationId, PersonId
from agent.core.outbox import SENT, FileRef, OutgoingMessage
from agent.core.safe_files import put_whole
from agent.storage import outbox_rows
from agent.storage.database import Database
from agent.storage.tables import conversation
from agent.storage.timestamps import to_timestamp
from gateway.channels.keys import ConversationKey
from gateway.router.attachments import safe_name


class Sending:
    """Writes rows and wakes delivery.

    `serves` tells whether an account for that chat is configured, `is_admin` whether a person is an admin of the whole
    bot.
    """

    def __init__(
        self,
        database: Database,
        clock: Clock,
        home: Path,
        *,
        deliver: Callable[[ConversationKey], None],
        serves: Callable[[ConversationKey], bool],
        is_admin: Callable[[PersonId | None], bool],
    ) -> None:
        self._database = database
        self._clock = clock
        self._home = home
        self._deliver = deliver
        self._serves = serves
        self.may_send_elsewhere = is_admin

    async def message(self, to: ConversationId, text: str, key: str) -> None:
        await self._say(to, OutgoingMessage(text=text, kind="reply"), key)

    async def file(self, to: ConversationId, data: bytes, name: str, mime_type: str, caption: str, key: str) -> None:
        folder = hashlib.blake2b(f"{to}:{key}".encode(), digest_size=8).hexdigest()  # the same for a repeat
        path = Path(SENT, folder, safe_name(name))
        await anyio.to_thread.run_sync(put_whole, self._home / path, data)
        await self._say(
            to,
            OutgoingMessage(
                text=caption, kind="reply", files=(FileRef(path=str(path), name=name, mime_type=mime_type),)
            ),
            key,
        )

    async def knows(self, conversation: ConversationId) -> bool:
        try:
            key = ConversationKey.parse(conversation)
        except ValueError:
            return False
        return self._serves(key) and await self._database.read(lambda conn: _is_there(conn, conversation))

    async def _say(self, to: ConversationId, say: OutgoingMessage, key: str) -> None:
        def write(conn: Connection) -> None:
            outbox_rows.add(
                conn,
                conversation=to,
                inbox_id=None,
                part=0,
                dedup=f"tool:{to}:{key}",
                say=say,
                at=to_timestamp(self._clock.now()),
            )

        await self._database.write(write)
        self._deliver(ConversationKey.parse(to))


def _is_there(conn: Connection, key: ConversationId) -> bool:
    return conn.execute(select(conversation.c.key).where(conversation.c.key == key)).first() is not None
