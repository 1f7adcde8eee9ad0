"""The registry of awake agents: one a conversation, bounded in number, put to sleep when idle (G-06, G-33)."""

import logging
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

import anyio

from agent.core.clock import Clock
from agent.core.ids import ConversationId
from agent.inbox import Source
from gateway.channels.keys import ConversationKey

# Contract of a conversation's agent, seen from the gateway; `agent.agent.Agent` implements it.


class Agent(Protocol):
    """The mind of one conversation, in memory; everything that matters is in the database."""

    def run(self, source: Source) -> Awaitable[None]:
        """Do all the work of the source. Raises Fenced when the conversation was taken, StorageTrouble and defects."""

    def stop(self, reason: str) -> bool:
        """Cancel the turn that is under way; False when there is none."""

    async def rest(self) -> None:
        """Nobody has needed it for long: it will be put to sleep now."""

    async def aclose(self) -> None:
        """Finish the work between turns and let go of everything."""


Wake = Callable[[ConversationId], Awaitable[Agent]]

CLOSING_S = 30.0  # for an agent to finish its work between turns
LOOK_S = 30.0
_log = logging.getLogger("tieline.conversations")


@dataclass(slots=True, eq=False)
class _Place:
    """Where the agent of one conversation lives; the lock keeps its waking, its use and its sleep apart."""

    lock: anyio.Lock = field(default_factory=partial(anyio.Lock, fast_acquire=True))
    users: int = 0  # who has it or waits for it
    agent: Agent | None = None
    idle_since: float = 0.0


class Registry:
    """Wakes agents by need and never has two for one conversation. An agent that runs is never put to sleep.

    `wake` builds an agent from the database. More than `most` stay awake only while they all run.
    """

    def __init__(self, wake: Wake, *, clock: Clock, idle_s: float = 1800.0, most: int = 1000) -> None:
        self._wake = wake
        self._clock = clock
        self._idle_s = idle_s
        self._most = most
        self._crowded = anyio.Event()
        self._places: OrderedDict[ConversationId, _Place] = OrderedDict()  # least recently used first

    @property
    def awake(self) -> tuple[ConversationId, ...]:
        return tuple(key for key, place in self._places.items() if place.agent is not None)

    def is_awake(self, conversation: ConversationId) -> bool:
        place = self._places.get(conversation)
        return place is not None and place.agent is not None

    @asynccontextmanager
    async def use(self, conversation: ConversationId) -> AsyncIterator[Agent]:
        """Have the agent for oneself; it is woken if it sleeps. Raises what `wake` raises."""
        place = self._places.setdefault(conversation, _Place())
        place.users += 1
        try:
            async with place.lock:
                if place.agent is None:
                    place.agent = await self._wake(conversation)
                self._places.move_to_end(conversation)
                yield place.agent
        finally:
            place.users -= 1
            place.idle_since = self._clock.monotonic()
            self._forget_if_empty(conversation, place)
            if len(self._places) > self._most:
                self._crowded.set()

    def stop(self, conversation: ConversationId, reason: str) -> bool:
        """Cancel the turn under way; False when there is none."""
        place = self._places.get(conversation)
        return place is not None and place.agent is not None and place.agent.stop(reason)

    def stop_within(self, place: ConversationId, reason: str, meant: Callable[[ConversationId], bool]) -> bool:
        """The same for every topic and thread of a place whose turn is meant."""
        within = [key for key in self._places if str(ConversationKey.parse(key).around) == place and meant(key)]
        return sum(self.stop(key, reason) for key in within) > 0

    async def forget(self, conversation: ConversationId) -> None:
        """Put the agent to sleep now, or as soon as it is free; fine when it sleeps."""
        place = self._places.get(conversation)
        if place is not None:
            await self._put_to_sleep(conversation, place)

    async def run(self) -> None:
        """Put agents to sleep that are idle or too many, until cancelled."""
        while True:
            with anyio.move_on_after(LOOK_S):
                await self._crowded.wait()
            self._crowded = anyio.Event()
            await self.tidy()

    async def tidy(self) -> None:
        """Put to sleep who has had nothing to do for the idle time, and the least used beyond the bound."""
        idle = [(key, place) for key, place in self._places.items() if place.users == 0]
        excess = max(len(self._places) - self._most, 0)
        before = self._clock.monotonic() - self._idle_s
        for number, (conversation, place) in enumerate(idle):
            # Asked again: others may have come while the one before was closing.
            if place.users == 0 and (number < excess or place.idle_since <= before):
                await self._put_to_sleep(conversation, place, idle=True)

    async def aclose(self) -> None:
        """Put all to sleep, several at a time."""
        async with anyio.create_task_group() as tasks:
            for conversation in tuple(self._places):
                tasks.start_soon(self.forget, conversation)

    async def _put_to_sleep(self, conversation: ConversationId, place: _Place, *, idle: bool = False) -> None:
        place.users += 1
        try:
            async with place.lock:
                agent, place.agent = place.agent, None
                if agent is not None:
                    await self._close(conversation, agent, idle=idle)
        finally:
            place.users -= 1
            self._forget_if_empty(conversation, place)

    async def _close(self, conversation: ConversationId, agent: Agent, *, idle: bool) -> None:
        with anyio.move_on_after(CLOSING_S, shield=True) as scope:
            try:
                if idle:
                    await agent.rest()
                await agent.aclose()
            except Exception:  # noqa: BLE001 - one agent's defect must not keep the others awake
                # Its turns are stored; what is lost is unfinished work between turns.
                _log.exception("the agent of %s did not close well", conversation)
        if scope.cancelled_caught:
            _log.warning("the agent of %s took more than %g s to close", conversation, CLOSING_S)

    def _forget_if_empty(self, conversation: ConversationId, place: _Place) -> None:
        if place.users == 0 and place.agent is None and self._places.get(conversation) is place:
            del self._places[conversation]
