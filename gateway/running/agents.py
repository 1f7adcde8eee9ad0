"""Agents as the registry keeps them: woken with the stored choice of provider and persona, closed without loss."""

import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial

import anyio
from sqlalchemy.exc import SQLAlchemyError

from agent.agent import Agent
from agent.assembly import Shared, assemble
from agent.compaction.stages import badge_of, colour_of
from agent.core.errors import AgentInvalid, AgentMissing, NoModelAllowed
from agent.core.ids import ConversationId
from agent.core.outbox import Outbox
from agent.inbox import Source
from agent.operations import Operations
from agent.providers.registry import Registry
from agent.providers.routing import Patterns, ProviderSlot
from agent.run.settings import DEFAULT_WINDOW
from agent.storage.errors import StorageError
from agent.storage.timestamps import to_timestamp
from gateway.channels.adapter import Fullness
from gateway.channels.keys import ConversationKey
from gateway.commands.place.fields import models_allowed
from gateway.commands.place.provider import PERSONA_SETTING, Held, held
from gateway.config.live import Live
from gateway.conversations.place_settings import PlaceSettings, account_of

LOAD_WITHIN_S = 2.0  # a slow database must not keep a session from starting

_log = logging.getLogger("tieline.agents")


@dataclass(slots=True, kw_only=True)
class ActiveAgent:
    """`gateway.conversations.registry.Agent`: one agent in memory, and its voice, which lives as long."""

    conversation: ConversationId
    agent: Agent
    voice: Outbox
    closed: Callable[[ConversationId], object]
    read_again: Callable[[], Awaitable[bool]] | None = None  # while its choices could not be read

    def run(self, source: Source) -> Awaitable[None]:
        """Do all the work of the source, with its choices, if they can be read by now."""
        return self.agent.run(source) if self.read_again is None else self._read_and_run(source, self.read_again)

    async def _read_and_run(self, source: Source, read_again: Callable[[], Awaitable[bool]]) -> None:
        if await read_again():
            self.read_again = None
        await self.agent.run(source)

    def stop(self, reason: str) -> bool:
        return self.agent.stop(reason)

    async def rest(self) -> None:
        """Run what operators want done at a session's end."""
        await self.agent.rest()

    async def aclose(self) -> None:
        """Everything is in the database already but what is made between turns, which goes with it."""
        self.agent.close()
        self.closed(self.conversation)


