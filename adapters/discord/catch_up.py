"""Reads what people said while nobody listened: at the start and after every session that could not be resumed.

Places are read newest first, a few at a time; live messages of a place wait until its history was read, and a place
where somebody writes is read at once. What is too old is left unanswered and named to the operator (DESIGN §13.15).
"""

import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial

import anyio

from adapters.discord.account import Bot
from adapters.discord.history import DiscordHistory, Locate
from adapters.discord.lanes import Lanes
from adapters.discord.limits import PAGE, snowflake_at
from gateway.channels.adapter import Place
from gateway.channels.errors import ChannelBusy, ChannelError, ChannelGone, HouseTrouble
from gateway.channels.inbound import Said

log = logging.getLogger("tieline.discord")

READERS = 4  # places read at once
ATTEMPTS = 5  # for one place
MOST = 500  # messages read in one place
LONGEST_WAIT_S = 30.0
OWED_AFTER_S = 30.0  # what could not be stored is read again after that
KNOWN_WITHIN_S = 30.0


@dataclass(slots=True)
class _Reading:
    """A place to be read, from where on; `done` once it was."""

    channel_id: str
    after: str
    done: anyio.Event = field(default_factory=anyio.Event)


class CatchUp:
    """One for an account. `begin` and `jump` are called while events arrive and never wait."""

    def __init__(
        self,
        bot: Bot,
        lanes: Lanes,
        locate: Locate,
        *,
        known: Callable[[], Awaitable[Sequence[Place]]],
        max_age_s: float,
        deliver: Callable[[Said], Awaitable[None]],
        gone: Callable[[str], Awaitable[None]],
    ) -> None:
        self._bot = bot
        self._lanes = lanes
        self._locate = locate
        self._known = known
        self._max_age = timedelta(seconds=max_age_s)
        self._deliver = deliver
        self._gone = gone
        self._pending: OrderedDict[str, _Reading] = OrderedDict()
        self._owed: dict[str, str] = {}
        self._wanted = anyio.Event()
        self._filled = anyio.Event()
        self.left = 0  # messages too old to be answered, since the start

    def begin(self) -> None:
        """A new session began: hold what arrives until it is known which places have to be read first."""
        self._lanes.close_gate()
        self._wanted.set()

    def jump(self, channel_id: str) -> None:
        """Something arrives there: read its history first, now."""
        reading = self._pending.pop(channel_id, None)
        if reading is not None:
            self._queue(reading)

    def owe(self, channel_id: str, message_id: str) -> None:
        """This message was not taken; the history has it."""
        before = str(int(message_id) - 1)
        self._owed[channel_id] = min(self._owed.get(channel_id, before), before, key=int)

    async def run(self) -> None:
        async with anyio.create_task_group() as group:
            for _ in range(READERS):
                group.start_soon(self._reader)
            group.start_soon(self._pay_debts)
            while True:
                await self._wanted.wait()
                self._wanted = anyio.Event()
                await self._plan()

    async def _pay_debts(self) -> None:
        while True:
            await self._bot.clock.sleep(OWED_AFTER_S)
            if self._owed:
                self._fill({})

    async def _plan(self) -> None:
        places: Sequence[Place] = ()
        try:
            with anyio.fail_after(KNOWN_WITHIN_S):
                places = await self._known()
        except (HouseTrouble, TimeoutError) as error:
            log.warning("nothing is caught up with on this connection, the places are not known: %s", error)
        cutoff = self._bot.clock.now() - self._max_age
        readings = {}
        for place in places:
            last = place.last_message_id
            after = last if last is not None and last.isdecimal() else snowflake_at(max(place.last_at, cutoff))
            readings[place.key.channel_id] = after
        self._fill(readings)
        self._lanes.open_gate()

    def _fill(self, readings: dict[str, str]) -> None:
        owed, self._owed = self._owed, {}
        for channel_id, after in {**owed, **readings}.items():
            start = min(after, owed.get(channel_id, after), key=int)
            reading = _Reading(channel_id, start)
            if self._lanes.waiting(channel_id):
                self._queue(reading, first=True)  # ahead of what has already arrived there
            else:
                self._pending[channel_id] = reading
        self._filled.set()

    def _queue(self, reading: _Reading, *, first: bool = False) -> None:
        if not self._lanes.put(reading.channel_id, partial(self._read, reading), first=first):
            self._owed[reading.channel_id] = reading.after
            reading.done.set()

    async def _reader(self) -> None:
        while True:
            if not self._pending:
                self._filled = anyio.Event() if self._filled.is_set() else self._filled
                await self._filled.wait()
                continue
            _, reading = self._pending.popitem(last=False)
            self._queue(reading)
            await reading.done.wait()

    # -- one place

    async def _read(self, reading: _Reading) -> None:
        """A job of the place's lane."""
        history = DiscordHistory(self._bot, reading.channel_id, self._locate)
        try:
            for _ in range(ATTEMPTS):
                try:
                    return await self._collect(history, reading)
                except ChannelBusy as error:
                    await self._bot.clock.sleep(min(error.after_s, LONGEST_WAIT_S))
            self._owed[reading.channel_id] = reading.after
        except ChannelGone:
            await self._gone(reading.channel_id)
        except ChannelError as error:
            log.warning("catch-up: %s", error, extra={"channel_id": reading.channel_id})
        finally:
            reading.done.set()

    async def _collect(self, history: DiscordHistory, reading: _Reading) -> None:
        """Page by page; `reading.after` moves along, so that a second attempt goes on where the first one ended."""
        cutoff = self._bot.clock.now() - self._max_age
        young, stale = 0, 0
        # The newest of the old ones is handed over: the house refuses it, tells its owner, and the next reading begins
        # behind it.
        newest_stale: Said | None = None
        while young < MOST:
            rows = await history.page(reading.after)
            for said in await history.read(rows):
                if said.sent_at is not None and said.sent_at < cutoff:
                    stale, newest_stale = stale + 1, said
                else:
                    if newest_stale is not None:
                        await self._deliver(newest_stale)
                        newest_stale = None
                    young += 1
                    await self._deliver(said)
            if rows:
                reading.after = str(rows[-1]["id"])
            if len(rows) < PAGE:
                break
            # A busy place after a long pause: do not leaf through hours that will not be answered.
            reading.after = max(reading.after, snowflake_at(cutoff), key=int)
        if newest_stale is not None:
            await self._deliver(newest_stale)
        if stale:
            self.left += stale
            log.warning(
                "catch-up: %d messages came more than %d s ago and are left unanswered",
                stale,
                self._max_age.total_seconds(),
                extra={"conversation": f"{self._bot.settings.channel_type}:{reading.channel_id}"},
            )
