"""Files that people send are put into the conversation's workspace, where its tools can read them."""

import logging
from pathlib import Path

import anyio

from agent.core.errors import ToolError
from agent.core.messages import FilePart
from agent.core.tree import Names, Tree
from agent.tools.files.paths import shown
from agent.turn.received_files import landed_as
from agent.turn.run import Run
from agent.turn.states import States

log = logging.getLogger("tieline.turn")


async def land(run: Run, states: States) -> None:
    """Copy them there. One that cannot be copied is missed by the tools only: the model may still be shown it."""
    work, home = run.work, states.tool.home
    tree = Tree(run.execution.workspace, shown)
    for file in work.incoming.files:
        try:
            await anyio.to_thread.run_sync(_copy, home, file, tree, landed_as(work, file))
        except (OSError, ToolError) as error:
            log.warning("a file is not in the workspace: %s", error, extra={"run": run.id, "file": file.name})


def _copy(home: Path, file: FilePart, tree: Tree, names: Names) -> None:
    if tree.look(names) is None:
        tree.write(names, (home / file.path).read_bytes())
