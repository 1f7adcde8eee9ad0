"""MEMORY.md as a turn meets it: read anew when the file has changed, whoever changed it (B-16, B-22)."""

import logging
import re
from datetime import datetime

import anyio

from agent.memory import notes
from agent.turn.states import MemoryState

CUT = "\n[The notes go on; only their beginning is shown.]"
_TERMINATED = re.compile(r"\s*AGENT_STATUS:\s*terminated\s*$", re.MULTILINE)

log = logging.getLogger("tieline.notes")


async def read_notes(state: MemoryState, most: int, at: datetime) -> str:
    """The notes as they stand now, at most `most` characters; "" when there are none or they cannot be read."""
    try:
        status = state.path.stat()
    except OSError:
        state.signature, state.text = None, ""
        return ""
    signature = (status.st_mtime_ns, status.st_size)
    if signature != state.signature:
        try:
            # Left alone when the turn's deadline passes: a disk that does not answer would outlast it (Z-23).
            read = await anyio.to_thread.run_sync(notes.read, state.path, most + 1, abandon_on_cancel=True)
        except OSError as error:
            log.warning("notes not read, the turn goes on without them: %s", error)
            return state.text
        state.text = read[:most] + CUT if len(read) > most else read
        state.signature = signature
        await _keep_version(state, read, at)
    return state.text


def says_terminated(text: str) -> bool:
    """Whether the first line closes the agent's service here (SPEC §17.1)."""
    first = text.lstrip().partition("\n")[0]
    return _TERMINATED.fullmatch(first) is not None


async def _keep_version(state: MemoryState, text: str, at: datetime) -> None:
    """What a person wrote is kept too, so that a slip of theirs can be taken back."""
    try:
        await anyio.to_thread.run_sync(lambda: notes.keep_version(state.path, text, at=at))
    except OSError as error:
        log.warning("a version of the notes is not kept: %s", error)
