"""A tool that finds the lines of files that fit a regular expression.

The expression is a stranger's: the `regex` library stops it when its time is up and lets go of the interpreter
meanwhile, so that one that never ends holds up nobody.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
from pydantic import Field

from agent.core.errors import ToolError
from agent.core.tools import ToolContext, ToolSpec
from agent.core.tree import MOST_ENTRIES, Names
from agent.tools.files.listing import Pattern, fits, parts_of, printable
from agent.tools.files.place import READABLE, Readable, appraised_to_read, readable
from agent.tools.patterns import LONGEST, Unfit, compiled
from agent.tools.schemas import Arguments, parsed, schema_from

if TYPE_CHECKING:
    import regex

MOST_HITS = 200
LARGEST_FILE = 2 * 1024 * 1024  # bytes; larger ones are passed over
MOST_BYTES = 100 * 1024 * 1024  # of all files of one search
LONGEST_LINE = 300  # characters shown
PER_FILE_S, ALL_S = 2.0, 15.0
_SNIFFED = 8_192


class _Grep(Arguments):
    pattern: str = Field(min_length=1, max_length=LONGEST, description="For one line.")
    path: str = Field(default=".", min_length=1, description=f"A folder or file. {READABLE}")
    files: str = Field(default="**", max_length=500, min_length=1, description="Only these, such as **/*.py.")
    ignore_case: bool = False
    around: int = Field(default=0, ge=0, le=10, description="Lines shown before and after each.")


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


class Grep:
    """`grep(pattern, path?, files?, ignore_case?, around?)`: `path:line: text`."""

    spec = ToolSpec(
        name="grep",
        description="Finds lines in text files of the workspace by a regular expression.",
        schema=schema_from(_Grep),
        category="info",
        risk="safe",
        retryable=True,
        untrusted=True,
        appraise=appraised_to_read,
    )

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> str:
        asked = parsed(_Grep, arguments)
        files = parts_of(asked.files)
        place = await anyio.to_thread.run_sync(readable, asked.path, context)
        try:
            pattern = await anyio.to_thread.run_sync(partial(compiled, asked.pattern, ignore_case=asked.ignore_case))
        except Unfit as error:
            raise ToolError(f"{asked.pattern!r} is no regular expression for this tool: {error}") from error
        search = _Search(pattern, asked.around)
        with anyio.move_on_after(ALL_S) as scope:
            await anyio.to_thread.run_sync(_look, search, place, files, abandon_on_cancel=True)
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
