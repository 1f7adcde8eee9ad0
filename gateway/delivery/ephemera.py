"""The notes about what is on the screen and must not stay, so that a restart can take it away (DESIGN §13.5)."""

from collections.abc import Sequence

from agent.core.clock import Clock
from agent.core.ids import ConversationId
from agent.storage import ephemeral_rows
from agent.storage.database import Database
from agent.storage.ephemeral_rows import EphemeralKind, EphemeralRow
from agent.storage.moments import to_us
from gateway.channels.keys import ConversationKey
from gateway.delivery.refs import Shown, encode


class Ephemera:
    """Writes and strikes the notes."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def note(self, key: ConversationKey, kind: EphemeralKind, shown: Shown) -> None:
        at = to_us(self._clock.now())
        conversation, ref = ConversationId(str(key)), encode(shown)
        await self._database.write(
            lambda conn: ephemeral_rows.note(conn, conversation=conversation, kind=kind, ref=ref, at=at)
        )

    async def forget(self, key: ConversationKey, kind: EphemeralKind, shown: Shown) -> None:
        conversation, ref = ConversationId(str(key)), encode(shown)
        await self._database.write(
            lambda conn: ephemeral_rows.forget(conn, conversation=conversation, kind=kind, ref=ref)
        )

    async def left_over(self, key: ConversationKey) -> Sequence[EphemeralRow]:
        return await self._database.read(lambda conn: ephemeral_rows.all_for(conn, ConversationId(str(key))))
