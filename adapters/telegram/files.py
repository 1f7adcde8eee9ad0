"""Files of Telegram: how each is uploaded (pure), and how one is fetched."""

from dataclasses import dataclass
from pathlib import Path

import aiohttp

from adapters.telegram.account import Account
from adapters.telegram.request import CONNECT_S, READ_S, BadRequest, in_channel_words, speaks_of
from gateway.channels.errors import ChannelBusy, ChannelRejected
from gateway.channels.inbound import Attachment
from gateway.channels.kit.http import one_attempt, refusal, save
from gateway.channels.outbound import File

DOWNLOAD_LIMIT = 20 * 1024 * 1024  # Bot API, getFile
UPLOAD_LIMIT = 50 * 1024 * 1024
PHOTO_LIMIT = 10 * 1024 * 1024
DOWNLOAD_S = 120.0


def upload_as(file: File, size: int) -> tuple[str, str]:
    """The method and its field: what people can look at or listen to in the chat is sent so, the rest as a document."""
    if file.mime_type in ("image/jpeg", "image/png", "image/webp") and size <= PHOTO_LIMIT:
        return "sendPhoto", "photo"
    # Bot API, sendVoice: Ogg Opus, MP3 or M4A; of the last two only what is meant as a voice message.
    if file.mime_type in ("audio/ogg", "audio/opus") or (file.voice and file.mime_type == "audio/mpeg"):
        return "sendVoice", "voice"
    return "sendDocument", "document"


@dataclass(frozen=True, slots=True)
class AccountFiles:
    account: Account

    async def fetch(self, attachment: Attachment, to: Path, *, limit: int) -> int:
        limit = min(limit, DOWNLOAD_LIMIT)
        if attachment.size is not None and attachment.size > limit:
            raise ChannelRejected(_too_big(attachment, limit))
        with in_channel_words():
            try:
                described = await self.account.api.call("getFile", file_id=attachment.handle)
            except BadRequest as error:
                if speaks_of(error, "file is too big"):
                    raise ChannelRejected(_too_big(attachment, limit)) from None
                raise
        path = str(described.get("file_path") or "")
        if not path:
            raise ChannelRejected(f"Telegram no longer keeps {attachment.name}")
        sending = self.account.api.sending
        timeout = aiohttp.ClientTimeout(total=DOWNLOAD_S, sock_connect=CONNECT_S, sock_read=READ_S)
        with one_attempt("Telegram", f"the file {attachment.name}"):
            async with sending.session.get(
                self.account.api.file_url(path), proxy=sending.proxy, timeout=timeout
            ) as response:
                refused = refusal(response, "Telegram", f"the file {attachment.name}")
                if isinstance(refused, ChannelBusy):
                    raise refused
                if response.status != 200:
                    raise ChannelRejected(f"Telegram no longer gives {attachment.name} ({response.status})")
                return await save(response, to, limit=limit, too_large=_too_big(attachment, limit))


def _too_big(attachment: Attachment, limit: int) -> str:
    return f"{attachment.name} is larger than {limit / 1024 / 1024:.0f} MB"
