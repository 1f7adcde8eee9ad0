"""Drains one conversation's inbox: takes its lease, lends its agent the work, frees the lease, whatever happens."""

import logging
from collections import Counter
from enum import Enum

import anyio
from sqlalchemy import Connection

from agent.core.cancellation import first_error
from agent.core.clock import Clock
from agent.core.errors import Fenced, LockTimeout, Permanent
from agent.core.ids import ConversationId
from agent.storage import inbox_rows, outbox_rows
from agent.storage.database import Database
from agent.storage.errors import StorageTrouble
from agent.storage.timestamps import to_timestamp
from gateway.dispatch.dispatcher import Agents, DispatchDeps, Timing, WakeEvent
from gateway.dispatch.source import Held, InboxSource, Leases, Trouble

_log = logging.getLogger("tieline.dispatch")


class Ending(Enum):
    EMPTY = "nothing is left to do"
    LEFT = "the agent ended by itself"
    FENCED = "another owner has the conversation"
    BUSY = "another owner keeps the conversation"
    FAILED = "the agent or the storage failed"


class Activity:
    """One conversation that is being worked on in this process; its state between two drains of it."""

    def __init__(self, conversation: ConversationId) -> None:
        self.conversation = conversation
        self.wake_event = WakeEvent()
        self.scope = anyio.CancelScope()
        self.forgiven: Counter[int] = Counter()
        self.held: Held | None = None
        self.source: InboxSource | None = None
        self.stopped = anyio.Event()

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
        except Trouble as error:
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
        except Trouble as error:
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
