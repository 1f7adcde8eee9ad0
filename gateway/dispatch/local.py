"""The dispatcher of one process: a task for each conversation that has work, nothing at all for the others."""

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from enum import Enum
from functools import partial

import anyio
from anyio.abc import TaskGroup
from sqlalchemy import Connection, bindparam, update

from agent.core.cancellation import first_error
from agent.core.clock import Clock
from agent.core.errors import Fenced, LockTimeout, Permanent
from agent.core.failpoints import failpoint
from agent.core.ids import ConversationId
from agent.run.run import SHUTDOWN
from agent.storage import conversation_rows, inbox_rows, outbox_rows
from agent.storage.database import TROUBLE, Database
from agent.storage.errors import StorageTrouble
from agent.storage.tables import inbox
from agent.storage.timestamps import to_timestamp
from gateway.dispatch.dispatcher import Agents, DispatchDeps, Timing
from gateway.dispatch.source import Held, InboxSource, Leases, WakeEvent

_log = logging.getLogger("tieline.dispatch")

# Drain: has one conversation's inbox worked on, and frees its lease, whatever happens.


class Ending(Enum):
    EMPTY = "nothing is left to do"
    LEFT = "the agent ended by itself"
    FENCED = "another owner has the conversation"
    BUSY = "another owner keeps the conversation"
    FAILED = "the agent or the storage failed"


@dataclass(slots=True, eq=False)
class Activity:
    """One conversation that is being worked on in this process; its state between two drains of it."""

    conversation: ConversationId
    wake_event: WakeEvent = field(default_factory=WakeEvent)
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    forgiven: Counter[int] = field(default_factory=Counter)
    held: Held | None = None
    source: InboxSource | None = None
    stopped: anyio.Event = field(default_factory=anyio.Event)

    @property
    def is_running(self) -> bool:
        return self.source is not None and self.source.is_running

    def has_seen(self, row: int) -> bool:
        """The newest look at the inbox has found that row: it is done, or looked for again."""
        return self.source is not None and row in self.source.seen

    def stop(self) -> None:
        """Begin no further turn."""
        self.stopped.set()
        if self.source is not None:
            self.source.stop()


class Drain:
    """Serves conversations, any number at once, each by one call at a time."""

    def __init__(
        self,
        *,
        database: Database,
        clock: Clock,
        leases: Leases,
        agents: Agents,
        deps: DispatchDeps,
        timing: Timing,
    ) -> None:
        self._database = database
        self._clock = clock
        self._leases = leases
        self._agents = agents
        self._deps = deps
        self._timing = timing
        self._turns = anyio.Semaphore(timing.most_turns, fast_acquire=True)

    async def serve(self, activity: Activity) -> Ending:
        """Do what is there, and what comes within the linger time. Raises nothing but cancellation."""
        try:
            held = await self._leases.take(activity.conversation)
        except LockTimeout as error:
            _log.warning("%s", error, extra={"conversation": activity.conversation})
            await self._tell_locked(activity.conversation)
            return Ending.BUSY
        except TROUBLE as error:
            _log.warning("%s cannot be claimed: %s", activity.conversation, error)
            return Ending.FAILED
        source = InboxSource(
            held,
            database=self._database,
            clock=self._clock,
            deps=self._deps,
            timing=self._timing,
            turns=self._turns,
            wake_event=activity.wake_event,
            forgiven=activity.forgiven,
        )
        activity.held, activity.source = held, source
        if activity.stopped.is_set():
            source.stop()
        try:
            return await self._run(source)
        finally:
            activity.held = activity.source = None
            source.close()
            await self._leases.release(held)

    async def _tell_locked(self, conversation: ConversationId) -> None:
        """Tell the person who has waited longest that it takes longer, and what to do; once for each message (B-12)."""

        def tell(conn: Connection) -> bool:
            at = to_timestamp(self._clock.now())
            row = next((row for row in inbox_rows.due(conn, conversation, now=at) if row.kind == "message"), None)
            if row is None:
                return False
            say, dedup = self._deps.locked(row.incoming), f"locked:{row.id}"
            added = outbox_rows.add(conn, conversation=conversation, inbox_id=None, part=0, dedup=dedup, say=say, at=at)
            return added is not None

        try:
            told = await self._database.write(tell)
        except TROUBLE as error:
            _log.warning("nobody is told that %s is locked: %s", conversation, error)
            return
        if told:
            self._deps.deliver(conversation)

    async def _run(self, source: InboxSource) -> Ending:
        conversation = source.conversation
        try:
            with first_error():
                async with self._agents.use(conversation) as agent:
                    await agent.run(source)
        except Fenced as error:
            _log.warning("%s; dropping its agent", error, extra={"conversation": conversation})
            await self._agents.forget(conversation)
            return Ending.FENCED
        except StorageTrouble as error:
            _log.warning("%s waits for the storage: %s", conversation, error, extra={"conversation": conversation})
            source.forgive()
            await self._agents.forget(conversation)
            return Ending.FAILED
        except Exception as error:  # noqa: BLE001 - the turn's seam
            _log.exception("a run of %s failed; its message will be tried again", conversation)
            await self._agents.forget(conversation)
            await self._account_for(source, error)
            return Ending.FAILED
        if source.is_exhausted:
            return Ending.EMPTY
        await self._agents.forget(conversation)
        return Ending.LEFT if source.last is not None else Ending.FAILED

    async def _account_for(self, source: InboxSource, error: Exception) -> None:
        """Make the failure count, so that one bad message cannot hold its conversation for ever."""
        source.close()
        try:
            await source.count_failure()
            if isinstance(error, Permanent):
                await source.give_up(f"{type(error).__name__}; the log has more")
        except Exception:  # noqa: BLE001 - the turn's seam
            _log.exception("the failure of %s could not be counted", source.conversation)


