"""What left a conversation's window, found and read back for its model; never of another session (SPEC §4.2)."""

from collections.abc import Callable

from sqlalchemy import Connection

from agent.core.errors import ToolError
from agent.core.ids import SessionId
from agent.sessions import passages
from agent.sessions.passages import Passage
from agent.storage.database import Database

MOST_FOUND = 5  # passages of one search
MOST_TOKENS = 1_500  # of one search
MOST_CHARS = 6_000  # of a message at once
NOTHING = "Nothing that left the window fits. Try other words: names, numbers, identifiers as they were written."


class Recollection:
    """Keeps the promise of `core.tools.Recall` for one session. `count` gives the tokens of a text."""

    def __init__(self, database: Database, session: SessionId, count: Callable[[str], int]) -> None:
        self._database = database
        self._session = session
        self._count = count

    async def search(self, query: str) -> str:
        session = self._session
        found = await self._database.read(lambda conn: passages.search(conn, session, query, most=MOST_FOUND))
        return shown(found, self._count) or NOTHING

    async def read(self, message: int, from_char: int) -> str:
        session = self._session

        def load(conn: Connection) -> str | None:
            return passages.whole(conn, session, message)

        text = await self._database.read(load)
        if text is None:
            raise ToolError(f"message {message} has not left the window, or is none of this conversation")
        if from_char >= len(text):
            raise ToolError(f"message {message} has {len(text)} characters; from_char is {from_char}")
        end = min(from_char + MOST_CHARS, len(text))
        rest = "" if end == len(text) else f"\n[{len(text) - end} characters follow; read on with from_char {end}]"
        return text[from_char:end] + rest


def shown(found: tuple[Passage, ...], count: Callable[[str], int]) -> str:
    """The passages one under the other, the best first, as many as 1,500 tokens hold; at least some of the first."""
    written: list[str] = []
    room = MOST_TOKENS
    for one in found:
        text = f"[message {one.message_id}{', a tool result' if one.call else ''}]\n{one.text.strip()}"
        weight = count(text) + 2
        if weight > room:
            if not written:
                written.append(text[: len(text) * room // weight])
            break
        written.append(text)
        room -= weight
    return "\n\n".join(written)
