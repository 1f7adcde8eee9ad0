"""MEMORY.md: the notes of one conversation, written by people or, later, by the agent; read before a turn (B-22)."""

import logging
import re
from pathlib import Path
from urllib.parse import quote

import anyio

from agent.core.ids import ConversationId
from agent.turn.states import MemoryState

FILE = "MEMORY.md"
CUT = "\n[The notes go on; only their beginning is shown.]"
_TERMINATED = re.compile(r"\s*AGENT_STATUS:\s*terminated\s*$", re.MULTILINE)

log = logging.getLogger("tieline.notes")


def path_of(home: Path, conversation: ConversationId) -> Path:
    """Where the notes of a conversation are: no two conversations share a file (G-25)."""
    return home / "memory" / quote(conversation, safe="@._-") / FILE


async def read_notes(state: MemoryState, most: int) -> str:
    """The notes as they stand now, at most `most` characters; "" when there are none or they cannot be read."""
    try:
        status = state.path.stat()
    except OSError:
        state.signature, state.text = None, ""
        return ""
    signature = (status.st_mtime_ns, status.st_size)
    if signature != state.signature:
        try:
            read = await anyio.to_thread.run_sync(_beginning, state.path, most + 1)
        except OSError as error:
            log.warning("notes not read, the turn goes on without them: %s", error)
            return state.text
        state.text = read[:most] + CUT if len(read) > most else read
        state.signature = signature
    return state.text


def says_terminated(notes: str) -> bool:
    """Whether the first line closes the agent's service here (SPEC §17.1)."""
    first = notes.lstrip().partition("\n")[0]
    return _TERMINATED.fullmatch(first) is not None


def _beginning(path: Path, most: int) -> str:
    with path.open(encoding="utf-8", errors="replace") as file:
        return file.read(most)
