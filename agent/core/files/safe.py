"""The files below one folder, opened name by name from its root: no symbolic link is ever followed.

Each step is opened relative to the folder before it (`dir_fd`, O_NOFOLLOW), so that a link put in between two looks
leads nowhere. Only regular files and folders are read or written; a link is removed itself, never what it leads to.
All of it blocks: call it in a thread.
"""

import errno
import os
import secrets
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from agent.core.errors import OutOfScope, ToolError

# Removal of a folder's content, whatever a command has made of it: follows no link, and no depth is too deep.

DEEPEST = 64  # folders
ROUNDS = 1_000  # looks into a folder that is emptied; each takes `DEEPEST` levels off what is deeper than that
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Left:
    """Something that was to be removed and stays, and why. `gone`: the link is removed, what it led to stays."""

    names: tuple[str, ...]
    why: str
    gone: bool = False


def removed(at: int, names: tuple[str, ...], top: int | None = None, depth: int = 1) -> Iterator[Left]:
    """Remove the last of these names, which is in the folder `at`. `top` is what is being emptied with all of this."""
    name = names[-1]
    try:
        mode = os.stat(name, dir_fd=at, follow_symlinks=False).st_mode
        if not stat.S_ISDIR(mode):
            os.unlink(name, dir_fd=at)
            if stat.S_ISLNK(mode):
                yield Left(names, "it was a link, which is removed; what it led to stays", gone=True)
            return
        inner = _opened_to_empty(at, name)
        try:
            if top is not None and depth > DEEPEST:
                # Neither the stack nor the open files are to grow with it: it is emptied from further up.
                os.rename(name, f".{secrets.token_hex(8)}", src_dir_fd=at, dst_dir_fd=top)
                return
            left = list(_emptied(inner, names, inner if top is None else top, depth))
        finally:
            os.close(inner)
        yield from left
        if all(one.gone for one in left):
            os.rmdir(name, dir_fd=at)
    except FileNotFoundError:
        return
    except OSError as error:
        yield Left(names, why_of(error))


def _emptied(folder: int, names: tuple[str, ...], top: int, depth: int) -> Iterator[Left]:
    seen: set[str] = set()
    for _ in range(ROUNDS if folder == top else 1):
        fresh = [name for name in os.listdir(folder) if name not in seen]
        if not fresh:
            return
        for name in fresh:
            seen.add(name)
            yield from removed(folder, (*names, name), top, depth + 1)
    if folder == top:
        yield Left(names, "it is being filled meanwhile")


def pruned(folder: int, names: tuple[str, ...], before: float) -> Iterator[Left]:
    """Remove what is older than that from an open folder, whose names these are; see `Tree.prune`."""
    for name in os.listdir(folder):
        at = (*names, name)
        try:
            there = os.stat(name, dir_fd=folder, follow_symlinks=False)
            old = there.st_mtime < before
            if not stat.S_ISDIR(there.st_mode):
                if old:
                    os.unlink(name, dir_fd=folder)
            elif len(at) > DEEPEST:
                if old:
                    yield from removed(folder, at)
            else:
                yield from _within(folder, at, before, old=old)
        except FileNotFoundError:  # somebody else was quicker
            continue
        except OSError as error:
            yield Left(at, why_of(error))


def _within(folder: int, names: tuple[str, ...], before: float, *, old: bool) -> Iterator[Left]:
    name = names[-1]
    try:
        inner = _opened_to_empty(folder, name) if old else os.open(name, FOLDER, dir_fd=folder)
    except PermissionError:
        if old:
            raise
        return  # it is looked into once it is old
    try:
        yield from pruned(inner, names, before)
    finally:
        os.close(inner)
    # Looked at again: a folder that was emptied just now has not been empty for long.
    if os.stat(name, dir_fd=folder, follow_symlinks=False).st_mtime < before:
        with suppress(OSError):  # it holds something
            os.rmdir(name, dir_fd=folder)


def _opened_to_empty(at: int, name: str) -> int:
    """A folder, whose owner may look into it and change it from now on: a command may have forbidden both."""
    try:
        folder = os.open(name, FOLDER, dir_fd=at)
    except PermissionError:
        if not hasattr(os, "O_PATH"):
            raise
        unread = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
        try:
            os.chmod(f"/proc/self/fd/{unread}", 0o700)  # by its number: no name leads elsewhere meanwhile
        finally:
            os.close(unread)
        folder = os.open(name, FOLDER, dir_fd=at)
    if os.fstat(folder).st_mode & 0o700 != 0o700:
        with suppress(OSError):
            os.fchmod(folder, 0o700)
    return folder


def why_of(error: Exception) -> str:
    """The reason in an error: the system's words without the path."""
    return error.strerror or str(error) if isinstance(error, OSError) else str(error)


Names = tuple[str, ...]  # below the root; () is the root itself
Shown = Callable[[Names], str]

LARGEST_READ = 10 * 1024 * 1024  # bytes
MOST_ENTRIES = 50_000  # looked at in one walk

