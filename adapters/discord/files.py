"""Attachments in: fetched from the address Discord gave, which is asked for anew when it has expired."""

from pathlib import Path

import aiohttp

from adapters.discord.account import Bot
from gateway.channels.errors import ChannelRejected
from gateway.channels.inbound import Attachment
from gateway.channels.kit.http import one_attempt, refusal, save

WITHIN_S = 120.0
EXPIRED = (401, 403, 404)  # addresses are signed for a day


class DiscordFiles:
    """Bytes of attachments. The bot's token goes nowhere near the content network."""

    def __init__(self, bot: Bot) -> None:
        self._bot = bot

    async def fetch(self, attachment: Attachment, to: Path, *, limit: int) -> int:
        """Write it to `to` and return its size; raises ChannelRejected above `limit` bytes."""
        if attachment.size is not None and attachment.size > limit:
            raise ChannelRejected(_too_large(attachment, limit))
        channel_id, message_id, number, url = _read(attachment.handle)
        with one_attempt("Discord", "the attachment"):
            async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=WITHIN_S)) as session:
                size = await self._download(session, url, attachment, to, limit)
                if size is None:
                    fresh = await self._address(channel_id, message_id, number)
                    size = await self._download(session, fresh, attachment, to, limit) if fresh else None
        if size is None:
            raise ChannelRejected(f"the attachment {attachment.name!r} is no longer there")
        return size

    async def _download(
        self, session: aiohttp.ClientSession, url: str, attachment: Attachment, to: Path, limit: int
    ) -> int | None:
        """None when the address has expired."""
        async with session.get(url, proxy=self._bot.proxy) as response:
            if response.status in EXPIRED:
                return None
            if error := refusal(response, "Discord's content network", "the attachment"):
                raise error
            return await save(response, to, limit=limit, too_large=_too_large(attachment, limit))

    async def _address(self, channel_id: str, message_id: str, number: str) -> str | None:
        message = await self._bot.rest.message(channel_id, message_id)
        snapshots = [snapshot.get("message") or {} for snapshot in message.get("message_snapshots") or ()]  # forwarded
        files = [file for one in (message, *snapshots) for file in one.get("attachments") or ()]
        return next((str(file["url"]) for file in files if str(file["id"]) == number), None)


def _read(handle: str) -> tuple[str, str, str, str]:
    parts = handle.split(" ", 3)
    if len(parts) != 4:
        raise ChannelRejected("not an attachment of this platform")
    return parts[0], parts[1], parts[2], parts[3]


def _too_large(attachment: Attachment, limit: int) -> str:
    return f"the attachment {attachment.name!r} is larger than {limit} bytes"
