"""What the file tools have in common: the workspace of a call, and the meaning of a path in it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agent.core.tools import Appraisal, ToolContext
from agent.core.tree import Names, Tree
from agent.tools.files.paths import grounded, names_of, shown

PATH = "Relative, or below /workspace."


def tree_of(context: ToolContext) -> Tree:
    """The files of the call's conversation."""
    return Tree(context.execution.workspace, shown)


def meant(path: str, context: ToolContext) -> Names:
    """What a path stands for in this call. Raises OutOfScope."""
    execution = context.execution
    return grounded(path, names_of(execution.cwd, execution.workspace), execution.workspace)


def real(names: Names, context: ToolContext) -> Path:
    """Where that lies on the disk."""
    return context.execution.workspace.joinpath(*names)


async def appraised(arguments: Mapping[str, Any], context: ToolContext) -> Appraisal:
    """The call with its path made canonical."""
    return Appraisal(arguments={**arguments, "path": shown(meant(arguments.get("path", "."), context))})
