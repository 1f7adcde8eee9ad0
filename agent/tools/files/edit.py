"""Tools that read, write and edit a text file. An edit gives the present text exactly, so that nothing else changes."""

from collections.abc import Callable, Mapping
from typing import Any

import anyio
from pydantic import Field

from agent.core.errors import ToolError
from agent.core.safe_files import Names, Tree
from agent.core.tools import Appraisal, ToolContext, ToolSpec
from agent.tools.arguments import Arguments, parsed, schema_from
from agent.tools.files.paths import PATH, READABLE, ROOT, appraised_to_read, meant, readable, shown, tree_of
from agent.tools.settings import FileSettings

# Tool that reads a text file of the workspace, with line numbers.

MOST_LINES = 2_000
LONGEST_LINE = 2_000  # characters
_SNIFFED = 8_192  # bytes looked at for what no text holds


class _Read(Arguments):
    path: str = Field(description=READABLE, min_length=1)
    from_line: int = Field(default=1, ge=1, description="First line, from 1.")
    lines: int = Field(default=MOST_LINES, ge=1, le=MOST_LINES, description=f"How many; {MOST_LINES} at most.")


class Read:
    """`read(path, from_line?, lines?)`: the lines with their numbers."""

    spec = ToolSpec(
        name="read",
        description="Reads a text file of the workspace. Each line comes with its number and a tab; neither is part "
        "of the file.",
        schema=schema_from(_Read),
        category="info",
        risk="safe",
        retryable=True,
        untrusted=True,
        appraise=appraised_to_read,
    )

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> str:
        asked = parsed(_Read, arguments)
        place = await anyio.to_thread.run_sync(readable, asked.path, context)
        data = await anyio.to_thread.run_sync(place.tree.read, place.names)
        return numbered(text_in(data, place.path), asked.from_line, asked.lines, place.path)


def text_in(data: bytes, path: str) -> str:
    """The text of a file in UTF-8; odd bytes are replaced. Raises ToolError for what is no text."""
    if b"\0" in data[:_SNIFFED]:
        raise ToolError(f"{path} is no text ({len(data)} bytes, beginning with {data[:8].hex(' ')})")
    return data.decode("utf-8-sig", "replace")


def numbered(text: str, from_line: int, lines: int, path: str) -> str:
    """A stretch of the text with line numbers, and how to go on."""
    every = text.splitlines()
    if not every:
        return f"[{path} is empty]"
    if from_line > len(every):
        raise ToolError(f"{path} has {len(every)} lines; from_line is {from_line}")
    part = every[from_line - 1 : from_line - 1 + lines]
    written = [f"{number:>6}\t{_short(line)}" for number, line in enumerate(part, from_line)]
    end = from_line + len(part) - 1
    if end < len(every):
        written.append(f"[{len(every) - end} lines follow; go on with from_line={end + 1}]")
    return "\n".join(written)


def _short(line: str) -> str:
    if len(line) <= LONGEST_LINE:
        return line
    return f"{line[:LONGEST_LINE]}[{len(line) - LONGEST_LINE} more characters in this line]"


# Tool that writes a text file into the workspace, and the limit that keeps a workspace from filling the disk.

LARGEST = 4 * 1024 * 1024  # bytes of one call
SHOWN = 1_500  # characters of what is to be written that a person is shown
COVERS = f"files below {ROOT}"  # what "always allow" allows: nothing leaves the workspace
MEBIBYTE = 1024 * 1024


class _Write(Arguments):
    path: str = Field(description=PATH, min_length=1)
    content: str = Field(description="The whole content.", max_length=LARGEST)


class Write:
    """`write(path, content)`: a file is there whole, or as it was."""

    def __init__(self, settings: Callable[[], FileSettings]) -> None:
        self._settings = settings
        self.spec = ToolSpec(
            name="write",
            description="Puts a text file into the workspace; one of that name is replaced, folders are made. For a "
            "change in a file use edit.",
            schema=schema_from(_Write),
            category="edit",
            risk="write",
            concurrency_safe=False,
            retryable=True,
            appraise=self._appraise,
        )

    async def _appraise(self, arguments: Mapping[str, Any], context: ToolContext) -> Appraisal:
        names, content = meant(arguments["path"], context), arguments["content"]
        there = await anyio.to_thread.run_sync(tree_of(context).look, names)
        how = f"Replace {shown(names)} ({there.size} bytes)" if there is not None else f"Write {shown(names)}"
        return Appraisal(
            arguments={"path": shown(names), "content": content},
            shown=f"{how} with {len(content)} characters:\n{both_ends(content)}",
            covers=COVERS,
        )

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> str:
        asked = parsed(_Write, arguments)
        names, data = meant(asked.path, context), encoded(asked.content)
        limits = context.execution.section(FileSettings, self._settings)
        await anyio.to_thread.run_sync(put, tree_of(context), names, data, limits)
        return f"Written: {shown(names)}, {len(data)} bytes."


