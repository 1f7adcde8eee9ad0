"""Reads the folders that skills are in: `<root>/<name>/SKILL.md`. Blocking: call it in a thread. It never writes.

What leads out of its root is not followed; what cannot be read is left out, with a warning.
"""

import logging
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from agent.skills.parsing import parsed
from agent.skills.skill import FILE, Origin, Skill

LARGEST = 128 * 1024  # bytes of one file; published ones have up to 70,000
MOST = 500  # skills of one root
MOST_FILES = 100  # entries of a skill's own folder that are named
AUTO = "auto"  # in the operator's root: the folder of what was drafted

log = logging.getLogger("tieline.skills")


@dataclass(frozen=True, slots=True)
class Root:
    """A folder of skills, and whose they are."""

    path: Path
    origin: Origin


def roots_of(home: Path, shipped: Sequence[Path]) -> tuple[Root, ...]:
    """Where skills are, the first that has a name wins: the operator's, the shipped ones, then what was drafted."""
    own = home / "skills"
    return (Root(own, "operator"), *(Root(path, "shipped") for path in shipped), Root(own / AUTO, "auto"))


def load(roots: Sequence[Root]) -> dict[str, Skill]:
    """Every skill by its name."""
    found: dict[str, Skill] = {}
    for root in roots:
        for file in files_of(root, _left_out):
            skill = _read(file, root)
            if skill is None:
                continue
            there = found.get(skill.name)
            if there is None:
                found[skill.name] = skill
            elif there.origin == skill.origin:
                _left_out(file, f"{there.folder / FILE} has the name {skill.name!r} already")
    return found


def signature(roots: Sequence[Root]) -> tuple[tuple[str, int, int], ...]:
    """What changes when any of their files does: path, time and size of each, and when its folder was changed."""
    found = []
    for root in roots:
        for file in files_of(root):
            try:
                status, folder = file.stat(), file.parent.stat()
            except OSError:
                continue
            found.append((str(file), max(status.st_mtime_ns, folder.st_mtime_ns), status.st_size))
    return tuple(found)


def files_of(root: Root, left_out: Callable[[Path, str], None] = lambda file, why: None) -> Iterator[Path]:
    """The SKILL.md files below that root, by the names of their folders; none that leads out of it."""
    try:
        names = sorted(entry.name for entry in os.scandir(root.path))
        top = root.path.resolve(strict=True)
    except OSError:  # most homes have no such folder
        return
    given = 0
    for name in names:
        if name.startswith(".") or (root.origin == "operator" and name == AUTO):
            continue
        file = root.path / name / FILE
        try:
            if not file.is_file():
                continue
            inside = file.resolve(strict=True).is_relative_to(top)
        except OSError:  # a link to itself, or gone meanwhile
            continue
        if not inside:
            left_out(file, f"it leads out of {root.path}")
        elif given == MOST:
            left_out(file, f"like all after it: {MOST} are the most of one folder")
            return
        else:
            given += 1
            yield file


def _read(file: Path, root: Root) -> Skill | None:
    try:
        with file.open("rb") as opened:
            raw = opened.read(LARGEST + 1)
    except OSError as error:
        _left_out(file, error.strerror or "it cannot be read")
        return None
    if len(raw) > LARGEST:
        _left_out(file, f"it has more than {LARGEST} bytes")
        return None
    read = parsed(raw.decode("utf-8", "replace"), folder=file.parent, origin=root.origin)
    if not read.skill.name:
        _left_out(file, "a name needs letters or digits")
        return None
    if read.warning:
        log.warning("%s: %s", file, read.warning)
    return read.skill if root.origin == "auto" else replace(read.skill, files=_beside(file.parent))


def _beside(folder: Path) -> tuple[str, ...]:
    """What lies in the folder besides SKILL.md; nothing hidden, no link, nothing that cannot be shown as it is."""
    try:
        with os.scandir(folder) as inside:
            there = [
                f"{one.name}/" if one.is_dir(follow_symlinks=False) else one.name
                for one in inside
                if not one.is_symlink() and not one.name.startswith((".", "__")) and one.name != FILE
            ]
    except OSError:
        return ()
    return tuple(sorted(name for name in there if name.isprintable())[:MOST_FILES])


def _left_out(file: Path, why: str) -> None:
    log.warning("%s is left out: %s", file, why)
