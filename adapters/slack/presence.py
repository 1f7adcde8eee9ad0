"""Signs of life: the status line of a thread and reactions."""

import logging
import re
from collections import OrderedDict
from contextlib import suppress
from weakref import WeakValueDictionary

import anyio

from adapters.slack.account import Address
from adapters.slack.api import AlreadyDone, SlackApi
from agent.core.bounded_map import BoundedMap
from gateway.channels.adapter import AdapterContext
from gateway.channels.errors import ChannelError, ChannelFatal, ChannelRejected

# Emoji characters → the names of Slack's reactions. Pure.

_NAMES = {
    "👀": "eyes", "👍": "thumbsup", "👎": "thumbsdown", "👌": "ok_hand", "🙏": "pray", "👏": "clap", "🎉": "tada",
    "❤": "heart", "🔥": "fire", "🤔": "thinking_face", "⏳": "hourglass_flowing_sand", "⌛": "hourglass",
    "✅": "white_check_mark", "✔": "heavy_check_mark", "☑": "ballot_box_with_check", "❌": "x", "⚠": "warning",
    "🛑": "octagonal_sign", "🚫": "no_entry_sign", "💤": "zzz", "🤖": "robot_face", "✍": "writing_hand",
    "👋": "wave", "💡": "bulb", "🔁": "repeat", "📎": "paperclip", "🔧": "wrench", "😢": "cry", "😀": "grinning",
    "🤝": "handshake", "💯": "100", "🆗": "ok", "❓": "question", "❗": "exclamation", "⏰": "alarm_clock",
    "🕐": "clock1", "🧠": "brain", "📝": "memo", "🚀": "rocket",
    "⏸": "double_vertical_bar", "⏹": "black_square_for_stop",
}  # fmt: skip


def emoji_name(emoji: str) -> str | None:
    """The name of an emoji, given as a character or (also for a workspace's own) as a name; None if it is unknown."""
    bare = emoji.replace("\ufe0f", "").strip()
    if bare in _NAMES:
        return _NAMES[bare]
    name = bare.strip(":")
    return name if re.fullmatch(r"[a-z0-9_+'-]+", name) else None


log = logging.getLogger("tieline.slack")

TYPING_EVERY_S = 20.0
FADES_AFTER_S = 45.0  # Slack itself keeps a status for two minutes
DEFAULT_STATUS = "is thinking…"
_STATUS_LIMIT = 100
MOST = 4096


class Statuses:
    """The status lines of one account that are showing, so that each is taken back in time."""

    def __init__(self, api: SlackApi, adapter_context: AdapterContext) -> None:
        self._api = api
        self._clock = adapter_context.clock
        self._showing: OrderedDict[Address, tuple[str, float]] = OrderedDict()
        self._told: dict[Address, str] = {}  # what lasts until it is cleared
        self._under_way: dict[Address, bool] = {}  # being set, and whether the bot wrote meanwhile
        self._turns: WeakValueDictionary[Address, anyio.Lock] = WeakValueDictionary()
        self._refused: BoundedMap[Address, None] = BoundedMap(MOST)

    async def show(self, address: Address, status: str) -> None:
        """A sign of life for a while. Where Slack has no status line none is shown, and it is not asked again."""
        async with self._turn_of(address):
            await self._show(address, self._told.get(address, status))

    async def tell(self, address: Address, status: str) -> bool:
        """Show the status until it is cleared; False where Slack has no status line."""
        self._told[address] = status
        async with self._turn_of(address):
            await self._show(address, status)
        if address in self._refused:
            self._told.pop(address, None)
            return False
        return True

    async def _show(self, address: Address, status: str) -> None:
        now, known = self._clock.monotonic(), self._showing.get(address)
        if address in self._refused:
            return
        if known is not None and known[0] == status and now < known[1] - FADES_AFTER_S + TYPING_EVERY_S / 2:
            return
        self._under_way[address] = False
        try:
            is_set = await self._set(address, status)
        finally:
            meanwhile = self._under_way.pop(address)
        if is_set and meanwhile:  # words came before it, and it stands, or after it, and it is gone
            told = self._told.get(address, "")
            is_set = await self._set(address, told) and bool(told)
        if is_set:
            self._showing[address] = (status, now + FADES_AFTER_S)

    def _turn_of(self, address: Address) -> anyio.Lock:
        """One at a time in a thread, so that the last one counts."""
        lock = self._turns.get(address)
        if lock is None:
            lock = self._turns[address] = anyio.Lock()
        return lock

    def replied(self, address: Address) -> None:
        """Slack takes the status away when the bot writes in the thread."""
        self._showing.pop(address, None)
        if address in self._under_way:
            self._under_way[address] = True

    async def over(self, address: Address) -> None:
        """An answer is complete: what was set after its first words goes now."""
        if address in self._showing and address not in self._told:
            await self.clear(address)
        elif address in self._under_way:
            self._under_way[address] = True

    async def clear(self, address: Address) -> None:
        """Take the status away, also one that an earlier process set."""
        self._told.pop(address, None)
        async with self._turn_of(address):
            with suppress(ChannelError):
                if await self._set(address, ""):
                    self._showing.pop(address, None)  # else `fade` tries again

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
            await self._statuses.show(self._address, (status or DEFAULT_STATUS)[:_STATUS_LIMIT])

    async def tell(self, status: str) -> bool:
        """Show what is going on in the thread's status line; False when there is none."""
        if self._address.thread_ts is None:
            return False
        return await self._statuses.tell(self._address, status[:_STATUS_LIMIT])

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
