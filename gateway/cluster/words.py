"""Words of one process to all others: changes that are seen at once and may be lost, such as a growing answer (G-162).

What must not be lost is a row. Words go out together, a few times in a hundred milliseconds; one that is too long for a
notification lies in a row for a minute.
"""

import logging
from collections import deque
from collections.abc import Sequence
from functools import partial

import anyio
from sqlalchemy import Connection, bindparam, delete, insert, select, text

from agent.storage.database import PROCESS, TROUBLE, Database
from agent.storage.process_tables import process_word
from agent.storage.statements import CompiledStatement
from gateway.cluster.schema import EVERYBODY

TOGETHER_S = 0.025
LONGEST = 7_000  # bytes of a notification, which holds 8000
MOST = 5_000  # that wait while the database does not answer; of more, the oldest are lost
KEPT_S = 60
AGAIN_S = 1.0  # between two tries to tell that some are lost

KEPT = "#"  # begins the name of words that lie in a row

_TELL = CompiledStatement(text("select pg_notify(:channel, :told)"))
_KEEP = insert(process_word).values(created_at=text("tieline_now()")).returning(process_word.c.id)
_KEPT = select(process_word.c.text).where(process_word.c.id == bindparam("word"))
_OLD = delete(process_word).where(process_word.c.created_at < text(f"tieline_now() - {KEPT_S * 1_000_000}"))

_log = logging.getLogger("tieline.cluster")


class Words:
    """Words that this process tells."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._waiting: deque[tuple[str, str]] = deque(maxlen=MOST)
        self._has_some = anyio.Event()
        self._lost = False

    def tell(self, channel_type: str, words: str) -> None:
        """Soon, and after all that was told before. Never waits."""
        self._lost |= len(self._waiting) == MOST
        self._waiting.append((channel_type, words))
        self._has_some.set()

    async def run(self) -> None:
        """Until cancelled."""
        tidied_at = anyio.current_time()
        while True:
            await self._has_some.wait()
            self._has_some = anyio.Event()
            await anyio.sleep(TOGETHER_S)
            words, lost = list(self._waiting), self._lost
            self._waiting.clear()
            self._lost = False
            try:
                await self._database.write(partial(_tell, words=words, lost=lost))
                if anyio.current_time() - tidied_at > KEPT_S:
                    tidied_at = anyio.current_time()
                    await self._database.write(lambda conn: conn.execute(_OLD))
            except TROUBLE as error:  # pages read what is kept
                self._lost = True
                self._has_some.set()
                _log.warning("%d words to other processes are lost: %s", len(words), type(error).__name__)
                await anyio.sleep(AGAIN_S)

    async def whole(self, told: str) -> str:
        """The words that a notification holds or names. "" when they are gone."""
        if not told.startswith(KEPT):
            return told
        word = int(told.removeprefix(KEPT))
        return await self._database.read(lambda conn: conn.execute(_KEPT, {"word": word}).scalar()) or ""


def _tell(conn: Connection, words: Sequence[tuple[str, str]], lost: bool) -> None:
    """`lost`: some before these were, and what they told of must be read again."""
    if lost:
        _TELL.run(conn, {"channel": EVERYBODY, "told": f"lost {PROCESS}"})
    for channel_type, told in words:
        if len(told.encode()) > LONGEST or told.startswith(KEPT):
            told = f"{KEPT}{conn.execute(_KEEP, {'text': told}).scalar_one()}"
        _TELL.run(conn, {"channel": EVERYBODY, "told": f"account {PROCESS} {channel_type} {told}"})