class AgentFactory:
    """Wakes agents, and knows those that are awake."""

    def __init__(
        self,
        shared: Shared,
        providers: Registry,
        settings: PlaceSettings,
        *,
        outbox_for: Callable[[ConversationKey], Outbox],
        live: Live,
    ) -> None:
        self._shared = shared
        self._providers = providers
        self._settings = settings
        self._outbox_for = outbox_for
        self._live = live
        self._awake: dict[ConversationId, ActiveAgent] = {}

    async def wake(self, conversation: ConversationId) -> ActiveAgent:
        """An agent with its stored preference and persona; defaults until they can be read (Z-66, Z-71)."""
        awake = await self._build(conversation)
        self._awake[conversation] = awake
        awake.agent.operations.publish_budget()
        return awake

    async def operations(self, conversation: ConversationId) -> Operations:
        """Operations on the conversation now, awake or not."""
        awake = self._awake.get(conversation)
        return (awake or await self._build(conversation)).agent.operations

    def held(self, key: ConversationKey) -> Held:
        """The provider that was chosen for the place."""
        return held(self._settings, key, kept=self._live.settings.session.provider_persistence)

    def models_allowed(self, key: ConversationKey) -> Sequence[Patterns]:
        """Lists of patterns of the models that may answer in the next turn there; none: every one."""
        return models_allowed(self._settings, key)

    def refresh(self, place: ConversationKey) -> None:
        """Something was chosen there: let those who are awake in it follow."""
        for conversation, awake in self._awake.items():
            key = ConversationKey.parse(conversation)
            if place in (key, *self._settings.around(key), account_of(key)):
                self._follow(key, awake)

    def reloaded(self) -> None:
        """The file may say something else of places: let all who are awake follow."""
        for conversation, awake in self._awake.items():
            self._follow(ConversationKey.parse(conversation), awake)

    def _follow(self, key: ConversationKey, awake: ActiveAgent) -> None:
        """Use provider and persona that hold there now, but for a provider that was chosen in this very chat, which may
        be kept nowhere else (Z-68)."""
        operations, own = awake.agent.operations, awake.agent.provider.slot.choice
        if own.source == "default" or own.scope != "channel":
            operations.take_choice(self.held(key).choice)
        persona = self._settings.get(PERSONA_SETTING, key)
        if persona != awake.agent.instruction.name:
            try:
                operations.switch_persona(persona)
            except (AgentMissing, AgentInvalid) as error:
                _log.warning("the persona of %s cannot be loaded: %s", key, error)

    def in_use(self, conversation: ConversationId) -> tuple[str, str] | None:
        """Provider and model that answer there now; None while nobody is awake."""
        awake = self._awake.get(conversation)
        if awake is None:
            return None
        state = awake.agent.provider
        provider = state.slot.current()
        with suppress(NoModelAllowed):  # the current one is told where none may answer
            provider = next((other for other in state.slot.route()[1:] if other.name == state.fallback), provider)
        return provider.name, provider.model

    def give_way(self, conversation: ConversationId) -> None:
        """A person has written there: a turn of a goal's own ends soon."""
        awake = self._awake.get(conversation)
        if awake is not None:
            awake.agent.give_way()

    def goal_of(self, conversation: ConversationId) -> int | None:
        """The goal whose own turn runs there now."""
        awake = self._awake.get(conversation)
        return awake.agent.lifecycle.goal if awake is not None else None

    def plan_of(self, conversation: ConversationId) -> int | None:
        """The plan that is worked on there now."""
        awake = self._awake.get(conversation)
        return awake.agent.command.planning.working_on if awake is not None else None

    def works_by_itself(self, conversation: ConversationId) -> bool:
        """Whether the turn that runs there is a goal's or a plan's own, which gives way to people."""
        return self.goal_of(conversation) is not None or self.plan_of(conversation) is not None

    def fullness(self, key: ConversationKey) -> Fullness | None:
        """How full the window is there, as /status tells it; None while nobody is awake or no model was asked."""
        awake = self._awake.get(ConversationId(str(key)))
        if awake is None:
            return None
        agent, now_ms = awake.agent, to_timestamp(self._shared.services.clock.now()) // 1000
        used, window = agent.metrics.context_tokens, agent.provider.slot.current().context_window or DEFAULT_WINDOW
        tally = agent.message.compaction.tally
        colour = colour_of(used, window)
        if not used or colour is None:
            return None
        badge = badge_of(tally.last_before, tally.last_after, tally.last_at_ms, now_ms)
        subgoal = agent.message.compaction.working_on
        return Fullness(used=used, window=window, colour=colour, badge=badge, subgoal=subgoal)

    def running_since(self, conversation: ConversationId) -> datetime | None:
        awake = self._awake.get(conversation)
        return awake.agent.lifecycle.since if awake else None

    def is_ending(self, conversation: ConversationId) -> bool:
        """Whether a turn runs there that was told to stop."""
        awake = self._awake.get(conversation)
        return awake is not None and awake.agent.lifecycle.is_ending

    def is_meant(self, conversation: ConversationId, stop_at: datetime) -> bool:
        """Whether a stop that was said at that moment is for the turn that runs there now."""
        awake = self._awake.get(conversation)
        return awake is None or awake.agent.lifecycle.is_meant(stop_at)

    async def _build(self, conversation: ConversationId) -> ActiveAgent:
        key = ConversationKey.parse(conversation)
        slot = ProviderSlot(self._providers, partial(self.models_allowed, key))
        stored = await self._stored(key)
        held, persona = stored or (Held(), None)
        if held.choice is not None and not slot.restore(held.choice):
            _log.info("the provider that holds for %s is gone; it uses the default", conversation)
        voice = self._outbox_for(key)
        agent = assemble(self._shared, conversation=conversation, outbox=voice, slot=slot, persona=persona)
        return ActiveAgent(
            conversation=conversation,
            agent=agent,
            voice=voice,
            closed=lambda key: self._awake.pop(key, None),
            read_again=None if stored else partial(self._caught_up, key, agent.operations),
        )

    async def _caught_up(self, key: ConversationKey, operations: Operations) -> bool:
        """Whether the choices could be read this time, and hold from now on."""
        stored = await self._stored(key)
        if stored is None:
            return False
        held, persona = stored
        if persona is not None:
            try:
                operations.switch_persona(persona)
            except (AgentMissing, AgentInvalid) as error:
                _log.warning("the persona of %s cannot be loaded: %s", key, error)
        operations.take_choice(held.choice)
        return True

    async def _stored(self, key: ConversationKey) -> tuple[Held, str | None] | None:
        """Its own choices, or those of the places around it; None when they cannot be read in time."""

        kept = self._live.settings.session.provider_persistence
        try:
            with anyio.fail_after(LOAD_WITHIN_S):
                read = partial(self._settings.snapshot, place=key)
                snapshot = await self._shared.services.database.read(read)
        except (TimeoutError, StorageError, SQLAlchemyError) as error:
            reason = str(error).partition("\n")[0] or "too slow"
            _log.warning("the preferences of %s cannot be read, defaults are used: %s", key, reason)
            return None
        self._settings.keep(snapshot)
        persona = self._settings.find(PERSONA_SETTING, key, snapshot)
        chosen = persona.chosen_in is not None or persona.section
        return held(self._settings, key, kept=kept, snapshot=snapshot), persona.value if chosen else None
