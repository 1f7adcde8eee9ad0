"""A tool that puts a text file into the workspace, and what keeps a workspace from filling the disk."""

from collections.abc import Callable, Mapping
from typing import Any

import anyio
from pydantic import Field

from agent.core.errors import ToolError
from agent.core.tools import Appraisal, ToolContext, ToolSpec
from agent.core.tree import Names, Tree
from agent.tools.files.paths import ROOT, shown
from agent.tools.files.place import PATH, meant, tree_of
from agent.tools.reach import FileSettings
from agent.tools.schemas import Arguments, parsed, schema_from

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
    """What a person is shown of a text before allowing it: of a longer one its beginning and its end."""
    if len(text) <= SHOWN:
        return text
    half = SHOWN // 2
    return f"{text[:half]}\n[… {len(text) - 2 * half} characters …]\n{text[-half:]}"
