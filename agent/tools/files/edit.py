"""Tools that read, write and edit a text file. An edit gives the present text exactly, so that nothing else changes."""

from collections.abc import Callable, Mapping
from typing import Annotated, Any

import anyio
from pydantic import Field

from agent.core.errors import ToolError
from agent.core.files.safe import Names, Tree
from agent.core.function_tools import tool
from agent.core.tools import Appraisal, ToolContext
from agent.tools.files.paths import PATH, READABLE, ROOT, meant, readable, reading_tool, shown, tree_of
from agent.tools.settings import FileSettings

# Tool that reads a text file of the workspace, with line numbers.

MOST_LINES = 2_000
LONGEST_LINE = 2_000  # characters
_SNIFFED = 8_192  # bytes looked at for what no text holds


@reading_tool()
async def read(
    context: ToolContext,
    *,
    path: Annotated[str, Field(description=READABLE, min_length=1)],
    from_line: Annotated[int, Field(ge=1, description="First line, from 1.")] = 1,
    lines: Annotated[int, Field(ge=1, le=MOST_LINES, description=f"How many; {MOST_LINES} at most.")] = MOST_LINES,
) -> str:
    """Reads a text file of the workspace. Each line comes with its number and a tab; neither is part of the file."""
    place = await anyio.to_thread.run_sync(readable, path, context)
    data = await anyio.to_thread.run_sync(place.tree.read, place.names)
    return numbered(text_in(data, place.path), from_line, lines, place.path)


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


_Path = Annotated[str, Field(description=PATH, min_length=1)]


class EditTools:
    """Tools that write: each file is there whole, or as it was. `settings` are for calls outside of a turn."""

    def __init__(self, settings: Callable[[], FileSettings]) -> None:
        self._settings = settings

    @tool(category="edit", risk="write", touches="place", effects=["write"], concurrency_safe=False, retryable=True)
    async def write(
        self,
        context: ToolContext,
        *,
        path: _Path,
        content: Annotated[str, Field(description="The whole content.", max_length=LARGEST)],
    ) -> str:
        """Puts a text file into the workspace; one of that name is replaced, folders are made. For a change in a file
        use edit."""
        names, data = meant(path, context), encoded(content)
        limits = context.execution.section(FileSettings, self._settings)
        await anyio.to_thread.run_sync(put, tree_of(context), names, data, limits)
        return f"Written: {shown(names)}, {len(data)} bytes."

    @write.appraised_by
    async def _appraise_write(self, arguments: Mapping[str, Any], context: ToolContext) -> Appraisal:
        names, content = meant(arguments["path"], context), arguments["content"]
        there = await anyio.to_thread.run_sync(tree_of(context).look, names)
        how = f"Replace {shown(names)} ({there.size} bytes)" if there is not None else f"Write {shown(names)}"
        return Appraisal(
            arguments={"path": shown(names), "content": content},
            shown=f"{how} with {len(content)} characters:\n{both_ends(content)}",
            covers=COVERS,
        )

    @tool(category="edit", risk="write", touches="place", effects=["write"], concurrency_safe=False)
    async def edit(
        self,
        context: ToolContext,
        *,
        path: _Path,
        old: Annotated[
            str,
            Field(min_length=1, max_length=LARGEST, description="The text to replace, exactly as it stands there."),
        ],
        new: Annotated[str, Field(max_length=LARGEST, description="What takes its place.")],
        everywhere: Annotated[
            bool, Field(description="Replace each place; else it must stand there once only.")
        ] = False,
    ) -> str:
        """Changes a text file of the workspace: replaces a text that stands there exactly once. Read the file first,
        and give enough of its lines for one place only."""
        names, tree = meant(path, context), tree_of(context)
        limits = context.execution.section(FileSettings, self._settings)

        def change() -> int:
            try:
                text = tree.read(names).decode()
            except UnicodeDecodeError as error:
                raise ToolError(f"{shown(names)} is no text in UTF-8 (byte {error.start})") from error
            changed, count = replaced(text, old, new, everywhere=everywhere)
            put(tree, names, encoded(changed), limits)
            return count

        count = await anyio.to_thread.run_sync(change)
        return f"Changed: {shown(names)}, {count} {'place' if count == 1 else 'places'}."

    @edit.appraised_by
    async def _appraise_edit(self, arguments: Mapping[str, Any], context: ToolContext) -> Appraisal:
        names = meant(arguments["path"], context)
        return Appraisal(
            arguments={**arguments, "path": shown(names)},
            shown=f"Change {shown(names)}\n- {both_ends(arguments['old'])}\n+ {both_ends(arguments['new'])}",
            covers=COVERS,
        )


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
