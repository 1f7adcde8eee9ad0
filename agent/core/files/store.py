"""Port to the store of files that several processes need: each has a data directory of its own, one database is shared.

A path is relative to the data directory. Whoever has one such directory for all of it needs no store (`LocalFiles`).
"""

from pathlib import PurePosixPath
from typing import Protocol

from agent.core.ids import ConversationId

WORKSPACES, UPLOADS = "workspaces", "uploads"
_DEPTHS = {"exports": 1, "web": 5}  # web/chat/<account>/<person>/files
SENT_DEPTH = 3  # files/sent/<digest>


class FileStore(Protocol):
    """Keeps files of the data directory for every process; the directory is a cache of them.

    Everything may be repeated and raises StorageTrouble. A path that is not stored is no error: its reader looks at the
    disk as ever, and finds nothing.
    """

    async def put(
        self, path: str, *, conversation: ConversationId | None = None, most_in_folder: int | None = None
    ) -> None:
        """Store the file that was written there; commit what names it afterwards. Raises OSError.

        With `most_in_folder` the oldest files of its folder go until so many bytes are left there.
        """

    async def need(self, path: str) -> None:
        """Have the file there as it is stored, and none there if it is not stored any more. Raises OSError."""

    async def need_below(self, prefix: str) -> None:
        """The same for that file, or for all files in that folder."""

    async def settle(self, prefix: str) -> None:
        """Remove from the store what is at or below that path and was removed from the disk here."""

    async def move(self, old: str, new: str) -> None:
        """Let the files of a folder follow to its new name; one that is there already stays."""

    async def pull(self, workspace: str) -> None:
        """Bring the folder of a workspace to its stored state, if another process has changed it.

        A file that was changed here and not yet stored stays, unless the stored one was changed too.
        """

    async def push(self, workspace: str, *, epoch: int, most_bytes: int, most_files: int) -> None:
        """Store what was changed and removed in the folder of a workspace since the last `pull` or `push`.

        Nothing is asked of the database where nothing was. Raises Fenced unless `epoch` is the conversation's.
        """


class FileUpkeep(Protocol):
    """Housekeeping of a store of files. Raises StorageTrouble, OSError."""

    async def adopt(self) -> None:
        """Store, once, what lies in this data directory: it was written before there was a store, or restored."""

    async def expire(self, top: str, before_s: float) -> None:
        """Remove what is stored below that folder and was last written before that moment (POSIX seconds)."""

    async def tidy(self) -> None:
        """Remove bytes that a killed writer has left, and files in this directory that are stored no more."""


class LocalFiles:
    """Nothing to do: one data directory holds everything."""

    async def put(
        self, path: str, *, conversation: ConversationId | None = None, most_in_folder: int | None = None
    ) -> None:
        pass

    async def need(self, path: str) -> None:
        pass

    async def need_below(self, prefix: str) -> None:
        pass

    async def settle(self, prefix: str) -> None:
        pass

    async def move(self, old: str, new: str) -> None:
        pass

    async def pull(self, workspace: str) -> None:
        pass

    async def push(self, workspace: str, *, epoch: int, most_bytes: int, most_files: int) -> None:
        pass


def folder_of(path: str) -> str:
    """The folder whose files are stored, listed and moved together: of one message, one conversation, one person."""
    parts = PurePosixPath(path).parts
    depth = SENT_DEPTH if parts[:2] == ("files", "sent") else _DEPTHS.get(parts[0], 2)
    return "/".join(parts[: max(1, min(depth, len(parts) - 1))])
