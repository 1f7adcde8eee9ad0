"""Forgets for good: database, notes, files, vectors in memory. Who may ask for it is decided by the caller."""

import logging
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from shutil import rmtree

import anyio.to_thread

from agent.core.clock import Clock
from agent.memory import forgetting, notes
from agent.memory.forgetting import Erased, Target
from agent.memory.memory import Memory
from agent.memory.notes import path_of
from agent.storage.moments import to_us

log = logging.getLogger("tieline.memory")


async def preview(memory: Memory, target: Target) -> Erased:
    """How much would be forgotten."""
    return await memory.database.read(lambda conn: forgetting.found(conn, target))


async def forget(memory: Memory, target: Target, *, home: Path, outputs: str, clock: Clock) -> Erased:
    """Forget it. `outputs` names the folder below `home` where long output of tools is kept.

    Raises StorageError; what files cannot be changed is logged.
    """
    at = to_us(clock.now())
    await memory.misses.flush()  # what waits to be written would come after
    erased = await memory.database.write(lambda conn: forgetting.erase(conn, target, at=at))
    if memory.vectors is not None:
        memory.vectors.forget()
    if target.item is None and target.only_by is None:
        await anyio.to_thread.run_sync(_files, target, erased, home, outputs)
    log.info(
        "forgotten: %d things kept, %d messages", erased.items, erased.messages,
        extra={"conversation": target.scope.conversation},
    )  # fmt: skip
    return erased


def _files(target: Target, erased: Erased, home: Path, outputs: str) -> None:
    holds = target.holds if target.words else None
    for conversation in erased.conversations:
        path = path_of(home, conversation)
        try:
            notes.erase(path, holds)
            _outputs(home / outputs / path.parent.name, target)
        except OSError as error:
            log.error("not all files of %s could be cleared: %s", conversation, error)  # noqa: TRY400 - no defect
    _named(home, erased.paths)


def _outputs(folder: Path, target: Target) -> None:
    if not target.words:
        rmtree(folder, ignore_errors=True)
        return
    for file in folder.glob("*"):
        if file.is_file() and target.holds(file.read_text("utf-8", "replace")):
            file.unlink(missing_ok=True)


def _named(home: Path, paths: Sequence[str]) -> None:
    """Attachments of the messages; only what lies below the data directory."""
    for name in paths:
        file = (home / name).resolve()
        if file.is_relative_to(home.resolve()):
            with suppress(OSError):
                file.unlink()
