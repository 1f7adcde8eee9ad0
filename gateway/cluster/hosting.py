"""Hosting: one worker has a conversation for as long as there is something to do, and all that concerns it.

What arrived is taken in by the router of this very process, so commands, stops, approvals and questions meet the turn
that they are about in memory, as in a gateway of one process. Its agent stays here while it is awake.
"""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial

import anyio
from sqlalchemy import Connection, bindparam, delete, exists, insert, select, text

from agent.core.backoff import Backoff, Retries
from agent.core.clock import Clock
from agent.core.failpoints import failpoint
from agent.core.ids import ConversationId
from agent.storage import inbox_rows
from agent.storage.database import PROCESS, TROUBLE, Database
from agent.storage.process_tables import arrival, conversation_host
from agent.storage.statements import or_ignore
from agent.storage.timestamps import to_timestamp
from gateway.channels.inbound import Inbound, Receipt
from gateway.cluster import arrivals
from gateway.cluster.arrivals import Arrived
from gateway.cluster.engine import Engine, wake
from gateway.dispatch.local import LocalDispatcher

LOOK_S = 30.0  # for agents that have fallen asleep
RETRYING = Backoff(first_s=0.2, longest_s=5.0)

_HAVE = or_ignore(insert(conversation_host)).returning(conversation_host.c.conv)
_HOST = select(conversation_host.c.process).where(conversation_host.c.conv == bindparam("conversation"))
_LET_GO = delete(conversation_host).where(
    conversation_host.c.process == PROCESS, conversation_host.c.conv == bindparam("conversation")
)
# Work that waits for this process by name: nobody else would fetch it.
_HAND_OVER = text(
    "update procrastinate_jobs set queue_name = 'turns' where queueing_lock = :conversation and status = 'todo'"
)
_ARRIVED = select(exists(select(arrival.c.id).where(arrival.c.conv == bindparam("conversation"))))

_log = logging.getLogger("tieline.cluster")

Admit = Callable[[Inbound], Awaitable[Receipt]]


@dataclass(slots=True, eq=False)
class _Hosted:
    """One conversation while its job runs here."""

    rang: anyio.Event = field(default_factory=anyio.Event)

    def ring(self) -> None:
        self.rang.set()

    def silence(self) -> None:
        if self.rang.is_set():
            self.rang = anyio.Event()


@dataclass(frozen=True, slots=True, kw_only=True)
class Others:
    """The rest of the process, as far as hosting needs it.

    `admit` is the router's; `delivers` tells whether something is on its way to the conversation; `opened` is told, and
    awaited, when it is had from now on, and `closed` when it is let go: False when it could not be.
    """

    admit: Admit
    delivers: Callable[[ConversationId], bool]
    opened: Callable[[ConversationId], Awaitable[object]]
    closed: Callable[[ConversationId], Awaitable[bool]]
    is_awake: Callable[[ConversationId], bool]


