"""Signs of life: the status line of a thread and reactions."""

import logging
from collections import OrderedDict
from contextlib import suppress

from adapters.slack.address import Address
from adapters.slack.api import SlackApi
from adapters.slack.emoji import emoji_name
from adapters.slack.refusals import AlreadyDone
from gateway.channels.adapter import Surroundings
from gateway.channels.errors import ChannelError, ChannelFatal, ChannelRejected

log = logging.getLogger("tieline.slack")

TYPING_EVERY_S = 20.0
FADES_AFTER_S = 45.0  # Slack itself keeps a status for two minutes
DEFAULT_STATUS = "is thinking…"
_STATUS_LIMIT = 100
MOST = 4096


class Statuses:
    """The status lines of one account that are showing, so that each is taken back in time (PEERS §3.18)."""

    def __init__(self, api: SlackApi, surroundings: Surroundings) -> None:
        self._api = api
        self._clock = surroundings.clock
        self._showing: OrderedDict[Address, tuple[str, float]] = OrderedDict()
        self._under_way: dict[Address, bool] = {}  # being set, and whether the bot wrote meanwhile
        self._refused: OrderedDict[Address, None] = OrderedDict()

    async def show(self, address: Address, status: str, *, lasts: bool = False) -> bool:
        """False where Slack has no status line; it is not asked there again.

        One that `lasts` stands until it is cleared, also below words that the bot is just beginning to say.
        """
        now = self._clock.monotonic()
        known = self._showing.get(address)
        if address in self._refused:
            return False
        if known is not None and known[0] == status and now < known[1] - FADES_AFTER_S + TYPING_EVERY_S / 2:
            return True
        self._under_way[address] = False
        try:
            is_set = await self._set(address, status)
        finally:
            too_late = self._under_way.pop(address, False)
        if is_set and too_late:  # words came meanwhile: before it, and it stands, or after it, and it is gone
            is_set = await self._set(address, status if lasts else "") and lasts
        if is_set:
            self._showing[address] = (status, now + FADES_AFTER_S)
        return address not in self._refused

    def showing(self, address: Address) -> str:
        """The status that stands there; "" for none."""
        known = self._showing.get(address)
        return known[0] if known is not None else ""

    def replied(self, address: Address) -> None:
        """Slack takes the status away when the bot writes in the thread."""
        self._showing.pop(address, None)
        if address in self._under_way:
            self._under_way[address] = True

    async def over(self, address: Address) -> None:
        """What it told of is over: a status that no words of the bot have taken away goes now."""
        if address in self._showing:
            await self.clear(address)
        else:
            self.replied(address)

    async def clear(self, address: Address) -> None:
        """Take the status away, also one that an earlier process set."""
        with suppress(ChannelError):
            if not await self._set(address, ""):
                return  # `fade` tries again
        self.replied(address)

    async def fade(self) -> None:
        """Take back what nobody renewed, until cancelled."""
        while True:
            await self._clock.sleep(5.0)
            now = self._clock.monotonic()
            for address in [one for one, (_, until) in self._showing.items() if until <= now]:
                self._showing.pop(address, None)
                await self._set(address, "")

    async def _set(self, address: Address, status: str) -> bool:
        body = {"channel_id": address.channel, "thread_ts": address.thread_ts, "status": status}
        try:
            await self._api.call("assistant.threads.setStatus", body, frame=True, patient=False)
        except ChannelFatal:
            raise
        except ChannelRejected as error:
            log.info("no status line here", extra={"channel": address.channel, "why": str(error)})
            self._refused[address] = None
            if len(self._refused) > MOST:
                self._refused.popitem(last=False)
            return False
        except ChannelError:
            return False  # busy: a sign of life is not worth a wait
        return True


class SlackPresence:
    """The `Presence` of one conversation."""

    def __init__(self, address: Address, api: SlackApi, statuses: Statuses) -> None:
        self._address = address
        self._api = api
        self._statuses = statuses

    async def typing(self, status: str = "") -> None:
        """Only threads have a status line; it fades by itself."""
        if self._address.thread_ts is not None:
            shown = status or self._statuses.showing(self._address) or DEFAULT_STATUS
            await self._statuses.show(self._address, shown[:_STATUS_LIMIT])

    async def tell(self, status: str) -> bool:
        """Show what is going on in the thread's status line; False when there is none."""
        if self._address.thread_ts is None:
            return False
        return await self._statuses.show(self._address, status[:_STATUS_LIMIT], lasts=True)

    async def over(self) -> None:
        """Take the status line back."""
        await self._statuses.clear(self._address)

    async def react(self, message_id: str, emoji: str, *, on: bool = True) -> None:
        """Doing it twice is doing it once. Raises ChannelRejected for an emoji without a name here."""
        name = emoji_name(emoji)
        if name is None:
            raise ChannelRejected(f"Slack has no name for the reaction {emoji!r}")
        body = {"channel": self._address.channel, "timestamp": message_id, "name": name}
        with suppress(AlreadyDone):
            await self._api.call("reactions.add" if on else "reactions.remove", body)
