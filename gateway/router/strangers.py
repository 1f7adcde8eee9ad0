"""Unknown people in direct chats: they get a pairing code and nothing else (DESIGN §6)."""

import secrets

from agent.core.clock import Clock
from agent.storage.database import Database
from agent.storage.moments import to_us
from gateway.access.limits import Flood, Take
from gateway.access.pairing import LIFETIME, MOST_PENDING, code_from, digest
from gateway.access.policy import person_name
from gateway.channels.inbound import Said
from gateway.router.incoming import language_of
from gateway.storage import pairings


class Strangers:
    """Makes codes. One person has one open code at a time and hears of it once; all together at most 50 are open."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._flood = Flood(per_s=1 / 60, burst=3)

    async def meet(self, said: Said) -> str | None:
        """A new code for this person; None when they have one, or when too many are open already."""
        if self._flood.take(person_name(said), self._clock.monotonic()) is not Take.TAKEN:
            return None
        now = self._clock.now()
        code = code_from(secrets.token_bytes(16))
        made = await self._database.write(
            lambda conn: pairings.ask(
                conn,
                code_hash=digest(code),
                subject=person_name(said),
                display=said.sender.display,
                conversation=str(said.key),
                language=language_of(said),
                now=to_us(now),
                expires=to_us(now + LIFETIME),
                most_open=MOST_PENDING,
            )
        )
        return code if made else None
