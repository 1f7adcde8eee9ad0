"""The data directory as a cache of stored files: looks, hashes, puts in place, removes. Everything blocks."""

import hashlib
import json
import logging
import os
import secrets
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from agent.core.bounded_map import BoundedMap
from agent.core.errors import ToolError
from agent.core.files.safe import Names, Tree, put_whole
from agent.core.files.store import UPLOADS, WORKSPACES, folder_of
from agent.storage.files.workspaces import FileState, WorkspaceBase

STATES = "file-states"  # the folder of the data directory with what was last stored of each workspace
MARK = "files-stored"  # the file that names the store which has this directory's files
WAITING = "files-to-store"  # the file that lists those which it does not have yet
TOPS = ("files", "outputs", "exports", UPLOADS, "web/chat")
PART = 1024 * 1024  # bytes of a row of the database, so that no statement is large
MOST_KNOWN = 20_000  # files whose hash is remembered

log = logging.getLogger("tieline.files")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile:
    """A file as its row tells of it. `content` is the id of its bytes."""

    path: str
    folder: str
    content: str
    sha256: str
    size: int
    modified_ns: int
    executable: bool = False
    conversation: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalFile:
    """A file as it lay here when it was opened."""

    path: str
    size: int
    modified_ns: int
    executable: bool


