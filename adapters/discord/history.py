"""What Discord remembers of a channel: what people said while nobody listened, and our own message by its nonce."""

import logging
from collections.abc import Awaitable, Callable, Sequence

from adapters.discord.account import Bot
from adapters.discord.limits import PAGE
from adapters.discord.parse import Where, said
from adapters.discord.rest import Json
from gateway.channels.inbound import Said
from gateway.channels.outbound import SentRef

log = logging.getLogger("tieline.discord")

LOOKED_THROUGH = 50  # newest messages among which our own is looked for

Locate = Callable[[str], Awaitable[Where]]


class DiscordHistory:
    """The history of one channel or thread."""

    def __init__(self, bot: Bot, channel_id: str, locate: Locate) -> None:
        self._bot = bot
        self._channel_id = channel_id
        self._locate = locate

    async def since(self, message_id: str | None, *, limit: int) -> Sequence[Said]:
        """Messages of people after that one, oldest first; without one, the newest `limit`."""
        found: list[Said] = []
        after = message_id
        while len(found) < limit:
            rows = await self.page(after, limit=PAGE if after else min(limit, PAGE))
            found += await self.read(rows)
            if after is None or len(rows) < PAGE:
                break
            after = str(rows[-1]["id"])
        return found[:limit]

    async def page(self, after: str | None, *, limit: int = PAGE) -> list[Json]:
        """The next rows after a message (or the newest ones), oldest first, whoever wrote them."""
        rows = await self._bot.rest.messages(self._channel_id, limit=limit, after=after)
        # Discord gives a page newest first, even the one that begins after a message.
        return sorted(rows, key=lambda row: int(row["id"]))

    async def read(self, rows: Sequence[Json]) -> list[Said]:
        """What people said in these rows; one that cannot be read is left out, for it would be so each time."""
        where = await self._locate(self._channel_id)
        read = (self._said(row, where) for row in rows)
        return [message for message in read if message is not None]

    def _said(self, row: Json, where: Where) -> Said | None:
        try:
            return said(row, where, self._bot.identity, received_at=self._bot.clock.now(), from_history=True)
        except Exception:  # the channel loop: one row must not keep all behind it from being read
            log.exception(
                "a message of the history cannot be read and is lost",
                extra={"channel_id": self._channel_id, "message_id": str(row.get("id"))},
            )
            return None

    async def find(self, key: str) -> SentRef | None:
        """A recent message of ours that carries this nonce."""
        known = self._bot.own.by_nonce(self._channel_id, key)
        if known is not None:
            return SentRef(known)
        for row in await self._bot.rest.messages(self._channel_id, limit=LOOKED_THROUGH):
            if str(row.get("nonce") or "") == key and str(row["author"]["id"]) == self._bot.rest.user_id:
                return SentRef(str(row["id"]))
        return None
