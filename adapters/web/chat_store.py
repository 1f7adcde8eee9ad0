"""The messages and names of the web chat between starts: files of the data directory, or journals of the database where
another process may go on with the account.
"""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from errno import EIO
from pathlib import Path
from typing import Protocol

import anyio
from anyio import to_thread

from adapters.web.messages import Entry, Journal, Put, Shown, entry_as_line, entry_of_line, standing
from gateway.channels.adapter import AdapterLines
from gateway.channels.errors import GatewayUnavailable

NAMES = "names.json"  # given by people, one small file a person
TAKEN = ".taken"  # the ending of a file whose content is in the database


class MessageJournal(Protocol):
    """The messages of one conversation. Raises OSError when the disk, or the database, refuses."""

    async def read(self) -> list[Shown]: ...
    async def write(self, entry: Entry, standing_now: Sequence[Shown]) -> None:
        """Return once it is kept. `standing_now` is what a rewrite would keep."""

    async def remove(self) -> None: ...


class ChatStore(Protocol):
    """All conversations of the account. Raises OSError."""

    def journal(self, person: str, session: str) -> MessageJournal: ...

    async def sessions(self, person: str) -> Mapping[str, int]:
        """The person's conversations that have messages, each with a number that is another one once it has changed."""

    async def names(self, person: str) -> Mapping[str, str]:
        """Names that they gave, by conversation."""

    async def name(self, person: str, session: str, title: str) -> None:
        """Whole or not at all; "" takes the name away."""


class ChatFiles:
    """One folder a person in `folder`, one file a conversation."""

    def __init__(self, folder: Path, keep: int) -> None:
        self._folder = folder
        self._keep = keep

    def journal(self, person: str, session: str) -> Journal:
        return Journal(self.file(person, session), self._keep)

    def file(self, person: str, session: str) -> Path:
        """The conversation's file, which may not be there."""
        return self._folder / person / f"{session}.jsonl"

    async def sessions(self, person: str) -> Mapping[str, int]:
        return await to_thread.run_sync(self._sessions, person)

    async def names(self, person: str) -> Mapping[str, str]:
        return await to_thread.run_sync(read_names, self._folder / person)

    async def name(self, person: str, session: str, title: str) -> None:
        await to_thread.run_sync(write_name, self._folder / person, session, title)

    async def remove_names(self, person: str) -> None:
        """Fine when there are none."""
        await anyio.Path(self._folder / person / NAMES).unlink(missing_ok=True)

    def _sessions(self, person: str) -> Mapping[str, int]:
        return {path.stem: path.stat().st_mtime_ns for path in (self._folder / person).glob("*.jsonl")}


class ChatLines:
    """In the database; files of a version that kept them are taken over when they are read first."""

    def __init__(self, lines: AdapterLines, files: ChatFiles, keep: int) -> None:
        self._lines = lines
        self._files = files
        self._keep = keep

    def journal(self, person: str, session: str) -> "LineJournal":
        return LineJournal(self._lines, f"{person}/{session}", self._files.file(person, session), self._keep)

    async def sessions(self, person: str) -> Mapping[str, int]:
        with _as_disk():
            found = await self._lines.names(f"{person}/")
        here = {name.partition("/")[2]: number for name, number in found.items()}
        here.pop(NAMES, None)
        return {**await self._files.sessions(person), **here}

    async def names(self, person: str) -> Mapping[str, str]:
        with _as_disk():
            found = await self._lines.read(f"{person}/{NAMES}")
        return names_of(found[-1]) if found else await self._files.names(person)

    async def name(self, person: str, session: str, title: str) -> None:
        before = await self.names(person)
        names = named(before, session, title)
        if names != before:
            with _as_disk():
                await self._lines.replace(f"{person}/{NAMES}", [json.dumps(names, ensure_ascii=False)])
            await self._files.remove_names(person)  # taken over; what a person removes must not stay here


class LineJournal:
    """Keeps the promise of `MessageJournal` in the database. `file` is that of an earlier version."""

    def __init__(self, lines: AdapterLines, name: str, file: Path, keep: int) -> None:
        self._lines = lines
        self._name = name
        self._file = file
        self._keep = keep
        self._count = 0
        self._one_at_a_time = anyio.Lock()

    async def read(self) -> list[Shown]:
        with _as_disk():
            lines = await self._lines.read(self._name)
        if not lines and self._file.exists():
            kept = await Journal(self._file, self._keep).read()
            await self._replace(kept)
            await to_thread.run_sync(self._file.rename, self._file.with_suffix(TAKEN))
            return kept
        entries = [entry for line in lines if (entry := _entry(line)) is not None]
        self._count = len(entries)
        return standing(entries, self._keep)

    async def write(self, entry: Entry, standing_now: Sequence[Shown]) -> None:
        async with self._one_at_a_time:
            with _as_disk():
                await self._lines.append(self._name, entry_as_line(entry).decode().rstrip("\n"))
            self._count += 1
            if self._count > 2 * self._keep + 50:
                await self._replace(standing_now[-self._keep :])

    async def remove(self) -> None:
        async with self._one_at_a_time:
            with _as_disk():
                await self._lines.replace(self._name, ())
            for path in (self._file, self._file.with_suffix(TAKEN)):
                await anyio.Path(path).unlink(missing_ok=True)
            self._count = 0

    async def _replace(self, kept: Sequence[Shown]) -> None:
        lines = [entry_as_line(Put(put=shown)).decode().rstrip("\n") for shown in kept]
        with _as_disk():
            await self._lines.replace(self._name, lines)
        self._count = len(lines)


def read_names(folder: Path) -> Mapping[str, str]:
    """By conversation. A file that cannot be read gives none: their first messages name them. Blocks."""
    try:
        return names_of((folder / NAMES).read_bytes())
    except FileNotFoundError:
        return {}


def names_of(text: str | bytes) -> Mapping[str, str]:
    """Names as they are kept; none of what cannot be read."""
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return {str(session): str(title) for session, title in found.items()} if isinstance(found, dict) else {}


def named(names: Mapping[str, str], session: str, title: str) -> Mapping[str, str]:
    """The names once that conversation has this one; "": none."""
    others = {one: kept for one, kept in names.items() if one != session}
    return {**others, session: title} if title else others


def write_name(folder: Path, session: str, title: str) -> None:
    """Whole or not at all; "" takes the name away. Blocks. Raises OSError."""
    before = read_names(folder)
    names = named(before, session, title)
    if names == before:
        return
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    new = folder / f"{NAMES}.new"
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(json.dumps(names, ensure_ascii=False).encode())
        file.flush()
        os.fsync(descriptor)
    new.replace(folder / NAMES)


def _entry(line: str) -> Entry | None:
    try:
        return entry_of_line(line.encode())
    except ValueError:
        return None


@contextmanager
def _as_disk() -> Iterator[None]:
    """Trouble of the database, as the page knows that of a disk."""
    try:
        yield
    except GatewayUnavailable as error:
        raise OSError(EIO, str(error)) from error