class FileCache:
    """The files of one data directory."""

    def __init__(self, home: Path) -> None:
        self._home = home
        # The hash of a file that was read whole, for as long as neither its size nor its time changes.
        self._known: BoundedMap[str, tuple[int, int, str]] = BoundedMap(MOST_KNOWN)

    def read(self, path: str, most: int) -> tuple[LocalFile, bytes | None]:
        """The file, and its bytes unless there are more than `most`. Raises FileNotFoundError, OSError."""
        with self._opened(path) as (local, opened):
            if local.size > most:
                return local, None
            data = opened.read(most + 1)
        if len(data) != local.size:
            raise OSError(f"{path} was changed while it was read")
        return local, data

    def hashed(self, path: str, most: int) -> tuple[LocalFile, bytes | None, str]:
        """The same with its SHA-256."""
        local, data = self.read(path, most)
        return local, data, self.hash_of(path) if data is None else hashlib.sha256(data).hexdigest()

    def parts(self, path: str) -> Iterator[bytes]:
        """The bytes of a large file, part by part. Raises OSError."""
        with self._opened(path) as (_, opened):
            yield from iter(lambda: opened.read(PART), b"")

    def hash_of(self, path: str) -> str:
        """Its SHA-256. Raises OSError."""
        digest = hashlib.sha256()
        for piece in self.parts(path):
            digest.update(piece)
        return digest.hexdigest()

    def remember(self, path: str, size: int, modified_ns: int, sha256: str) -> None:
        """Its hash needs not be made again."""
        self._known[path] = (size, modified_ns, sha256)

    def has(self, stored: StoredFile) -> bool:
        """Whether the file is here as it is stored; its time is made that of the stored one."""
        tree, names = self._place(stored.path)
        with suppress(ToolError, OSError):
            there = tree.look(names)
            if there is None or there.kind != "file" or there.size != stored.size:
                return False
            if self._known.get(stored.path) != (there.size, there.modified_ns, stored.sha256):
                if self.hash_of(stored.path) != stored.sha256:
                    return False
            elif there.modified_ns == stored.modified_ns and there.executable == stored.executable:
                return True
            with tree.opened(names) as opened:
                _dress(opened, stored)
            self.remember(stored.path, stored.size, stored.modified_ns, stored.sha256)
            return True
        return False

    def begin(self, path: str) -> tuple[Path, BinaryIO]:
        """A new file beside the place of `path`, for its owner alone. Raises OSError."""
        top = self._top(path)
        top.mkdir(parents=True, exist_ok=True, mode=0o700)
        partial = top / f".{secrets.token_hex(8)}.part"
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        return partial, os.fdopen(descriptor, "wb")

    def end(self, partial: Path, opened: BinaryIO, stored: StoredFile) -> None:
        """Put what was written in its place. Raises OSError, ToolError where a link or folder is in the way."""
        opened.flush()
        _dress(opened.fileno(), stored)
        opened.close()
        tree, names = self._place(stored.path)
        tree.place(names, partial)
        self.remember(stored.path, stored.size, stored.modified_ns, stored.sha256)

    def drop(self, path: str) -> None:
        """Remove a file; it need not be there."""
        tree, names = self._place(path)
        self._known.pop(path, None)
        for left in tree.remove(names):
            if not left.gone:
                log.warning("%r is not stored any more and stays: %s", path, left.why)

    def is_there(self, path: str) -> bool:
        """Whether anything has that name."""
        tree, names = self._place(path)
        with suppress(ToolError, OSError):
            return tree.look(names) is not None
        return True

    def folders(self, before_s: float) -> Mapping[str, list[str]]:
        """The files below `TOPS` that were last written before that moment, by their folder (`folder_of`)."""
        found: dict[str, list[str]] = {}
        for top in TOPS:
            tree, depth = Tree(self._home / top), len(PurePosixPath(top).parts)
            with suppress(ToolError, OSError):
                for entry in tree.walk(()):
                    path = "/".join((top, *entry.names))
                    if entry.kind != "file" or not _is_text(path) or entry.names[-1].endswith(".part"):
                        continue
                    if depth == 2 and not is_attachment(entry.names):
                        continue  # the journals of the web chat lie beside
                    if entry.modified_ns < before_s * 1e9:
                        found.setdefault(folder_of(path), []).append(path)
        return found

    # Workspaces

    def workspaces(self) -> list[str]:
        """The folders of all workspaces that are here."""
        try:
            with os.scandir(self._home / WORKSPACES) as inside:
                return [f"{WORKSPACES}/{one.name}" for one in inside if one.is_dir() and not one.name.startswith(".")]
        except OSError:
            return []

    def states(self, workspace: str) -> Mapping[str, FileState]:
        """The files of a workspace by path. Links and what is no file are not stored."""
        tree, found = Tree(self._home / workspace), {}
        with suppress(ToolError):
            for entry in tree.walk(()):
                path = "/".join((workspace, *entry.names))
                if entry.kind == "file" and _is_text(path):
                    found[path] = FileState(entry.size, entry.modified_ns, entry.executable)
        return found

    def base(self, workspace: str) -> WorkspaceBase | None:
        """The last state that was stored from here or brought here; None without one, or without the folder."""
        if not (self._home / workspace).is_dir():
            return None
        try:
            told = json.loads(self._note(workspace).read_bytes())
            return WorkspaceBase(told["version"], {path: FileState(*state) for path, state in told["files"].items()})
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            log.warning("what was stored of %s is not known: %s", workspace, error)
            return None

    def keep_base(self, workspace: str, base: WorkspaceBase) -> None:
        """Note the state. Raises OSError."""
        files = {path: (one.size, one.modified_ns, one.executable) for path, one in base.files.items()}
        (self._home / workspace).mkdir(parents=True, exist_ok=True, mode=0o700)
        put_whole(self._note(workspace), json.dumps({"version": base.version, "files": files}))

    def forget_base(self, workspace: str) -> None:
        """There is no such workspace any more."""
        self._note(workspace).unlink(missing_ok=True)

    # The store that has the files of this directory

    def store(self) -> str:
        """Its name; "" where nothing has been stored yet."""
        return _store(self._home)

    def here(self) -> frozenset[str]:
        """All files and workspaces that lie here."""
        return frozenset(
            (*(path for paths in self.folders(float("inf")).values() for path in paths), *self.workspaces())
        )

    def belong_to(self, name: str, waiting: Collection[str]) -> None:
        """Make this directory a cache of that store, which lacks those files. Raises OSError."""
        self.keep_waiting(waiting)
        put_whole(self._home / MARK, f"{name}\n")

    def waiting(self) -> frozenset[str]:
        """Files and workspaces that are still to be stored."""
        try:
            return frozenset(json.loads((self._home / WAITING).read_bytes()))
        except FileNotFoundError:
            return frozenset()
        except (OSError, ValueError, TypeError) as error:
            log.warning("which files are still to be stored is not known: %s", error)
            return frozenset()

    def keep_waiting(self, paths: Collection[str]) -> None:
        """Note them. Raises OSError."""
        if paths:
            put_whole(self._home / WAITING, json.dumps(sorted(paths)))
        else:
            (self._home / WAITING).unlink(missing_ok=True)

    def _note(self, workspace: str) -> Path:
        # Not `with_suffix`: the name of a conversation may hold a dot.
        return self._home / STATES / f"{PurePosixPath(workspace).name}.json"

    def _top(self, path: str) -> Path:
        return self._home / PurePosixPath(path).parts[0]

    def _place(self, path: str) -> tuple[Tree, Names]:
        """The tree that holds it: the operator may have made its topmost folder a link."""
        parts = PurePosixPath(path).parts
        if len(parts) < 2 or path.startswith("/") or ".." in parts:
            raise OSError(f"{path!r} is no file below the data directory")
        return Tree(self._home / parts[0]), parts[1:]

    @contextmanager
    def _opened(self, path: str) -> Iterator[tuple[LocalFile, BinaryIO]]:
        tree, names = self._place(path)
        try:
            with tree.opened(names) as descriptor, os.fdopen(os.dup(descriptor), "rb") as opened:
                there = os.fstat(descriptor)
                executable = bool(there.st_mode & 0o100)
                yield (
                    LocalFile(path=path, size=there.st_size, modified_ns=there.st_mtime_ns, executable=executable),
                    opened,
                )
        except ToolError as error:
            raise FileNotFoundError(str(error)) from error


def has_all_files(home: Path) -> bool:
    """Whether all files of that data directory are in a database."""
    return bool(_store(home)) and not (home / WAITING).exists()


def forget_store(home: Path) -> None:
    """Have what lies in that data directory stored with the next start: it was put there meanwhile."""
    (home / MARK).unlink(missing_ok=True)


def _store(home: Path) -> str:
    try:
        return (home / MARK).read_text().strip()
    except (OSError, UnicodeDecodeError):
        return ""


def _dress(descriptor: int, stored: StoredFile) -> None:
    """Give an open file the mode and the time of the stored one."""
    os.fchmod(descriptor, 0o700 if stored.executable else 0o600)
    os.utime(descriptor, ns=(stored.modified_ns, stored.modified_ns))


def is_attachment(names: Names) -> bool:
    """Whether a path below web/chat is <account>/<person>/files/<name>."""
    return len(names) == 4 and names[2] == "files"


def _is_text(path: str) -> bool:
    """Whether the database can hold the name."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True
