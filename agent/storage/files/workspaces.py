"""Workspaces of two processes made one: what to fetch, remove and store, by what both had in common before. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple


class FileState(NamedTuple):
    """A file without its bytes: as long as this is the same, they are taken to be the same."""

    size: int
    modified_ns: int
    executable: bool


@dataclass(frozen=True, slots=True)
class WorkspaceBase:
    """The state of a workspace in which this directory and the store were last the same."""

    version: str
    files: Mapping[str, FileState]


def to_fetch(
    base: Mapping[str, FileState], local: Mapping[str, FileState], stored: Mapping[str, FileState]
) -> Sequence[str]:
    """The stored files that take the place of those here.

    One that was changed or removed here alone is left: it is stored with the next push. Where both were changed the
    stored one counts, which belongs to a turn that was committed.
    """
    return [
        path
        for path, there in stored.items()
        if local.get(path) != there and not (path in base and base[path] == there != local.get(path))
    ]


def to_drop(
    base: Mapping[str, FileState], local: Mapping[str, FileState], stored: Mapping[str, FileState]
) -> Sequence[str]:
    """The files here that were removed elsewhere, and not changed here."""
    return [path for path, before in base.items() if path not in stored and local.get(path) == before]


def changed(base: Mapping[str, FileState], local: Mapping[str, FileState]) -> Sequence[str]:
    """The files to be stored."""
    return [path for path, here in local.items() if base.get(path) != here]


def removed(base: Mapping[str, FileState], local: Mapping[str, FileState]) -> Sequence[str]:
    """The files that are to be removed from the store."""
    return [path for path in base if path not in local]


def within(local: Mapping[str, FileState], most_bytes: int, most_files: int) -> frozenset[str]:
    """The files for which there is room in the store: the smallest first."""
    fitting, total = set[str](), 0
    for path, state in sorted(local.items(), key=lambda one: one[1].size):
        total += state.size
        if total > most_bytes or len(fitting) >= most_files:
            break
        fitting.add(path)
    return frozenset(fitting)
