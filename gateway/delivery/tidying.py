"""Takes away what must not stay, as often as it takes: what an earlier process left, and what nobody wants any more.

A platform that cannot be reached now is asked again; what stays for hours keeps its note, for the next start.
"""

import logging
from collections.abc import Callable, Sequence

import anyio

from agent.core.clock import Clock
from agent.core.phrases import Phrases
from agent.storage.ephemeral_rows import EphemeralKind, EphemeralRow
from gateway.channels.channel import Channel
from gateway.channels.document import Plain
from gateway.channels.errors import ChannelError, ChannelRejected
from gateway.channels.keys import ConversationKey
from gateway.channels.outbound import Outbound
from gateway.delivery.ephemera import Ephemera
from gateway.delivery.leftovers import CALL_DEADLINE_S, LATE_S, located, persistently, take_away
from gateway.delivery.refs import Shown, decode

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
        self, key: ConversationKey, left_over: Sequence[EphemeralRow], keep: Sequence[Shown], language: str
    ) -> None:
        """What an earlier process left on the screen, all but `keep`."""
        async with anyio.create_task_group() as tasks:
            for row in left_over:
                shown = decode(row.ref)
                if row.kind != "preview" or shown not in keep:
                    tasks.start_soon(self.remove, key, row.kind, shown, language)

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

    async def remove(self, key: ConversationKey, kind: EphemeralKind, shown: Shown, language: str) -> None:
        """Take it away and strike its note; a question loses its buttons instead.

        What is not to be found by its key is looked for again: its request may still be carried out.
        """
        believed_at = self._clock.monotonic() + LATE_S

        async def attempt() -> bool:
            channel = self._channel_for(key)
            if channel is None:
                return False
            begun_at = self._clock.monotonic()
            try:
                with anyio.fail_after(CALL_DEADLINE_S):
                    found = await self._end(channel, kind, shown, language)
            except ChannelRejected:
                found = True  # gone already, or out of reach for good
            except (ChannelError, TimeoutError) as error:
                log.info("a %s is still there: %s", kind, error, extra={"conversation": str(key)})
                return False
            if not found and begun_at < believed_at:
                return False
            await self._ephemera.forget(key, kind, shown)
            return True

        await persistently(attempt, self._clock)

    async def _end(self, channel: Channel, kind: EphemeralKind, shown: Shown, language: str) -> bool:
        """False when it is not to be found."""
        if kind != "question" or not channel.capabilities.edits:
            return await take_away(channel, shown)
        if (sent := await located(channel, shown)) is not None:
            over = Outbound(document=(Plain(self._phrase("question_over", language)),))
            await channel.edit(sent, over)
        return sent is not None
