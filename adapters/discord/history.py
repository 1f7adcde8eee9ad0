"""Discord's history of a channel: people's messages since a position, and our own message.

Ours is found by its nonce for some minutes, and by its looks after that.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta

import anyio

from adapters.discord.account import Bot
from adapters.discord.limits import NONCE_S, PAGE, SILENT, moment_of, snowflake_at
from adapters.discord.parse import Where, said
from adapters.discord.render import render
from adapters.discord.rest import Json
from gateway.channels.channel import Attempt, HistoryPage, Position
from gateway.channels.errors import ChannelBusy, ChannelUnsure
from gateway.channels.inbound import MessageReceived
from gateway.channels.kit.catch_up import Facts
from gateway.channels.outbound import Outbound, SentRef

log = logging.getLogger("tieline.discord")

FACTS = Facts(
    moment_of=lambda message_id: moment_of(message_id) if message_id.isdecimal() else None,
    tries=5,  # Discord's waits are short, and its history is free but for them
)

ASKING = "…"  # said for a moment to ask Discord for a message by its nonce
MOST_PAGES = 5  # of what was said since, among which our own is looked for
CLOCKS_DIFFER = timedelta(minutes=1)  # ours and Discord's

Locate = Callable[[str], Awaitable[Where]]


class DiscordHistory:
    """The history of one channel or thread."""

    def __init__(self, bot: Bot, channel_id: str, locate: Locate) -> None:
        self._bot = bot
        self._channel_id = channel_id
        self._locate = locate

    async def since(self, after: Position) -> HistoryPage:
        """One page of Discord's. See `History.since`."""
        # Discord gives what comes behind an id: the one before the first of that moment.
        start = after.message_id or str(max(int(snowflake_at(after.at)) - 1, 0))
        rows = await self.page(start)
        following = None
        if len(rows) == PAGE:
            last = str(rows[-1]["id"])
            following = Position(at=moment_of(last), message_id=last)
        return HistoryPage(messages=await self._read(rows), following=following)

    async def page(self, after: str | None, *, limit: int = PAGE) -> list[Json]:
        """The next rows after a message (or the newest ones), oldest first, whoever wrote them."""
        rows = await self._bot.rest.messages(self._channel_id, limit=limit, after=after)
        # Discord gives a page newest first, even the one that begins after a message.
        return sorted(rows, key=lambda row: int(row["id"]))

    async def _read(self, rows: Sequence[Json]) -> list[MessageReceived]:
        """Words of people in these rows; a row that cannot be read is left out, for it would be so each time."""
        where = await self._locate(self._channel_id)
        read = (self._said(row, where) for row in rows)
        return [message for message in read if message is not None]

    def _said(self, row: Json, where: Where) -> MessageReceived | None:
        try:
            return said(row, where, self._bot.identity, received_at=self._bot.clock.now(), from_history=True)
        except Exception:  # the channel loop: one row must not keep all behind it from being read
            log.exception(
                "a message of the history cannot be read and is lost",
                extra={"channel_id": self._channel_id, "message_id": str(row.get("id"))},
            )
            return None

    async def find(self, key: str, attempt: Attempt | None = None) -> SentRef | None:
        """See `History.find`. No history has the nonce: the gateway's echo has, and Discord itself for some minutes."""
        known = self._bot.own.by_nonce(self._channel_id, key)
        if known is not None:
            return SentRef(known)
        if attempt is None:
            return await self._asked_for(key)
        if (self._bot.clock.now() - attempt.since).total_seconds() < NONCE_S:
            return None  # to send it again is the surest way: Discord gives back the first one
        return await self._alike(attempt)

    async def _asked_for(self, key: str) -> SentRef | None:
        """The message that an earlier process sent with this key: Discord gives it back when the key is sent again.

        What it makes instead is taken away at once, and if the first request is still on its way, it makes none.
        """
        own, rest = self._bot.own, self._bot.rest
        if own.has_tried(self._channel_id, key):
            return None
        own.tries(self._channel_id, key)
        body: Json = {"content": ASKING, "flags": SILENT, "nonce": key, "enforce_nonce": True}
        try:
            made = await rest.create_message(self._channel_id, body | {"allowed_mentions": {"parse": []}})
        except ChannelBusy:
            own.forgets(self._channel_id, key)  # nothing was asked
            raise
        message_id = str(made["id"])
        own.note(self._channel_id, message_id, key)
        if str(made.get("content")) != ASKING:
            return SentRef(message_id)
        await rest.delete_message(self._channel_id, message_id)  # if that fails, it is what is found from now on
        own.is_over(message_id)
        return None

    async def _alike(self, attempt: Attempt) -> SentRef | None:
        """The message of ours that reads like it. Raises ChannelUnsure when there is another that might be it."""
        looks, unknown = await _looks(attempt.message), False
        after, since = snowflake_at(attempt.since - CLOCKS_DIFFER), int(snowflake_at(attempt.since))
        for _ in range(MOST_PAGES):
            rows = await self.page(after)
            for row in rows:
                if str(row["author"]["id"]) != self._bot.rest.user_id or str(row["id"]) in attempt.others:
                    continue
                if _looks_of(row) == looks and _answers(row, attempt.message.reply_to):
                    return SentRef(str(row["id"]))
                unknown = unknown or int(row["id"]) >= since
            if len(rows) < PAGE:
                break
            after = str(rows[-1]["id"])
        else:
            unknown = True
        if unknown:
            raise ChannelUnsure("a message of ours stands there, and nobody can tell which")
        return None


async def _looks(message: Outbound) -> tuple[str, list[int]]:
    sizes = [(await anyio.Path(file.path).stat()).st_size for file in message.files]
    return render(message.document).strip(), sizes


def _looks_of(row: Json) -> tuple[str, list[int]]:
    return str(row.get("content") or "").strip(), [int(file["size"]) for file in row.get("attachments") or ()]


def _answers(row: Json, reply_to: str | None) -> bool:
    """Does it not answer another message than that one? An answer to a command has no reference."""
    reference = (row.get("message_reference") or {}).get("message_id")
    return reference is None or reply_to is None or str(reference) == reply_to
