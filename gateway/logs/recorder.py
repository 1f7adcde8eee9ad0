"""Writes warnings and errors into the database, once a second, off the path of turns; keeps them within their bounds.

A database that fails costs lines, never a turn: the usual log has them all.
"""

import logging
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from typing import Protocol

import anyio
from sqlalchemy.exc import SQLAlchemyError

from agent.core.clock import Clock
from agent.core.ids import ConversationId
from agent.storage.database import Database
from agent.storage.errors import StorageError
from agent.storage.timestamps import from_timestamp, to_timestamp
from gateway.logs import rows
from gateway.logs.buffer import KEEPING, OWN, LogBuffer, LogLine
from gateway.telemetry.logging import log_context

EVERY_S, SLOWEST_S = 1.0, 60.0  # between two writes; the wait doubles while the database fails
FULL = 200  # lines of one transaction
PRUNE_EVERY_S, PRUNE_AFTER = 3600.0, 500  # whichever comes first; the second counts new lines
LONGEST = 300  # characters of a line in a chat

log = logging.getLogger(OWN)


class Forgotten(Protocol):
    """Conversations whose words are being forgotten; `agent.memory.records.Forgotten` keeps this promise."""

    def words(self, conversation: ConversationId, /) -> int: ...
    def may_write(self, conversation: ConversationId, since: int, /) -> bool: ...


class LogRecorder:
    """Takes lines out of the buffer. Lines are kept for `days`, `most` of them at most."""

    def __init__(
        self,
        database: Database,
        clock: Clock,
        buffer: LogBuffer,
        *,
        forgotten: Forgotten,
        days: Callable[[], int],
        most: int,
    ) -> None:
        self._database = database
        self._clock = clock
        self._buffer = buffer
        self._forgotten = forgotten
        self._days = days
        self._most = most
        self._writing = anyio.Lock()  # who reads after `write` finds what another writer has taken out
        self._since_prune = PRUNE_AFTER  # the first write looks
        self._pruned_at = clock.monotonic()

    async def write(self) -> bool:
        """Write what waits; whether the database took it."""
        async with self._writing:
            while lines := self._buffer.take(FULL):
                if not await self._write(lines):
                    return False
        return True

    async def _write(self, lines: Sequence[LogLine]) -> bool:
        since = {line.conversation: self._forgotten.words(ConversationId(line.conversation)) for line in lines}

        def may_write(line: LogLine) -> bool:
            return self._forgotten.may_write(ConversationId(line.conversation), since[line.conversation])

        try:
            with log_context(run=KEEPING), anyio.CancelScope(shield=True):  # what was taken out is written
                await self._database.write(partial(rows.add, lines=lines, may_write=may_write))
        except StorageError as error:
            self._buffer.put_back([line for line in lines if may_write(line)])
            log.warning("lines of the log wait, the database failed: %s", error)
            return False
        except (SQLAlchemyError, ValueError) as error:
            log.warning("%d lines cannot be written, the usual log alone has them: %s", len(lines), error)
        self._since_prune += len(lines)
        return True

    async def prune(self) -> None:
        """Remove what is too old or too much, some at a time so that no turn waits. Raises StorageError."""
        self._since_prune, self._pruned_at = 0, self._clock.monotonic()
        before = to_timestamp(self._clock.now() - timedelta(days=self._days()))
        with log_context(run=KEEPING):
            while await self._database.write(partial(rows.prune, before=before, most=self._most)) >= rows.BATCH:
                await self._clock.sleep(0.2)

    async def run(self) -> None:
        """Write and prune until cancelled; what waits then is for `write`."""
        wait_s = EVERY_S
        while True:
            await self._clock.sleep(wait_s)
            is_taken = await self.write()
            wait_s = EVERY_S if is_taken else min(SLOWEST_S, wait_s * 2)
            late = self._clock.monotonic() - self._pruned_at >= PRUNE_EVERY_S
            if is_taken and (self._since_prune >= PRUNE_AFTER or late):
                try:
                    await self.prune()
                except StorageError as error:
                    log.warning("old lines of the log could not be removed, the database failed: %s", error)

    async def newest_of(self, conversation: ConversationId, most: int) -> Sequence[str]:
        """The conversation's newest lines for a chat, the oldest first. Raises StorageError."""
        await self.write()
        found = await self._database.read(partial(rows.newest, conversations=(conversation,), most=most))
        return tuple(_told(line) for line in reversed(found))


def _told(line: LogLine) -> str:
    text = " ".join(" | ".join(part for part in (line.message, line.error) if part).split())[:LONGEST]
    name, again = line.logger.removeprefix("tieline."), f" ({line.times} times)" if line.times > 1 else ""
    return f"{from_timestamp(line.last_at):%m-%d %H:%M:%S} {line.level} {name}: {text}{again}"