_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # a pipe must not make us wait


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing below the root. `kind` "other" is a link, a pipe, a device: named, never opened."""

    names: Names
    kind: str  # "file" | "folder" | "other"
    size: int
    modified_ns: int
    executable: bool = False


class Tree:
    """`root` need not exist: it is empty then, and made when something is put into it.

    The folders that `root` lies in are the caller's: links in them are followed. `shown` writes names in messages.
    """

    def __init__(self, root: Path, shown: Shown = "/".join) -> None:
        self._root = root
        self._shown = shown

    def read(self, names: Names, most: int = LARGEST_READ) -> bytes:
        """A file's bytes. Raises ToolError when there is none, or a larger one."""
        with self._folder(names[:-1]) as folder, _opened(folder, names, self._shown) as file:
            size = os.fstat(file).st_size
            if size > most:
                raise ToolError(f"{self._shown(names)} has {size} bytes; {most} are the most")
            return _all_of(file, most)

    @contextmanager
    def opened(self, names: Names) -> Iterator[int]:
        """A file, open for reading; also a large one. Raises ToolError when there is none."""
        with self._folder(names[:-1]) as folder, _opened(folder, names, self._shown) as file:
            yield file

    def adopt(self, names: Names, file: Path) -> bool:
        """Move `file`, which lies on the same disk, there; not where there is something already. Folders are made."""
        with self._folder(names[:-1], make=True) as folder:
            try:
                os.stat(names[-1], dir_fd=folder, follow_symlinks=False)
            except FileNotFoundError:
                os.rename(file, names[-1], dst_dir_fd=folder)
                return True
        return False

    def place(self, names: Names, file: Path) -> None:
        """Move `file`, which lies on the same disk, in the place of a file or link. Folders are made.

        Raises OSError where there is a folder.
        """
        with self._folder(names[:-1], make=True) as folder:
            os.replace(file, names[-1], dst_dir_fd=folder)

    def write(self, names: Names, data: bytes) -> None:
        """Put a file there whole: who reads it meanwhile has the old one or the new one. Folders are made."""
        if not names:
            raise ToolError(f"{self._shown(names)} is a folder")
        with self._folder(names[:-1], make=True) as folder:
            mode = 0o600
            with suppress(FileNotFoundError):
                there = os.stat(names[-1], dir_fd=folder, follow_symlinks=False)
                if not stat.S_ISREG(there.st_mode):
                    raise _no_file(names, there, self._shown)
                mode = stat.S_IMODE(there.st_mode) & 0o777
            partial = f".{secrets.token_hex(8)}.part"
            file = os.open(
                partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode, dir_fd=folder
            )
            try:
                with os.fdopen(file, "wb") as out:
                    out.write(data)
                    os.fchmod(out.fileno(), mode)
                os.replace(partial, names[-1], src_dir_fd=folder, dst_dir_fd=folder)
            finally:
                with suppress(FileNotFoundError):  # it has its name now
                    os.unlink(partial, dir_fd=folder)

    def remove(self, names: Names) -> tuple[Left, ...]:
        """Remove what is there with all below it, in whatever mode it is; gives what stays.

        A link goes itself, and is told of.
        """
        try:
            with self._folder(names[:-1]) as folder:
                return tuple(removed(folder, names))
        except _NotThere:
            return ()
        except (ToolError, OSError) as error:
            return (Left(names, why_of(error)),)

    def prune(self, before: float) -> tuple[Left, ...]:
        """Remove files last written before that moment (POSIX seconds), and folders that have been empty as long.

        What lies deeper than `DEEPEST` goes with its folder, when that is as old. Gives what should go and stays.
        """
        try:
            with self._folder(()) as folder:
                return tuple(pruned(folder, (), before))
        except _NotThere:
            return ()
        except (ToolError, OSError) as error:
            return (Left((), why_of(error)),)

    def look(self, names: Names) -> Entry | None:
        """The entry itself, no link followed; None when there is nothing."""
        try:
            with self._folder(names[:-1]) as folder:
                return _entry(names, os.stat(names[-1] if names else ".", dir_fd=folder, follow_symlinks=False))
        except (FileNotFoundError, NotADirectoryError, _NotThere):
            return None

    def is_folder(self, names: Names) -> bool:
        """Whether that is a folder one may go to; the workspace always is."""
        found = self.look(names)
        return not names or (found is not None and found.kind == "folder")

    def folder(self, names: Names) -> list[Entry]:
        """The content of a folder, by name. Raises ToolError when it is none."""
        if not names and not self._root.exists():
            return []
        with self._folder(names) as folder:
            return _entries(folder, names)

    def walk(self, names: Names) -> Iterator[Entry]:
        """Everything below a folder, folders before what they hold; ends quietly after `MOST_ENTRIES`."""
        seen = 0
        waiting = [names]
        while waiting:
            here = waiting.pop()
            try:
                entries = self.folder(here)
            except ToolError:
                if here == names:
                    raise
                continue  # gone meanwhile
            for entry in entries:
                seen += 1
                if seen > MOST_ENTRIES:
                    return
                yield entry
            waiting += [
                entry.names for entry in reversed(entries) if entry.kind == "folder" and len(entry.names) < DEEPEST
            ]

    def used(self) -> tuple[int, int]:
        """Bytes and number of all files; of very many only the first `MOST_ENTRIES`."""
        sizes = [entry.size for entry in self.walk(()) if entry.kind == "file"]
        return sum(sizes), len(sizes)

    @contextmanager
    def _folder(self, names: Names, *, make: bool = False) -> Iterator[int]:
        """The folder of these names, open."""
        if make:
            self._root.mkdir(parents=True, exist_ok=True, mode=0o700)
        at = self._open_root()
        try:
            for depth, name in enumerate(names, 1):
                if make:
                    with suppress(FileExistsError):
                        os.mkdir(name, 0o700, dir_fd=at)
                inner = _step(at, name, names[:depth], self._shown)
                os.close(at)
                at = inner
            yield at
        finally:
            os.close(at)

    def _open_root(self) -> int:
        try:
            return os.open(self._root, FOLDER)
        except FileNotFoundError as error:
            raise _NotThere(f"{self._shown(())} is empty") from error
        except OSError as error:  # a link too
            raise ToolError(f"{self._shown(())} cannot be opened: {error.strerror}") from error


