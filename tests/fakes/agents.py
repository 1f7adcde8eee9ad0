"""A small agent that answers each piece of work with its words, and a dispatcher around it on a real database."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial

import anyio
from sqlalchemy import Connection, func, select

from agent.core.clock import Clock, SystemClock
from agent.core.ids import ConversationId, PersonId, random_uuid
from agent.core.messages import FilePart
from agent.core.outbox import OutgoingMessage
from agent.inbox import Incoming, Source, Work
from agent.storage import inbox_rows, outbox_rows
from agent.storage.database import Database, check_epoch
from agent.storage.payloads import decode_outgoing, encode_incoming
from agent.storage.tables import inbox, outbox
from agent.storage.timestamps import to_timestamp
from gateway.conversations.registry import Registry
from gateway.dispatch.dispatcher import DeadLetter, DispatchDeps, Timing
from gateway.dispatch.local import Drain, LocalDispatcher
from gateway.dispatch.source import Leases

Turn = Callable[[Work], Awaitable[None]]

QUICK = Timing(linger=0.05, look_around=0.2, heartbeat=0.05, first_pause=0.01, longest_pause=0.05, last_grace=0.2)


def statuses(conn: Connection) -> dict[str, int]:
    """The number of messages in the inbox, by status."""
    rows = conn.execute(select(inbox.c.status, func.count()).group_by(inbox.c.status))
    return {str(row[0]): int(row[1]) for row in rows}


async def nothing(_: Work) -> None:
    """A turn without anything in it."""


class EchoAgent:
    """Runs `turn` for each piece of work, then says its words back and ends it, in one fenced transaction."""

    def __init__(self, conversation: ConversationId, database: Database, turn: Turn) -> None:
        self.conversation = conversation
        self.database = database
        self.turn = turn
        self.stopped_for: list[str] = []
        self.is_closed = False

    async def run(self, source: Source) -> None:
        async for work in source:
            await self.turn(work)
            await self.database.write(partial(self._commit, work=work))

    def stop(self, reason: str) -> bool:
        self.stopped_for.append(reason)
        return True

    async def rest(self) -> None:
        """It has nothing to put away."""

    async def aclose(self) -> None:
        self.is_closed = True

    def _commit(self, conn: Connection, work: Work) -> None:
        check_epoch(conn, self.conversation, work.epoch)
        outbox_rows.add(
            conn,
            conversation=self.conversation,
            inbox_id=work.inbox_id,
            part=0,
            dedup=f"turn:{work.inbox_id}:0",
            say=OutgoingMessage(text=work.incoming.text, kind="reply"),
            at=to_timestamp(datetime.now(UTC)),
        )
        inbox_rows.finish(conn, work.inbox_ids, "done", work.epoch)


class House:
    """Registry, drain and local dispatcher over one database, with a turn that the test gives."""

    def __init__(
        self,
        database: Database,
        turn: Turn = nothing,
        *,
        make: Callable[[ConversationId, Database, Turn], EchoAgent] = EchoAgent,
        timing: Timing = QUICK,
        clock: Clock | None = None,
        worker: str = "me",
        is_alone: bool = True,
    ) -> None:
        self.database = database
        self.turn = turn
        self.make = make
        self.timing = timing
        self.clock = clock or SystemClock()
        self.given: list[Work] = []
        self.dead: list[DeadLetter] = []
        self.delivered: list[ConversationId] = []
        self.woken: list[EchoAgent] = []
        self.registry = Registry(self._wake, clock=self.clock)
        deps = DispatchDeps(
            zone_of=lambda conn, incoming: incoming.zone or "UTC",
            notice=lambda dead: OutgoingMessage(text=f"gave up: {dead.incoming.text}", kind="notice"),
            locked=lambda incoming: OutgoingMessage(text=f"locked: {incoming.text}", kind="notice"),
            deliver=self.delivered.append,
            on_dead=self.dead.append,
        )
        self.leases = Leases(database, clock=self.clock, new_id=random_uuid, worker=worker, timing=timing)
        self.drain = Drain(
            database=database,
            clock=self.clock,
            leases=self.leases,
            agents=self.registry,
            deps=deps,
            timing=timing,
        )
        self.dispatcher = LocalDispatcher(
            self.drain,
            database=database,
            clock=self.clock,
            leases=self.leases,
            agents=self.registry,
            deps=deps,
            timing=timing,
            is_alone=is_alone,
        )

    async def _wake(self, conversation: ConversationId) -> EchoAgent:
        self.woken.append(self.make(conversation, self.database, self._turn))
        return self.woken[-1]

    async def _turn(self, work: Work) -> None:
        self.given.append(work)
        await self.turn(work)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """The dispatcher runs inside the block; leaving it is a kill, not a drain."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self.dispatcher.run)
            yield
            tasks.cancel_scope.cancel()

    async def says(self, conversation: str, text: str) -> inbox_rows.Admitted:
        """Store a person's message, then wake the dispatcher."""
        admitted = await admit(self.database, conversation, text)
        self.dispatcher.wake(ConversationId(conversation))
        return admitted


async def admit(
    database: Database,
    conversation: str,
    text: str,
    *,
    dedup: str | None = None,
    event: str | None = None,
    ref: str | None = None,
    kind: str = "message",
    at: datetime | None = None,
    person: str = "telegram:1",
    files: tuple[FilePart, ...] = (),
    quoted: str | None = None,
    notes: tuple[str, ...] = (),
    not_before: int | None = None,
    limit: int | None = inbox_rows.MAX_WAITING,
) -> inbox_rows.Admitted:
    """Store a message as the router does."""
    at = at or datetime.now(UTC)
    incoming = Incoming(
        text=text, person=PersonId(person), received_at=at, files=files, quoted=quoted, notes=notes, message_ref=ref
    )
    return await database.write(
        lambda conn: inbox_rows.admit(
            conn,
            conversation=ConversationId(conversation),
            kind=kind,  # type: ignore[arg-type] # one of the three
            dedup=dedup or random_uuid(),
            event_dedup=event,
            platform_ref=ref,
            payload=encode_incoming(incoming),
            at=to_timestamp(at),
            not_before=not_before,
            limit=limit,
        )
    )


async def answers(database: Database, conversation: str | None = None) -> list[str]:
    """Messages, in order."""
    query = select(outbox.c.payload).order_by(outbox.c.id)
    if conversation is not None:
        query = query.where(outbox.c.conv == conversation)
    rows = await database.read(lambda conn: conn.execute(query).scalars().all())
    return [decode_outgoing(row).text for row in rows]