# Leftovers of an earlier process, and work without a wake-up: found by looking into the database, safe to repeat.

PARTS_COME_WITHIN = timedelta(seconds=10)  # accounts open after the dispatcher, and then fetch what they missed

# Of people's messages only an album whose parts may still be under way is put off.
_HOLD_ALBUMS = (
    update(inbox)
    .where(inbox.c.status == "new", inbox.c.kind == "message", inbox.c.attempts == 0)
    .where(inbox.c.not_before < bindparam("until"))
    .values(not_before=bindparam("until"))
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """`leases` is how many leases of dead owners were freed."""

    leases: int
    with_work: tuple[ConversationId, ...]
    with_outbox: tuple[ConversationId, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """`next_at` is when put-off work becomes due, in UTC microseconds."""

    with_work: tuple[ConversationId, ...]
    next_at: int | None


def recover(conn: Connection, *, now: int) -> Left:
    """Free every lease, in a write of the sole owner's start: whoever took one is dead.

    An album waits once more for its parts: the platform still has those that were not stored.
    """
    conn.execute(_HOLD_ALBUMS, {"until": now + PARTS_COME_WITHIN // timedelta(microseconds=1)})
    return Left(
        leases=conversation_rows.clear_all(conn),
        with_work=inbox_rows.conversations_with_work(conn, now),
        with_outbox=outbox_rows.conversations_with_open(conn),
    )


def look_around(conn: Connection, *, now: int) -> Due:
    """Work to be done now, and when to look again at the latest."""
    return Due(with_work=inbox_rows.conversations_with_work(conn, now), next_at=inbox_rows.next_due(conn, now))


# Dispatcher: which conversations are drained, and when.


class LocalDispatcher:
    """A `Dispatcher` that does the work in this process: alone on the database, or beside others.

    Beside others it looks for no work by itself and frees no leases but its own: somebody wakes it for conversations
    that it may serve. `when_quiet` hears of each that it has nothing more to do for.
    """

    def __init__(
        self,
        drain: Drain,
        *,
        database: Database,
        clock: Clock,
        leases: Leases,
        agents: Agents,
        deps: DispatchDeps,
        timing: Timing,
        is_alone: bool = True,
        when_quiet: Callable[[ConversationId], None] = lambda conversation: None,
    ) -> None:
        self._drain = drain
        self._is_alone = is_alone
        self.when_quiet = when_quiet
        self._database = database
        self._clock = clock
        self._leases = leases
        self._agents = agents
        self._deps = deps
        self._timing = timing
        self._active: dict[ConversationId, Activity] = {}
        self._early: set[ConversationId] = set()  # woken before `run`
        self._tasks: TaskGroup | None = None
        self._is_ending = False
        self._quiet = anyio.Event()
        self._ended = anyio.Event()

    def wake(self, conversation: ConversationId, row: int | None = None) -> None:
        activity = self._active.get(conversation)
        if activity is not None:
            if row is None or not activity.has_seen(row):
                activity.wake_event.ring()
        elif self._tasks is None:
            self._early.add(conversation)
        elif not self._is_ending:
            self._start(self._tasks, conversation)

    def expect(self, conversation: ConversationId) -> None:
        # SQLite has one writer: whoever is woken now looks right behind the message, and one commit serves both.
        if self._database.dialect == "sqlite" and not self.is_running(conversation):
            self.wake(conversation)

    def is_running(self, conversation: ConversationId) -> bool:
        activity = self._active.get(conversation)
        return activity is not None and activity.is_running

    @property
    def running(self) -> tuple[ConversationId, ...]:
        """The conversations that have a turn under way."""
        return tuple(key for key, activity in self._active.items() if activity.is_running)

    async def run(self) -> None:
        with_work = await self._recovered() if self._is_alone else ()
        try:
            async with anyio.create_task_group() as tasks:
                self._tasks = tasks
                for conversation in {*with_work, *self._early}:
                    self.wake(conversation)
                self._early.clear()
                tasks.start_soon(self._keep_leases)
                if self._is_alone:
                    tasks.start_soon(self._keep_looking)
                await self._ended.wait()
                tasks.cancel_scope.cancel()
        finally:
            self._is_ending = True

    async def _recovered(self) -> Sequence[ConversationId]:
        """Take up what an earlier process left; the conversations that have work."""
        now = to_timestamp(self._clock.now())
        left = await self._database.write(partial(recover, now=now))
        if left.leases or left.with_work:
            _log.info("taking up %d conversations, freed %d leases", len(left.with_work), left.leases)
        for conversation in left.with_outbox:
            self._deps.deliver(conversation)
        return left.with_work

    def is_active(self, conversation: ConversationId) -> bool:
        """Whether it is being worked on here, or its agent lingers for more."""
        return conversation in self._active

    async def drain(self, timeout_s: float) -> None:
        self._is_ending = True
        for activity in self._active.values():
            activity.stop()
        failpoint("drain")
        await self._wait_quiet(timeout_s)
        for conversation in self._active:
            _log.warning("the turn of %s is left for the next start", conversation)
            self._agents.stop(conversation, SHUTDOWN)
        await self._wait_quiet(self._timing.last_grace)
        for activity in self._active.values():
            activity.scope.cancel()
        await self._wait_quiet(self._timing.last_grace)
        self._ended.set()

    async def _wait_quiet(self, timeout_s: float) -> None:
        with anyio.move_on_after(timeout_s):
            while self._active:
                self._quiet = anyio.Event()
                await self._quiet.wait()

    def _start(self, tasks: TaskGroup, conversation: ConversationId) -> None:
        activity = self._active[conversation] = Activity(conversation)
        tasks.start_soon(self._serve, activity, name=f"drain {conversation}")

    async def _serve(self, activity: Activity) -> None:
        failures = 0
        try:
            with activity.scope:
                while not self._is_ending:
                    ending = await self._drain.serve(activity)
                    if ending is Ending.FAILED:
                        failures += 1
                        with anyio.move_on_after(self._timing.backoff.wait_s(failures)):
                            await activity.stopped.wait()
                    elif ending in (Ending.BUSY, Ending.FENCED) and not activity.wake_event.rang:
                        return  # the other owner does it, or we find it when we look around
                    elif ending is Ending.EMPTY and not activity.wake_event.rang:
                        # From here to the removal below nothing waits, so no message can come in between.
                        return
                    else:
                        failures = 0  # or somebody rang meanwhile: a wake must not get lost
        finally:
            del self._active[activity.conversation]
            self.when_quiet(activity.conversation)
            if not self._active:
                self._quiet.set()

    async def _keep_leases(self) -> None:
        """Renew what we hold, so that a long turn keeps its lease; stop at once what we lost."""
        while True:
            await anyio.sleep(self._timing.heartbeat)
            before = {activity: activity.held for activity in self._active.values() if activity.held is not None}
            if not before:
                continue
            try:
                held = await self._leases.renew({lease.conversation for lease in before.values()})
            except TROUBLE as error:  # leases last for many heartbeats; the next one tries again
                _log.warning("the leases could not be renewed: %s", error)
                continue
            for activity, lease in before.items():
                if activity.held is lease and held.get(lease.conversation) != lease.run:
                    _log.warning("the lease of %s was lost; its turn is cut off", lease.conversation)
                    activity.scope.cancel()

    async def _keep_looking(self) -> None:
        """Find what is due: put-off work, and whatever a wake was lost for."""
        while True:
            pause = self._timing.look_around
            now = to_timestamp(self._clock.now())
            try:
                due = await self._database.read(partial(look_around, now=now))
            except TROUBLE as error:  # the storage is reported by itself; look again later
                _log.warning("could not look for work: %s", error)
            else:
                for conversation in due.with_work:
                    if conversation not in self._active:
                        self.wake(conversation)
                if due.next_at is not None:
                    pause = min(pause, max(0.0, (due.next_at - now) / 1_000_000))
            await anyio.sleep(pause)
