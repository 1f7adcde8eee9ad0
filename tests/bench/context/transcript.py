"""The session's transcript in a real store: what leaves the window is written, and found again, as it is in life."""

import re
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

from sqlalchemy import create_engine
from sqlalchemy.pool import StaticPool

from agent.compaction import state as writing
from agent.compaction.scoring import STOP_WORDS
from agent.compaction.state import CompactionState
from agent.core.ids import ConversationId, SessionId
from agent.core.messages import Message, TextPart
from agent.sessions import store, transcript_search, window_store
from agent.sessions.store import Stored
from agent.storage.tables import metadata

SESSION, CONVERSATION = SessionId("bench"), ConversationId("bench:1")
TOP = 5  # passages of one call
MOST_TOKENS = 1_500  # of its answer
SHORTEST = 3  # characters of a word
ENOUGH, MOST_WORDS = 10, 24
_WORD = re.compile(r"\w+")


class Transcript:
    """One session in a database in memory."""

    def __init__(self) -> None:
        self._engine = create_engine("sqlite://", poolclass=StaticPool)
        metadata.create_all(self._engine)
        self._conn = self._engine.connect()
        store.open_session(self._conn, SESSION, CONVERSATION, title="", at=0)
        self._count = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._conn.close()
        self._engine.dispose()

    def append(self, message: Message) -> Message:
        """Store the message; returns it with its id."""
        stored = Stored(message=message, inbox_id=1, position=self._count)
        self._count += 1
        return store.with_id(message, store.append(self._conn, SESSION, CONVERSATION, stored, at=0))

    def write(self, state: CompactionState) -> None:
        """Write what compaction changed of the window."""
        step = writing.writing_of(state)
        if step is not None:
            ids = window_store.write(self._conn, SESSION, CONVERSATION, step.changes, at=0)
            writing.settle(state, step, ids)

    def recall(self, query: str, count: Callable[[str], int]) -> str:
        """The result of one call of `recall_transcript`: five passages, 1,500 tokens at most."""
        given: list[str] = []
        room = MOST_TOKENS
        for passage in transcript_search.search(self._conn, SESSION, query, most=TOP):
            room -= count(passage.text)
            if room < 0:
                break
            given.append(passage.text)
        return "\n\n".join(given)


def query_from(sent: Sequence[Message]) -> str:
    """A query made of what the model sees: the telling words of the newest messages, as many as make up a question.

    Nothing of the call that is about to be made is known to it.
    """
    telling: dict[str, None] = {}
    for message in reversed(sent):
        said = " ".join(part.text for part in message.parts if isinstance(part, TextPart))
        words = _WORD.findall(said.lower())
        telling |= dict.fromkeys(word for word in words if len(word) >= SHORTEST and word not in STOP_WORDS)
        if message.role == "user" and len(telling) >= ENOUGH:
            break
    return " ".join([*telling][:MOST_WORDS])
