"""Erasure for good: files, notes, database, vectors in memory. The caller decides whether it is allowed."""

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath

import anyio.to_thread
from sqlalchemy import Connection

from agent.core.clock import Clock
from agent.core.errors import ToolError
from agent.core.files.safe import DEEPEST, MOST_ENTRIES, Left, Tree
from agent.core.files.store import FileStore, LocalFiles
from agent.core.ids import ConversationId
from agent.core.messages import TEXT_READ, read_out_of
from agent.memory import erasure_rows, notes
from agent.memory.erasure_rows import Meant
from agent.memory.memory import Memory
from agent.memory.notes import path_of
from agent.memory.records import Item
from agent.memory.rows import Erased, Target
from agent.storage.database import wait_for_writers
from agent.storage.timestamps import to_timestamp

LARGEST = 20_000_000  # bytes of a file that is searched for words
Names = Sequence[str]

log = logging.getLogger("tieline.memory")


async def preview(memory: Memory, target: Target) -> Erased:
    """How much would be forgotten."""
    return (await memory.database.read(lambda conn: erasure_rows.gathered(conn, target))).erased


async def of_others(memory: Memory, target: Target) -> tuple[Item, ...]:
    """Things that the target names and its person may see, but not erase: asked where `preview` finds nothing."""
    return await memory.database.read(lambda conn: erasure_rows.of_others(conn, target))


async def forget(
    memory: Memory,
    target: Target,
    *,
    home: Path,
    files: FileStore = LocalFiles(),  # noqa: B008 - without state
    folders: Callable[[ConversationId], Sequence[Path]],
    clock: Clock,
) -> Erased:
    """Forget it. `folders` are those of a conversation with what tools gave and people sent: copies, all of it.

    In steps, with others let in between; cut off, it can be done again from the beginning. Raises StorageError; files
    that stay are logged, and told of in what it gives.
    """
    at = to_timestamp(clock.now())
    await memory.misses.flush()  # what waits to be written would come after
    places = await memory.database.read(lambda conn: erasure_rows.places(conn, target))
    with memory.forgotten.going_on(places):
        # Words that were on their way when that began can be found now.
        await memory.database.write(lambda conn: wait_for_writers(conn, places))
        meant, left = await _erased(memory, target, home, files, folders, at)
        own, *others = target.scope.theirs
        memory.forgotten.tell(own, meant.conversations)
        for audience in others:
            memory.forgotten.tell(audience)
    for one in left:
        log.error("not forgotten: %r stays: %s", "/".join(one.names), one.why)
    erased = replace(meant.erased, left=tuple("/".join(one.names) for one in left))
    log.info(
        "forgotten: %d things kept, %d messages", erased.items, erased.messages,
        extra={"conversation": target.scope.conversation},
    )  # fmt: skip
    return erased


async def _erased(
    memory: Memory,
    target: Target,
    home: Path,
    files: FileStore,
    folders: Callable[[ConversationId], Sequence[Path]],
    at: int,
) -> tuple[Meant, Sequence[Left]]:
    def gather(conn: Connection) -> tuple[Meant, erasure_rows.Left, Names, Names]:
        meant = erasure_rows.gathered(conn, target)
        return meant, erasure_rows.left_behind(conn, meant), *erasure_rows.files(conn, target, meant)

    meant, derived, paths, others = await memory.database.read(gather)

    def clear() -> Sequence[Left]:
        return list(_files(target, meant, paths, others, home, folders))

    copies = [str(one.relative_to(home)) for key in _places_of(target, meant) for one in folders(key)]
    for searched in (*others, *map(read_out_of, others), *(copies if target.words else ())):
        await files.need_below(searched)  # the words may stand in what another process has stored
    for conversation in meant.conversations:
        await memory.sync_notes(conversation)  # another process may have written what is to go
    # Before the rows that name them: else a crash would leave files that nobody knows of.
    left = await anyio.to_thread.run_sync(clear)
    for cleared in (*paths, *others):
        await files.settle(cleared)
        await files.settle(read_out_of(cleared))
    for cleared in copies:
        await files.settle(cleared)
    for conversation in meant.conversations:
        await memory.sync_notes(conversation)
    for step in erasure_rows.steps(target, meant, derived, at=at):
        await memory.database.write(step)
    if memory.vectors is not None:
        memory.vectors.forget()
    return meant, left


