"""Forgets for good: files, notes, database, vectors in memory. Who may ask for it is decided by the caller."""

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from shutil import rmtree

import anyio.to_thread
from sqlalchemy import Connection

from agent.core.clock import Clock
from agent.core.ids import ConversationId
from agent.memory import forgetting, gathering, notes, traces
from agent.memory.gathering import Meant
from agent.memory.memory import Memory
from agent.memory.notes import path_of
from agent.memory.target import Erased, Target
from agent.storage.fence import wait_for_writers
from agent.storage.moments import to_us

LARGEST = 20_000_000  # bytes of a file that is searched for words
Names = Sequence[str]

log = logging.getLogger("tieline.memory")


async def preview(memory: Memory, target: Target) -> Erased:
    """How much would be forgotten."""
    return (await memory.database.read(lambda conn: gathering.gathered(conn, target))).erased


async def forget(
    memory: Memory, target: Target, *, home: Path, folders: Callable[[ConversationId], Sequence[Path]], clock: Clock
) -> Erased:
    """Forget it. `folders` are those of a conversation with what tools gave and people sent: copies, all of it.

    In steps, with others let in between; cut off, it can be done again from the beginning. Raises StorageError; what
    files cannot be changed is logged.
    """
    at = to_us(clock.now())
    await memory.misses.flush()  # what waits to be written would come after
    places = await memory.database.read(lambda conn: gathering.places(conn, target))
    with memory.forgotten.going_on(places):
        # What was on its way when that began is there to be found.
        await memory.database.write(lambda conn: wait_for_writers(conn, places))
        meant = await _erased(memory, target, home, folders, at)
        memory.forgotten.tell(target.scope.own, meant.conversations)
    erased = meant.erased
    log.info(
        "forgotten: %d things kept, %d messages", erased.items, erased.messages,
        extra={"conversation": target.scope.conversation},
    )  # fmt: skip
    return erased


async def _erased(
    memory: Memory, target: Target, home: Path, folders: Callable[[ConversationId], Sequence[Path]], at: int
) -> Meant:
    def gather(conn: Connection) -> tuple[Meant, traces.Left, Names, Names]:
        meant = gathering.gathered(conn, target)
        return meant, traces.left_behind(conn, meant), *gathering.files(conn, target, meant)

    meant, left, paths, others = await memory.database.read(gather)
    # Before the rows that name them: else a crash would leave files that nobody knows of.
    await anyio.to_thread.run_sync(_files, target, meant, paths, others, home, folders)
    for step in forgetting.steps(target, meant, left, at=at):
        await memory.database.write(step)
    if memory.vectors is not None:
        memory.vectors.forget()
    return meant


def _files(
    target: Target,
    meant: Meant,
    paths: Names,
    others: Names,
    home: Path,
    folders: Callable[[ConversationId], Sequence[Path]],
) -> None:
    """Notes and copies belong to everybody of a place: who may erase their own words alone does not reach them."""
    _removed(home, paths, target, whole=True)
    _removed(home, others, target, whole=False)
    if target.item is not None or target.only_by is not None:
        return
    for conversation in meant.conversations:
        try:
            notes.erase(path_of(home, conversation), target.holds if target.words else None)
            for folder in folders(conversation):
                _cleared(folder, target)
        except OSError as error:
            log.error("not all files of %s could be cleared: %s", conversation, error)  # noqa: TRY400 - no defect


def _cleared(folder: Path, target: Target) -> None:
    if not target.words:
        rmtree(folder, ignore_errors=True)
        return
    for file in [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]:
        if target.holds(file.name) or _says(file, target):
            file.unlink(missing_ok=True)


def _removed(home: Path, names: Sequence[str], target: Target, *, whole: bool) -> None:
    """Files by name, only what lies below the data directory: all of them, or those that hold the words."""
    for name in names:
        file = (home / name).resolve()
        if file.is_relative_to(home.resolve()) and (whole or (file.is_file() and _says(file, target))):
            with suppress(OSError):
                file.unlink()


def _says(file: Path, target: Target) -> bool:
    try:
        return file.stat().st_size <= LARGEST and target.holds(file.read_text("utf-8", "replace"))
    except OSError:
        return False
