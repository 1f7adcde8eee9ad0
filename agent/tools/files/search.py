"""Tools that search, list and find files, and the tool that sets the working directory.

The expression is a stranger's: the `regex` library stops it when its time is up and lets go of the interpreter
meanwhile, so that one that never ends holds up nobody.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from fnmatch import translate
from functools import partial
from typing import TYPE_CHECKING, Annotated

import anyio
from pydantic import Field

from agent.core.errors import ToolError
from agent.core.files.safe import MOST_ENTRIES, Entry, Names
from agent.core.function_tools import tool
from agent.core.tools import ToolContext
from agent.tools.arguments import LONGEST, Unfit, compiled
from agent.tools.files.paths import (
    PATH,
    READABLE,
    Readable,
    appraised,
    meant,
    readable,
    reading_tool,
    real,
    shown,
    tree_of,
)

# Tools that name files: `list` one folder, `glob` all that fit a pattern.

MOST_LISTED = 500
MOST_PARTS = 32  # of a pattern

Pattern = tuple["re.Pattern[str] | None", ...]  # for each name its own; None stands for any folders, and none

_Here = Annotated[str, Field(description=f"The folder. {READABLE}", min_length=1)]


@reading_tool(name="list")
async def list_folder(context: ToolContext, *, path: _Here = ".") -> str:
    """Lists a folder of the workspace: what each entry is, its size in bytes, when it was changed."""
    place = await anyio.to_thread.run_sync(readable, path, context)
    entries = await anyio.to_thread.run_sync(place.tree.folder, place.names)
    lines = [_line(entry) for entry in entries[:MOST_LISTED]]
    if len(entries) > MOST_LISTED:
        lines.append(f"[{len(entries) - MOST_LISTED} more; use glob with a pattern]")
    return "\n".join((f"{place.path}: {len(entries) or 'no'} entries", *lines))


@reading_tool()
async def glob(
    context: ToolContext,
    *,
    pattern: Annotated[
        str,
        Field(
            description="Such as **/*.py: * and ? within a name, [ab] one of these, ** any folders.",
            min_length=1,
            max_length=500,
        ),
    ],
    path: _Here = ".",
) -> str:
    """Finds files of the workspace whose paths, from a folder on, fit a pattern."""
    parts = parts_of(pattern)
    place = await anyio.to_thread.run_sync(readable, path, context)
    found, whole = await anyio.to_thread.run_sync(_found, place, parts)
    lines = [printable(place.shown(entry)) for entry in found[:MOST_LISTED]]
    if len(found) > MOST_LISTED:
        lines.append(f"[{len(found) - MOST_LISTED} more; use a narrower pattern]")
    if not whole:
        lines.append(f"[only the first {MOST_ENTRIES} entries were looked at; give a folder further down]")
    return "\n".join(lines) or f"Nothing below {place.path} fits {pattern}."


def parts_of(pattern: str) -> Pattern:
    """The parts of a pattern. Raises ToolError for one that leaves the folder."""
    parts = tuple(part for part in pattern.split("/") if part not in ("", "."))
    if pattern.startswith("/") or ".." in parts:
        raise ToolError("a pattern begins at `path` and stays below it; give the folder there")
    if len(parts) > MOST_PARTS:
        raise ToolError(f"a pattern has {MOST_PARTS} parts at most")
    return tuple(None if part == "**" else re.compile(translate(part)) for part in parts)


def fits(names: Sequence[str], pattern: Pattern) -> bool:
    """Whether these names, one below the other, fit the parts of a pattern.

    Steps through the names once with all positions in the pattern that are possible: no backtracking, however many
    `**` there are.
    """
    at = _skipped({0}, pattern)
    for name in names:
        at = _skipped({next for here in at for next in _after(here, name, pattern)}, pattern)
    return len(pattern) in at


def printable(text: str) -> str:
    """A name on one line: what no letter is, is written as its number."""
    return "".join(sign if sign.isprintable() else f"\\u{ord(sign):04x}" for sign in text)


def _skipped(positions: set[int], pattern: Pattern) -> set[int]:
    """With those behind a `**`, which may stand for no folder."""
    found = set(positions)
    for position in positions:
        while position < len(pattern) and pattern[position] is None:
            position += 1
            found.add(position)
    return found


def _after(here: int, name: str, pattern: Pattern) -> tuple[int, ...]:
    if here == len(pattern):
        return ()
    part = pattern[here]
    if part is None:
        return (here,)
    return (here + 1,) if part.match(name) else ()


def _found(place: Readable, pattern: Pattern) -> tuple[list[Names], bool]:
    seen, found = 0, []
    for entry in place.tree.walk(place.names):
        seen += 1
        if entry.kind == "file" and fits(entry.names[len(place.names) :], pattern):
            found.append(entry.names)
    return sorted(found), seen < MOST_ENTRIES


def _line(entry: Entry) -> str:
    name = printable(entry.names[-1])
    if entry.kind == "folder":
        return f"folder  {name}/"
    if entry.kind == "other":
        return f"other   {name} (a link or a device; it is not opened)"
    changed = datetime.fromtimestamp(entry.modified_ns / 1e9, UTC)
    return f"file    {name}  {entry.size}  {changed:%Y-%m-%d %H:%M}"


if TYPE_CHECKING:
    import regex

MOST_HITS = 200
LARGEST_FILE = 2 * 1024 * 1024  # bytes; larger ones are passed over
MOST_BYTES = 100 * 1024 * 1024  # of all files of one search
LONGEST_LINE = 300  # characters shown
PER_FILE_S, ALL_S = 2.0, 15.0
_SNIFFED = 8_192


@dataclass(slots=True)
class _Search:
    """One search as it goes on."""

    pattern: "regex.Pattern[str]"
    around: int
    lines: list[str] = field(default_factory=list)
    hits: int = 0
    read: int = 0
    left_out: int = 0  # files too large, or that took too long
    over: str = ""  # why it ended before all was seen


@reading_tool()
async def grep(
    context: ToolContext,
    *,
    pattern: Annotated[str, Field(min_length=1, max_length=LONGEST, description="For one line.")],
    path: Annotated[str, Field(min_length=1, description=f"A folder or file. {READABLE}")] = ".",
    files: Annotated[str, Field(max_length=500, min_length=1, description="Only these, such as **/*.py.")] = "**",
    ignore_case: bool = False,
    around: Annotated[int, Field(ge=0, le=10, description="Lines shown before and after each.")] = 0,
) -> str:
    """Finds lines in text files of the workspace by a regular expression."""
    parts = parts_of(files)
    place = await anyio.to_thread.run_sync(readable, path, context)
    try:
        expression = await anyio.to_thread.run_sync(partial(compiled, pattern, ignore_case=ignore_case))
    except Unfit as error:
        raise ToolError(f"{pattern!r} is no regular expression for this tool: {error}") from error
    search = _Search(expression, around)
    with anyio.move_on_after(ALL_S) as scope:
        await anyio.to_thread.run_sync(_look, search, place, parts, abandon_on_cancel=True)
    if scope.cancelled_caught:
        search.over = f"stopped after {ALL_S:g} s; give a simpler pattern, or fewer files"
    return _told(search, place.path)


def _look(search: _Search, place: Readable, files: Pattern) -> None:
    tree, names = place.tree, place.names
    there = tree.look(names)
    if names and there is not None and there.kind == "file":
        _in_file(search, place, names, 0)
        return
    seen = 0
    for entry in tree.walk(names):
        seen += 1
        if entry.kind != "file" or not fits(entry.names[len(names) :], files):
            continue
        _in_file(search, place, entry.names, entry.size)
        if search.over:
            return
    if seen >= MOST_ENTRIES:
        search.over = f"only the first {MOST_ENTRIES} entries were looked at"


def _in_file(search: _Search, place: Readable, names: Names, size: int) -> None:
    if size > LARGEST_FILE:
        search.left_out += 1
        return
    try:
        data = place.tree.read(names, LARGEST_FILE)
    except ToolError:
        search.left_out += 1  # gone, or grown, since it was listed
        return
    search.read += len(data)
    if search.read > MOST_BYTES:
        search.over = f"{MOST_BYTES} bytes were searched; give a folder further down"
        return
    if b"\0" in data[:_SNIFFED]:
        return
    lines = data.decode("utf-8", "replace").splitlines()
    path = printable(place.shown(names))
    try:
        for at, line in enumerate(lines):
            if search.pattern.search(line, timeout=PER_FILE_S, concurrent=True):
                search.hits += 1
                search.lines += _with_adapter_context(lines, at, search.around, path)
                if search.hits >= MOST_HITS:
                    search.over = f"{MOST_HITS} places were found; look for something rarer"
                    return
    except TimeoutError:
        search.over = f"the pattern took more than {PER_FILE_S:g} s on one line of {path}; give a simpler one"


def _with_adapter_context(lines: list[str], at: int, around: int, path: str) -> list[str]:
    found = [
        f"{path}{':' if number == at else '-'}{number + 1}: {lines[number][:LONGEST_LINE]}"
        for number in range(max(0, at - around), min(len(lines), at + around + 1))
    ]
    return [*found, "--"] if around else found


def _told(search: _Search, path: str) -> str:
    told = list(search.lines) or [f"Nothing in {path} fits."]
    if search.left_out:
        told.append(f"[{search.left_out} files were too large]")
    if search.over:
        told.append(f"[{search.over}]")
    return "\n".join(told)


# Tool that sets the working directory of later turns (Z-112). The present turn keeps its own (Z-113).


@tool(risk="safe", touches="place", effects=["write"], concurrency_safe=False, retryable=True, appraise=appraised)
async def set_working_directory(
    context: ToolContext, *, path: Annotated[str, Field(description=PATH, min_length=1)]
) -> str:
    """Sets the folder of the workspace that relative paths and shell commands start from. It counts from the next
    message on, not yet in this turn."""
    names = meant(path, context)
    if not await anyio.to_thread.run_sync(tree_of(context).is_folder, names):
        raise ToolError(f"there is no folder {shown(names)}")
    context.move(real(names, context))
    return f"The working directory is {shown(names)} from the next message on."
