"""Files of the data directory in a PostgreSQL database, for all processes that work on it; the directory is a cache.

A file is stored in two steps: its bytes under an id that nothing names yet, then its row. A writer that is killed in
between leaves bytes that `tidy` removes. A file is fetched beside its place and moved there whole.
"""

import hashlib
import logging
import secrets
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import BinaryIO
from urllib.parse import unquote
from weakref import WeakValueDictionary

import anyio
from sqlalchemy import Connection

from agent.core.clock import Clock
from agent.core.errors import ToolError
from agent.core.failpoints import failpoint
from agent.core.files.store import folder_of
from agent.core.ids import ConversationId
from agent.storage.database import Database, check_epoch
from agent.storage.files import rows
from agent.storage.files.cache import PART, FileCache, LocalFile, StoredFile
from agent.storage.files.rows import NewContent
from agent.storage.files.workspaces import FileState, WorkspaceBase, changed, removed, to_drop, to_fetch, within
from agent.storage.timestamps import to_timestamp

TRIES = 3  # to store or fetch a file while others change it
BATCH_BYTES, BATCH_FILES = 4 * PART, 500  # of small files in one transaction
AT_ONCE = 16  # files that are read before their bytes are looked for in the database
ABANDONED_AFTER_S = 3600.0
YOUNG_S = 600.0  # a file here that is younger may be about to be stored
FOLDERS_AT_ONCE = 500

log = logging.getLogger("tieline.files")


class _Replaced(Exception):
    """A content was removed while it was taken, or a file replaced while it was fetched."""


@dataclass(slots=True)
class _Batch:
    """Files whose rows are still to be written, and small contents among them that are still to be stored."""

    files: list[StoredFile] = field(default_factory=list)
    contents: list[NewContent] = field(default_factory=list)
    by_hash: dict[str, str] = field(default_factory=dict)

    @property
    def size(self) -> int:
        return sum(len(one.data) for one in self.contents)


