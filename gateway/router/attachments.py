"""Files that people send: fetched before the message is stored, so that nothing depends on the platform later.

A file that cannot be had never loses the message: a line in its text says which file and why.
"""

import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import anyio

from agent.core.messages import FilePart
from gateway.channels.channel import Channel
from gateway.channels.errors import ChannelError, ChannelRejected
from gateway.channels.inbound import Attachment, Said
from gateway.phrases.catalogue import Catalogue

FETCH_TIMEOUT_S = 30.0  # for all files of one message
MOST_FILES = 10

_log = logging.getLogger("tieline.router")


@dataclass(frozen=True, slots=True)
class Fetched:
    """What was had, and the lines that name what was not."""

    files: tuple[FilePart, ...] = ()
    notes: tuple[str, ...] = ()


class Attachments:
    """Keeps fetched files below `home`/files."""

    def __init__(self, home: Path, phrase: Catalogue, *, limit_mb: int) -> None:
        self._home = home
        self._phrase = phrase
        self._limit_mb = limit_mb

    async def fetch(self, channel: Channel, said: Said, folder: str, language: str) -> Fetched:
        """Every file of the message; `folder` is its own, so that a repeat writes the same paths."""
        files: list[FilePart] = []
        notes: list[str] = []
        with anyio.move_on_after(FETCH_TIMEOUT_S):
            for index, attachment in enumerate(said.attachments[:MOST_FILES]):
                path = Path("files", safe_name(folder), f"{index}-{safe_name(attachment.name)}")
                try:
                    size = await self._fetch_one(channel, attachment, self._home / path)
                except (ChannelError, OSError, TimeoutError) as error:
                    _log.warning("file not fetched", extra={"conversation": str(said.key), "reason": str(error)})
                    notes.append(self._note(attachment, language, error))
                    continue
                files.append(FilePart(path=str(path), mime_type=attachment.mime_type, name=attachment.name, size=size))
        missed = said.attachments[len(files) + len(notes) :]
        notes += [self._note(attachment, language, TimeoutError()) for attachment in missed]
        return Fetched(tuple(files), tuple(notes))

    async def _fetch_one(self, channel: Channel, attachment: Attachment, to: Path) -> int:
        if channel.files is None:
            raise ChannelRejected("this channel hands over no files")
        limit = self._limit_mb * 1024 * 1024
        if attachment.size is not None and attachment.size > limit:
            raise ChannelRejected(f"{attachment.size} bytes are more than {limit}")
        await anyio.to_thread.run_sync(_make_folder, to.parent)
        return await channel.files.fetch(attachment, to, limit=limit)

    def _note(self, attachment: Attachment, language: str, error: Exception) -> str:
        too_large = isinstance(error, ChannelRejected) and (attachment.size or 0) > self._limit_mb * 1024 * 1024
        key = "file_too_large" if too_large else "file_unreachable"
        reason = self._phrase(key, language, limit=self._limit_mb)
        return self._phrase("file_skipped", language, name=attachment.name, reason=reason)


def safe_name(name: str) -> str:
    """A file name without path, control characters or leading dots; never empty, at most 80 characters."""
    kept = re.sub(r"[^\w.\-]+", "_", name, flags=re.ASCII).lstrip(".")[-80:]
    return kept or "file"


def with_notes(text: str, notes: Sequence[str]) -> str:
    """The message and what could not be read of it."""
    return "\n".join((*((text,) if text else ()), *notes))


def _make_folder(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
