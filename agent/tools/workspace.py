"""Where the files of a conversation lie: one folder each below the data directory, out of reach for every other."""

from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

from agent.core.ids import ConversationId

FOLDER = "workspaces"


def workspace_of(home: Path, conversation: ConversationId) -> Path:
    """The conversation's own folder; made when something is first put into it."""
    return home / FOLDER / quote(conversation, safe="@._-")


def move_workspace(home: Path, old: ConversationId, new: ConversationId) -> None:
    """The conversation has another name now. Safe to repeat. Blocks.

    Raises OSError, also where there are files under the new name already: both stay as they are.
    """
    with suppress(FileNotFoundError):
        workspace_of(home, old).rename(workspace_of(home, new))
