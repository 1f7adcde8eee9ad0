"""Reads what people wrote while nobody listened, after each start and reconnect."""

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from itertools import chain

import anyio

from adapters.slack.account import Address, is_ts
from adapters.slack.api import RECONNECTING
from adapters.slack.history import SlackHistory
from adapters.slack.intake import Arrival, Intake
from agent.core.backoff import Retries
from gateway.channels.adapter import AdapterContext, Place
from gateway.channels.errors import ChannelBusy, ChannelError, GatewayUnavailable
from gateway.channels.inbound import MessageReceived
from gateway.channels.kit.keyed_queue import KeyedQueue

# Reading plan after a silence: the conversations, and where each begins. Pure.

LOOK_BACK = timedelta(days=1)  # older than this nothing is even listed


@dataclass(frozen=True, slots=True)
class Reading:
    """A conversation (or a channel's main line, where threads begin) and the timestamp to read after."""

    address: Address
    oldest: str


def readings(
    places: Iterable[Place], now: datetime, max_age_s: float, *, behind: datetime | None = None
) -> tuple[Reading, ...]:
    """Readings to make, newest conversation first.

    Threads and direct messages are read from their last stored message on. A channel's main line is read for the time
    that is still answered: a mention there would open a conversation nobody knows yet.

    `behind` is when this should have been read. What was stored since then may have come behind what was not read, so
    its time does not count, and what was answerable then is read again: a repeat is known to the gateway.
    """
    found: dict[Address, Reading] = {}
    recent = f"{(behind or now).timestamp() - max_age_s:.6f}"
    for place in places:
        try:
            address = Address.parse(place.key.channel_id)
        except ValueError:
            continue  # a workspace as a whole
        if address.is_direct or address.thread_ts is not None:
            last = Reading(address, _last(place, now))
            found.setdefault(address, last if behind is None else _earlier(last, Reading(address, recent)))
        if not address.is_direct:
            line = Address(address.team, address.channel)
            found.setdefault(line, Reading(line, recent))
    return tuple(found.values())


def merged(*unread: Iterable[Reading]) -> dict[Address, Reading]:
    """All that is to be read, each conversation once, from the earliest moment."""
    found: dict[Address, Reading] = {}
    for reading in chain(*unread):
        found[reading.address] = _earlier(reading, found.get(reading.address, reading))
    return found


def split_by_age(sent_at: Sequence[datetime], now: datetime, max_age_s: float) -> int:
    """How many of the messages, oldest first, are too old to be answered."""
    limit = now - timedelta(seconds=max_age_s)
    return sum(moment < limit for moment in sent_at)


def _earlier(one: Reading, other: Reading) -> Reading:
    return min(one, other, key=lambda reading: float(reading.oldest))


def _last(place: Place, now: datetime) -> str:
    """The last stored message; slash commands have no timestamp for an id, so then its time."""
    stored = place.last_message_id
    ts = float(stored) if stored and is_ts(stored) else place.last_at.timestamp()
    floor = (now - LOOK_BACK).timestamp()
    return stored if stored and is_ts(stored) and ts >= floor else f"{max(ts, floor):.6f}"


log = logging.getLogger("tieline.slack")

MOST_TRIES = 20  # refused by Slack one after another: what is left rests until the next connection
MOST_UNKNOWN_THREADS = 20
KNOWN_WITHIN_S = 30.0
HELD_S = 5.0  # for so long what is live waits until it is known what has to be read before it


