"""Write limits of an account: a pure policy of allowances, and a thin shell that waits.

Telegram publishes about 30 messages a second over all chats, 1 a second in one chat (short bursts pass) and 20 a minute
in one group; drafts and edits spend the same budget. So previews leave a share for finals, and never wait: a frame that
comes late is worthless. A 429 of one chat stops that chat alone.
"""

from dataclasses import dataclass, replace

from agent.core.bounded_map import BoundedMap
from agent.core.clock import Clock
from gateway.channels.errors import ChannelBusy
from gateway.channels.kit.rate_limits import Rate, TokenBucket

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """At most `limit` in any `period_s`, exactly: what a group allows. A preview leaves `reserve` of them."""

    limit: int
    reserve: int
    period_s: float = 60.0
    booked: tuple[float, ...] = ()  # the newest `limit`

    def wait_s(self, now: float, *, frame: bool = False) -> float:
        limit = self.limit - self.reserve if frame else self.limit
        if len(self.booked) < limit:
            return 0.0
        return max(0.0, self.booked[-limit] + self.period_s - now)

    def taken(self, at: float) -> "Window":
        return replace(self, booked=(*self.booked, at)[-self.limit :])


class Allowances:
    """Write allowances by chat. Pure: the moment is an argument.

    Finals are booked ahead, in the order they ask, so that none overtakes another and nobody wakes in vain.
    """

    def __init__(self, rates: Rates, *, max_chats: int = MAX_CHATS) -> None:
        self._rates = rates
        burst = max(1, int(rates.overall_per_s))
        reserve = min(int(burst * rates.overall_reserve), burst - 1)
        overall = Rate(per_s=rates.overall_per_s, burst=burst, reserve=reserve)
        self._overall = TokenBucket.full(overall, 0.0)
        self._chats: BoundedMap[int, TokenBucket | Window] = BoundedMap(max_chats)
        self._closed_until: BoundedMap[int, float] = BoundedMap(max_chats)

    @property
    def chats(self) -> int:
        """How many are remembered."""
        return len(self._chats)

    def ask(self, chat: int, now: float, *, final: bool, longest_s: float) -> float:
        """Seconds to wait before this message may go. Booked unless the answer is more than `longest_s`."""
        allowance = self._of(chat, now)
        wait_s = max(
            allowance.wait_s(now, frame=not final),
            self._overall.wait_s(now, frame=not final),
            self.closed_for(chat, now),
        )
        if wait_s <= longest_s:
            self._chats[chat] = allowance.taken(now + wait_s)
            self._overall = self._overall.taken(now + wait_s)
        return wait_s

    def ask_aside(self, chat: int, now: float) -> float:
        """The same for what is not counted in the chat itself ("typing", a reaction): never waits, never a final's."""
        wait_s = max(self._overall.wait_s(now, frame=True), self.closed_for(chat, now))
        if not wait_s:
            self._overall = self._overall.taken(now)
        return wait_s

    def closed_for(self, chat: int, now: float) -> float:
        """Seconds for which the server wants that chat to be left alone; 0: it does not."""
        return max(self._closed_until.get(chat, 0.0) - now, 0.0)

    def close(self, chat: int, until: float) -> None:
        """The server said to wait in that chat."""
        self._closed_until[chat] = max(until, self._closed_until.get(chat, 0.0))

    def _of(self, chat: int, now: float) -> TokenBucket | Window:
        allowance = self._chats.get(chat)
        if allowance is not None:
            return allowance
        rates = self._rates
        if chat > 0:  # people have positive ids, groups and channels negative ones
            reserve = min(rates.private_reserve, rates.private_burst - 1)
            return TokenBucket.full(Rate(per_s=rates.private_per_s, burst=rates.private_burst, reserve=reserve), now)
        return Window(limit=rates.group_per_minute, reserve=min(rates.group_reserve, rates.group_per_minute - 1))


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
