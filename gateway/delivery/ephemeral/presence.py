"""Signs of life while a turn runs: "typing", and a reaction on the message being answered. One owner, a hard limit."""

import logging
from collections.abc import Awaitable, Callable

import anyio

from agent.core.clock import Clock
from gateway.channels.channel import Channel
from gateway.channels.channel import Presence as PresenceOfChannel
from gateway.channels.errors import ChannelBusy, ChannelError
from gateway.delivery.pacing import Holding
from gateway.delivery.sleep import InterruptibleSleep

log = logging.getLogger("tieline.delivery")

TYPING_AFTER_S = 0.15  # an answer that is there sooner needs no sign of life
REACT_AFTER_S = 0.6
TIME_TO_LIVE_S = 600.0
BUSY_PAUSE_S = 1.0  # before a busy process looks again whether it has time for signs of life
CALL_DEADLINE_S = 10.0
MOST_TRIES = 5  # to take a reaction back, once the platform has said when


class Presence:
    """`run` shows it until `end`, or until the limit: nothing keeps typing for ever.

    Its time begins when it is made; nothing is due before `TYPING_AFTER_S`, so it may be run that much later.
    """

    def __init__(
        self,
        channel: Channel,
        message_id: str | None,
        emoji: str,
        clock: Clock,
        is_busy: Callable[[], bool] = lambda: False,
    ) -> None:
        self._channel = channel
        self._message_id = message_id
        self._emoji = emoji
        self._clock = clock
        self._holding = Holding(is_busy)
        self._began = clock.monotonic()
        self.is_over = False
        self._rest = InterruptibleSleep(clock)

    def end(self) -> None:
        self.is_over = True
        self._rest.end()

    async def run(self) -> None:
        channel, capabilities = self._channel, self._channel.capabilities
        if channel.presence is None:
            return
        started = self._began
        may_react = capabilities.reactions and self._message_id is not None and bool(self._emoji)
        reacted = shown = False
        type_at, react_at = started + TYPING_AFTER_S, started + REACT_AFTER_S
        try:
            while not self.is_over and self._clock.monotonic() < started + TIME_TO_LIVE_S:
                now = self._clock.monotonic()
                types = capabilities.typing and now >= type_at
                reacts = may_react and not reacted and now >= react_at
                if (types or reacts) and self._holding.holds(now):
                    type_at, react_at = max(type_at, now + BUSY_PAUSE_S), max(react_at, now + BUSY_PAUSE_S)
                elif types:
                    shown = True
                    type_at = now + max(capabilities.typing_every_s, await self._try(channel.presence.typing()))
                elif reacts:
                    reacted = shown = True
                    await self._try(channel.presence.react(self._message_id or "", self._emoji))
                else:
                    if shown:  # all that was due
                        self._holding.went()
                        shown = False
                    due = [started + TIME_TO_LIVE_S]
                    if capabilities.typing:
                        due.append(type_at)
                    if may_react and not reacted:
                        due.append(react_at)
                    await self._rest.sleep(min(due) - now)
        finally:
            if reacted:
                await self._take_back(channel.presence)

    async def _take_back(self, presence: PresenceOfChannel) -> None:
        """Even when cancelled, but then once: what stays is the next start's."""
        with anyio.CancelScope(shield=True):
            pause_s = await self._try(presence.react(self._message_id or "", self._emoji, on=False))
        for _ in range(MOST_TRIES):
            if not pause_s:
                return
            await self._clock.sleep(pause_s)
            pause_s = await self._try(presence.react(self._message_id or "", self._emoji, on=False))

    async def _try(self, call: Awaitable[None]) -> float:
        """Do it; a failure only costs the sign of life. Gives how long the platform wants to be left alone."""
        try:
            with anyio.fail_after(CALL_DEADLINE_S):
                await call
        except ChannelBusy as error:
            return error.after_s
        except (ChannelError, TimeoutError) as error:
            log.debug("no sign of life: %s", error, extra={"conversation": str(self._channel.key)})
        return 0.0
