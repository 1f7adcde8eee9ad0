"""A conversation's work, as its agent gets it: read from the inbox item by item, under one lease."""

import logging
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial

import anyio
from sqlalchemy import Connection

from agent.core.backoff import Backoff, Retries
from agent.core.clock import Clock
from agent.core.errors import Fenced, LockTimeout
from agent.core.failpoints import failpoint
from agent.core.ids import ConversationId, NewId
from agent.inbox import RunOpener, Work
from agent.sessions import runs
from agent.storage import conversation_rows, inbox_rows, outbox_rows
from agent.storage.database import TROUBLE, Database, check_epoch
from agent.storage.errors import StorageTrouble
from agent.storage.inbox_rows import InboxRow
from agent.storage.timestamps import to_timestamp
from gateway.dispatch.dispatcher import DeadLetter, DispatchDeps, Timing
from gateway.dispatch.queue_modes import choose
from gateway.storage.queues.given_up import GivenUp

# Leases of conversations (B-60): the lock that makes a second run at a time impossible.

CLAIMING = Backoff(first_s=0.25, longest_s=4.0)  # between two tries
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
        run, retries = self._new_id(), Retries(CLAIMING)
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
            await self._clock.sleep(min(retries.failed(), left_s))

    async def release(self, held: Held) -> None:
        """Free it, whatever happens (B-91); by force when it does not go otherwise (B-49). Never raises for trouble."""
        key = held.conversation
        with anyio.CancelScope(shield=True):
            try:
                ours = await self._database.write(partial(conversation_rows.release, key=key, run=held.run))
            except TROUBLE as error:
                _log.warning("the lease of %s could not be released, freeing it by force: %s", key, error)
                await self._force(held)
                return
        if not ours:
            _log.warning("the lease of %s was no longer ours", key, extra={"conversation": key, "run": held.run})

    async def renew(self, conversations: Collection[ConversationId]) -> dict[ConversationId, str]:
        """Put off the end of our leases of these; what we still hold (conversation → run) is returned."""
        _, until = self._now_and_end()
        return await self._database.write(
            partial(conversation_rows.extend, keys=conversations, worker=self._worker, until=until)
        )

    async def _force(self, held: Held) -> None:
        try:
            await self._database.write(
                partial(conversation_rows.force_release, key=held.conversation, epoch=held.epoch)
            )
        except TROUBLE as error:
            # We may claim it again ourselves at any time; another worker must wait for its end.
            _log.warning("the lease of %s stays until it runs out: %s", held.conversation, error)

    def _now_and_end(self) -> tuple[int, int]:
        now = self._clock.now()
        return to_timestamp(now), to_timestamp(now + timedelta(seconds=self._timing.lock_timeout))


# Wake event: rings when there may be work, and remembers it until somebody has looked.


@dataclass(slots=True, eq=False)
class WakeEvent:
    """Ring after the commit, silence before looking: then no message falls between looking and waiting."""

    _stage: anyio.Event = field(default_factory=anyio.Event, init=False)

    @property
    def rang(self) -> bool:
        return self._stage.is_set()

    def ring(self) -> None:
        self._stage.set()

    def silence(self) -> None:
        if self._stage.is_set():
            self._stage = anyio.Event()

    async def wait(self, longest_s: float) -> bool:
        """Whether it rang within that time."""
        with anyio.move_on_after(longest_s):
            await self._stage.wait()
        return self.rang


# Source: the work of one conversation, from its inbox.


class _InVain:
    """The row that was given last is still new: its run ended without doing it."""

    def __init__(self, attempts: int) -> None:
        self.attempts = attempts


