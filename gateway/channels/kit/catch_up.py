"""Catch-up: what people wrote while an account heard nothing, read by `History.since` after each start and reconnect.

The places that the gateway knows are read newest first, a few at a time; a place where somebody writes is read at
once, so that what is live comes behind what was missed. What is to be read is kept until it was. What is too old is
left unanswered and named to the operator. Repeats are known to the gateway by place and id.
"""

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

import anyio

from agent.core.backoff import Backoff, Retries
from agent.core.bounded_map import BoundedMap
from gateway.channels.adapter import AdapterContext, Place
from gateway.channels.channel import History, Position
from gateway.channels.errors import ChannelBusy, ChannelError, ChannelGone, GatewayUnavailable
from gateway.channels.inbound import MessageReceived, Outcome, Receipt
from gateway.channels.keys import ConversationKey
from gateway.channels.kit.keyed_queue import KeyedQueue

LOOK_BACK = timedelta(days=1)  # older than this nothing is even listed
READERS = 4  # places read at once
MOST = 1000  # messages read in one place
MOST_THREADS = 20  # looked into, of those that begin in one reading
LONGEST_WAIT_S = 30.0  # for a history that is busy, while what is live waits behind it
KNOWN_WITHIN_S = 30.0
HELD_S = 5.0  # for so long what is live waits until it is known what has to be read before it
REMEMBERED = 4096  # places of which the last message that was taken is kept in mind
AGAIN = Backoff(first_s=2.0, longest_s=60.0)  # while it cannot be told what to read, or not be read


