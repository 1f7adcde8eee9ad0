"""What the file tools have in common: the workspace of a call, and the meaning of a path in it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

from agent.core.tools import SKILLS, Appraisal, ToolContext
from agent.core.tree import Names, Tree
from agent.tools.files.paths import Shown, grounded, in_skill, names_of, shown

PATH = "Relative, or below /workspace."
READABLE = "Relative, or below /workspace or /skills."


@dataclass(frozen=True, slots=True)
class Readable:
    """What a call may read: names in a tree, and how the tree's paths are written."""

    tree: Tree
    names: Names
    shown: Shown
    root: Path

    @property
    def folder(self) -> Path:
        """Where that lies on the disk."""
        return self.root.joinpath(*self.names)

    @property
    def path(self) -> str:
        return self.shown(self.names)


def tree_of(context: ToolContext) -> Tree:
    """The files of the call's conversation."""
    return Tree(context.execution.workspace, shown)


def meant(path: str, context: ToolContext) -> Names:
    """What a path stands for in this call. Raises OutOfScope."""
    execution = context.execution
    return grounded(path, names_of(execution.cwd, execution.workspace), execution.workspace)


def readable(path: str, context: ToolContext) -> Readable:
    """A place in the workspace, or in the folder of a skill. Raises OutOfScope, ToolError. Looks at the disk.

    A relative path that is not in the workspace is looked for in the folders of the skills whose text the model has,
    which name their files so.
    """
    found = in_skill(path, context.execution.skills)
    if found is not None:
        return _of_skill(*found, context)
    names = meant(path, context)
    here = Readable(tree_of(context), names, shown, context.execution.workspace)
    at_hand = context.execution.at_hand
    if not at_hand or path.startswith(("/", "~")) or not names or here.tree.look(names) is not None:
        return here
    for skill in at_hand:
        if (inside := in_skill(f"{SKILLS}/{skill}/{path}", context.execution.skills)) is not None:
            there = _of_skill(*inside, context)
            if there.names and there.tree.look(there.names) is not None:
                return there
    return here


def _of_skill(skill: str, names: Names, context: ToolContext) -> Readable:
    def written(names: Sequence[str]) -> str:
        return "/".join((SKILLS, skill, *names))

    root = context.execution.skills[skill]
    return Readable(Tree(root, written), names, written, root)


async def appraised_to_read(arguments: Mapping[str, Any], context: ToolContext) -> Appraisal:
    """The call with its path made canonical, in a skill's folder too."""
    place = await anyio.to_thread.run_sync(readable, arguments.get("path", "."), context)
    return Appraisal(arguments={**arguments, "path": place.path})


def real(names: Names, context: ToolContext) -> Path:
    """Where that lies on the disk."""
    return context.execution.workspace.joinpath(*names)


async def appraised(arguments: Mapping[str, Any], context: ToolContext) -> Appraisal:
    """The call with its path made canonical."""
    return Appraisal(arguments={**arguments, "path": shown(meant(arguments.get("path", "."), context))})
