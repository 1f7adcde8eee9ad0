"""Agents as the registry keeps them: woken with the stored choice of provider and persona, closed without loss."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

import anyio
from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from agent.agent import Agent
from agent.assembly import Shared, assemble
from agent.core.ids import ConversationId
from agent.core.outbox import Outbox
from agent.inbox import Source
from agent.operations import Operations
from agent.providers.registry import Registry
from agent.providers.slot import Choice, ProviderSlot
from agent.storage.errors import StorageError
from gateway.channels.keys import ConversationKey
from gateway.commands.model import PERSONA_SETTING
from gateway.storage import preferences, settings_rows
from gateway.storage.preferences import Preference

LOAD_WITHIN_S = 2.0  # a slow database must not keep a session from starting (SPEC §19.2)

_log = logging.getLogger("tieline.agents")


@dataclass(slots=True, kw_only=True)
class Awake:
    """`gateway.conversations.agents.Agent`: one agent in memory, and its voice, which lives as long."""

    conversation: ConversationId
    agent: Agent
    voice: Outbox
    closed: Callable[[ConversationId], object]

    async def run(self, source: Source) -> None:
        await self.agent.run(source)

    def stop(self, reason: str) -> bool:
        return self.agent.stop(reason)

    async def aclose(self) -> None:
        """Everything is in the database already."""
        self.closed(self.conversation)


class Waking:
    """Wakes agents, and knows those that are awake."""

    def __init__(
        self,
        shared: Shared,
        *,
        providers: Callable[[], Registry],
        outbox_for: Callable[[ConversationKey], Outbox],
        persistence: Callable[[], bool],
    ) -> None:
        self._shared = shared
        self._providers = providers
        self._outbox_for = outbox_for
        self._persistence = persistence
        self._awake: dict[ConversationId, Awake] = {}

    async def wake(self, conversation: ConversationId) -> Awake:
        """An agent with its stored preference and persona; defaults where they cannot be read (Z-66, Z-71)."""
        awake = await self._build(conversation)
        self._awake[conversation] = awake
        return awake

    async def operations(self, conversation: ConversationId) -> Operations:
        """What may be done to the conversation now, awake or not."""
        awake = self._awake.get(conversation)
        return (awake or await self._build(conversation)).agent.operations

    def give_way(self, conversation: ConversationId) -> None:
        """A person has written there: a turn of a goal's own ends soon."""
        awake = self._awake.get(conversation)
        if awake is not None:
            awake.agent.give_way()

    def goal_of(self, conversation: ConversationId) -> int | None:
        """The goal whose own turn runs there now."""
        awake = self._awake.get(conversation)
        return awake.agent.goal.working_on if awake is not None else None

    def running_since(self, conversation: ConversationId) -> datetime | None:
        awake = self._awake.get(conversation)
        return awake.agent.lifecycle.since if awake else None

    async def _build(self, conversation: ConversationId) -> Awake:
        key = ConversationKey.parse(conversation)
        slot = ProviderSlot(self._providers())
        preference, persona = await self._stored(key)
        if preference is not None:
            choice = Choice(provider=preference.provider, model=preference.model, source=preference.source)
            if not slot.restore(choice):
                _log.info("the provider that %s chose is gone; it uses the default", conversation)
        voice = self._outbox_for(key)
        agent = assemble(self._shared, conversation=conversation, outbox=voice, slot=slot, persona=persona)
        return Awake(conversation=conversation, agent=agent, voice=voice, closed=lambda key: self._awake.pop(key, None))

    async def _stored(self, key: ConversationKey) -> tuple[Preference | None, str | None]:
        """Its own choices, or those of the place around it."""
        places = [place for place in (key, key.around) if place is not None]

        def read(conn: Connection) -> tuple[Preference | None, str | None]:
            wanted = [preferences.load(conn, place.channel_type, place.channel_id) for place in places]
            personas = [settings_rows.get(conn, ConversationId(str(place)), PERSONA_SETTING) for place in places]
            preference = next(filter(None, wanted), None) if self._persistence() else None
            return preference, next(filter(None, personas), None)

        try:
            with anyio.fail_after(LOAD_WITHIN_S):
                return await self._shared.database.read(read)
        except (TimeoutError, StorageError, SQLAlchemyError) as error:
            reason = str(error).partition("\n")[0] or "too slow"
            _log.warning("the preferences of %s cannot be read, defaults are used: %s", key, reason)
            return None, None
