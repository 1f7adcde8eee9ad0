"""Takes away what must not stay, as often as it takes: what an earlier process left, and previews that nobody wants."""

import logging
from collections.abc import Callable, Sequence

import anyio

from agent.core.clock import Clock
from agent.core.phrases import Phrases
from agent.storage.ephemeral_rows import EphemeralRow
from gateway.channels.channel import Channel
from gateway.channels.errors import ChannelError, ChannelRejected
from gateway.channels.keys import ConversationKey
from gateway.delivery.ephemera import Ephemera
from gateway.delivery.leftovers import CALL_DEADLINE_S, clear, persistently, take_away
from gateway.delivery.refs import Shown

log = logging.getLogger("tieline.delivery")


class Tidying:
    """Jobs to be run beside everything else. `emoji` is the sign on a message that is being worked on, "" for none."""

    def __init__(
        self,
        channel_for: Callable[[ConversationKey], Channel | None],
        ephemera: Ephemera,
        clock: Clock,
        phrase: Phrases,
        emoji: Callable[[], str],
    ) -> None:
        self._channel_for = channel_for
        self._ephemera = ephemera
        self._clock = clock
        self._phrase = phrase
        self._emoji = emoji

    async def clear(
        self, channel: Channel, left_over: Sequence[EphemeralRow], keep: Sequence[Shown], language: str
    ) -> None:
        """What an earlier process left on the screen, all but `keep`."""
        left = left_over

        async def attempt() -> bool:
            nonlocal left
            left = await clear(channel, left, keep, self._ephemera, self._phrase, language)
            return not left

        await persistently(attempt, self._clock)

    async def unreact(self, key: ConversationKey, message: str) -> None:
        """The sign that an earlier process was at work on the message; its answer may set it again."""

        async def attempt() -> bool:
            channel, emoji = self._channel_for(key), self._emoji()
            if channel is None:
                return False
            if channel.presence is None or not channel.capabilities.reactions or not emoji:
                return True
            try:
                with anyio.fail_after(CALL_DEADLINE_S):
                    await channel.presence.react(message, emoji, on=False)
            except ChannelRejected:
                pass  # there is none
            except (ChannelError, TimeoutError):
                return False
            return True

        await persistently(attempt, self._clock)

    async def remove_preview(self, key: ConversationKey, shown: Shown) -> None:
        """One that no answer has taken the place of."""

        async def attempt() -> bool:
            channel = self._channel_for(key)
            if channel is None:
                return False
            try:
                with anyio.fail_after(CALL_DEADLINE_S):
                    await take_away(channel, shown)
            except ChannelRejected:
                pass  # gone already
            except (ChannelError, TimeoutError) as error:
                log.info("a preview is still there: %s", error, extra={"conversation": str(key)})
                return False
            await self._ephemera.forget(key, "preview", shown)
            return True

        await persistently(attempt, self._clock)
