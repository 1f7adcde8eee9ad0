"""Files that people send or reply to: fetched before the message is stored, so that nothing needs the platform later.

A file that cannot be had never loses the message: a line in its text says which file and why.
"""

import hashlib
import logging
import os
import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import anyio

from agent.core.files.store import FileStore, LocalFiles
from agent.core.ids import ConversationId
from agent.core.messages import FilePart
from gateway.channels.adapter import whole_or_nothing
from gateway.channels.channel import Channel, Files
from gateway.channels.errors import ChannelBusy, ChannelError
from gateway.channels.inbound import Attachment, MessageReceived
from gateway.channels.keys import ConversationKey
from gateway.phrases.catalogue import Catalogue
from gateway.router.messages import quoted_key

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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wanted:
    """One file and its path in the data directory; `before` are paths at which the same file may lie already."""

    attachment: Attachment
    path: Path
    quoted: bool = False
    before: tuple[Path, ...] = ()


class Attachments:
    """Keeps fetched files below `home`/files."""

    def __init__(
        self,
        home: Path,
        phrase: Catalogue,
        *,
        limit_mb: Callable[[], int],
        within_s: float = FETCH_TIMEOUT_S,
        files: FileStore = LocalFiles(),  # noqa: B008 - without state
    ) -> None:
        """`limit_mb` is the most that one file may have, `within_s` the time of all files of one message together.

        `files` keeps them for other processes.
        """
        self.home = home
        self.files = files
        self._phrase = phrase
        self._limit_mb = limit_mb
        self._within_s = within_s

    async def fetch(self, channel: Channel | None, said: MessageReceived, folder: str, language: str) -> Fetched:
        """Every file of the message, then of the one that it quotes; `folder` is its own: a repeat writes the same.

        A quoted file that came with its own message, or was quoted before, is not fetched again.
        """
        source, limit_mb = channel.files if channel is not None else None, self._limit_mb()
        wanted = _wanted(said, folder)
        files: list[FilePart] = []
        notes: list[str] = []
        with anyio.move_on_after(self._within_s):
            for one in wanted[:MOST_FILES]:
                attachment = one.attachment
                if (attachment.size or 0) > limit_mb * MEGABYTE:
                    notes.append(self._note(one, language, "file_too_large", limit_mb))
                    continue
                size = await self._at_hand(one)
                if size is None:
                    size = await _fetch_one(source, attachment, self.home / one.path, limit_mb * MEGABYTE)
                if size is None or not await self._is_stored(one, said.key):
                    notes.append(self._note(one, language, "file_unreachable"))
                else:
                    files.append(_part(one, size))
        had = len(files) + len(notes)
        notes += [self._note(missed, language, "file_unreachable") for missed in wanted[had:MOST_FILES]]
        notes += [self._note(left_out, language, "file_too_many", MOST_FILES) for left_out in wanted[MOST_FILES:]]
        return Fetched(tuple(files), tuple(notes))

    async def _at_hand(self, wanted: _Wanted) -> int | None:
        """The size of a quoted file that is here already; None where it has to be fetched."""
        size = wanted.attachment.size
        if not wanted.before or size is None:
            return None
        before = [self.home / path for path in wanted.before]
        try:
            for path in wanted.before:
                await self.files.need(str(path))
            here = await anyio.to_thread.run_sync(_kept, self.home / wanted.path, before, size)
        except OSError as error:
            _log.info("a file that may be here is fetched: %s", error, extra={"file": wanted.attachment.name})
            return None
        return size if here else None

    async def _is_stored(self, wanted: _Wanted, key: ConversationKey) -> bool:
        """Store it before the message that names it. Raises StorageTrouble: then the message is not taken either."""
        try:
            await self.files.put(str(wanted.path), conversation=ConversationId(str(key)))
        except OSError as error:
            _log.warning("a file could not be stored: %s", error, extra={"file": wanted.attachment.name})
            return False
        return True

    def _note(self, wanted: _Wanted, language: str, why: str, limit: int = 0) -> str:
        reason = self._phrase(why, language, limit=limit)
        skipped = "quoted_file_skipped" if wanted.quoted else "file_skipped"
        return self._phrase(skipped, language, name=wanted.attachment.name, reason=reason)


def _wanted(said: MessageReceived, folder: str) -> list[_Wanted]:
    """The message's own files, then those of the message that it quotes."""
    own = [_Wanted(attachment=one, path=_path(folder, index, one)) for index, one in enumerate(said.attachments)]
    quoted = said.quoted.attachments if said.quoted is not None else ()
    return own + [_quoted(one, index, quoted_key(said), folder) for index, one in enumerate(quoted)]


def _quoted(attachment: Attachment, index: int, key: str | None, folder: str) -> _Wanted:
    """A quoted file. It is known again by its message, its place there and its size; one that tells less is fetched."""
    known = key if attachment.size is not None else None
    # A digest: what is taken from the disk must never be the file of another place with a name that is written alike.
    path = _path(f"quoted-{hashlib.sha256((known or folder).encode()).hexdigest()[:32]}", index, attachment)
    if known is None:
        return _Wanted(attachment=attachment, path=path, quoted=True)
    return _Wanted(attachment=attachment, path=path, quoted=True, before=(path, _path(known, index, attachment)))


def _is_unambiguous(key: str) -> bool:
    """Whether no other key has the same safe name: only the colons between its parts are written otherwise."""
    return "_" not in key and safe_name(key) == key.replace(":", "_")


def _path(folder: str, index: int, attachment: Attachment) -> Path:
    # Programs choose ids of their messages, so two of these may differ in what no name of a folder shows.
    if not _is_unambiguous(folder):
        folder = f"message-{hashlib.sha256(folder.encode()).hexdigest()[:32]}"
    return Path("files", safe_name(folder), f"{index}-{safe_name(attachment.name)}")


def _part(wanted: _Wanted, size: int) -> FilePart:
    attachment = wanted.attachment
    return FilePart(
        path=str(wanted.path),
        mime_type=attachment.mime_type,
        name=attachment.name,
        size=size,
        quoted=wanted.quoted,
    )


def _kept(path: Path, before: Sequence[Path], size: int) -> bool:
    """Whether the file is at `path` now, with that size, perhaps as a copy; it is kept as long as a new one.

    A copy, because either may be forgotten without the other.
    """
    found = next((one for one in before if one.exists() and one.stat().st_size == size), None)
    if found is None:
        return False
    if found == path:
        os.utime(path)
    else:
        _make_folder(path.parent)
        shutil.copyfile(found, path)
    return True


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
