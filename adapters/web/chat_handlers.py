"""What people do on the page: admitted first, shown at once, kept when the gateway has taken it."""

import logging
from collections.abc import Sequence
from dataclasses import replace

from adapters.web.chat_session import ChatSession
from adapters.web.chat_sessions import ChatSessions
from adapters.web.parse import Posted, PostedPress, PostedStop, pressed, said, stop
from adapters.web.shown import Shown, ShownFile
from agent.core.clock import Clock
from gateway.channels.adapter import Admit, SignedIn
from gateway.channels.errors import GatewayUnavailable
from gateway.channels.inbound import Inbound, Outcome, Receipt
from gateway.channels.keys import ConversationKey

log = logging.getLogger("tieline.web")


class NotListening(Exception):
    """The gateway cannot take anything now; the page tries again by itself."""


class ChatHandlers:
    """`admit` is set while the adapter runs."""

    def __init__(self, channel_type: str, sessions: ChatSessions, clock: Clock) -> None:
        self._channel_type = channel_type
        self._sessions = sessions
        self._clock = clock
        self.admit: Admit | None = None

    async def say(
        self, channel_id: str, posted: Posted, files: Sequence[ShownFile], person: SignedIn, languages: str | None
    ) -> Receipt:
        """A message. Posting it again changes nothing, also after a restart: its id is the page's."""
        session = await self._sessions.open(channel_id)
        key = ConversationKey(self._channel_type, channel_id)
        inbound = said(key, posted, files, person=person, languages=languages, at=self._clock.now())
        known = session.get(posted.id)
        # Shown before it is admitted: the answer may come before `admit` returns, and belongs below it.
        shown = known or session.appear(id=posted.id, who="person", text=posted.text, files=tuple(files))
        try:
            receipt = await self._admit(inbound)
        except NotListening:
            if known is None:
                session.vanish(posted.id)
            raise
        if known is None:
            await self._keep(session, _noted(shown, receipt))
            self._sessions.notify_elsewhere(channel_id, shown)
        return receipt

    async def press(
        self, channel_id: str, posted: PostedPress, person: SignedIn, languages: str | None
    ) -> Receipt:  # fmt: skip
        """A button."""
        key = ConversationKey(self._channel_type, channel_id)
        return await self._admit(pressed(key, posted, person=person, languages=languages, at=self._clock.now()))

    async def stop(self, channel_id: str, posted: PostedStop, person: SignedIn, languages: str | None) -> Receipt:
        """The stop button."""
        key = ConversationKey(self._channel_type, channel_id)
        return await self._admit(stop(key, posted, person=person, languages=languages, at=self._clock.now()))

    async def _admit(self, inbound: Inbound) -> Receipt:
        if self.admit is None:
            raise NotListening("Tieline is starting or stopping")
        try:
            return await self.admit(inbound)
        except GatewayUnavailable as error:  # the page keeps the message and posts it again
            raise NotListening("the message could not be stored") from error

    async def _keep(self, session: ChatSession, shown: Shown) -> None:
        """The message is in the inbox already; a journal that cannot be written costs only the view after a restart."""
        try:
            if shown.note:
                await session.change(shown)
            await session.keep(shown)
        except OSError as error:
            log.warning("the web chat's journal cannot be written: %s", error)


def _noted(shown: Shown, receipt: Receipt) -> Shown:
    if receipt.outcome in {Outcome.ACCEPTED, Outcome.DUPLICATE}:
        return shown
    return replace(shown, note=receipt.reason or "not accepted")
