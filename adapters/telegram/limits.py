"""Write limits of an account: a pure policy of allowances, and a thin shell that waits.

Telegram publishes about 30 messages a second over all chats, 1 a second in one chat (short bursts pass) and 20 a minute
in one group; drafts and edits spend the same budget. So previews leave a share for finals, and never wait: a frame that
comes late is worthless. A 429 of one chat stops that chat alone.
"""

from dataclasses import dataclass, replace

from agent.core.bounded_map import BoundedMap
from agent.core.clock import Clock
from gateway.channels.errors import ChannelBusy
from gateway.channels.kit.rate_limits import Rate, SharedRates, TokenBucket

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

    @property
    def overall(self) -> Rate:
        """The limit over all chats."""
        burst = max(1, int(self.overall_per_s))
        reserve = min(int(burst * self.overall_reserve), burst - 1)
        return Rate(per_s=self.overall_per_s, burst=burst, reserve=reserve)

    @property
    def topics(self) -> Rate:
        """The limit of a group whose topics several processes have: in a minute half as many more may pass at most."""
        burst = max(1.0, self.group_per_minute / 2)
        reserve = min(self.group_reserve / 2, burst - 1)
        return Rate(per_s=self.group_per_minute / 60, burst=burst, reserve=reserve)


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
        self._overall = TokenBucket.full(rates.overall, 0.0)
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


OVERALL = "overall"  # the key of the limit over all chats


class Limiter:
    """The shell: asks, waits, or says no. `shared` is what other processes keep to as well; None: there are none."""

    def __init__(self, rates: Rates, clock: Clock, shared: SharedRates | None = None) -> None:
        self._rates = rates
        self._allowances = Allowances(rates)
        self._clock = clock
        self._shared = shared

    async def turn(self, chat: int, *, final: bool, in_topic: bool = False) -> None:
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
        if self._shared is not None:
            await self._shared_turn(self._shared, chat, final=final, in_topic=in_topic)

    async def _shared_turn(self, shared: SharedRates, chat: int, *, final: bool, in_topic: bool) -> None:
        waited = 0.0
        for key, rate in ((chat_key(chat), self._rates.topics),) * in_topic + ((OVERALL, self._rates.overall),):
            while wait_s := await shared.ask(key, rate, frame=not final):
                if not final or waited + wait_s > MAX_WAIT_S:
                    raise ChannelBusy(f"no room beside the messages of other processes ({key})", after_s=wait_s)
                await self._clock.sleep(wait_s)
                waited += wait_s

    async def aside(self, chat: int) -> None:
        """Raises ChannelBusy unless a sign of life may be given now."""
        wait_s = self._allowances.ask_aside(chat, self._clock.monotonic())
        if not wait_s and self._shared is not None:
            wait_s = await self._shared.ask(OVERALL, self._rates.overall, frame=True)
        if wait_s:
            raise ChannelBusy(f"no room for a sign of life in chat {chat}", after_s=wait_s)

    def check(self, chat: int) -> None:
        """Raises ChannelBusy while the chat is closed by a 429."""
        if wait_s := self._allowances.closed_for(chat, self._clock.monotonic()):
            raise ChannelBusy(f"Telegram wants chat {chat} to be left alone", after_s=wait_s)

    async def refused(self, chat: int, after_s: float) -> None:
        """The server answered 429 for that chat. Other processes may have topics of a group."""
        self._allowances.close(chat, self._clock.monotonic() + after_s)
        if self._shared is not None and chat < 0:
            await self._shared.close(chat_key(chat), after_s)


def chat_key(chat: int) -> str:
    """The key of the limit of one chat."""
    return f"chat {chat}"
