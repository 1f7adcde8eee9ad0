"""The conversation's workspace among several processes: brought here before a tool looks at it, stored after it did.

Nothing is asked of the store in a run whose calls touch no file.
"""

import logging
from collections.abc import Iterable
from pathlib import Path

from agent.run.run import Run
from agent.tools.toolbox import WORKING
from agent.turn.states import States

MEBIBYTE = 1024 * 1024
WITHOUT_FILES = frozenset({"send_message", "web_fetch", "web_scrape", "web_search"})

log = logging.getLogger("tieline.turn")


def uses_workspace(tool: str) -> bool:
    """Whether calls of that tool look at files of the workspace or change them."""
    return tool in WORKING and tool not in WITHOUT_FILES


async def pull_workspace(tools: Iterable[str], run: Run, states: States) -> None:
    """Have the workspace as it is stored before the first call of these tools looks at it. Raises StorageTrouble."""
    if run.calls.has_workspace or not any(map(uses_workspace, tools)):
        return
    folder = _folder(run, states)
    try:
        if folder:
            await states.runtime.services.files.pull(folder)
    except OSError as error:
        log.warning("the workspace is not as it was stored: %s", error, extra={"run": run.id})
    run.calls.has_workspace = True


async def push_workspace(run: Run, states: States) -> None:
    """Store what was changed there: before what tells of it is committed. Raises Fenced or StorageTrouble."""
    folder, settings = _folder(run, states), run.settings.tools.files
    if not folder:
        return
    try:
        await states.runtime.services.files.push(
            folder,
            epoch=run.work.epoch,
            most_bytes=settings.workspace_mb * MEBIBYTE,
            most_files=settings.workspace_files,
        )
    except OSError as error:
        log.warning("changes of the workspace are on this machine alone: %s", error, extra={"run": run.id})


def _folder(run: Run, states: States) -> str:
    """The workspace below the data directory; "" where it lies elsewhere."""
    home, workspace = states.tool.home, run.execution.workspace
    return str(workspace.relative_to(home)) if workspace.is_relative_to(home) and workspace != Path(home) else ""