class InboxSource:
    """A `Source` over the inbox. A turn is under way from one item until the next is asked for.

    `forgiven` counts, by row, runs that failed by no fault of the message: they do not make it a dead letter.
    """

    def __init__(
        self,
        held: Held,
        *,
        database: Database,
        clock: Clock,
        deps: DispatchDeps,
        timing: Timing,
        turns: anyio.Semaphore,
        wake_event: WakeEvent,
        forgiven: Counter[int],
    ) -> None:
        self.conversation = held.conversation
        self.epoch = held.epoch
        self.is_running = False
        self.is_exhausted = False
        self.last: Work | None = None
        self._database = database
        self._clock = clock
        self._deps = deps
        self._timing = timing
        self._turns = turns
        self._wake_event = wake_event
        self._forgiven = forgiven
        self._stopped = anyio.Event()
        self._had_all = False  # the last look gave all there was
        self.seen: frozenset[int] = frozenset()  # the rows that it found, as soon as it found them
        self._has_place = False  # among the turns under way
        self._parked = 0
        self._opening: RunOpener | None = None

    def opens_with(self, opening: RunOpener) -> None:
        self._opening = opening

    def __aiter__(self) -> "InboxSource":
        return self

    async def __anext__(self) -> Work:
        self.close()
        lingered = False
        while not self._stopped.is_set():
            if self._had_all and not self._wake_event.rang:
                # Nothing came since the last look, which left nothing: the next one can wait for the end of the linger
                # time. It is made in any case, for a run that ended without doing its work.
                self._had_all = False
                lingered = not await self._linger()
                continue
            self._wake_event.silence()
            found = await self._look()
            if isinstance(found, Work):
                return found
            if isinstance(found, _InVain):
                await self._pause(found.attempts)
            elif found is None and (lingered or not await self._linger()):
                break
        self.is_exhausted = True
        raise StopAsyncIteration

    async def _linger(self) -> bool:
        """Whether something came within the linger time."""
        failpoint("linger")
        return await self._wake_event.wait(self._timing.linger)

    def stop(self) -> None:
        """Give no more work; also end the wait for it."""
        self._stopped.set()
        self._wake_event.ring()

    def close(self) -> None:
        """The turn under way, if there is one, is over."""
        self.is_running = False
        self._leave_place()

    def park(self) -> None:
        self._parked += 1
        self._leave_place()

    async def unpark(self) -> None:
        self._parked -= 1
        if self._parked or self._has_place or not self.is_running:
            return
        await self._turns.acquire()
        if self._parked or self._has_place or not self.is_running:  # meanwhile
            self._turns.release()
        else:
            self._has_place = True

    def _leave_place(self) -> None:
        if self._has_place:
            self._has_place = False
            self._turns.release()

    def forgive(self) -> None:
        """The last run failed by no fault of its message."""
        if self.last is not None:
            self._forgiven[self.last.inbox_id] += 1

    async def count_failure(self) -> None:
        """The agent failed before it asked for work: let that count as a run of what it should have done."""
        if self.last is None:
            await self._look()
            self.close()

    async def give_up(self, why: str) -> None:
        """End the last item as a dead letter: trying again would change nothing."""
        work = self.last
        if work is None:
            return
        dead = DeadLetter(
            conversation=self.conversation,
            inbox_id=work.inbox_id,
            incoming=work.incoming,
            attempts=work.attempt,
            why=why,
        )
        if await self._database.write(lambda conn: self._bury(conn, dead)):
            self._announce(dead)

    async def _look(self) -> Work | DeadLetter | _InVain | None:
        await self._turns.acquire()
        found: Work | DeadLetter | _InVain | None = None
        try:
            found = await self._found()
        finally:
            if not isinstance(found, Work):
                self._turns.release()
        if isinstance(found, Work):
            self.last, self.is_running = found, True
            self._has_place, self._parked = True, 0
        elif isinstance(found, DeadLetter):
            self._announce(found)
        return found

    async def _found(self) -> Work | DeadLetter | _InVain | None:
        if self._opening is not None:
            try:
                return await self._database.write(partial(self._begin, opening=self._opening))
            except (Fenced, StorageTrouble):
                raise
            except Exception:  # noqa: BLE001 - its defect must not keep the run from being counted; that meets it again
                _log.exception("the start of a run of %s could not be written", self.conversation)
        return await self._database.write(partial(self._begin, opening=None))

    def _begin(self, conn: Connection, opening: RunOpener | None) -> Work | DeadLetter | _InVain | None:
        """Choose the next run and count it, or end what was tried too often: one transaction."""
        check_epoch(conn, self.conversation, self.epoch)
        now = to_timestamp(self._clock.now())
        self._had_all, self.seen = False, frozenset()
        unread = partial(self._heard, conn, at=now)
        rows = inbox_rows.due(conn, self.conversation, now=now, unread=unread)
        self.seen = frozenset(row.id for row in rows)
        within = self._deps.merge_within(self.conversation)
        within = self._timing.merge_within if within is None else within
        choice = choose(rows, within=timedelta(seconds=within))
        if choice is None:
            return None
        row = choice.row
        if row.attempts - row.forgiven - self._forgiven[row.id] >= self._timing.most_attempts:
            dead = _dead(row, f"given up after {row.attempts} attempts")
            self._bury(conn, dead)
            return dead
        if self.last is not None and self.last.inbox_id == row.id:
            return _InVain(row.attempts)
        attempt = inbox_rows.begin(conn, row, choice.incoming, choice.absorbed)
        self._had_all = len(rows) == 1 + len(choice.absorbed)
        work = Work(
            inbox_ids=(row.id, *choice.absorbed),
            kind=row.kind,
            incoming=replace(choice.incoming, zone=self._deps.zone_of(conn, choice.incoming)),
            attempt=attempt,
            epoch=self.epoch,
        )
        return work if opening is None else replace(work, opened=opening(conn, work))

    def _bury(self, conn: Connection, dead: DeadLetter) -> bool:
        check_epoch(conn, self.conversation, self.epoch)
        if not inbox_rows.finish(conn, [dead.inbox_id], status="dead", epoch=self.epoch, note=dead.why):
            return False
        at = to_timestamp(self._clock.now())
        runs.abandon(conn, dead.inbox_id, at)
        self._heard(conn, dead.inbox_id, dead.attempts, dead.why, at)
        say = self._deps.notice(dead)
        if say is not None:
            outbox_rows.add(
                conn,
                conversation=self.conversation,
                inbox_id=dead.inbox_id,
                part=0,
                dedup=f"dead:{dead.inbox_id}:{dead.attempts}",
                say=say,
                at=at,
            )
        return True

    def _heard(self, conn: Connection, row: int, attempts: int, why: str, at: int) -> None:
        letter = GivenUp(
            queue="in", id=row, conversation=self.conversation, inbox_id=row, attempts=attempts, why=why, at=at
        )
        self._deps.buried(conn, letter)

    def _announce(self, dead: DeadLetter) -> None:
        self._deps.on_dead(dead)
        self._deps.deliver(dead.conversation)

    async def _pause(self, attempts: int) -> None:
        self.last = None
        with anyio.move_on_after(self._timing.backoff.wait_s(attempts)):
            await self._stopped.wait()


def _dead(row: InboxRow, why: str) -> DeadLetter:
    return DeadLetter(
        conversation=row.conversation, inbox_id=row.id, incoming=row.incoming, attempts=row.attempts, why=why
    )
