"""A file that outlives a killed process: each call is written there before it is made and when it has ended.

Lines are handed to the operating system, not forced to the disk: a kill loses none, a power cut the last seconds'.
"""

import logging
import os
from collections.abc import Iterable
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from agent.ledger.attributions import Entry

OPENED, ENDED, VOID = b"+", b"=", b"-"
SHRINK_AT = 256 * 1024  # bytes; what is in the database by then is left out of a new file

_ENTRY: TypeAdapter[Entry] = TypeAdapter(Entry)
_log = logging.getLogger("tieline.ledger")


class Journal:
    """One file of one process. Nothing here raises for the disk's sake: a call matters more than its trace."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: int | None = None
        self._size = 0
        self._failed = False

    def recover(self) -> tuple[Entry, ...]:
        """What an earlier process left: calls that ended, and those it never heard the end of, as estimates."""
        try:
            lines = self._path.read_bytes().split(b"\n")
        except FileNotFoundError:
            return ()
        except OSError as error:
            _log.warning("the ledger's journal cannot be read, calls cut off by a crash are not counted: %s", error)
            return ()
        found: dict[str, Entry] = {}
        for line in lines:
            kind, body = line[:1], line[1:]
            if kind == VOID:
                found.pop(body.decode("utf-8", "replace"), None)
            elif kind in (OPENED, ENDED):
                try:
                    entry = _ENTRY.validate_json(body)
                except ValidationError:
                    _log.warning("a broken line in the ledger's journal is left out")  # cut off by the crash itself
                    continue
                found[entry.call] = entry
        return tuple(found.values())

    def open(self, entry: Entry) -> None:
        """The call is about to be made; `entry` is what it would come to if nothing more were heard of it."""
        self._write(OPENED + _ENTRY.dump_json(entry) + b"\n")

    def end(self, entry: Entry) -> None:
        """The call came to this."""
        self._write(ENDED + _ENTRY.dump_json(entry) + b"\n")

    def void(self, call: str) -> None:
        """The call took nothing."""
        self._write(VOID + call.encode() + b"\n")

    @property
    def is_long(self) -> bool:
        return self._size > SHRINK_AT

    def shrink(self, opened: Iterable[Entry], ended: Iterable[Entry]) -> None:
        """Begin anew with what is not in the database yet."""
        kept = [(OPENED, entry) for entry in opened] + [(ENDED, entry) for entry in ended]
        body = b"".join(kind + _ENTRY.dump_json(entry) + b"\n" for kind, entry in kept)
        fresh = self._path.with_suffix(".new")
        try:
            descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
            os.write(descriptor, body)
            os.replace(fresh, self._path)
        except OSError as error:
            self._fail(error)
            return
        self.aclose()
        self._file, self._size = descriptor, len(body)

    def aclose(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _write(self, line: bytes) -> None:
        try:
            if self._file is None:
                self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
                self._size = os.fstat(self._file).st_size
            os.write(self._file, line)
        except OSError as error:
            self._fail(error)
            return
        self._size += len(line)
        self._failed = False

    def _fail(self, error: OSError) -> None:
        if not self._failed:
            self._failed = True
            _log.warning("the ledger's journal cannot be written; a kill now may lose a call's cost: %s", error)
