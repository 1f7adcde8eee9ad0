"""Backlog: stores messages from before the memory was switched on, once, in the background, the newest first."""

import logging
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from sqlalchemy import Connection, delete, select, update
from sqlalchemy.exc import SQLAlchemyError

from agent.core.clock import Clock
from agent.core.ids import ConversationId, PersonId, SessionId
from agent.core.messages import TextPart
from agent.memory import index, rows
from agent.memory.lexicon import kept_of
from agent.memory.memory import Memory
from agent.memory.records import ChatType, Scope
from agent.memory.rows import FORGOTTEN
from agent.sessions.store import read_message, text_of, words_of
from agent.storage.database import Database
from agent.storage.errors import StorageError
from agent.storage.tables import memory_backlog, memory_unindexed, message

log = logging.getLogger("tieline.turn")

BATCH = 100  # messages of one transaction
PAUSE_S = 0.5  # between two of them: turns come first

_SENDER = re.compile(r"<sender>(.*)</sender>$", re.MULTILINE)


class Backlog:
    """Messages that an older version did not keep or index. An interrupted pass goes on at the next start."""

    def __init__(self, database: Database, memory: Memory, clock: Clock) -> None:
        self._database = database
        self._memory = memory
        self._clock = clock

    async def run(self) -> None:
        """Keep and index them all. Trouble with the database leaves the rest for the next start."""
        if not self._memory.settings.recall.enabled:
            return
        try:
            kept = await self._all(self.keep_some)
            indexed = await self._all(self.index_some)
        except (StorageError, SQLAlchemyError) as error:
            reason = str(error).partition("\n")[0]
            log.warning("older messages are not all in the memory, the rest waits for the next start: %s", reason)
            return
        if kept:
            log.info("older messages are in the memory now: %d pieces", kept)
        if indexed:
            log.info("what was kept before is in the new index: %d things", indexed)

    async def _all(self, some: Callable[[Connection], int | None]) -> int:
        done = 0
        if await self._database.read(_is_waiting):
            while (more := await self._database.write(some)) is not None:
                done += more
                await self._clock.sleep(PAUSE_S)
        return done

    def index_some(self, conn: Connection) -> int | None:
        """Make the words of the next batch; how many things, None when nothing is left."""
        return index.index_some(conn, self._memory.lexicon, most=BATCH)

    def keep_some(self, conn: Connection) -> int | None:
        """The next batch; how many pieces were kept, None when nothing is left."""
        below = _below(conn)
        if below is None:
            return None
        page = select(message).where(message.c.id < below, message.c.role.in_(("user", "assistant")))
        page = page.where(message.c.user_visible, message.c.inbox_id.is_not(None))
        found = conn.execute(page.order_by(message.c.id.desc()).limit(BATCH)).all()
        if not found:
            conn.execute(delete(memory_backlog))
            return None
        conn.execute(update(memory_backlog).values(below=found[-1].id))
        return sum(self._keep(conn, row, scope) for row, scope in self._with_scopes(conn, found))

    def _with_scopes(self, conn: Connection, found: Sequence[Any]) -> Iterator[tuple[Any, Scope]]:
        """Each message with whom it was said in front of, as the first message of its run tells."""
        begun = select(message).where(message.c.inbox_id.in_({row.inbox_id for row in found}), message.c.position == 0)
        scopes = {row.inbox_id: self._scope_of(row) for row in conn.execute(begun).all()}
        off = {conv: rows.is_off(conn, ConversationId(conv)) for conv in {row.conv for row in found}}
        for row in found:
            scope = scopes.get(row.inbox_id)
            if scope is not None and not off[row.conv]:
                yield row, scope

    def _scope_of(self, row: Any) -> Scope | None:
        """None for a run that no person has begun, or whose beginning cannot be read."""
        said = read_message(row)
        if said is None or row.role != "user" or row.person is None:
            return None
        header = said.parts[0] if len(said.parts) > 1 else None
        head = header.text if isinstance(header, TextPart) else ""
        if head.startswith("<scheduled>"):
            return None
        sender = _SENDER.match(head)
        person, session = PersonId(row.person), SessionId(row.session_id)
        speaker = sender[1].removesuffix(f" ({person})") if sender else ""
        chat_type: ChatType = "group" if sender else "direct"
        return self._memory.scope(ConversationId(row.conv), chat_type, person, speaker=speaker, session=session)

    def _keep(self, conn: Connection, row: Any, scope: Scope) -> int:
        said = read_message(row)
        if said is None:
            return 0
        by_person = row.role == "user" and row.position == 0
        words = words_of(said) if by_person else text_of(said) if row.role == "assistant" else ""
        if not words or words == FORGOTTEN:
            return 0
        things = kept_of(
            words,
            person=scope.person if by_person else None,
            speaker=scope.speaker if by_person else "",
            session=row.session_id,
            message_id=row.id,
            inbox_id=row.inbox_id,
        )
        rows.keep(conn, scope, things, self._memory.lexicon, at=row.created_at, older=True)
        return len(things)


def _is_waiting(conn: Connection) -> bool:
    return _below(conn) is not None or conn.execute(select(memory_unindexed.c.below)).first() is not None


def _below(conn: Connection) -> int | None:
    below: int | None = conn.execute(select(memory_backlog.c.below)).scalar_one_or_none()
    return below