class Hosting:
    """Implements `gateway.dispatch.dispatcher.Dispatcher` in a process that shares the database."""

    def __init__(self, local: LocalDispatcher, database: Database, clock: Clock, *, works: bool) -> None:
        """`works` False: this process wakes workers and is none."""
        self.local = local
        self.works = works
        self._database = database
        self._clock = clock
        self._hosted: dict[ConversationId, _Hosted] = {}
        self._had: set[ConversationId] = set()  # by this process, whether or not their job runs
        self._leaving: dict[ConversationId, anyio.Event] = {}  # those being let go
        self._woken: set[ConversationId] = set()
        self._news = anyio.Event()
        self._others: Others | None = None
        self._engine: Engine | None = None
        self._is_ending = False
        self._ended = anyio.Event()
        local.when_quiet = self.ring

    def connect(self, others: Others, engine: Callable[[Callable[[ConversationId], Awaitable[None]]], Engine]) -> None:
        """Before `run`: with the rest of the process, and what makes the engine."""
        self._others = others
        self._engine = engine(self.host) if self.works else None

    # -- Dispatcher

    def wake(self, conversation: ConversationId, row: int | None = None) -> None:
        if conversation in self._hosted:
            self.local.wake(conversation, row)
        else:
            self._woken.add(conversation)
            self._news.set()

    def expect(self, conversation: ConversationId) -> None:
        """Nothing is begun before the commit: PostgreSQL has many writers."""

    def is_running(self, conversation: ConversationId) -> bool:
        return self.local.is_running(conversation)

    @property
    def running(self) -> tuple[ConversationId, ...]:
        """The conversations that have a turn under way here."""
        return self.local.running

    async def run(self) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._keep_waking)
            tasks.start_soon(self._keep_letting_go)
            if self._engine is not None:
                tasks.start_soon(self.local.run)
                tasks.start_soon(self._engine.run)
                tasks.start_soon(self._engine.keep_recovering)
            await self._ended.wait()
            tasks.cancel_scope.cancel()

    async def drain(self, timeout_s: float) -> None:
        self._is_ending = True
        if self._engine is not None:
            self._engine.stop()
            await self._let_go_of_idle()  # who writes there meanwhile is answered by another worker
            await self.local.drain(timeout_s)
        for hosted in self._hosted.values():
            hosted.ring()
        with anyio.move_on_after(5.0):
            while self._hosted:  # noqa: ASYNC110 - at the end of the process, for a moment
                await anyio.sleep(0.02)
            if self._engine is not None:
                await self._engine.ended.wait()  # else a job that is done would be taken for one of a dead worker
        self._ended.set()

    # -- what others tell

    def heard(self, conversation: ConversationId) -> None:
        """There is work for a conversation that this process has."""
        if conversation in self._hosted:
            self._hosted[conversation].ring()
            self.local.wake(conversation)

    def heard_anew(self) -> None:
        """Notifications may have been lost: look everywhere."""
        for conversation in list(self._hosted):
            self.heard(conversation)

    def has(self, conversation: ConversationId) -> bool:
        """Whether this process has it, be it at rest."""
        return conversation in self._had

    # -- a job

    async def host(self, conversation: ConversationId) -> None:
        """Do all there is to do; returns when nothing is left.

        A defect goes to the engine, which logs it; its recovery finds what is left.
        """
        assert self._others is not None
        hosted = self._hosted[conversation] = _Hosted()
        try:
            if await self._open(conversation):
                await self._serve(conversation, hosted)
        except TROUBLE as error:
            _log.warning("%s is left to the recovery: %s", conversation, type(error).__name__)
        finally:
            del self._hosted[conversation]
            if self._is_ending or not self._others.is_awake(conversation):
                with anyio.CancelScope(shield=True), anyio.move_on_after(5.0):
                    await self.let_go(conversation)

    async def _open(self, conversation: ConversationId) -> bool:
        """Whether it is ours now; else the process that has it, or is about to, is woken."""
        assert self._others is not None
        while conversation in self._leaving:
            await self._leaving[conversation].wait()
        if conversation not in self._had:
            if not await self._database.write(partial(_have, conversation=conversation)):
                return False
            self._had.add(conversation)
        await self._others.opened(conversation)
        return True

    async def let_go(self, conversation: ConversationId) -> None:
        """Any worker may have it next. One that is hosted, or still being sent to, stays."""
        assert self._others is not None
        is_leaving = conversation in self._leaving or self._others.delivers(conversation)
        if conversation in self._hosted or conversation not in self._had or is_leaving:
            return
        left = self._leaving[conversation] = anyio.Event()
        try:
            if await self._others.closed(conversation):
                await self._database.write(partial(_let_go, conversation=conversation))
                self._had.discard(conversation)
        except TROUBLE as error:
            _log.warning("%s could not be let go: %s", conversation, type(error).__name__)
        finally:
            del self._leaving[conversation]
            left.set()

    async def _let_go_of_idle(self) -> None:
        for conversation in list(self._had):
            await self.let_go(conversation)

    async def _serve(self, conversation: ConversationId, hosted: _Hosted) -> None:
        assert self._others is not None
        retries = Retries(RETRYING)
        found = await self._database.read(partial(_look, conversation=conversation, now=self._now()))
        arrived, has_work = found
        while True:
            if has_work and not self._is_ending:
                self.local.wake(conversation)
            for row in arrived:
                if self._is_ending or not await self._taken_in(row):
                    break
                retries.succeeded()
            else:
                if self.local.is_active(conversation) or self._others.delivers(conversation):
                    await hosted.rang.wait()
            if self._is_ending:
                if not self.local.is_active(conversation):
                    return
                await hosted.rang.wait()
            hosted.silence()
            try:
                arrived, has_work = await self._database.read(
                    partial(_look, conversation=conversation, now=self._now())
                )
            except TROUBLE as error:
                _log.warning("could not look for what arrived: %s", type(error).__name__)
                await self._clock.sleep(retries.failed())
                continue
            is_busy = self.local.is_active(conversation) or self._others.delivers(conversation)
            if not arrived and not is_busy and not (has_work and not self._is_ending):
                return

    async def _taken_in(self, row: Arrived) -> bool:
        """Whether it is done with; what fails by a defect is tried again, and given up by the router in the end."""
        assert self._others is not None
        try:
            if row.inbound is None or row.tries > arrivals.MOST_TRIES:
                at = self._clock.now()
                await self._database.write(lambda conn: arrivals.put_aside(conn, row, at))
                return True
            receipt = await self._others.admit(row.inbound)
            failpoint("arrival.taken")
            await self._database.write(lambda conn: arrivals.taken_in(conn, row, receipt))
        except Exception as error:  # noqa: BLE001 - the channel seam
            _log.warning("what arrived could not be taken in yet: %s", type(error).__name__)
            await self._clock.sleep(RETRYING.first_s)
            return False
        return True

    def ring(self, conversation: ConversationId) -> None:
        """Something that its job waits for is over."""
        if conversation in self._hosted:
            self._hosted[conversation].ring()

    async def _keep_waking(self) -> None:
        """Have workers woken for what this process was told of and does not host."""
        while True:
            await self._news.wait()
            self._news = anyio.Event()
            while self._woken:
                conversation = self._woken.pop()
                if conversation in self._hosted:
                    self.local.wake(conversation)
                    continue
                try:
                    await self._database.write(partial(wake, conversation=conversation))
                except TROUBLE as error:  # workers look for work without a wake-up
                    _log.warning("nobody could be woken for %s: %s", conversation, type(error).__name__)

    async def _keep_letting_go(self) -> None:
        """Conversations whose agent has fallen asleep may go to any worker."""
        while True:
            await anyio.sleep(LOOK_S)
            for conversation in list(self._had):
                if self._others is not None and not self._others.is_awake(conversation):
                    await self.let_go(conversation)

    def _now(self) -> int:
        return to_timestamp(self._clock.now())


def _have(conn: Connection, conversation: ConversationId) -> bool:
    """Whether this process has it from now on. Two wake-ups may be on their way before anybody does."""
    is_new = conn.execute(_HAVE, {"conv": conversation, "process": PROCESS}).first() is not None
    if not is_new and conn.execute(_HOST, {"conversation": conversation}).scalar() != PROCESS:
        wake(conn, conversation)
        return False
    arrivals.tried(conn, conversation)
    return True


def _let_go(conn: Connection, conversation: ConversationId) -> None:
    conn.execute(_LET_GO, {"conversation": conversation})
    conn.execute(_HAND_OVER, {"conversation": conversation})


def _look(conn: Connection, *, conversation: ConversationId, now: int) -> tuple[list[Arrived], bool]:
    return list(arrivals.waiting(conn, conversation)), inbox_rows.has_due(conn, conversation, now=now)
