"""Where files that people send lie in the conversation's workspace, and the line that tells the model so. Pure."""

from pathlib import PurePosixPath

from agent.core.messages import FilePart
from agent.core.tree import Names
from agent.inbox import Work
from agent.tools.files.paths import shown

FOLDER = "received"


def landed_as(work: Work, file: FilePart) -> Names:
    """Where a file of this work lies: the same after a crash."""
    return (FOLDER, str(work.inbox_id), PurePosixPath(file.path).name)


def told_of(work: Work) -> str:
    """The line that tells the model where its files are."""
    return f"<files>{', '.join(shown(landed_as(work, file)) for file in work.incoming.files)}</files>"
