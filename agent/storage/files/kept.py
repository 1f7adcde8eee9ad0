"""Small files that the bot or people write while it runs, such as MEMORY.md, for all processes on one PostgreSQL.

Each data directory holds a copy, which programs and people read and change as before; `sync` brings a folder and the
database to the same state. On SQLite it does nothing: there is one data directory.
"""

import hashlib
import json
import logging
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Literal, Protocol
from urllib.parse import quote, unquote
from weakref import WeakValueDictionary

import anyio
import anyio.to_thread
from sqlalchemy import Connection, bindparam, delete, insert, select

from agent.core.clock import Clock
from agent.core.files.safe import put_whole
from agent.storage.database import Database, wait_for_names
from agent.storage.errors import StorageError
from agent.storage.process_tables import kept_file
from agent.storage.statements import CompiledStatement, or_update
from agent.storage.timestamps import to_timestamp

BASES = "kept"  # below the data directory: what a folder and the database had in common last
LARGEST = 1_000_000  # bytes of a file; a larger one stays in its data directory
MOST = 500  # files of a folder

Step = Literal["nothing", "take", "give"]

log = logging.getLogger("tieline.storage")

_HERE = kept_file.c.folder == bindparam("where")
_NAMED = kept_file.c.name.in_(bindparam("names", expanding=True))
_STORED = CompiledStatement(select(kept_file.c.name, kept_file.c.digest, kept_file.c.changed_at).where(_HERE))
_CONTENTS = select(kept_file.c.name, kept_file.c.content, kept_file.c.digest).where(_HERE, _NAMED)
_PUT = or_update(insert(kept_file), key=("folder", "name"), columns=("content", "digest", "changed_at"))
_DROP = delete(kept_file).where(_HERE, _NAMED)


async def in_one_place(name: str) -> None:
    """Do nothing: there is one data directory, and what lies in it is all there is."""


class Seal(Protocol):
    """Encryption of what the database keeps of secrets; `about` must be the same for both."""

    def close(self, content: bytes, about: str) -> bytes: ...

    def open(self, sealed: bytes, about: str) -> bytes:
        """Raises ValueError where it was closed with another key."""


@dataclass(frozen=True, slots=True)
class FileCopy:
    """A copy: the hash of its content, and when it was changed (UTC microseconds)."""

    digest: str
    changed_at: int


def step_for(stored: FileCopy | None, local: FileCopy | None, base: str | None) -> Step:
    """The step that brings both to the same state; `base` is what they had in common last.

    Where both have changed since, a change counts more than a removal, and the later change more than the other.
    """
    here, there = (one.digest if one is not None else None for one in (local, stored))
    if here == there:
        return "nothing"
    if here == base:
        return "take"
    if there == base or stored is None:
        return "give"
    return "take" if local is None or stored.changed_at >= local.changed_at else "give"


