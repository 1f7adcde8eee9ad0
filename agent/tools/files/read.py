"""A tool that reads a text file of the workspace, with line numbers."""

from collections.abc import Mapping
from typing import Any

import anyio
from pydantic import Field

from agent.core.errors import ToolError
from agent.core.tools import ToolContext, ToolSpec
from agent.tools.files.place import READABLE, appraised_to_read, readable
from agent.tools.schemas import Arguments, parsed, schema_from

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
