"""Rate limits of platforms that all processes on the database keep to together (G-170).

Half of a limit is divided among the processes, each of which uses its share without asking. Whoever needs more draws
from the row of the limit, which has the other half: one statement for all that wait. A process begins with an empty
share, so one that is started again does not burst anew.
"""

import json
import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

import anyio

from agent.core.bounded_map import BoundedMap
from agent.core.clock import Clock
from agent.storage.database import TROUBLE, Database
from gateway.channels.kit.rate_limits import Rate, TokenBucket, divided
from gateway.storage import rate_buckets

RATES = "@rates"  # in the place of an account
MOST = 4096  # limits that are remembered; of one that is not, nothing is in hand
WITHOUT_S = 1.0  # between two tries while the database does not answer

_log = logging.getLogger("tieline.cluster")


@dataclass(slots=True)
class _Line:
    """Line of those who want more than the share: one asks the row for all of them."""

    asking: anyio.Lock = field(default_factory=anyio.Lock)
    waiting: int = 0
    in_hand: int = 0
    empty_until: float = 0.0  # the row has nothing before, monotonic seconds


@dataclass(slots=True)
class _Limit:
    share: TokenBucket | None
    rest: Rate
    rate: Rate
    processes: int
    finals: _Line = field(default_factory=_Line)
    frames: _Line = field(default_factory=_Line)

    def wait_s(self, now: float, *, frame: bool) -> float:
        return self.share.wait_s(now, frame=frame) if self.share is not None else WITHOUT_S


class ClusterRates:
    """The limits of all accounts at this process. `processes` tells how many share them, `tell` tells the others."""

    def __init__(
        self, database: Database, clock: Clock, processes: Callable[[], int], tell: Callable[[str, str], None]
    ) -> None:
        self._database = database
        self._clock = clock
        self._processes = processes
        self._tell = tell
        self._limits: BoundedMap[str, _Limit] = BoundedMap(MOST)
        self._closed_until: BoundedMap[str, float] = BoundedMap(MOST)

    def of(self, channel_type: str) -> "AccountRates":
        """The limits of that account."""
        return AccountRates(self, channel_type)

    async def ask(self, name: str, rate: Rate, *, frame: bool) -> float:
        """See `gateway.channels.kit.rate_limits.SharedRates`."""
        limit, now = self._limit(name, rate), self._clock.monotonic()
        if (closed_s := self._closed_until.get(name, 0.0) - now) > 0:
            return closed_s
        if limit.share is not None and not limit.share.wait_s(now, frame=frame):
            limit.share = limit.share.taken(now)
            return 0.0
        line = limit.frames if frame else limit.finals
        line.waiting += 1
        try:
            async with line.asking:
                return await self._more(name, limit, line, frame=frame)
        finally:
            line.waiting -= 1
            if not line.waiting:
                line.in_hand = 0

    async def _more(self, name: str, limit: _Limit, line: _Line, *, frame: bool) -> float:
        if not line.in_hand and line.empty_until <= self._clock.monotonic():
            rest = limit.rest
            draw = partial(
                rate_buckets.draw,
                name=name,
                per_s=rest.per_s,
                burst=rest.burst,
                reserve=rest.reserve if frame else 0.0,
                wanted=line.waiting,
            )
            try:
                drawn = await self._database.write(draw)
            except TROUBLE as error:
                _log.warning("the limit %s is not known to the others: %s", name, type(error).__name__)
                return limit.wait_s(self._clock.monotonic(), frame=frame)
            now = self._clock.monotonic()
            if drawn.closed_s:
                self._closed_until[name] = now + drawn.closed_s
                return drawn.closed_s
            line.in_hand, line.empty_until = drawn.given, now + drawn.wait_s
        if line.in_hand:
            line.in_hand -= 1
            return 0.0
        now = self._clock.monotonic()
        waits = [line.empty_until - now, *([limit.wait_s(now, frame=frame)] if limit.share is not None else [])]
        return max(min(waits), 0.001)

    async def close(self, name: str, after_s: float) -> None:
        """See `gateway.channels.kit.rate_limits.SharedRates`."""
        self._close(name, after_s)
        self._tell(RATES, json.dumps([name, after_s]))
        try:
            await self._database.write(partial(rate_buckets.close, name=name, after_s=after_s))
        except TROUBLE as error:  # those that run were told
            _log.warning("a process that starts does not learn to leave %s alone: %s", name, type(error).__name__)

    def hear(self, told: str) -> None:
        """Another process was told to leave something alone."""
        name, after_s = json.loads(told)
        self._close(str(name), float(after_s))

    async def look_again(self, _: str) -> None:
        """Words may be lost: nothing is taken without a look at the row."""
        now = self._clock.monotonic()
        for limit in self._limits.values():
            if limit.share is not None:
                limit.share = replace(limit.share, tokens=0.0, at=now)

    def _close(self, name: str, after_s: float) -> None:
        self._closed_until[name] = max(self._closed_until.get(name, 0.0), self._clock.monotonic() + after_s)

    def _limit(self, name: str, rate: Rate) -> _Limit:
        processes = max(self._processes(), 1)
        limit = self._limits.get(name)
        if limit is None or (limit.rate, limit.processes) != (rate, processes):
            share, rest = divided(rate, processes)
            bucket = None if share is None else _resized(limit, share, self._clock.monotonic())
            lines = {} if limit is None else {"finals": limit.finals, "frames": limit.frames}
            limit = _Limit(bucket, rest, rate, processes, **lines)
            self._limits[name] = limit
        return limit


def _resized(limit: _Limit | None, share: Rate, now: float) -> TokenBucket:
    if limit is None or limit.share is None:
        return TokenBucket(rate=share, tokens=0.0, at=now)
    return replace(limit.share, rate=share, tokens=min(limit.share.tokens, share.burst))


@dataclass(frozen=True, slots=True)
class AccountRates:
    """Implements `gateway.channels.kit.rate_limits.SharedRates`."""

    rates: ClusterRates
    channel_type: str

    async def ask(self, key: str, rate: Rate, *, frame: bool = False) -> float:
        return await self.rates.ask(f"{self.channel_type} {key}", rate, frame=frame)

    async def close(self, key: str, after_s: float) -> None:
        await self.rates.close(f"{self.channel_type} {key}", after_s)