class KeptFiles:
    """Folders below the data directory `home`, each brought up to date as a whole.

    With a `seal` the database has encrypted contents. `holds` tells which files of a folder are meant.
    """

    def __init__(
        self,
        database: Database,
        clock: Clock,
        home: Path,
        *,
        seal: Seal | None = None,
        holds: Callable[[str], bool] = lambda name: True,
    ) -> None:
        self._database = database
        self._clock = clock
        self._home = home
        self._seal = seal
        self._holds = holds
        # Apart: whoever goes over all open folders must not come to one whose contents are to be encrypted.
        self._bases = home / BASES / ("open" if seal is None else "sealed")
        self._is_shared = database.dialect == "postgresql"
        self._locks: WeakValueDictionary[str, anyio.Lock] = WeakValueDictionary()
        self._seen: dict[Path, tuple[tuple[int, int], str]] = {}  # time, size and hash of each file

    async def sync(self, folder: str) -> None:
        """Bring the folder, by its path below the data directory, and the database to the same state.

        Before its files are read, and after they were changed. What fails is logged, and done by the next call.
        """
        if not self._is_shared:
            return
        lock = self._locks.setdefault(folder, anyio.Lock())
        try:
            async with lock:
                await self._sync(folder)
        except (StorageError, OSError) as error:
            log.warning("the files of %s are not those of other processes yet: %s", folder, error)

    async def sync_all(self) -> None:
        """Every folder that was ever brought up to date here: what others forgot is removed here as well."""
        if self._is_shared:
            for folder in await anyio.to_thread.run_sync(self._folders):
                await self.sync(folder)

    async def _sync(self, folder: str) -> None:
        stored = await self._database.read(lambda conn: _stored(conn, folder))
        local, base, passed_over = await anyio.to_thread.run_sync(self._look, folder)
        names = {*stored, *local, *base} - passed_over
        steps = {name: step_for(stored.get(name), local.get(name), base.get(name)) for name in names}
        changed = [name for name, step in steps.items() if step != "nothing" and name in stored]
        opened: Mapping[str, tuple[bytes, str]] = {}
        if changed:
            contents = await self._database.read(lambda conn: _contents(conn, folder, changed))
            opened = self._opened(folder, contents)
            # What another key has closed is another's: neither taken, nor replaced or removed by this machine.
            for name in contents.keys() - opened.keys():
                del steps[name]
        foreign = {*changed} - steps.keys()
        now = {name: one.digest for name, one in stored.items() if name not in foreign}
        now |= {name: base[name] for name in foreign & base.keys()}
        taken = [name for name, step in steps.items() if step == "take"]
        given = [name for name, step in steps.items() if step == "give"]
        if taken:
            now |= await anyio.to_thread.run_sync(self._take, folder, taken, opened)
        if given:
            contents = await anyio.to_thread.run_sync(self._contents, folder, given)
            at = to_timestamp(self._clock.now())
            await self._database.write(lambda conn: _give(conn, folder, given, contents, stored, at))
            now = {name: digest for name, digest in now.items() if name not in given}
            now |= {name: digest for name, (_, digest) in contents.items()}
        if now != base:
            await anyio.to_thread.run_sync(self._note, folder, now)

    def _look(self, folder: str) -> tuple[Mapping[str, FileCopy], Mapping[str, str], Set[str]]:
        """The local files, what they had in common with the database last, and the names that are passed over.

        Blocking.
        """
        root = self._home / folder
        found: dict[str, FileCopy] = {}
        passed_over: set[str] = set()
        for path in sorted(root.rglob("*")) if root.is_dir() else ():
            name = path.relative_to(root).as_posix()
            if not self._holds(name) or path.is_symlink() or not path.is_file():
                continue
            status = path.stat()
            if status.st_size > LARGEST or len(found) == MOST:
                log.warning("%s stays as it is here: %d bytes a file and %d files are shared", path, LARGEST, MOST)
                passed_over.add(name)
                continue
            signature = (status.st_mtime_ns, status.st_size)
            known = self._seen.get(path)
            if known is None or known[0] != signature:
                known = self._seen[path] = (signature, hashlib.sha256(path.read_bytes()).hexdigest())
            found[name] = FileCopy(known[1], status.st_mtime_ns // 1000)
        try:
            base = json.loads(self._base(folder).read_bytes())
        except (OSError, ValueError):
            base = {}
        return found, base if isinstance(base, dict) else {}, passed_over

    def _opened(self, folder: str, contents: Mapping[str, tuple[bytes, str]]) -> dict[str, tuple[bytes, str]]:
        """Contents without the seal, and hashes, of those that can be read with this machine's key."""
        if self._seal is None:
            return dict(contents)
        found = {}
        for name, (sealed, digest) in contents.items():
            try:
                found[name] = (self._seal.open(sealed, f"{folder}/{name}"), digest)
            except ValueError as error:
                log.warning("%s/%s of another process cannot be read: %s", folder, name, error)
        return found

    def _take(self, folder: str, names: Sequence[str], contents: Mapping[str, tuple[bytes, str]]) -> dict[str, str]:
        """Write what the database has, remove what it has not; what is here now. Blocking. Raises OSError."""
        now = {}
        for name in names:
            path = self._home / folder / PurePosixPath(name)
            if name not in contents:
                path.unlink(missing_ok=True)
                self._seen.pop(path, None)
                continue
            content, now[name] = contents[name]
            put_whole(path, content)
        return now

    def _contents(self, folder: str, names: Sequence[str]) -> dict[str, tuple[bytes, str]]:
        """Contents, as the database keeps them, and hashes of those that are here. Blocking. Raises OSError."""
        found = {}
        for name in names:
            try:
                content = (self._home / folder / PurePosixPath(name)).read_bytes()
            except FileNotFoundError:
                continue
            sealed = self._seal.close(content, f"{folder}/{name}") if self._seal is not None else content
            found[name] = (sealed, hashlib.sha256(content).hexdigest())
        return found

    def _note(self, folder: str, now: Mapping[str, str]) -> None:
        put_whole(self._base(folder), json.dumps(now))

    def _base(self, folder: str) -> Path:
        return self._bases / f"{quote(folder, safe='')}.json"

    def _folders(self) -> Sequence[str]:
        return sorted(unquote(path.stem) for path in self._bases.glob("*.json"))


def _stored(conn: Connection, folder: str) -> dict[str, FileCopy]:
    """Files of the database; a name that leads out of its folder is none of ours."""
    found = _STORED.rows(conn, {"where": folder})
    return {row.name: FileCopy(row.digest, row.changed_at) for row in found if _stays_inside(row.name)}


def _stays_inside(name: str) -> bool:
    path = PurePosixPath(name)
    return not path.is_absolute() and ".." not in path.parts


def _contents(conn: Connection, folder: str, names: Sequence[str]) -> dict[str, tuple[bytes, str]]:
    found = conn.execute(_CONTENTS, {"where": folder, "names": list(names)}).all()
    return {row.name: (bytes(row.content), row.digest) for row in found}


def _give(
    conn: Connection,
    folder: str,
    names: Sequence[str],
    contents: Mapping[str, tuple[bytes, str]],
    before: Mapping[str, FileCopy],
    at: int,
) -> None:
    """Put the contents in place of what was there `before`; what has changed meanwhile is left to the next look."""
    wait_for_names(conn, [f"files {folder}"])
    present = _stored(conn, folder)
    for name in names:
        if present.get(name) != before.get(name):
            continue
        if name not in contents:
            conn.execute(_DROP, {"where": folder, "names": [name]})
            continue
        content, digest = contents[name]
        values = {"folder": folder, "name": name, "content": content, "digest": digest, "changed_at": at}
        conn.execute(_PUT, values)
