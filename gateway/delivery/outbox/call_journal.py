"""The journal of calls tells the next process which messages the platform may have been asked to send: a small file, or
the row itself where processes on several machines share a PostgreSQL.

An outbox row is marked `sending` by the commit that takes it, a moment before the platform is called. Each call is
noted here first, so a row that a dead process took and did not note was never sent (docs/reliability-sending.md).
A note is one `pwrite` of 24 bytes without a sync. It outlives its process, whatever kills that, but not the machine:
the file counts only within the same boot of the same host, and only once no process holds its lock. On PostgreSQL
another host may go on, so each call is committed to its row before it begins.
"""

import fcntl
import logging
import os
import secrets
import socket
import struct
from collections import deque
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path

from agent.storage.database import Dialect
from agent.storage.outbox_rows import IN_ROW

log = logging.getLogger("tieline.delivery")

FOLDER = "calls"  # below the data directory: one file for each process
SLOTS = 1024  # messages that may be under way at once and still be noted
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")  # Linux; elsewhere nothing is noted

_FORMAT = "tieline calls 1"
_HEADER_BYTES = 256
_SLOT = struct.Struct("<qiiq")  # row, attempt, piece, the largest row whose note was written over
_FILE_BYTES = _HEADER_BYTES + SLOTS * _SLOT.size


class _Notes:
    """Notes of one process: by row, attempt and piece of its newest call. Rows up to `forgotten` may be missing."""

    def __init__(self) -> None:
        self.rows: dict[int, tuple[int, int]] = {}
        self.forgotten = 0

    def may_have_begun(self, row: int, attempt: int, piece: int) -> bool:
        noted = self.rows.get(row)
        # Where an earlier attempt's note is left, a later one's is too: the oldest are written over first.
        return row <= self.forgotten if noted is None else noted >= (attempt, piece)


class CallJournal:
    """One process's file, and what earlier processes left in theirs. Made by `open_journal`.

    `run` names the process in the rows that it takes; None: it cannot note anything, and its rows must not name it.
    `in_rows`: calls are noted in the rows themselves, by `outbox_rows.mark_called`, and never here.
    """

    in_rows = False

    def __init__(self, home: Path, run: str | None = None, descriptor: int | None = None) -> None:
        self.run = run
        self._folder = home / FOLDER
        self._descriptor = descriptor
        self._own = _Notes()  # of all rows that are not settled: nothing of them is forgotten here
        self._forgotten = 0
        self._slots: dict[int, int] = {}
        self._fresh = iter(range(SLOTS))
        self._released: deque[tuple[int, int]] = deque()  # slot and the row that it still names, oldest first
        self._earlier: dict[str, _Notes] = {}

    def note(self, row: int, attempt: int, piece: int) -> bool:
        """Note that the platform is about to be called; False when that failed: then the row must not name this run."""
        if self._descriptor is None:
            return self.run is None  # such rows name no run
        slot = self._slots.get(row)
        if slot is None:
            slot = self._free_slot()
            if slot is None:
                return False
            self._slots[row] = slot
        self._own.rows[row] = (attempt, piece)
        written = _SLOT.pack(row, attempt, piece, self._forgotten)
        try:
            return os.pwrite(self._descriptor, written, _HEADER_BYTES + slot * _SLOT.size) == len(written)
        except OSError as error:
            log.warning("a call could not be noted in %s: %s", self._folder, error.strerror)
            return False

    def release(self, row: int) -> None:
        """The database says what became of the row: its slot may be used again."""
        slot = self._slots.pop(row, None)
        if slot is not None:
            del self._own.rows[row]
            self._released.append((slot, row))

    def may_have_begun(
        self, run: str | None, row: int, attempt: int, piece: int, called_piece: int | None = None
    ) -> bool:
        """Whether that run may have called the platform with this piece of a row that it took. True where unknown.

        `called_piece` is the row's own note, which counts where the row says that it has one.
        """
        if run == IN_ROW:
            return called_piece is not None and called_piece >= piece
        notes = self._own if run == self.run else self._earlier.get(run or "")
        return run is None or notes is None or notes.may_have_begun(row, attempt, piece)

    def recover(self, runs: Collection[str]) -> None:
        """Read what these earlier runs noted, and remove the files of runs that no row names. Blocking.

        A file whose process lives is left alone, and so are those of another boot or host that rows still name.
        """
        for path in _files(self._folder):
            if path.name == self.run:
                continue
            try:
                if path.name not in runs:
                    _remove_dead(path)
                elif (notes := _read(path)) is not None:
                    self._earlier[path.name] = notes
            except OSError as error:
                log.info("the calls that %s notes are not known: %s", path, error.strerror)

    def close(self) -> None:
        """Let the next process read it. May be called twice."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _free_slot(self) -> int | None:
        """The one that was released longest ago; a note that is written over is forgotten."""
        slot = next(self._fresh, None)
        if slot is None and self._released:
            slot, forgotten = self._released.popleft()
            self._forgotten = max(self._forgotten, forgotten)
        return slot


class RowJournal(CallJournal):
    """One that has no file: each row that is taken tells by itself. It reads what earlier versions left in files."""

    in_rows = True

    def __init__(self, home: Path) -> None:
        super().__init__(home, IN_ROW)


def open_journal(home: Path, dialect: Dialect = "sqlite") -> CallJournal:
    """The journal of this process: on SQLite in a file of its own, on PostgreSQL in the rows.

    One that notes nothing where no file can be made. Blocking.
    """
    if dialect == "postgresql":
        return RowJournal(home)
    run = secrets.token_hex(8)
    try:
        return CallJournal(home, run, _made(home / FOLDER / run))
    except OSError as error:
        log.warning(
            "calls of platforms cannot be noted (%s): after a crash an answer may say that it is a repeat although "
            "it comes for the first time",
            error,
        )
        return CallJournal(home)


def _made(path: Path) -> int:
    """A new file, locked and of its full size, so that a note needs no more room on the disk. Raises OSError."""
    blank = _header(path.name).ljust(_FILE_BYTES, b"\0")
    path.parent.mkdir(mode=0o700, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.pwrite(descriptor, blank, 0) != len(blank):
            raise OSError(f"no room for {path}")
    except OSError:
        os.close(descriptor)
        with suppress(OSError):
            path.unlink()
        raise
    return descriptor


def _read(path: Path) -> _Notes | None:
    """Notes of a dead process; None where its file cannot prove anything. Raises OSError, also while it lives."""
    with path.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        content = file.read(_FILE_BYTES + 1)
    if len(content) != _FILE_BYTES or content[:_HEADER_BYTES] != _header(path.name).ljust(_HEADER_BYTES, b"\0"):
        return None
    notes = _Notes()
    for row, attempt, piece, forgotten in _SLOT.iter_unpack(content[_HEADER_BYTES:]):
        notes.rows[row] = max((attempt, piece), notes.rows.get(row, (0, 0)))
        notes.forgotten = max(notes.forgotten, forgotten)
    return notes


def _remove_dead(path: Path) -> None:
    """Raises OSError, also while its process lives."""
    with path.open("r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        path.unlink()


def _files(folder: Path) -> Iterator[Path]:
    with suppress(OSError):
        yield from sorted(folder.iterdir())


def _header(run: str) -> bytes:
    """Where notes survive their process: this boot of this host. Raises OSError where boots have no name."""
    lines = (_FORMAT, BOOT_ID.read_text().strip(), socket.gethostname(), run)
    return "\n".join(lines).encode()[:_HEADER_BYTES]