class CatchUp:
    """One account's catch-up. A conversation is read inside its lane, so that what is live comes after it.

    What is to be read is kept until it was: where the gateway or Slack cannot do it now, `run` comes again, and what
    was stored meanwhile moves no beginning.
    """

    def __init__(
        self,
        adapter_context: AdapterContext,
        queues: KeyedQueue,
        intake: Intake,
        history_of: Callable[[Address], SlackHistory],
        *,
        held_s: float = HELD_S,
    ) -> None:
        self._adapter_context = adapter_context
        self._clock = adapter_context.clock
        self._queues = queues
        self._intake = intake
        self._history_of = history_of
        self._held_s = held_s
        self._due = False  # the known conversations are to be looked up
        self._due_since = self._clock.now()
        self._behind: datetime | None = None  # the same, once something live was let past
        self._looking = anyio.Lock()
        self._unread: dict[Address, Reading] = {}  # for whatever comes next in their lanes
        self._late: dict[Address, Reading] = {}  # Slack had no room for these: they hold up nothing that is live
        self._planned: frozenset[Address] = frozenset()
        self._begun = anyio.Event()
        self._left_over = anyio.Event()

    async def begin(self) -> None:
        """A connection began: every known conversation has to be read. Waits a little until they are known."""
        if not self._due:
            self._due, self._due_since = True, self._clock.now()
        self._begun.set()
        with anyio.move_on_after(self._held_s):
            await self._look_up()

    async def ingest(self, arrival: Arrival) -> None:
        """Store something live whose turn it is; what was written before it there goes first, if Slack has it now.

        Raises GatewayUnavailable when it, or what goes first, cannot be stored.
        """
        if arrival.is_ordered:
            await self._before(arrival.queue)
        elif self._due:
            self._behind = self._due_since
        await self._intake.take(arrival)

    def note(self, arrival: Arrival) -> None:
        """Something has come that waits for its turn."""
        self._intake.twins.note(arrival)

    async def regret(self, arrival: Arrival) -> None:
        """A command or button that Slack believes done could not be stored."""
        await self._intake.regret(arrival)

    async def _before(self, queue: str) -> None:
        if self._due:
            with anyio.move_on_after(self._held_s):
                await self._look_up()
            if self._due:
                self._behind = self._due_since
        if not await self._read_in(queue):
            raise GatewayUnavailable("what was written before it cannot be stored")

    async def run(self) -> None:
        """See to it that everything is read at last, until cancelled."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._spread)
            group.start_soon(self._make_up)

    async def _spread(self) -> None:
        """Look the conversations up until it works, then have each read in its lane."""
        while True:
            await self._begun.wait()
            self._begun = anyio.Event()
            retries = Retries(RECONNECTING)
            await self._look_up()
            while self._due:
                await self._clock.sleep(retries.failed())
                await self._look_up()
            for queue in dict.fromkeys(address.channel for address in self._unread):
                await self._queues.put(queue, partial(self._read_in, queue))

    async def _make_up(self) -> None:
        """Read what could not be read at once, one after another, later each time that it fails."""
        while True:
            await self._left_over.wait()
            retries = Retries(RECONNECTING)
            while (address := next(iter(self._unread or self._late), None)) is not None:
                wait_s = await self._in_turn(address)
                if wait_s is None:
                    retries.succeeded()
                    continue
                pause_s = retries.failed(asked_s=wait_s)
                if retries.failures >= MOST_TRIES and not self._unread:
                    log.warning("catch-up rests until the next connection", extra={"conversations": len(self._late)})
                    break
                await self._clock.sleep(pause_s)
            self._left_over = anyio.Event()

    async def _look_up(self) -> None:
        async with self._looking:
            if not self._due:
                return
            try:
                with anyio.fail_after(KNOWN_WITHIN_S):
                    places = await self._adapter_context.known_places(self._intake.account.channel_type)
            except (GatewayUnavailable, TimeoutError) as error:
                log.warning("what came while nobody listened is read later, the places are not known: %s", error)
                return
            max_age_s = self._adapter_context.catch_up_max_age_s
            plan = readings(places, self._clock.now(), max_age_s, behind=self._behind)
            self._planned = frozenset(reading.address for reading in plan)
            for reading in plan:
                self._intake.join(reading.address)
            self._unread = merged(plan, self._unread.values(), self._late.values())
            self._late = {}
            self._due, self._behind = False, None

    async def _read_in(self, queue: str) -> bool:
        """Read what is unread there; False when the gateway cannot store it. Called in a job of the lane."""
        for address in [one for one in self._unread if one.channel == queue]:
            if await self._take(address) is not None:
                return address not in self._unread  # it would fail with the others too
        return True

    async def _in_turn(self, address: Address) -> float | None:
        """Put it into its lane and wait until its turn has come. See `_take`."""
        done = anyio.Event()
        wait_s: float | None = 0.0  # unless the reading itself says otherwise, it failed

        async def job() -> None:
            nonlocal wait_s
            try:
                wait_s = await self._take(address)
            finally:
                done.set()

        await self._queues.put(address.channel, job)
        await done.wait()
        return wait_s

    async def _take(self, address: Address) -> float | None:
        """Read it if nobody has yet. What has to be read again is kept; gives the least time to wait before that."""
        reading = merged(*([kept.pop(address)] for kept in (self._unread, self._late) if address in kept)).get(address)
        if reading is None:
            return None
        try:
            await self._read(reading)
        except ChannelBusy as busy:
            self._keep(self._late, reading)
            return busy.after_s
        except GatewayUnavailable as trouble:
            log.warning("what was read is read again: %s", trouble, extra={"place": str(address)})
            self._keep(self._unread, reading)
            return 0.0
        except ChannelError as error:
            log.info("nothing to catch up with", extra={"place": str(address), "why": str(error)})
        except BaseException:
            # A defect, or the lane's deadline: it is tried again, and holds up nothing that is live meanwhile.
            self._keep(self._late, reading)
            raise
        return None

    def _keep(self, where: dict[Address, Reading], reading: Reading) -> None:
        where.update(merged([reading, where.get(reading.address, reading)]))
        self._left_over.set()

    async def _read(self, reading: Reading) -> None:
        """Hand over what is young enough. Raises ChannelBusy at once if Slack has no room for the call now."""
        history = self._history_of(reading.address)
        raw = [message async for message in history.read(reading.oldest, in_passing=True)]
        await self._hand_over(history.parsed(raw), reading)
        if reading.address.thread_ts is None:
            for message in [one for one in raw if one.get("reply_count")][:MOST_UNKNOWN_THREADS]:
                thread = Address(reading.address.team, reading.address.channel, str(message["ts"]))
                if thread not in self._planned:
                    self._keep(self._late, Reading(thread, reading.oldest))

    async def _hand_over(self, said: list[MessageReceived], reading: Reading) -> None:
        times = [one.sent_at or one.received_at for one in said]
        max_age_s = self._adapter_context.catch_up_max_age_s
        old = split_by_age(times, self._clock.now(), max_age_s)
        if old:
            log.warning(
                "messages came while nobody listened and are too old to answer",
                extra={"place": str(reading.address), "messages": old, "since": said[0].message_id},
            )
        # The newest of the old ones too: the gateway refuses it, tells its owner, and the next reading begins behind.
        for one in said[max(old - 1, 0) :]:
            await self._intake.hand_over(one)
