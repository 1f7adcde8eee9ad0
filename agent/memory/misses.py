"""Misses of the memory: what was looked for and not found, for operators alone. Never waited for."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass

import anyio
from sqlalchemy import Connection, bindparam, delete, func, insert, select
from sqlalchemy.exc import SQLAlchemyError

from agent.core.clock import Clock
from agent.core.ids import ConversationId
from agent.storage.database import Database
from agent.storage.errors import StorageError
from agent.storage.tables import skill_outcomes

OUTCOME = "memory_miss"  # what jobs that read the table look for: never another word
NO_RESULTS = "no_results"
LONGEST_QUERY = 512  # characters (Z-140)
LONGEST_ERROR = 500
MOST_WAITING, BATCH = 256, 16
WRITTEN_WITHIN_S = 5.0

_ADD = insert(skill_outcomes)
_IS_RECENT = (skill_outcomes.c.outcome_type == OUTCOME) & (skill_outcomes.c.ts >= bindparam("since"))
_SINCE = select(skill_outcomes).where(_IS_RECENT).order_by(skill_outcomes.c.ts.desc()).limit(bindparam("most"))
_COUNT = select(func.count()).select_from(skill_outcomes).where(_IS_RECENT)
log = logging.getLogger("tieline.memory")


@dataclass(frozen=True, slots=True, kw_only=True)
class Miss:
    """`strategy` is semantic, graph or hybrid; `ts` in UTC seconds."""

    conversation: ConversationId
    query: str
    strategy: str
    error: str
    session: str | None
    ts: int


class MissLog:
    """Notes misses at once and writes them in batches; what does not fit is dropped."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._waiting: list[Miss] = []
        self._enough = anyio.Event()

    def note(
        self,
        conversation: ConversationId,
        query: str,
        strategy: str,
        error: str = NO_RESULTS,
        session: str | None = None,
    ) -> None:
        """Never waits and never raises (Z-139)."""
        if len(self._waiting) >= MOST_WAITING:
            log.debug("a memory miss was dropped: too many wait to be written")
            return
        miss = Miss(
            conversation=conversation,
            query=query[:LONGEST_QUERY],
            strategy=strategy,
            error=error[:LONGEST_ERROR],
            session=session,
            ts=int(self._clock.now().timestamp()),
        )
        self._waiting.append(miss)
        if len(self._waiting) >= BATCH:
            self._enough.set()

    async def run(self) -> None:
        """Write what was noted, until cancelled."""
        while True:
            with anyio.move_on_after(WRITTEN_WITHIN_S):
                await self._enough.wait()
            await self.flush()

    async def flush(self) -> None:
        """Write all that waits; what the database does not take is given up."""
        self._enough = anyio.Event()
        while self._waiting:
            batch, self._waiting = self._waiting[:BATCH], self._waiting[BATCH:]
            try:
                await self._database.write(lambda conn, batch=batch: _add(conn, batch))  # type: ignore[misc]
            except (StorageError, SQLAlchemyError, ValueError) as error:  # notes are never worth a chat (Z-139)
                log.warning("%d memory misses were not written: %s", len(batch), str(error).partition("\n")[0])


def since(conn: Connection, since_s: int, *, most: int) -> Sequence[Miss]:
    """Misses from then on (UTC seconds), newest first."""
    found = conn.execute(_SINCE, {"since": since_s, "most": most})
    return [
        Miss(
            conversation=ConversationId(row.conv),
            query=row.query,
            strategy=row.strategy,
            error=row.error,
            session=row.session_id,
            ts=row.ts,
        )
        for row in found
    ]


def count_since(conn: Connection, since_s: int) -> int:
    """How many misses there are from then on (UTC seconds)."""
    return int(conn.execute(_COUNT, {"since": since_s}).scalar_one())


def prune(conn: Connection, *, before_s: int) -> int:
    """Remove misses older than that (UTC seconds)."""
    old = (skill_outcomes.c.outcome_type == OUTCOME) & (skill_outcomes.c.ts < before_s)
    return conn.execute(delete(skill_outcomes).where(old)).rowcount


def _add(conn: Connection, misses: list[Miss]) -> None:
    rows = [
        {
            "outcome_type": OUTCOME,
            "conv": miss.conversation,
            "query": miss.query,
            "strategy": miss.strategy,
            "error": miss.error,
            "session_id": miss.session,
            "ts": miss.ts,
        }
        for miss in misses
    ]
    conn.execute(_ADD, rows)
