"""Files that come with a program's request: below the data directory until their message is taken in.

What a crash leaves there goes after a day (`gateway.running.retention`).
"""

import secrets
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import anyio

from agent.core.files.safe import put_whole
from agent.core.files.store import UPLOADS, FileStore
from agent.core.messages import FilePart
from gateway.router.attachments import safe_name


@dataclass(frozen=True, slots=True, kw_only=True)
class SentFile:
    """A file of a request. `name` is as people read it, `mime_type` that of its bytes."""

    name: str
    mime_type: str
    data: bytes = field(repr=False)


class Uploads:
    """Stores them, for the process that takes the message in: it may be another one."""

    def __init__(self, home: Path, files: FileStore) -> None:
        self._home = home
        self._files = files

    async def put(self, sent: Sequence[SentFile]) -> tuple[FilePart, ...]:
        """Store them under names that nobody can guess. Raises OSError and StorageTrouble, and leaves nothing then."""
        folder, parts = Path(UPLOADS, secrets.token_hex(16)), list[FilePart]()
        try:
            for number, one in enumerate(sent):
                path = folder / f"{number}-{safe_name(one.name)}"
                await anyio.to_thread.run_sync(put_whole, self._home / path, one.data)
                await self._files.put(str(path))
                parts.append(FilePart(path=str(path), name=one.name, mime_type=one.mime_type, size=len(one.data)))
        except OSError:
            await self._drop(folder)
            raise
        return tuple(parts)

    async def remove(self, parts: Sequence[FilePart]) -> None:
        """Remove what `put` gave, also while its caller is cancelled. Raises StorageTrouble."""
        with anyio.CancelScope(shield=True):
            for folder in {Path(part.path).parent for part in parts}:
                await self._drop(folder)

    async def holds(self, part: FilePart, sent: SentFile) -> bool:
        """Whether a stored file is the same; of one that is kept no longer its name, type and size are compared."""
        if (part.name, part.mime_type, part.size) != (sent.name, sent.mime_type, len(sent.data)):
            return False
        await self._files.need(part.path)
        path = anyio.Path(self._home / part.path)
        return not await path.exists() or await path.read_bytes() == sent.data

    async def _drop(self, folder: Path) -> None:
        await anyio.to_thread.run_sync(shutil.rmtree, self._home / folder, True)
        await self._files.settle(str(folder))
