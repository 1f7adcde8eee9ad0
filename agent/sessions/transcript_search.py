"""Index of what left a window, in pieces, and its search. The transcript itself is never rewritten.

Plain functions over a `Connection`. SQLite searches its full-text index, PostgreSQL the rows of the session.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, bindparam, insert, select, text

from agent.core.errors import ToolError
from agent.core.ids import ConversationId, SessionId
from agent.core.messages import FilePart, Message, SummaryPart, TextPart, ToolResult, ToolUse
from agent.sessions.store import read_message
from agent.storage.database import Database
from agent.storage.statements import or_ignore
from agent.storage.tables import message as message_table
from agent.storage.tables import passage

LONGEST = 900  # characters of a piece: some 250 tokens
MOST_WORDS = 24  # of a query
LONGEST_ARGUMENTS = 400

_WORD = re.compile(r"\w+")
_ADD = or_ignore(insert(passage))
_SQLITE = text(
    "SELECT passage.id, passage.message_id, passage.call, passage.number, passage.text"
    " FROM passage_fts JOIN passage ON passage.id = passage_fts.rowid"
    " JOIN message ON message.id = passage.message_id"
    " WHERE passage_fts MATCH :query AND passage.session_id = :session AND message.compacted_at IS NOT NULL"
    " ORDER BY bm25(passage_fts), passage.id DESC LIMIT :most"
)
_POSTGRES = text(
    "SELECT id, message_id, call, number, text FROM ("
    " SELECT passage.*, ts_rank(to_tsvector('simple', passage.text), to_tsquery('simple', :query), 1) AS score"
    " FROM passage JOIN message ON message.id = passage.message_id"
    " WHERE passage.session_id = :session AND message.compacted_at IS NOT NULL"
    " AND to_tsvector('simple', passage.text) @@ to_tsquery('simple', :query)"
    ") AS found ORDER BY score DESC, id DESC LIMIT :most"
)
_ONE = select(message_table).where(
    message_table.c.id == bindparam("message"),
    message_table.c.session_id == bindparam("session"),
    message_table.c.compacted_at.is_not(None),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """A piece of a message that left the window; `call` names the tool call whose result it is part of."""

    message_id: int
    call: str
    number: int
    text: str


def keep(
    conn: Connection,
    session: SessionId,
    conversation: ConversationId,
    message: Message,
    calls: Iterable[str] | None = None,
) -> None:
    """Make a stored message findable, or only its results and arguments of `calls`. Safe to repeat."""
    rows = [
        {
            "session_id": session,
            "conv": conversation,
            "message_id": message.id,
            "call": call,
            "number": number,
            "text": piece,
        }
        for call, whole in texts_of(message, None if calls is None else set(calls))
        for number, piece in enumerate(pieces(whole))
    ]
    if rows:
        conn.execute(_ADD, rows)


def search(conn: Connection, session: SessionId, query: str, *, most: int) -> tuple[Passage, ...]:
    """The pieces that fit best, best first; () for a query without words."""
    asked = query_for(conn.dialect.name, query)
    if not asked:
        return ()
    statement = _SQLITE if conn.dialect.name == "sqlite" else _POSTGRES
    rows = conn.execute(statement, {"query": asked, "session": session, "most": most})
    return tuple(Passage(message_id=row.message_id, call=row.call, number=row.number, text=row.text) for row in rows)


def whole(conn: Connection, session: SessionId, message: int) -> str | None:
    """The full text of a message that left the window, its results included; None for any other."""
    row = conn.execute(_ONE, {"message": message, "session": session}).one_or_none()
    found = read_message(row) if row is not None else None
    return None if found is None else "\n\n".join(text for _, text in texts_of(found, None))


def query_for(dialect: str, query: str) -> str:
    """Any of the words, in the database's own form; nothing a model writes can be an operator."""
    words = list(dict.fromkeys(_WORD.findall(query.lower())))[:MOST_WORDS]
    if dialect == "sqlite":
        return " OR ".join(f'"{word}"' for word in words)
    return " | ".join(words)


def texts_of(message: Message, calls: set[str] | None) -> Iterator[tuple[str, str]]:
    """Texts of a message worth finding, as (call or "", text): words, calls with their arguments, results."""
    words = [part.text for part in message.parts if isinstance(part, TextPart | SummaryPart)]
    uses = [part for part in message.parts if isinstance(part, ToolUse)]
    files = [f"file {part.name}" for part in message.parts if isinstance(part, FilePart)]
    made = [f"called {use.name}({_arguments(use)})" for use in uses]
    if calls is None and (said := "\n".join([*words, *files, *made]).strip()):
        yield "", said
    for use in uses:
        if calls is not None and use.id in calls:
            yield use.id, f"called {use.name}({json.dumps(dict(use.input), ensure_ascii=False)})"
    for part in message.parts:
        if isinstance(part, ToolResult) and part.content.strip() and (calls is None or part.tool_use_id in calls):
            yield part.tool_use_id, part.content


def pieces(whole: str) -> Sequence[str]:
    """The text in pieces of at most 900 characters, cut at the end of a line, sentence or field where there is one."""
    found = []
    start = 0
    while len(whole) - start > LONGEST:
        end = start + LONGEST
        cut = max(
            whole.rfind(mark, start + LONGEST // 2, end) + len(mark) - 1 for mark in ("\n", "}, ", ". ", ", ", " ")
        )
        end = cut + 1 if cut >= start + LONGEST // 2 else end
        found.append(whole[start:end])
        start = end
    found.append(whole[start:])
    return [piece for piece in found if piece.strip()]


def _arguments(use: ToolUse) -> str:
    written = ", ".join(f"{name}={value}" for name, value in use.input.items())
    return written if len(written) <= LONGEST_ARGUMENTS else written[: LONGEST_ARGUMENTS - 1] + "…"


# Search by the model for what left its window, within its own session.

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
        found = await self._database.read(lambda conn: search(conn, session, query, most=MOST_FOUND))
        return shown(found, self._count) or NOTHING

    async def read(self, message: int, from_char: int) -> str:
        session = self._session

        def load(conn: Connection) -> str | None:
            return whole(conn, session, message)

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
