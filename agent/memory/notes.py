"""MEMORY.md: the notes of one conversation, a file that people and the agent write.

Every wording that was seen is kept for a while beside it. Blocking: call what touches files in a thread.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from shutil import rmtree
from urllib.parse import quote

from agent.core.files.safe import put_whole
from agent.core.ids import ConversationId

FILE = "MEMORY.md"
VERSIONS = "versions"
MOST_VERSIONS = 20
LONGEST = 50_000  # characters of what an agent may write


def folder_of(conversation: ConversationId) -> str:
    """The folder of the notes and their versions, below the data directory."""
    return "memory/" + quote(conversation, safe="@._-")


def path_of(home: Path, conversation: ConversationId) -> Path:
    """Where the notes of a conversation are: no two conversations share a file (G-25)."""
    return home / folder_of(conversation) / FILE


def read(path: Path, most: int) -> str:
    """Their first `most` characters. Raises OSError."""
    with path.open(encoding="utf-8", errors="replace") as file:
        return file.read(most)


def write(path: Path, text: str, *, at: datetime) -> None:
    """Put the text in place of the notes, whole or not at all; what stood there stays as a version. Raises OSError."""
    if path.exists():
        keep_version(path, path.read_text("utf-8", "replace"), at=at)  # to its end: nothing else keeps it
    put_whole(path, text)
    keep_version(path, text, at=at)


def keep_version(path: Path, text: str, *, at: datetime) -> None:
    """Keep this wording beside the notes, unless the newest one is the same. Raises OSError."""
    versions = versions_of(path)
    if not text.strip() or (versions and read(versions[-1], LONGEST * 2) == text):
        return
    folder = path.parent / VERSIONS
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    while (kept := folder / f"{at:%Y%m%d-%H%M%S-%f}.md").exists():  # what stood there and what takes its place
        at += timedelta(microseconds=1)
    kept.write_text(text, "utf-8")
    kept.chmod(0o600)
    for old in versions_of(path)[:-MOST_VERSIONS]:
        old.unlink(missing_ok=True)


def versions_of(path: Path) -> tuple[Path, ...]:
    """The wordings that are kept, oldest first."""
    return tuple(sorted((path.parent / VERSIONS).glob("*.md")))


def follow(home: Path, old: ConversationId, new: ConversationId, *, at: datetime) -> None:
    """The conversation has another name now: its notes and their versions belong to that. Safe to repeat.

    Where the new name has notes already, the old ones come before them. Raises OSError, also where something of the
    old folder is left.
    """
    before, after = path_of(home, old), path_of(home, new)
    if not before.parent.is_dir():
        return
    for version in versions_of(before):
        folder = after.parent / VERSIONS
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        version.replace(folder / version.name)
    if before.exists():
        text = before.read_text("utf-8", "replace")  # to its end: it is not read from there again
        if after.exists() and (added := after.read_text("utf-8", "replace")).strip() not in text:
            text = f"{text.rstrip()}\n\n{added}"
        write(after, text, at=at)
        before.unlink()
    rmtree(before.parent)


def erase(path: Path, holds: Callable[[str], bool] | None) -> int:
    """Remove the lines that `holds` says so of from the notes and their versions (None: all of it); how many files.

    Raises OSError.
    """
    touched = 0
    for file in (*versions_of(path), path):
        if not file.exists():
            continue
        text = file.read_text("utf-8", "replace")  # to its end: what is left of it is written back
        left = "" if holds is None else "".join(line for line in text.splitlines(keepends=True) if not holds(line))
        if left == text:
            continue
        touched += 1
        if left.strip():
            file.write_text(left, "utf-8")
        else:
            file.unlink()
    return touched
