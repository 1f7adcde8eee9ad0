"""A tool that sets the working directory of the turns to come (Z-112): this turn keeps its own (Z-113)."""

from collections.abc import Mapping
from typing import Any

import anyio
from pydantic import Field

from agent.core.errors import ToolError
from agent.core.tools import ToolContext, ToolSpec
from agent.tools.files.paths import shown
from agent.tools.files.place import PATH, appraised, meant, real, tree_of
from agent.tools.schemas import Arguments, parsed, schema_from


class _Move(Arguments):
    path: str = Field(description=PATH, min_length=1)


class SetWorkingDirectory:
    """`set_working_directory(path)`: from the next message on."""

    spec = ToolSpec(
        name="set_working_directory",
        description="Sets the folder of the workspace that relative paths and shell commands start from. It counts "
        "from the next message on, not yet in this turn.",
        schema=schema_from(_Move),
        risk="safe",
        concurrency_safe=False,
        retryable=True,
        appraise=appraised,
    )

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> str:
        names = meant(parsed(_Move, arguments).path, context)
        if not await anyio.to_thread.run_sync(tree_of(context).is_folder, names):
            raise ToolError(f"there is no folder {shown(names)}")
        context.move(real(names, context))
        return f"The working directory is {shown(names)} from the next message on."