class StoredFiles:
    """The `FileStore` and `FileUpkeep` of one data directory; `begin` comes first.

    Loaded only where the database is PostgreSQL.
    """

    def __init__(self, database: Database, home: Path, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._cache = FileCache(home)
        self._waiting: frozenset[str] = frozenset()  # here, and not stored yet
        self._locks: WeakValueDictionary[str, anyio.Lock] = WeakValueDictionary()

    # Single files

    async def put(
        self, path: str, *, conversation: ConversationId | None = None, most_in_folder: int | None = None
    ) -> None:
        """See `FileStore`."""

        def also(conn: Connection) -> None:
            if most_in_folder is not None:
                rows.trim(conn, folder_of(path), most_in_folder, path)

        await self._store([path], conversation=conversation, also=also)

    async def need(self, path: str) -> None:
        """See `FileStore`. In a workspace a file that is here may be newer than the stored one, and stays."""
        if rows.is_workspace(path) and await anyio.to_thread.run_sync(self._cache.is_there, path):
            return
        for _ in range(TRIES):
            found = await self._database.read(partial(rows.find, path=path))
            if found is None:
                if path not in self._waiting and not rows.is_workspace(path):
                    await anyio.to_thread.run_sync(self._cache.drop, path)
                return
            try:
                await self._have([found])
            except _Replaced:
                continue
            return
        raise OSError(f"{path} is changed again and again while it is fetched")

    async def need_below(self, prefix: str) -> None:
        """See `FileStore`."""
        for _ in range(TRIES):
            found = await self._database.read(partial(rows.below, prefix=prefix))
            try:
                await self._have(found)
            except _Replaced:
                continue
            return
        raise OSError(f"{prefix} is changed again and again while it is fetched")

    async def settle(self, prefix: str) -> None:
        """See `FileStore`."""
        found = await self._database.read(partial(rows.below, prefix=prefix))

        def gone() -> list[str]:
            return [one.path for one in found if not self._cache.is_there(one.path)]

        if found and (paths := await anyio.to_thread.run_sync(gone)):
            await self._remove(paths)

    async def move(self, old: str, new: str) -> None:
        """See `FileStore`."""
        name = secrets.token_hex(8)

        def work(conn: Connection) -> None:
            rows.move(conn, old, new)
            for folder in (old, new):
                if rows.is_workspace(folder):
                    rows.change(conn, folder, name)

        await self._database.write(work)
        await anyio.to_thread.run_sync(self._cache.forget_base, old)

    # Workspaces

    async def pull(self, workspace: str) -> None:
        """See `FileStore`."""
        async with self._alone(workspace):
            for _ in range(TRIES):
                base = await anyio.to_thread.run_sync(self._cache.base, workspace)
                version = await self._database.read(partial(rows.version, folder=workspace))
                if version is None or (base is not None and base.version == version):
                    return
                try:
                    await self._merge(workspace, base)
                except _Replaced:
                    continue
                return
        raise OSError(f"{workspace} is changed again and again while it is fetched")

    async def push(self, workspace: str, *, epoch: int, most_bytes: int, most_files: int) -> None:
        """See `FileStore`."""
        async with self._alone(workspace):
            await self._push(workspace, epoch, most_bytes, most_files)

    async def _merge(self, workspace: str, base: WorkspaceBase | None, *, fetch: bool = True) -> None:
        """Bring it to the stored state; without `fetch` only what was removed elsewhere goes."""
        version, found = await self._database.read(
            lambda conn: (rows.version(conn, workspace), rows.in_folder(conn, workspace))
        )
        stored = {one.path: _state(one) for one in found}
        before = base.files if base is not None else {}
        local = await anyio.to_thread.run_sync(self._cache.states, workspace)
        dropped = to_drop(before, local, stored)
        for path in dropped:
            await anyio.to_thread.run_sync(self._cache.drop, path)
        if not fetch:
            kept = {path: state for path, state in before.items() if path not in set(dropped)}
            await self._keep_base(workspace, WorkspaceBase(base.version if base is not None else "", kept))
            return
        wanted = set(to_fetch(before, local, stored))
        missed = await self._have([one for one in found if one.path in wanted])
        files = {path: state for path, state in stored.items() if path not in missed}
        await self._keep_base(workspace, WorkspaceBase(version or "", files))

    async def _push(self, workspace: str, epoch: int | None, most_bytes: int, most_files: int) -> None:
        base = await anyio.to_thread.run_sync(self._cache.base, workspace)
        before = base.files if base is not None else {}
        local = await anyio.to_thread.run_sync(self._cache.states, workspace)
        new, to_remove = changed(before, local), removed(before, local)
        fitting = within(local, most_bytes, most_files) if new else frozenset()
        to_store = [path for path in new if path in fitting]
        if len(to_store) < len(new):
            log.warning(
                "%d files of %s are on this machine alone: a workspace holds %d bytes and %d files",
                len(new) - len(to_store), workspace, most_bytes, most_files,
            )  # fmt: skip
        if not to_store and not to_remove:
            return
        name, conversation = secrets.token_hex(8), ConversationId(unquote(workspace.partition("/")[2]))
        former: list[str | None] = []

        def also(conn: Connection) -> None:
            former.append(rows.change(conn, workspace, name))
            rows.remove(conn, to_remove)

        def fence(conn: Connection) -> None:
            if epoch is not None:
                check_epoch(conn, conversation, epoch)

        stored = await self._store(
            to_store,
            conversation=conversation,
            first=fence,
            also=also,
            may_be_gone=True,
        )
        now = {path: state for path, state in before.items() if path in local and path not in stored}
        now |= {path: _state(one) for path, one in stored.items()}
        # Where another process has changed it meanwhile, what it did is still to be fetched.
        is_next = former[-1] == (base.version if base is not None else None)
        await self._keep_base(workspace, WorkspaceBase(name if is_next else "", now))

    async def _keep_base(self, workspace: str, base: WorkspaceBase) -> None:
        await anyio.to_thread.run_sync(self._cache.keep_base, workspace, base)

    # Storing

    async def _store(
        self,
        paths: Sequence[str],
        *,
        conversation: ConversationId | None = None,
        first: Callable[[Connection], None] = lambda conn: None,
        also: Callable[[Connection], None] = lambda conn: None,
        may_be_gone: bool = False,
    ) -> Mapping[str, StoredFile]:
        """Store these files; `first` begins and `also` ends the transaction after which they are there. Gives them by
        path, without those that are gone where they `may_be_gone`."""
        for attempt in range(TRIES):
            batch = _Batch()
            try:
                for some in _sliced(paths, AT_ONCE):
                    await self._add(some, batch, conversation, anew=attempt > 0, may_be_gone=may_be_gone)
                    if batch.size >= BATCH_BYTES or len(batch.contents) >= BATCH_FILES:
                        await self._flush(batch)
                await self._commit(batch, first, also)
            except _Replaced:
                continue
            for one in batch.files:
                self._cache.remember(one.path, one.size, one.modified_ns, one.sha256)
            return {one.path: one for one in batch.files}
        raise OSError(f"{paths[0]} cannot be stored: equal files are removed meanwhile")

    async def _add(
        self,
        paths: Sequence[str],
        batch: _Batch,
        conversation: ConversationId | None,
        *,
        anew: bool,
        may_be_gone: bool,
    ) -> None:
        """Add files to the batch; large ones have their bytes stored at once. `anew`: whatever is there already."""
        found: list[tuple[LocalFile, bytes | None, str]] = []
        for path in paths:
            try:
                found.append(await anyio.to_thread.run_sync(self._cache.hashed, path, PART))
            except OSError as error:
                if not may_be_gone:
                    raise
                log.info("a file is not stored: %s", error)
        known: dict[str, str] = {}
        if not anew and found:
            known |= await self._database.read(partial(rows.known_contents, hashes=[sha256 for *_, sha256 in found]))
        for local, data, sha256 in found:
            content, size = batch.by_hash.get(sha256) or known.get(sha256), local.size
            if content is None and data is not None:
                content = secrets.token_hex(16)
                batch.contents.append(NewContent(id=content, sha256=sha256, data=data))
            elif content is None:
                content, sha256, size = await self._upload(local.path)
            batch.by_hash[sha256] = content
            batch.files.append(_row(local, content, sha256, size, conversation))

    async def _upload(self, path: str) -> tuple[str, str, int]:
        """Store the bytes of a large file; its content, hash and size: those of the bytes that were stored."""
        content, at = secrets.token_hex(16), self._now()
        digest, size, number = hashlib.sha256(), 0, 0
        await self._database.write(lambda conn: rows.begin_content(conn, content, at=at))
        parts = self._cache.parts(path)
        while (data := await anyio.to_thread.run_sync(next, parts, None)) is not None:
            digest.update(data)
            size += len(data)
            await self._database.write(partial(rows.add_part, content=content, number=number, data=data))
            number += 1
            failpoint("file.part")
        sha256 = digest.hexdigest()
        await self._database.write(lambda conn: rows.end_content(conn, content, sha256, size, at=self._now()))
        return content, sha256, size

    async def _flush(self, batch: _Batch) -> None:
        """Store the bytes of the small files so far; their rows come last."""
        contents, at = tuple(batch.contents), self._now()
        await self._database.write(lambda conn: rows.add_small(conn, contents, at=at))
        batch.contents.clear()

    async def _commit(
        self, batch: _Batch, first: Callable[[Connection], None], also: Callable[[Connection], None]
    ) -> None:
        at = self._now()

        def work(conn: Connection) -> None:
            first(conn)
            rows.add_small(conn, batch.contents, at=at)
            if batch.files and not rows.take(conn, {one.content for one in batch.files}, at=at):
                raise _Replaced
            rows.put(conn, batch.files, at=at)
            also(conn)

        failpoint("file.stored")
        await self._database.write(work)

    async def _remove(self, paths: Sequence[str]) -> None:
        name = secrets.token_hex(8)

        def work(conn: Connection) -> None:
            for folder in {folder_of(path) for path in paths}:
                if rows.is_workspace(folder):
                    rows.change(conn, folder, name)
            rows.remove(conn, paths)

        await self._database.write(work)

    # Fetching

    async def _have(self, files: Sequence[StoredFile]) -> frozenset[str]:
        """Have all of these here; gives those whose place is taken by a folder or a link. Raises _Replaced, OSError."""

        def lacking() -> list[StoredFile]:
            return [one for one in files if not self._cache.has(one)]

        missing = await anyio.to_thread.run_sync(lacking)
        missed: set[str] = set()
        small: list[StoredFile] = []
        for one in missing:
            if one.size > PART:
                await self._fetch_alone(one, missed)
                continue
            small.append(one)
            if sum(each.size for each in small) >= BATCH_BYTES or len(small) >= BATCH_FILES:
                await self._fetch_small(small, missed)
                small = []
        if len(small) == 1:
            await self._fetch_alone(small[0], missed)
        elif small:
            await self._fetch_small(small, missed)
        return frozenset(missed)

    async def _fetch_small(self, files: Sequence[StoredFile], missed: set[str]) -> None:
        contents = [one.content for one in files if one.size]
        found = await self._database.read(partial(rows.small_parts, contents=contents))
        for one in files:
            data = found.get(one.content) if one.size else b""
            if data is None:
                raise _Replaced
            await self._written(one, _only(data), missed)

    async def _fetch_alone(self, stored: StoredFile, missed: set[str]) -> None:
        """Fetch a file once, however many ask for it."""
        async with self._alone(stored.path):
            if not await anyio.to_thread.run_sync(self._cache.has, stored):
                await self._written(stored, self._parts(stored), missed)

    async def _parts(self, stored: StoredFile) -> AsyncIterator[bytes]:
        for number in range(-(-stored.size // PART)):
            data = await self._database.read(partial(rows.part, content=stored.content, number=number))
            if data is None:
                raise _Replaced
            yield data

    async def _written(self, stored: StoredFile, parts: AsyncIterator[bytes], missed: set[str]) -> None:
        digest = hashlib.sha256()
        partial_file, opened = await anyio.to_thread.run_sync(self._cache.begin, stored.path)
        try:
            async for data in parts:
                digest.update(data)
                await anyio.to_thread.run_sync(opened.write, data)
            if digest.hexdigest() != stored.sha256:
                raise OSError(f"{stored.path} is damaged in the database: its hash is another")
            await anyio.to_thread.run_sync(self._cache.end, partial_file, opened, stored)
        except (ToolError, IsADirectoryError, NotADirectoryError) as error:
            log.warning("a stored file has no place here: %s", error)
            missed.add(stored.path)
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(_closed, opened, partial_file)

    # Housekeeping

    async def begin(self) -> None:
        """Make the directory a cache of this store, if it is none yet. Raises StorageTrouble."""
        name = await self._database.write(lambda conn: rows.name_of_store(conn, secrets.token_hex(8)))
        if await anyio.to_thread.run_sync(self._cache.store) != name:
            self._waiting = await anyio.to_thread.run_sync(self._cache.here)
            try:
                await anyio.to_thread.run_sync(self._cache.belong_to, name, self._waiting)
            except OSError as error:
                log.warning("the data directory cannot be noted as a cache, the next start tries again: %s", error)
        else:
            self._waiting = await anyio.to_thread.run_sync(self._cache.waiting)

    async def adopt(self) -> None:
        """See `FileUpkeep`."""
        if not self._waiting:
            return
        files = sorted(path for path in self._waiting if not rows.is_workspace(path))
        for paths in _sliced(files, BATCH_FILES):
            folders = sorted({folder_of(path) for path in paths})
            known = await self._database.read(partial(rows.paths_in, folders=folders))
            if new := [path for path in paths if path not in known]:
                await self._store(new, may_be_gone=True)
            await self._no_longer_wait(paths)
        for workspace in sorted(self._waiting):
            await self._adopt_workspace(workspace)
            await self._no_longer_wait([workspace])
        log.info("%d files that lay in the data directory are stored in the database now", len(files))

    async def _no_longer_wait(self, paths: Sequence[str]) -> None:
        self._waiting -= frozenset(paths)
        await anyio.to_thread.run_sync(self._cache.keep_waiting, self._waiting)

    async def _adopt_workspace(self, workspace: str) -> None:
        async with self._alone(workspace):
            base = await anyio.to_thread.run_sync(self._cache.base, workspace)
            if base is None and await self._database.read(partial(rows.version, folder=workspace)) is None:
                await self._push(workspace, None, 1 << 62, 1 << 62)

    async def expire(self, top: str, before_s: float) -> None:
        """See `FileUpkeep`."""
        before_ns = int(before_s * 1e9)
        removing = partial(rows.remove_old, top=top, before_ns=before_ns, most=BATCH_FILES)
        while await self._database.write(removing) >= BATCH_FILES:
            await self._clock.sleep(0.1)

    async def tidy(self) -> None:
        """See `FileUpkeep`."""
        before = self._now() - int(ABANDONED_AFTER_S * 1e6)
        while await self._database.write(partial(rows.drop_abandoned, before=before, most=50)) >= 50:
            await self._clock.sleep(0.1)
        young = time_of(self._clock) - YOUNG_S
        here = await anyio.to_thread.run_sync(self._cache.folders, young)
        for folders in _sliced(list(here), FOLDERS_AT_ONCE):
            known = await self._database.read(partial(rows.paths_in, folders=folders))
            for path in (path for folder in folders for path in here[folder] if path not in known | self._waiting):
                await anyio.to_thread.run_sync(self._cache.drop, path)
        for workspaces in _sliced(await anyio.to_thread.run_sync(self._cache.workspaces), FOLDERS_AT_ONCE):
            present = await self._database.read(partial(rows.versions, folders=workspaces))
            for workspace in workspaces:
                async with self._alone(workspace):
                    base = await anyio.to_thread.run_sync(self._cache.base, workspace)
                    if base is not None and base.version != present.get(workspace, ""):
                        await self._merge(workspace, base, fetch=False)

    def _now(self) -> int:
        return to_timestamp(self._clock.now())

    @asynccontextmanager
    async def _alone(self, name: str) -> AsyncIterator[None]:
        lock = self._locks.get(name)
        if lock is None:
            self._locks[name] = lock = anyio.Lock()
        async with lock:
            yield


def time_of(clock: Clock) -> float:
    """POSIX seconds."""
    return clock.now().timestamp()


def _row(local: LocalFile, content: str, sha256: str, size: int, conversation: ConversationId | None) -> StoredFile:
    return StoredFile(
        path=local.path,
        folder=folder_of(local.path),
        content=content,
        sha256=sha256,
        size=size,
        modified_ns=local.modified_ns,
        executable=local.executable,
        conversation=conversation,
    )


def _state(stored: StoredFile) -> FileState:
    return FileState(stored.size, stored.modified_ns, stored.executable)


async def _only(data: bytes) -> AsyncIterator[bytes]:
    if data:
        yield data


def _closed(opened: BinaryIO, partial_file: Path) -> None:
    opened.close()
    partial_file.unlink(missing_ok=True)


def _sliced(items: Sequence[str], most: int) -> Iterable[Sequence[str]]:
    return (items[start : start + most] for start in range(0, len(items), most))
