"""Outlets: which process sends to a conversation (G-161).

A worker sends to the conversations that it has. Where nobody has one, processes of the role `delivery` send what is
due: what a dead worker left, alerts, words of other programs.
"""

import logging
from collections.abc import Callable, Sequence

import anyio
from sqlalchemy import Connection, bindparam, delete, insert, select, text

from agent.core.ids import ConversationId
from agent.storage import outbox_rows
from agent.storage.database import PROCESS, TROUBLE, Database
from agent.storage.outbox_rows import EphemeralRow
from agent.storage.process_tables import conversation_outlet
from agent.storage.statements import or_ignore

LOOK_S = 5.0  # for what nobody was told of

_TAKE = or_ignore(insert(conversation_outlet)).returning(conversation_outlet.c.conv)
_HOLDER = select(conversation_outlet.c.process).where(conversation_outlet.c.conv == bindparam("conversation"))
_GIVE_BACK = delete(conversation_outlet).where(
    conversation_outlet.c.process == PROCESS, conversation_outlet.c.conv == bindparam("conversation")
)
_UNSERVED = text(
    "select distinct conv from outbox where status in ('new', 'sending')"
    " and (not_before is null or not_before <= tieline_now())"
    " and not exists (select 1 from conversation_outlet where conversation_outlet.conv = outbox.conv)"
)

_log = logging.getLogger("tieline.cluster")


class ClusterOutlets:
    """Implements `gateway.delivery.outbox.delivery.Outlets`. `has` tells whether this process has a conversation."""

    def __init__(self, database: Database, has: Callable[[ConversationId], bool], *, delivers: bool) -> None:
        """`delivers`: this process sends what is due where no worker has the conversation."""
        self._database = database
        self._has = has
        self._delivers = delivers
        self._held: set[ConversationId] = set()
        self._stuck: set[ConversationId] = set()  # that could not be given back: nobody else may send there
        self._leaving: dict[ConversationId, anyio.Event] = {}  # those being given back
        self.when_idle: Callable[[ConversationId], None] = lambda conversation: None

    def serves(self, conversation: ConversationId) -> bool:
        return self._delivers or self._has(conversation) or conversation in self._stuck

    def holds(self, conversation: ConversationId) -> bool:
        return conversation in self._held

    async def take(self, conversation: ConversationId) -> Sequence[EphemeralRow] | None:
        def claim(conn: Connection) -> Sequence[EphemeralRow] | None:
            if conn.execute(_TAKE, {"conv": conversation, "process": PROCESS}).first() is not None:
                return outbox_rows.all_for(conn, conversation)
            holder = conn.execute(_HOLDER, {"conversation": conversation}).scalar()
            return () if holder == PROCESS else None

        while conversation in self._leaving:  # else its row would be found to be ours, and go at once
            await self._leaving[conversation].wait()
        left_over = await self._database.write(claim)
        if left_over is not None:
            self._held.add(conversation)
        return left_over

    async def rest(self, conversation: ConversationId) -> None:
        self.when_idle(conversation)
        if not self._has(conversation):
            await self.give_back(conversation)

    @property
    def held(self) -> Sequence[ConversationId]:
        """The conversations whose outlet is this process's."""
        return tuple(self._held)

    async def give_back(self, conversation: ConversationId) -> bool:
        """Let another send there. Never raises for trouble: False, and it is still this process that sends."""
        if conversation not in self._held:
            return True
        self._held.discard(conversation)
        left = self._leaving[conversation] = anyio.Event()
        try:
            await self._database.write(lambda conn: conn.execute(_GIVE_BACK, {"conversation": conversation}))
            self._stuck.discard(conversation)
            return True
        except TROUBLE as error:
            self._held.add(conversation)
            self._stuck.add(conversation)
            _log.warning("the outlet of %s could not be given back: %s", conversation, type(error).__name__)
            return False
        finally:
            del self._leaving[conversation]
            left.set()

    async def keep_looking(self, wake: Callable[[ConversationId], None]) -> None:
        """Find what is due where nobody sends, until cancelled."""
        while True:
            try:
                unserved = await self._database.read(lambda conn: conn.execute(_UNSERVED).scalars().all())
            except TROUBLE as error:
                _log.warning("could not look for what is due: %s", type(error).__name__)
            else:
                for conversation in unserved:
                    wake(ConversationId(conversation))
            await anyio.sleep(LOOK_S)