class _NotThere(ToolError):
    """There is nothing of that name."""


def _step(at: int, name: str, names: Names, shown: Shown) -> int:
    try:
        return os.open(name, FOLDER, dir_fd=at)
    except FileNotFoundError as error:
        raise _NotThere(_missing(at, names, shown)) from error
    except OSError as error:
        if error.errno in (errno.ENOTDIR, errno.ELOOP, errno.EMLINK):
            raise _no_folder(at, name, names, shown) from error
        raise ToolError(f"{shown(names)} cannot be opened: {error.strerror}") from error


@contextmanager
def _opened(folder: int, names: Names, shown: Shown) -> Iterator[int]:
    if not names:
        raise ToolError(f"{shown(names)} is a folder")
    try:
        there = os.stat(names[-1], dir_fd=folder, follow_symlinks=False)
        if not stat.S_ISREG(there.st_mode):
            raise _no_file(names, there, shown)
        file = os.open(names[-1], _FILE, dir_fd=folder)
    except FileNotFoundError as error:
        raise _NotThere(_missing(folder, names, shown)) from error
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EMLINK):
            raise _link(names, shown) from error
        raise ToolError(f"{shown(names)} cannot be opened: {error.strerror}") from error
    try:
        opened = os.fstat(file)
        if not stat.S_ISREG(opened.st_mode):  # changed between the two looks
            raise _no_file(names, opened, shown)
        yield file
    finally:
        os.close(file)


def _all_of(file: int, most: int) -> bytes:
    """At most `most` bytes: the file may grow while it is read."""
    pieces, left = [], most
    while left and (piece := os.read(file, min(left, 1024 * 1024))):
        pieces.append(piece)
        left -= len(piece)
    return b"".join(pieces)


def _entries(folder: int, names: Names) -> list[Entry]:
    found = []
    with os.scandir(folder) as inside:
        for one in inside:
            with suppress(FileNotFoundError):
                found.append(_entry((*names, one.name), one.stat(follow_symlinks=False)))
    return sorted(found, key=lambda entry: entry.names)


def _entry(names: Names, status: os.stat_result) -> Entry:
    kind = "file" if stat.S_ISREG(status.st_mode) else "folder" if stat.S_ISDIR(status.st_mode) else "other"
    size, executable = (status.st_size, bool(status.st_mode & 0o100)) if kind == "file" else (0, False)
    return Entry(names, kind, size, status.st_mtime_ns, executable)


def _missing(folder: int, names: Names, shown: Shown) -> str:
    near = get_close_matches(names[-1], os.listdir(folder), n=3)
    hint = f"; there is {', '.join(near)}" if near else ""
    return f"there is no {shown(names)}{hint}"


def _no_folder(at: int, name: str, names: Names, shown: Shown) -> ToolError:
    with suppress(OSError):
        if stat.S_ISLNK(os.stat(name, dir_fd=at, follow_symlinks=False).st_mode):
            return _link(names, shown)
    return ToolError(f"{shown(names)} is no folder")


def _no_file(names: Names, there: os.stat_result, shown: Shown) -> ToolError:
    if stat.S_ISLNK(there.st_mode):
        return _link(names, shown)
    return ToolError(f"{shown(names)} is {'a folder' if stat.S_ISDIR(there.st_mode) else 'no regular file'}")


def _link(names: Names, shown: Shown) -> OutOfScope:
    return OutOfScope(f"{shown(names)} is a symbolic link, and links are not followed; name the file itself")


# Small files, written atomically: a kill leaves the old content or the new one.


def put_whole(path: Path, content: str | bytes) -> None:
    """Put it in place of the file, for its owner alone; who reads meanwhile has the old one. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    partial = path.with_suffix(".part")
    partial.touch(mode=0o600)
    partial.chmod(0o600)  # before there is anything to read in it
    partial.write_bytes(content.encode() if isinstance(content, str) else content)
    partial.replace(path)
