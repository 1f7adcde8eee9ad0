"""Attachments in: fetched from the address Discord gave, which is asked for anew when it has expired."""

from pathlib import Path

import aiohttp
import anyio

from adapters.discord.account import Bot
from gateway.channels.adapter import wait_asked_s, whole_or_nothing
from gateway.channels.errors import ChannelBusy, ChannelRejected
from gateway.channels.inbound import Attachment

WITHIN_S = 120.0
CHUNK = 64 * 1024
EXPIRED = (401, 403, 404)  # addresses are signed for a day


class DiscordFiles:
    """Bytes of attachments. The bot's token goes nowhere near the content network."""

    def __init__(self, bot: Bot) -> None:
        self._bot = bot

    async def fetch(self, attachment: Attachment, to: Path, *, limit: int) -> int:
        """Write it to `to` and return its size; raises ChannelRejected above `limit` bytes."""
        if attachment.size is not None and attachment.size > limit:
            raise _too_large(attachment, limit)
        channel_id, message_id, number, url = _read(attachment.handle)
        try:
            async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=WITHIN_S)) as session:
                size = await self._download(session, url, attachment, to, limit)
                if size is None:
                    fresh = await self._address(channel_id, message_id, number)
                    size = await self._download(session, fresh, attachment, to, limit) if fresh else None
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise ChannelBusy(f"the attachment could not be fetched ({type(error).__name__})", after_s=2.0) from None
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
            if response.status >= 500 or response.status == 429:
                wait_s = wait_asked_s(response.headers, 2.0)
                raise ChannelBusy(f"the content network answered {response.status}", after_s=wait_s)
            if response.status != 200:
                raise ChannelRejected(f"the content network answered {response.status}")
            size = 0
            async with whole_or_nothing(to), await anyio.open_file(to, "wb") as file:
                async for chunk in response.content.iter_chunked(CHUNK):
                    size += len(chunk)
                    if size > limit:
                        raise _too_large(attachment, limit)
                    await file.write(chunk)
            return size

    async def _address(self, channel_id: str, message_id: str, number: str) -> str | None:
        message = await self._bot.rest.message(channel_id, message_id)
        return next((str(f["url"]) for f in message.get("attachments") or () if str(f["id"]) == number), None)


def _read(handle: str) -> tuple[str, str, str, str]:
    parts = handle.split(" ", 3)
    if len(parts) != 4:
        raise ChannelRejected("not an attachment of this platform")
    return parts[0], parts[1], parts[2], parts[3]


def _too_large(attachment: Attachment, limit: int) -> ChannelRejected:
    return ChannelRejected(f"the attachment {attachment.name!r} is larger than {limit} bytes")
