"""Where the files of a conversation lie: one folder each below the data directory, out of reach for every other."""

from pathlib import Path
from urllib.parse import quote

from agent.core.ids import ConversationId

FOLDER = "workspaces"


def workspace_of(home: Path, conversation: ConversationId) -> Path:
    """The conversation's own folder; made when something is first put into it."""
    return home / FOLDER / quote(conversation, safe="@._-")
