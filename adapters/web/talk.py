"""What people do on the page: admitted first, shown at once, kept when the gateway has taken it."""

import logging
from collections.abc import Sequence
from dataclasses import replace

from adapters.web.parse import Posted, PostedPress, PostedStop, pressed, said, stop
from adapters.web.room import Room
from adapters.web.rooms import Rooms
from adapters.web.shown import Shown, ShownFile
from agent.core.clock import Clock
from gateway.channels.adapter import Admit, SignedIn
from gateway.channels.errors import HouseTrouble
from gateway.channels.inbound import Inbound, Outcome, Receipt
from gateway.channels.keys import ConversationKey

log = logging.getLogger("tieline.web")


class NotListening(Exception):
    """The gateway cannot take anything now; the page tries again by itself."""


class Talk:
    """`admit` is set while the adapter runs."""

    def __init__(self, channel_type: str, rooms: Rooms, clock: Clock) -> None:
        self._channel_type = channel_type
        self._rooms = rooms
        self._clock = clock
        self.admit: Admit | None = None

    async def say(
        self, channel_id: str, posted: Posted, files: Sequence[ShownFile], person: SignedIn, languages: str | None
    ) -> Receipt:
        """A message. Posting it again changes nothing, also after a restart: its id is the page's."""
        room = await self._rooms.open(channel_id)
        key = ConversationKey(self._channel_type, channel_id)
        inbound = said(key, posted, files, person=person, languages=languages, at=self._clock.now())
        known = room.get(posted.id)
        # Shown before it is admitted: the answer may come before `admit` returns, and belongs below it.
        shown = known or room.appear(id=posted.id, who="person", text=posted.text, files=tuple(files))
        try:
            receipt = await self._admit(inbound)
        except NotListening:
            if known is None:
                room.vanish(posted.id)
            raise
        if known is None:
            await self._keep(room, _noted(shown, receipt))
            self._rooms.tell_elsewhere(channel_id, shown)
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
        except HouseTrouble as error:  # the page keeps the message and posts it again
            raise NotListening("the message could not be stored") from error

    async def _keep(self, room: Room, shown: Shown) -> None:
        """The message is in the inbox already; a journal that cannot be written costs only the view after a restart."""
        try:
            if shown.note:
                await room.change(shown)
            await room.keep(shown)
        except OSError as error:
            log.warning("the web chat's journal cannot be written: %s", error)


def _noted(shown: Shown, receipt: Receipt) -> Shown:
    if receipt.outcome in {Outcome.ACCEPTED, Outcome.DUPLICATE}:
        return shown
    return replace(shown, note=receipt.reason or "not accepted")