def put(tree: Tree, names: Names, data: bytes, settings: FileSettings) -> None:
    """Write a file if the workspace has room for it. Raises ToolError with what to do. Blocks."""
    size, count = tree.used()
    if size + len(data) > settings.workspace_mb * MEBIBYTE:
        raise ToolError(
            f"the workspace holds {size} bytes of {settings.workspace_mb} MiB; remove what is not needed first"
        )
    if count >= settings.workspace_files and tree.look(names) is None:
        raise ToolError(f"the workspace holds {count} files, and may hold no more; remove some first")
    try:
        tree.write(names, data)
    except OSError as error:
        raise ToolError(f"{shown(names)} cannot be written: {error.strerror}", transient=True) from error


def encoded(text: str) -> bytes:
    """The bytes of a file that a model wrote. Raises ToolError for more than one call takes."""
    data = text.encode()
    if len(data) > LARGEST:
        raise ToolError(f"{len(data)} bytes; one call takes {LARGEST}")
    return data


def both_ends(text: str) -> str:
    """A text for a person who must allow it: of a longer one its beginning and its end."""
    if len(text) <= SHOWN:
        return text
    half = SHOWN // 2
    return f"{text[:half]}\n[… {len(text) - 2 * half} characters …]\n{text[-half:]}"


class _Edit(Arguments):
    path: str = Field(description=PATH, min_length=1)
    old: str = Field(min_length=1, max_length=LARGEST, description="The text to replace, exactly as it stands there.")
    new: str = Field(max_length=LARGEST, description="What takes its place.")
    everywhere: bool = Field(default=False, description="Replace each place; else it must stand there once only.")


class Edit:
    """`edit(path, old, new, everywhere?)`: the file is changed whole, or not at all."""

    def __init__(self, settings: Callable[[], FileSettings]) -> None:
        self._settings = settings
        self.spec = ToolSpec(
            name="edit",
            description="Changes a text file of the workspace: replaces a text that stands there exactly once. Read "
            "the file first, and give enough of its lines for one place only.",
            schema=schema_from(_Edit),
            category="edit",
            risk="write",
            concurrency_safe=False,
            appraise=self._appraise,
        )

    async def _appraise(self, arguments: Mapping[str, Any], context: ToolContext) -> Appraisal:
        names = meant(arguments["path"], context)
        return Appraisal(
            arguments={**arguments, "path": shown(names)},
            shown=f"Change {shown(names)}\n- {both_ends(arguments['old'])}\n+ {both_ends(arguments['new'])}",
            covers=COVERS,
        )

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> str:
        asked = parsed(_Edit, arguments)
        names, tree = meant(asked.path, context), tree_of(context)
        limits = context.execution.section(FileSettings, self._settings)

        def change() -> int:
            try:
                text = tree.read(names).decode()
            except UnicodeDecodeError as error:
                raise ToolError(f"{shown(names)} is no text in UTF-8 (byte {error.start})") from error
            changed, count = replaced(text, asked.old, asked.new, everywhere=asked.everywhere)
            put(tree, names, encoded(changed), limits)
            return count

        count = await anyio.to_thread.run_sync(change)
        return f"Changed: {shown(names)}, {count} {'place' if count == 1 else 'places'}."


def replaced(text: str, old: str, new: str, *, everywhere: bool) -> tuple[str, int]:
    """The changed text and in how many places. Raises ToolError when it is not clear which place is meant."""
    if old == new:
        raise ToolError("old and new are the same")
    count = text.count(old)
    if not count and "\r\n" in text and "\n" in old and "\r\n" not in old:
        old, new = old.replace("\n", "\r\n"), new.replace("\n", "\r\n")  # as the file has it
        count = text.count(old)
    if not count:
        raise ToolError("old does not stand in the file; read it again, and give it as written, without line numbers")
    if count > 1 and not everywhere:
        lines = [text.count("\n", 0, at) + 1 for at in _places(text, old, 5)]
        raise ToolError(
            f"old stands there {count} times (lines {', '.join(map(str, lines))}); give more of its surroundings, or "
            "set everywhere"
        )
    return text.replace(old, new), count


def _places(text: str, wanted: str, most: int) -> list[int]:
    found = [text.find(wanted)]
    while len(found) < most and (at := text.find(wanted, found[-1] + len(wanted))) >= 0:
        found.append(at)
    return found
