"""Tools that tell what files there are: `list` one folder, `glob` all that fit a pattern."""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from fnmatch import translate
from typing import Any

import anyio
from pydantic import Field

from agent.core.errors import ToolError
from agent.core.tools import ToolContext, ToolSpec
from agent.core.tree import MOST_ENTRIES, Entry, Names
from agent.tools.files.place import READABLE, Readable, appraised_to_read, readable
from agent.tools.schemas import Arguments, parsed, schema_from

MOST_LISTED = 500
MOST_PARTS = 32  # of a pattern

Pattern = tuple["re.Pattern[str] | None", ...]  # for each name its own; None stands for any folders, and none

_HERE = Field(default=".", description=f"The folder. {READABLE}", min_length=1)


class _List(Arguments):
    path: str = _HERE


class _Glob(Arguments):
    pattern: str = Field(
        description="Such as **/*.py: * and ? within a name, [ab] one of these, ** any folders.",
        min_length=1,
        max_length=500,
    )
    path: str = _HERE


class List:
    """`list(path?)`: names, sizes, dates."""

    spec = ToolSpec(
        name="list",
        description="Lists a folder of the workspace: what each entry is, its size in bytes, when it was changed.",
        schema=schema_from(_List),
        category="info",
        risk="safe",
        retryable=True,
        untrusted=True,
        appraise=appraised_to_read,
    )

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> str:
        place = await anyio.to_thread.run_sync(readable, parsed(_List, arguments).path, context)
        entries = await anyio.to_thread.run_sync(place.tree.folder, place.names)
        lines = [_line(entry) for entry in entries[:MOST_LISTED]]
        if len(entries) > MOST_LISTED:
            lines.append(f"[{len(entries) - MOST_LISTED} more; use glob with a pattern]")
        return "\n".join((f"{place.path}: {len(entries) or 'no'} entries", *lines))


class Glob:
    """`glob(pattern, path?)`: the paths, sorted."""

    spec = ToolSpec(
        name="glob",
        description="Finds files of the workspace whose paths, from a folder on, fit a pattern.",
        schema=schema_from(_Glob),
        category="info",
        risk="safe",
        retryable=True,
        untrusted=True,
        appraise=appraised_to_read,
    )

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> str:
        asked = parsed(_Glob, arguments)
        pattern = parts_of(asked.pattern)
        place = await anyio.to_thread.run_sync(readable, asked.path, context)
        found, whole = await anyio.to_thread.run_sync(_found, place, pattern)
        lines = [printable(place.shown(entry)) for entry in found[:MOST_LISTED]]
        if len(found) > MOST_LISTED:
            lines.append(f"[{len(found) - MOST_LISTED} more; use a narrower pattern]")
        if not whole:
            lines.append(f"[only the first {MOST_ENTRIES} entries were looked at; give a folder further down]")
        return "\n".join(lines) or f"Nothing below {place.path} fits {asked.pattern}."


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
