"""Write limits of an account: a pure policy of allowances, and a thin shell that waits.

Telegram publishes about 30 messages a second over all chats, 1 a second in one chat (short bursts pass) and 20 a minute
in one group; drafts and edits spend the same budget. So previews leave a share for finals, and never wait: a frame that
comes late is worthless. A 429 of one chat stops that chat alone.
"""

from collections import OrderedDict, deque
from dataclasses import dataclass

from agent.core.clock import Clock
from gateway.channels.errors import ChannelBusy

MAX_CHATS = 10_000
MAX_WAIT_S = 10.0  # longer waits go back to the caller, who knows what else to do


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    overall_per_s: float = 30.0
    private_per_s: float = 1.0
    private_burst: int = 8
    private_reserve: int = 3  # of the burst, kept for finals
    group_per_minute: int = 20
    group_reserve: int = 5
    overall_reserve: float = 0.3  # share of a second's messages, kept for finals


class Bucket:
    """Refills steadily and allows a burst (GCRA). Times are seconds of a clock that never runs backwards."""

    __slots__ = ("_burst", "_full_at", "_interval", "_reserve")

    def __init__(self, rate_per_s: float, burst: int, reserve: int) -> None:
        self._interval = 1.0 / rate_per_s
        self._burst = burst
        self._reserve = min(reserve, burst - 1)
        self._full_at = 0.0  # when it will be full again

    def wait_s(self, now: float, *, final: bool) -> float:
        """How long until one more may go."""
        burst = self._burst if final else self._burst - self._reserve
        return max(0.0, self._full_at - (burst - 1) * self._interval - now)

    def book(self, at: float) -> None:
        self._full_at = max(self._full_at, at) + self._interval

    def idle(self, now: float) -> bool:
        return self._full_at <= now


class Window:
    """At most `limit` in any `period_s`, exactly: what a group allows."""

    __slots__ = ("_limit", "_period_s", "_reserve", "_taken")

    def __init__(self, limit: int, period_s: float, reserve: int) -> None:
        self._limit = limit
        self._period_s = period_s
        self._reserve = min(reserve, limit - 1)
        self._taken: deque[float] = deque(maxlen=limit)

    def wait_s(self, now: float, *, final: bool) -> float:
        limit = self._limit if final else self._limit - self._reserve
        if len(self._taken) < limit:
            return 0.0
        return max(0.0, self._taken[-limit] + self._period_s - now)

    def book(self, at: float) -> None:
        self._taken.append(at)

    def idle(self, now: float) -> bool:
        return not self._taken or self._taken[-1] + self._period_s <= now


class Allowances:
    """Write allowances by chat. Pure: the moment is an argument.

    Finals are booked ahead, in the order they ask, so that none overtakes another and nobody wakes in vain.
    """

    def __init__(self, rates: Rates, *, max_chats: int = MAX_CHATS) -> None:
        self._rates = rates
        burst = max(1, int(rates.overall_per_s))
        self._overall = Bucket(rates.overall_per_s, burst, int(burst * rates.overall_reserve))
        self._chats: OrderedDict[int, Bucket | Window] = OrderedDict()
        self._closed_until: OrderedDict[int, float] = OrderedDict()
        self._max_chats = max_chats

    @property
    def chats(self) -> int:
        """How many are remembered."""
        return len(self._chats)

    def ask(self, chat: int, now: float, *, final: bool, longest_s: float) -> float:
        """Seconds to wait before this message may go. Booked unless the answer is more than `longest_s`."""
        allowance = self._of(chat, now)
        wait_s = max(
            allowance.wait_s(now, final=final),
            self._overall.wait_s(now, final=final),
            self._closed_until.get(chat, 0.0) - now,
            0.0,
        )
        if wait_s <= longest_s:
            allowance.book(now + wait_s)
            self._overall.book(now + wait_s)
        return wait_s

    def ask_aside(self, chat: int, now: float) -> float:
        """The same for what is not counted in the chat itself ("typing", a reaction): never waits, never a final's."""
        wait_s = max(self._overall.wait_s(now, final=False), self._closed_until.get(chat, 0.0) - now, 0.0)
        if not wait_s:
            self._overall.book(now)
        return wait_s

    def closed_for(self, chat: int, now: float) -> float:
        """Seconds for which the server wants that chat to be left alone; 0: it does not."""
        return max(self._closed_until.get(chat, 0.0) - now, 0.0)

    def close(self, chat: int, until: float) -> None:
        """The server said to wait in that chat."""
        self._closed_until[chat] = max(until, self._closed_until.pop(chat, 0.0))
        while len(self._closed_until) > self._max_chats:
            self._closed_until.popitem(last=False)

    def _of(self, chat: int, now: float) -> Bucket | Window:
        if self._closed_until.get(chat, now + 1) <= now:
            del self._closed_until[chat]
        allowance = self._chats.get(chat)
        if allowance is not None:
            self._chats.move_to_end(chat)
            return allowance
        rates = self._rates
        if chat > 0:  # people have positive ids, groups and channels negative ones
            allowance = Bucket(rates.private_per_s, rates.private_burst, rates.private_reserve)
        else:
            allowance = Window(rates.group_per_minute, 60.0, rates.group_reserve)
        self._chats[chat] = allowance
        self._forget(now)
        return allowance

    def _forget(self, now: float) -> None:
        """Drop what was not used for long; beyond the bound even what was."""
        while self._chats:
            chat, allowance = next(iter(self._chats.items()))
            if len(self._chats) <= self._max_chats and not allowance.idle(now):
                return
            if len(self._chats) == 1:
                return
            del self._chats[chat]


class Limiter:
    """The shell: asks, waits, or says no."""

    def __init__(self, rates: Rates, clock: Clock) -> None:
        self._allowances = Allowances(rates)
        self._clock = clock

    async def turn(self, chat: int, *, final: bool) -> None:
        """Return when a message may go to the chat. Raises ChannelBusy at once for what may not wait, and for a final
        that would wait longer than `MAX_WAIT_S`.
        """
        wait_s = self._allowances.ask(
            chat, self._clock.monotonic(), final=final, longest_s=MAX_WAIT_S if final else 0.0
        )
        if wait_s > (MAX_WAIT_S if final else 0.0):
            raise ChannelBusy(f"no room for another message in chat {chat}", after_s=wait_s)
        if wait_s:
            await self._clock.sleep(wait_s)

    def aside(self, chat: int) -> None:
        """Raises ChannelBusy unless a sign of life may be given now."""
        if wait_s := self._allowances.ask_aside(chat, self._clock.monotonic()):
            raise ChannelBusy(f"no room for a sign of life in chat {chat}", after_s=wait_s)

    def check(self, chat: int) -> None:
        """Raises ChannelBusy while the chat is closed by a 429."""
        if wait_s := self._allowances.closed_for(chat, self._clock.monotonic()):
            raise ChannelBusy(f"Telegram wants chat {chat} to be left alone", after_s=wait_s)

    def refused(self, chat: int, after_s: float) -> None:
        """The server answered 429 for that chat."""
        self._allowances.close(chat, self._clock.monotonic() + after_s)
