"""Files of a person: what was uploaded and what the bot sent. One folder, bounded; the oldest go first."""

import json
import os
import secrets
import shutil
from collections.abc import AsyncIterable
from pathlib import Path

from anyio import to_thread

from adapters.web.messages import ShownFile, file_as_json, file_of_json
from agent.core.files.store import FileStore, LocalFiles
from gateway.channels.adapter import whole_or_nothing
from gateway.channels.media import picture_type, safe_name, sound_type


class AttachmentStore:
    """Files lie under random names beside a note of what they are; `files` keeps both for other processes.

    Raises OSError when the disk refuses.
    """

    def __init__(
        self,
        home: Path,
        folder: Path,
        max_total: int,
        files: FileStore = LocalFiles(),  # noqa: B008 - without state
    ) -> None:
        self._home = home
        self._folder = folder
        self._max_total = max_total
        self._files = files

    async def take(self, chunks: AsyncIterable[bytes], *, name: str, mime_type: str) -> ShownFile:
        """Keep what comes in; how much that may be is the web server's to say."""
        id = await to_thread.run_sync(self._new)
        async with whole_or_nothing(self._file(id)):
            with self._file(id).open("wb") as file:
                async for chunk in chunks:
                    file.write(chunk)
            shown = await to_thread.run_sync(self._note, id, name, mime_type)
            await self._store(id)
        return shown

    async def keep(self, path: Path, *, name: str, mime_type: str) -> ShownFile:
        """Keep a copy of the bot's file."""

        def copy() -> ShownFile:
            id = self._new()
            shutil.copyfile(path, self._file(id))
            return self._note(id, name, mime_type)

        shown = await to_thread.run_sync(copy)
        await self._store(shown.id)
        return shown

    async def find(self, id: str) -> tuple[ShownFile, Path] | None:
        """A file and where it lies; None when there is none of that name (any more)."""
        if not id.isalnum():
            return None
        for path in (self._file(id), self._file(id).with_suffix(".json")):
            await self._files.need(str(path.relative_to(self._home)))

        def look() -> tuple[ShownFile, Path] | None:
            try:
                file = file_of_json(self._file(id).with_suffix(".json").read_bytes())
            except (FileNotFoundError, ValueError):
                return None
            path = self._file(id)
            return (file, path) if path.exists() else None

        return await to_thread.run_sync(look)

    async def _store(self, id: str) -> None:
        """Store the file and its note, and let the oldest of all processes go."""
        file, note = (
            str(path.relative_to(self._home)) for path in (self._file(id), self._file(id).with_suffix(".json"))
        )
        await self._files.put(note)
        await self._files.put(file, most_in_folder=self._max_total)

    def _new(self) -> str:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        id = secrets.token_hex(16)
        os.close(os.open(self._file(id), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        return id

    def _note(self, id: str, name: str, mime_type: str) -> ShownFile:
        path = self._file(id)
        with path.open("rb") as file:
            start = file.read(16)
        picture, sound = picture_type(start), sound_type(start)
        shown = ShownFile(
            id=id,
            name=safe_name(name),
            mime_type=picture or sound or mime_type,
            size=path.stat().st_size,
            is_image=picture is not None,
            is_sound=sound is not None,
        )
        note = path.with_suffix(".json")
        note.touch(mode=0o600)
        note.write_text(json.dumps(file_as_json(shown)))
        self._make_room()
        return shown

    def _make_room(self) -> None:
        files = sorted(
            (path for path in self._folder.iterdir() if not path.suffix), key=lambda path: path.stat().st_mtime
        )
        total = sum(path.stat().st_size for path in files)
        for path in files[:-1]:
            if total <= self._max_total:
                break
            total -= path.stat().st_size
            path.unlink(missing_ok=True)
            path.with_suffix(".json").unlink(missing_ok=True)

    def _file(self, id: str) -> Path:
        return self._folder / id
