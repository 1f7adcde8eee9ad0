"""The notes about what is on the screen and must not stay, so that a restart can take it away (DESIGN §13.5)."""

from sqlalchemy import Connection

from agent.core.clock import Clock
from agent.core.ids import ConversationId
from agent.storage import ephemeral_rows
from agent.storage.database import Database
from agent.storage.ephemeral_rows import EphemeralKind
from agent.storage.timestamps import to_timestamp
from gateway.channels.keys import ConversationKey
from gateway.delivery.refs import Shown, encode, notes, unnamed


class Ephemera:
    """Writes and strikes the notes."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def note(self, key: ConversationKey, kind: EphemeralKind, shown: Shown) -> None:
        at = to_timestamp(self._clock.now())
        conversation, ref = ConversationId(str(key)), encode(shown)
        await self._database.write(
            lambda conn: ephemeral_rows.note(conn, conversation=conversation, kind=kind, ref=ref, at=at)
        )

    async def name(self, key: ConversationKey, kind: EphemeralKind, shown: Shown) -> None:
        """The platform has named what was noted by its key."""
        at = to_timestamp(self._clock.now())
        conversation, ref, before = ConversationId(str(key)), encode(shown), encode(unnamed(shown.key, shown.of))

        def rename(conn: Connection) -> None:
            ephemeral_rows.note(conn, conversation=conversation, kind=kind, ref=ref, at=at)
            ephemeral_rows.forget(conn, conversation=conversation, kind=kind, refs=(before,))

        await self._database.write(rename)

    async def forget(self, key: ConversationKey, kind: EphemeralKind, shown: Shown) -> None:
        conversation, refs = ConversationId(str(key)), notes(shown)
        await self._database.write(
            lambda conn: ephemeral_rows.forget(conn, conversation=conversation, kind=kind, refs=refs)
        )
