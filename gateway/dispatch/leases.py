"""Takes and frees the lease of a conversation (SPEC §3.2): the lock that makes a second run at a time impossible."""

import logging
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

import anyio
from sqlalchemy.exc import SQLAlchemyError

from agent.core.clock import Clock
from agent.core.errors import LockTimeout
from agent.core.ids import ConversationId
from agent.core.ids_source import NewId
from agent.storage import conversation_rows
from agent.storage.database import Database
from agent.storage.errors import StorageError
from agent.storage.timestamps import to_timestamp
from gateway.dispatch.dispatcher import Timing

FIRST_WAIT_S, LONGEST_WAIT_S = 0.25, 4.0  # between two tries: it doubles
Trouble = StorageError, SQLAlchemyError, OSError, TimeoutError  # all that the database raises by itself
_log = logging.getLogger("tieline.dispatch")


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A lease that we have."""

    conversation: ConversationId
    run: str
    epoch: int


class Leases:
    """The leases of one worker; `worker` is unique to this start of this process."""

    def __init__(self, database: Database, *, clock: Clock, new_id: NewId, worker: str, timing: Timing) -> None:
        self._database = database
        self._clock = clock
        self._new_id = new_id
        self._worker = worker
        self._timing = timing

    async def take(self, conversation: ConversationId) -> Held:
        """Claim the conversation, with back-off (B-11). Raises LockTimeout when another keeps it too long (B-83)."""
        run, wait_s = self._new_id(), FIRST_WAIT_S
        gives_up = self._clock.monotonic() + self._timing.queue_timeout
        while True:
            now, until = self._now_and_end()
            epoch = await self._database.write(
                partial(conversation_rows.claim, key=conversation, worker=self._worker, run=run, now=now, until=until)
            )
            if epoch is not None:
                return Held(conversation=conversation, run=run, epoch=epoch)
            left_s = gives_up - self._clock.monotonic()
            if left_s <= 0:
                raise LockTimeout(
                    f"{conversation} is being worked on elsewhere for more than {self._timing.queue_timeout:g} s"
                )
            await self._clock.sleep(min(wait_s, left_s))
            wait_s = min(2 * wait_s, LONGEST_WAIT_S)

    async def release(self, held: Held) -> None:
        """Free it, whatever happens (B-91); by force when it does not go otherwise (B-49). Never raises for trouble."""
        key = held.conversation
        with anyio.CancelScope(shield=True):
            try:
                ours = await self._database.write(partial(conversation_rows.release, key=key, run=held.run))
            except Trouble as error:
                _log.warning("the lease of %s could not be released, freeing it by force: %s", key, error)
                await self._force(held)
                return
        if not ours:
            _log.warning("the lease of %s was no longer ours", key, extra={"conversation": key, "run": held.run})

    async def renew(self) -> dict[ConversationId, str]:
        """Put off the end of all our leases; what we still hold (conversation → run) is returned."""
        _, until = self._now_and_end()
        return await self._database.write(partial(conversation_rows.extend_all, worker=self._worker, until=until))

    async def _force(self, held: Held) -> None:
        try:
            await self._database.write(
                partial(conversation_rows.force_release, key=held.conversation, epoch=held.epoch)
            )
        except Trouble as error:
            # We may claim it again ourselves at any time; another worker must wait for its end.
            _log.warning("the lease of %s stays until it runs out: %s", held.conversation, error)

    def _now_and_end(self) -> tuple[int, int]:
        now = self._clock.now()
        return to_timestamp(now), to_timestamp(now + timedelta(seconds=self._timing.lock_timeout))