def _files(
    target: Target,
    meant: Meant,
    paths: Names,
    others: Names,
    home: Path,
    folders: Callable[[ConversationId], Sequence[Path]],
) -> Iterator[Left]:
    """Remove what is meant; gives what stays.

    Notes and copies belong to everybody of a place: who may erase their own words alone does not reach them. Commands
    may have changed the folders of a workspace, so each is reached name by name from the data directory.
    """
    tree = Tree(home.resolve())
    for name in paths:
        yield from _removed(tree, name)
    for name in others:
        yield from _removed(tree, name, target)
    for conversation in _places_of(target, meant):
        note = path_of(home, conversation)
        try:
            notes.erase(note, target.holds if target.words else None)
        except OSError as error:
            yield Left(note.relative_to(home).parts, error.strerror or str(error))
        for folder in folders(conversation):
            names = folder.relative_to(home).parts
            yield from _cleared(tree, names, target) if target.words else tree.remove(names)


def _places_of(target: Target, meant: Meant) -> Sequence[ConversationId]:
    """The conversations whose notes and copies are erased."""
    if target.item is not None or target.session or target.only_by is not None:
        return ()
    return tuple(meant.conversations)


def _removed(tree: Tree, name: str, holding: Target | None = None) -> Iterator[Left]:
    """Remove a file by its name in the data directory, and what was read out of it; with `holding` only if it, or that,
    holds the words."""
    path, derived = PurePosixPath(name), PurePosixPath(read_out_of(name)).parts
    if path.is_absolute() or ".." in path.parts:
        yield Left(path.parts, "it is not in the data directory")
    elif holding is None:
        left = tree.remove(path.parts)
        yield from left
        if all(one.gone for one in left):  # else both are out of reach, which one line tells
            yield from tree.remove(derived)
    else:
        for names in (path.parts, (*derived, TEXT_READ)):
            yield from _searched(tree, names, holding, path.parts, derived)


def _cleared(tree: Tree, names: tuple[str, ...], target: Target) -> Iterator[Left]:
    """Remove the files of that folder that hold the words, in their name or their text."""
    try:
        there = tree.look(names)
        if there is None:
            return
        if there.kind != "folder":
            yield from tree.remove(names)  # where only we make a folder, it is in the way of the next file
            return
        seen = 0
        for entry in tree.walk(names):
            seen += 1
            if target.holds(entry.names[-1]) and entry.kind != "folder":
                yield from tree.remove(entry.names)
            elif entry.kind == "file":
                # A packed document is known to hold the words by the text beside it alone.
                document = (*entry.names[:-1], entry.names[-1].removesuffix(".txt"))
                yield from _searched(tree, entry.names, target, entry.names, document)
            elif entry.kind == "other":
                yield Left(entry.names, "what it leads to is not looked through")
            elif len(entry.names) >= DEEPEST:
                yield Left(entry.names, f"folders deeper than {DEEPEST} are not looked through")
        if seen >= MOST_ENTRIES:
            yield Left(names, f"only the first {MOST_ENTRIES} entries are looked through")
    except (ToolError, OSError) as error:
        yield Left(names, str(error))


def _searched(tree: Tree, names: tuple[str, ...], target: Target, *going: tuple[str, ...]) -> Iterator[Left]:
    """Remove what is `going` if the words stand in the file."""
    try:
        there = tree.look(names)
        if there is None:
            return
        held = target.holds(tree.read(names, LARGEST).decode("utf-8", "replace"))
    except (ToolError, OSError) as error:
        yield Left(names, f"it is not looked through: {error}")
        return
    if held:
        for one in going:
            yield from tree.remove(one)
