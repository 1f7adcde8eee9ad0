"""Files that people send: fetched before the message is stored, so that nothing depends on the platform later.

A file that cannot be had never loses the message: a line in its text says which file and why.
"""

import logging
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import anyio

from agent.core.messages import FilePart
from gateway.channels.adapter import whole_or_nothing
from gateway.channels.channel import Channel, Files
from gateway.channels.errors import ChannelBusy, ChannelError
from gateway.channels.inbound import Attachment, MessageReceived
from gateway.phrases.catalogue import Catalogue

FETCH_TIMEOUT_S = 30.0
MOST_FILES = 10
MOST_WAITS, LONGEST_WAIT_S = 2, 5.0  # for a platform that is busy; the person's message waits meanwhile
MEGABYTE = 1024 * 1024

_log = logging.getLogger("tieline.router")


@dataclass(frozen=True, slots=True)
class Fetched:
    """Files fetched, and lines that name those that were not."""

    files: tuple[FilePart, ...] = ()
    notes: tuple[str, ...] = ()


class Attachments:
    """Keeps fetched files below `home`/files."""

    def __init__(
        self, home: Path, phrase: Catalogue, *, limit_mb: Callable[[], int], within_s: float = FETCH_TIMEOUT_S
    ) -> None:
        """`limit_mb` is the most that one file may have, `within_s` the time of all files of one message together."""
        self.home = home
        self._phrase = phrase
        self._limit_mb = limit_mb
        self._within_s = within_s

    async def fetch(self, channel: Channel | None, said: MessageReceived, folder: str, language: str) -> Fetched:
        """Every file of the message; `folder` is its own, so that a repeat writes the same paths."""
        source, limit_mb = channel.files if channel is not None else None, self._limit_mb()
        files: list[FilePart] = []
        notes: list[str] = []
        with anyio.move_on_after(self._within_s):
            for index, attachment in enumerate(said.attachments[:MOST_FILES]):
                if (attachment.size or 0) > limit_mb * MEGABYTE:
                    notes.append(self._note(attachment, language, "file_too_large", limit_mb))
                    continue
                path = Path("files", safe_name(folder), f"{index}-{safe_name(attachment.name)}")
                size = await _fetch_one(source, attachment, self.home / path, limit_mb * MEGABYTE)
                if size is None:
                    notes.append(self._note(attachment, language, "file_unreachable"))
                else:
                    part = FilePart(path=str(path), mime_type=attachment.mime_type, name=attachment.name, size=size)
                    files.append(part)
        had = len(files) + len(notes)
        notes += [self._note(missed, language, "file_unreachable") for missed in said.attachments[had:MOST_FILES]]
        notes += [
            self._note(left_out, language, "file_too_many", MOST_FILES) for left_out in said.attachments[MOST_FILES:]
        ]
        return Fetched(tuple(files), tuple(notes))

    def _note(self, attachment: Attachment, language: str, why: str, limit: int = 0) -> str:
        reason = self._phrase(why, language, limit=limit)
        return self._phrase("file_skipped", language, name=attachment.name, reason=reason)


async def _fetch_one(source: Files | None, attachment: Attachment, to: Path, limit: int) -> int | None:
    """Its size in bytes; None when it cannot be had."""
    if source is None:
        return None
    try:
        await anyio.to_thread.run_sync(_make_folder, to.parent)
        for _ in range(MOST_WAITS):
            try:
                return await _fetch_once(source, attachment, to, limit)
            except ChannelBusy as busy:
                if busy.after_s > LONGEST_WAIT_S:
                    raise
                await anyio.sleep(busy.after_s)
        return await _fetch_once(source, attachment, to, limit)
    except (ChannelError, OSError, TimeoutError) as error:
        _log.warning("a file could not be fetched: %r", error, extra={"file": attachment.name})
        return None
    except Exception:  # noqa: BLE001 - the channel seam: the file is lost, never the message
        _log.exception("an adapter failed while fetching a file, which is lost", extra={"file": attachment.name})
        return None


async def _fetch_once(source: Files, attachment: Attachment, to: Path, limit: int) -> int:
    async with whole_or_nothing(to):
        return await source.fetch(attachment, to, limit=limit)


def safe_name(name: str) -> str:
    """A file name without path, control characters or leading dots; never empty, at most 80 characters."""
    kept = re.sub(r"[^\w.\-]+", "_", name, flags=re.ASCII)[-80:].lstrip(".")
    return kept or "file"


def _make_folder(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
