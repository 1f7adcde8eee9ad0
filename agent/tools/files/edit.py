"""A tool that changes a stretch of a text file: what stands there is given exactly, so that nothing else changes."""

from collections.abc import Callable, Mapping
from typing import Any

import anyio
from pydantic import Field

from agent.core.errors import ToolError
from agent.core.tools import Appraisal, ToolContext, ToolSpec
from agent.tools.files.paths import shown
from agent.tools.files.place import PATH, meant, tree_of
from agent.tools.files.write import COVERS, LARGEST, both_ends, encoded, put
from agent.tools.reach import FileSettings
from agent.tools.schemas import Arguments, parsed, schema_from


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
