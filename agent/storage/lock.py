"""Sole ownership of a database file while a process lives (DESIGN §13.2). The kernel frees it on any death."""

import errno
import fcntl
import os
from pathlib import Path

from agent.storage.errors import DatabaseHeld, DatabaseUnusable


class OwnerLock:
    """A locked file that holds its owner's process id."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor: int | None = descriptor

    @classmethod
    def take(cls, path: Path) -> "OwnerLock":
        """Lock it. Raises DatabaseHeld while another has it, DatabaseUnusable when the file system cannot lock."""
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise DatabaseUnusable(f"cannot write {path}: {error.strerror}; make its directory writable") from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            owner = os.pread(descriptor, 32, 0).strip()
            os.close(descriptor)
            if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                raise DatabaseUnusable(f"cannot lock {path}: {error.strerror}; put it on a local disk") from error
            pid = int(owner) if owner.isdigit() else None
            raise DatabaseHeld(
                f"{path.with_suffix('')} is in use by process {pid or '(unknown)'}; stop that one first, "
                "or give this one its own TIELINE_HOME",
                pid=pid,
            ) from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, str(os.getpid()).encode(), 0)
        return cls(descriptor)

    def release(self) -> None:
        """May be called twice. The file stays: removing it would let two owners lock two files of one name."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
