"""Reads what people wrote while nobody listened, after each start and reconnect (DESIGN §4.2, §13.15)."""

import logging
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial

import anyio

from adapters.slack.address import Address
from adapters.slack.catch_up_plan import Reading, readings, split_by_age
from adapters.slack.history import SlackHistory
from adapters.slack.intake import Intake
from adapters.slack.lanes import Lanes
from gateway.channels.adapter import Place, Surroundings
from gateway.channels.errors import ChannelBusy, ChannelError, HouseTrouble
from gateway.channels.inbound import Said

log = logging.getLogger("tieline.slack")

MOST_TRIES = 20
MOST_UNKNOWN_THREADS = 20
KNOWN_WITHIN_S = 30.0


class CatchUp:
    """One account's catch-up. A conversation is read inside its lane, so that what is live comes after it."""

    def __init__(
        self,
        surroundings: Surroundings,
        lanes: Lanes,
        intake: Intake,
        history_of: Callable[[Address], SlackHistory],
    ) -> None:
        self._surroundings = surroundings
        self._lanes = lanes
        self._intake = intake
        self._history_of = history_of
        self._late: deque[Reading] = deque()
        self._planned: frozenset[Address] = frozenset()
        self._called = anyio.Event()

    async def begin(self) -> None:
        """Queue a reading in the lane of every known conversation; those over the rate budget are read by `run`."""
        places = await self._known()
        plan = readings(places, self._surroundings.clock.now(), self._surroundings.catch_up_max_age_s)
        self._planned = frozenset(reading.address for reading in plan)
        self._late.clear()
        for reading in plan:
            self._intake.join(reading.address)
            await self._lanes.put(reading.address.channel, partial(self._first, reading))

    async def _known(self) -> Sequence[Place]:
        try:
            with anyio.fail_after(KNOWN_WITHIN_S):
                return await self._surroundings.known_places(self._intake.account.channel_type)
        except (HouseTrouble, TimeoutError) as error:
            log.warning("nothing is caught up with on this connection, the places are not known: %s", error)
            return ()

    async def run(self) -> None:
        """Read what did not fit into the rate budget at once, one after another, until cancelled."""
        while True:
            await self._called.wait()
            self._called = anyio.Event()
            tries = 0
            while self._late and tries < MOST_TRIES:
                reading = self._late.popleft()
                done = anyio.Event()
                outcome: list[float] = []
                await self._lanes.put(reading.address.channel, partial(self._again, reading, done, outcome))
                await done.wait()
                tries = 0 if not outcome else tries + 1
                if outcome:
                    self._late.appendleft(reading)
                    await self._surroundings.clock.sleep(outcome[0])
            if self._late:
                log.warning("catch-up gave up: Slack stays busy", extra={"conversations": len(self._late)})
                self._late.clear()

    async def _first(self, reading: Reading) -> None:
        if await self._read(reading) is not None:
            self._late.append(reading)
            self._called.set()

    async def _again(self, reading: Reading, done: anyio.Event, outcome: list[float]) -> None:
        try:
            wait_s = await self._read(reading)
            if wait_s is not None:
                outcome.append(wait_s)
        finally:
            done.set()

    async def _read(self, reading: Reading) -> float | None:
        """Hand over what is young enough. Seconds to wait if Slack has no room for the call now, else None."""
        history = self._history_of(reading.address)
        try:
            raw = [message async for message in history.read(reading.oldest, in_passing=True)]
        except ChannelBusy as busy:
            return busy.after_s
        except ChannelError as error:
            log.info("nothing to catch up with", extra={"place": str(reading.address), "why": str(error)})
            return None
        await self._hand_over(history.parsed(raw), reading)
        if reading.address.thread_ts is None and not reading.address.is_direct:
            for message in [one for one in raw if one.get("reply_count")][:MOST_UNKNOWN_THREADS]:
                thread = Address(reading.address.team, reading.address.channel, str(message["ts"]))
                if thread not in self._planned:
                    self._late.append(Reading(thread, reading.oldest))
                    self._called.set()
        return None

    async def _hand_over(self, said: list[Said], reading: Reading) -> None:
        times = [one.sent_at or one.received_at for one in said]
        max_age_s = self._surroundings.catch_up_max_age_s
        old = split_by_age(times, self._surroundings.clock.now(), max_age_s)
        if old:
            log.warning(
                "messages came while nobody listened and are too old to answer",
                extra={"place": str(reading.address), "messages": old, "since": said[0].message_id},
            )
        # The newest of the old ones too: the house refuses it, tells its owner, and the next reading begins behind it.
        for one in said[max(old - 1, 0) :]:
            await self._intake.hand_over(one)