@dataclass(frozen=True, slots=True)
class Reading:
    """A conversation, and the position to read it from."""

    channel_id: str
    after: Position


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The platform's ways. `moment_of` gives the time that a message's id tells: None for what is the id of none, such
    as a command's; a platform whose ids tell no time leaves it out. `line_of` names the place whose main line is read
    beside a conversation, because a message there would open a conversation that nobody knows yet. `queue_of` is the
    key of the `KeyedQueue` that a conversation is worked on in. So many `tries` are made while a history is busy and
    live messages wait; after them those go first.
    """

    moment_of: Callable[[str], datetime | None] | None = None
    line_of: Callable[[ConversationKey], str | None] = lambda key: None
    queue_of: Callable[[str], str] = lambda channel_id: channel_id
    tries: int = 1


def readings(
    places: Iterable[Place], facts: Facts, now: datetime, max_age: timedelta, *, behind: datetime | None = None
) -> Mapping[str, Reading]:
    """Readings to make by conversation, the newest first: each from its last stored message on. Pure.

    `behind` is when this should have been read. What was stored since then may have come behind what was not read, so
    what was answerable then is read again.
    """
    found: dict[str, Reading] = {}
    recent = Position(at=(behind or now) - max_age)
    for place in places:
        last = _last(place, facts, now - LOOK_BACK)
        key = place.key
        line = facts.line_of(key)
        if line != key.channel_id:
            after = last if behind is None else _earlier(last, recent)
            found.setdefault(key.channel_id, Reading(key.channel_id, after))
        if line is not None:
            found.setdefault(line, Reading(line, recent))
    return found


def merged(*unread: Iterable[Reading]) -> dict[str, Reading]:
    """All that is to be read, each conversation once, from the earliest position. Pure."""
    found: dict[str, Reading] = {}
    for reading in (one for several in unread for one in several):
        known = found.get(reading.channel_id, reading)
        found[reading.channel_id] = Reading(reading.channel_id, _earlier(known.after, reading.after))
    return found


def _earlier(one: Position, other: Position) -> Position:
    return min(one, other, key=lambda position: position.order)


def _last(place: Place, facts: Facts, floor: datetime) -> Position:
    last = Position(at=place.last_at, message_id=place.last_message_id)
    if facts.moment_of is not None and place.last_message_id is not None:
        told = facts.moment_of(place.last_message_id)
        last = Position(at=place.last_at) if told is None else Position(at=told, message_id=place.last_message_id)
    return last if last.at >= floor else Position(at=floor)


class CatchUp:
    """One account's catch-up. Live messages go through `take`, in a job of the place that `holds` it.

    `history` gives a conversation's history, None where there is nothing to read. `deliver` admits a message; None
    tells that the adapter itself knew it for a repeat. `gone` is told of a place that is closed to the bot.
    """

    def __init__(
        self,
        context: AdapterContext,
        queues: KeyedQueue,
        log: logging.Logger,
        *,
        channel_type: str,
        history: Callable[[str], History | None],
        deliver: Callable[[MessageReceived], Awaitable[Receipt | None]],
        gone: Callable[[str], Awaitable[None]] | None = None,
        facts: Facts = Facts(),
        held_s: float = HELD_S,
    ) -> None:
        self._context = context
        self._clock = context.clock
        self._queues = queues
        self._log = log
        self._channel_type = channel_type
        self._history = history
        self._deliver = deliver
        self._gone = gone
        self._facts = facts
        self._held_s = held_s
        self._max_age = timedelta(seconds=context.catch_up_max_age_s)
        self._due_since: datetime | None = None  # when the first connection began whose places are not known yet
        self._behind: datetime | None = None  # the same, once something was stored that may hide a gap
        self._looking = anyio.Lock()
        self._unread: dict[str, Reading] = {}
        self._late: dict[str, Reading] = {}  # the platform had no room for these: they hold up nothing that is live
        self._planned: frozenset[str] = frozenset()
        self._read_unplanned: set[str] = set()  # read since the connection began, although nobody named them
        self._taken: BoundedMap[str, Position] = BoundedMap(REMEMBERED)
        self._begun = anyio.Event()
        self._pause: anyio.CancelScope | None = None
        self._left_over = anyio.Event()
        self.left = 0  # messages too old to be answered, since the start

    # -- what the adapter tells

    def begin(self) -> None:
        """A connection began, so something may have been missed before: every known place has to be read."""
        self._due_since = self._due_since or self._clock.now()
        self._read_unplanned.clear()
        self._begun.set()
        if self._pause is not None:
            self._pause.cancel()

    def owe(self, channel_id: str, at: datetime) -> None:
        """A live message of that time was let go unstored: the history has it."""
        self._keep(self._late, Reading(channel_id, Position(at=at)))

    async def take(self, said: MessageReceived) -> Receipt | None:
        """Deliver something live; what was missed before it there goes first. Raises GatewayUnavailable, in which case
        it has to come again."""
        channel_id = said.key.channel_id
        await self.before(self._facts.queue_of(channel_id), channel_id)
        receipt = await self._deliver(said)
        self.took(said)
        return receipt

    def took(self, said: MessageReceived) -> None:
        """This was delivered; a gap in its place begins behind it."""
        position = Position(at=said.sent_at or said.received_at, message_id=said.message_id)
        channel_id = said.key.channel_id
        self._taken[channel_id] = max(position, self._taken.get(channel_id, position), key=lambda one: one.order)

    def overtaken(self) -> None:
        """Something is stored that did not wait for what was missed."""
        self._behind = self._due_since

    async def before(self, queue: str, channel_id: str | None = None) -> None:
        """Read what was missed in the places of this queue, in a job of it, before something live there is delivered.

        While nobody can tell which places there are, `channel_id` is read nevertheless. Raises GatewayUnavailable when
        what is read cannot be stored: the live thing has to wait.
        """
        if self._due_since is not None:
            with anyio.move_on_after(self._held_s):
                await self._plan()
        if self._due_since is not None:
            if channel_id is None:
                self.overtaken()
            elif channel_id not in self._read_unplanned:
                self._read_unplanned.add(channel_id)
                after = self._taken.get(channel_id) or Position(at=self._due_since - self._max_age)
                self._unread = merged(self._unread.values(), [Reading(channel_id, after)])
        await self._read_in(queue)

    async def run(self) -> None:
        """See to it that everything is read at last, until cancelled."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._spread)
            group.start_soon(self._make_up)

    # -- which places there are

    async def _spread(self) -> None:
        """Find out what is to be read until it works, then have each place read, a few at a time."""
        while True:
            await self._begun.wait()
            self._begun = anyio.Event()
            retries = Retries(AGAIN)
            await self._plan()
            while self._due_since is not None:
                wait_s = retries.failed()
                if not self._begun.is_set():
                    with anyio.CancelScope() as self._pause:  # a new connection ends it
                        await self._clock.sleep(wait_s)
                self._begun = anyio.Event()
                await self._plan()
            queues = iter(list(dict.fromkeys(map(self._facts.queue_of, self._unread))))
            async with anyio.create_task_group() as group:
                for _ in range(READERS):
                    group.start_soon(self._each, queues)

    async def _each(self, queues: Iterable[str]) -> None:
        for queue in queues:
            await self._in_turn(queue, partial(self._read_in, queue))

    async def _plan(self) -> None:
        async with self._looking:
            if self._due_since is None:
                return
            try:
                with anyio.fail_after(KNOWN_WITHIN_S):
                    places = await self._context.known_places(self._channel_type)
            except (GatewayUnavailable, TimeoutError) as error:
                self._log.warning("what came while nobody listened is read later, the places are not known: %s", error)
                return
            plan = readings(places, self._facts, self._clock.now(), self._max_age, behind=self._behind)
            self._planned = frozenset(plan)
            self._unread = merged(plan.values(), self._unread.values(), self._late.values())
            self._late = {}
            self._due_since = self._behind = None

    # -- whose turn it is

    async def _read_in(self, queue: str) -> None:
        """Read what is unread there. Raises GatewayUnavailable. Called in a job of the queue."""
        for channel_id in [one for one in self._unread if self._facts.queue_of(one) == queue]:
            await self._take_reading(channel_id, tries=self._facts.tries)

    async def _make_up(self) -> None:
        """Read what could not be read at once, one after another, later each time that it fails."""
        while True:
            await self._left_over.wait()
            self._left_over = anyio.Event()
            retries = Retries(AGAIN)
            while (channel_id := next(iter([*self._unread, *self._late]), None)) is not None:
                asked_s = 0.0

                async def job(channel_id: str = channel_id) -> None:
                    nonlocal asked_s
                    asked_s = await self._take_reading(channel_id, tries=1)

                await self._in_turn(self._facts.queue_of(channel_id), job)
                if channel_id in self._unread or channel_id in self._late:
                    await self._clock.sleep(retries.failed(asked_s=asked_s))
                else:
                    retries.succeeded()

    async def _in_turn(self, queue: str, job: Callable[[], Awaitable[object]]) -> None:
        """Put it into its queue and wait until it was done or failed."""
        done = anyio.Event()

        async def once() -> None:
            try:
                await job()
            finally:
                done.set()

        await self._queues.put(queue, once)
        await done.wait()

    # -- one place

    async def _take_reading(self, channel_id: str, *, tries: int) -> float:
        """Read it if nobody has yet. What has to be read again is kept; gives the least time to wait before that."""
        pending = [kept.pop(channel_id) for kept in (self._unread, self._late) if channel_id in kept]
        if not pending:
            return 0.0
        reading = merged(pending)[channel_id]
        history = self._history(channel_id)
        if history is None:
            return 0.0
        run = _Run(reading)
        try:
            for attempt in range(1, tries + 1):
                try:
                    await self._read(history, run)
                    return 0.0
                except ChannelBusy as busy:
                    if attempt == tries:
                        await self._leave_old(run)
                        self._keep(self._late, Reading(channel_id, run.after))
                        return busy.after_s
                    await self._clock.sleep(min(busy.after_s, LONGEST_WAIT_S))
        except GatewayUnavailable:
            self._keep(self._unread, Reading(channel_id, run.after))
            raise
        except ChannelGone as error:
            self._log.info("nothing to catch up with: %s", error, extra={"place": channel_id})
            if self._gone is not None:
                await self._gone(channel_id)
        except ChannelError as error:
            self._log.warning("nothing to catch up with: %s", error, extra={"place": channel_id})
        except BaseException:
            # A defect, or the deadline of the queue: it is tried again, and holds up nothing that is live meanwhile.
            self._keep(self._late, Reading(channel_id, run.after))
            raise
        return 0.0

    def _keep(self, where: dict[str, Reading], reading: Reading) -> None:
        where.update(merged([reading, where.get(reading.channel_id, reading)]))
        self._left_over.set()

    async def _read(self, history: History, run: "_Run") -> None:
        """Page by page; `run.after` moves along, so that a second attempt goes on where the first one ended."""
        cutoff = self._clock.now() - self._max_age
        young = 0
        while young < MOST:
            start = run.after
            page = await history.since(start)
            for thread in [one for one in page.threads if one not in self._planned][:MOST_THREADS]:
                self._keep(self._late, Reading(thread, start))
            for said in page.messages:
                sent_at = said.sent_at or said.received_at
                if sent_at < cutoff:
                    run.old, run.newest_old = run.old + 1, said
                    continue
                young += 1
                await self._leave_old(run)
                await self._deliver(said)
                self.took(said)
                run.after = Position(at=sent_at, message_id=said.message_id)
            if page.following is None:
                break
            # A busy place after a long pause: do not leaf through hours that will not be answered.
            run.after = max(page.following, Position(at=cutoff), key=lambda position: position.order)
        await self._leave_old(run)

    async def _leave_old(self, run: "_Run") -> None:
        """The newest of the old ones is handed over: the gateway refuses it, tells its owner, and the next reading
        begins behind it."""
        newest, count = run.newest_old, run.old
        if newest is None:
            return
        receipt = await self._deliver(newest)
        self.took(newest)
        run.newest_old, run.old = None, 0
        if receipt is not None and receipt.outcome is not Outcome.DUPLICATE:
            self.left += count
            self._log.warning(
                "messages came while nobody listened and are too old to answer",
                extra={"place": run.channel_id, "messages": count, "newest": newest.message_id},
            )


class _Run:
    """A reading under way: how far it has come, and the old messages that were not told of yet."""

    def __init__(self, reading: Reading) -> None:
        self.channel_id = reading.channel_id
        self.after = reading.after
        self.old = 0
        self.newest_old: MessageReceived | None = None
