"""Removes what lies in an open folder, whatever a command has made of it: no link is followed, no depth is too deep.

Each name is looked up in the folder that holds it (`dir_fd`), so that what is swapped meanwhile leads nowhere. Blocks.
"""

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

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
    """What is told of an error: the system's words without the path."""
    return error.strerror or str(error) if isinstance(error, OSError) else str(error)
