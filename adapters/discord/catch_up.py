"""Reads what people said while nobody listened: at the start and after every session that could not be resumed.

Places are read newest first, a few at a time; live messages of a place wait until its history was read, and a place
where somebody writes is read at once. What is too old is left unanswered and named to the operator.

While the gateway cannot tell which places there are, it is asked again and again, and each place where somebody writes
is read before that is stored: once it is, nobody could tell any more where the gap began.
"""

import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial

import anyio

from adapters.discord.account import Bot
from adapters.discord.limits import NONCE_S, PAGE, SILENT, snowflake_at
from adapters.discord.parse import Where, said
from adapters.discord.render import render
from adapters.discord.rest import Json
from agent.core.backoff import Backoff, Retries
from agent.core.bounded_map import BoundedMap
from gateway.channels.adapter import Place
from gateway.channels.channel import Attempt
from gateway.channels.errors import ChannelBusy, ChannelError, ChannelGone, ChannelUnsure, GatewayUnavailable
from gateway.channels.inbound import MessageReceived, Outcome, Receipt
from gateway.channels.kit.keyed_queue import KeyedQueue
from gateway.channels.outbound import Outbound, SentRef

# History of a channel: what people said while nobody listened, and our own message, by its nonce for some minutes and
# by its looks after that.

log = logging.getLogger("tieline.discord")

ASKING = "…"  # said for a moment to ask Discord for a message by its nonce
MOST_PAGES = 5  # of what was said since, among which our own is looked for
CLOCKS_DIFFER = timedelta(minutes=1)  # ours and Discord's

Locate = Callable[[str], Awaitable[Where]]


class DiscordHistory:
    """The history of one channel or thread."""

    def __init__(self, bot: Bot, channel_id: str, locate: Locate) -> None:
        self._bot = bot
        self._channel_id = channel_id
        self._locate = locate

    async def page(self, after: str | None, *, limit: int = PAGE) -> list[Json]:
        """The next rows after a message (or the newest ones), oldest first, whoever wrote them."""
        rows = await self._bot.rest.messages(self._channel_id, limit=limit, after=after)
        # Discord gives a page newest first, even the one that begins after a message.
        return sorted(rows, key=lambda row: int(row["id"]))

    async def read(self, rows: Sequence[Json]) -> list[MessageReceived]:
        """Words of people in these rows; a row that cannot be read is left out, for it would be so each time."""
        where = await self._locate(self._channel_id)
        read = (self._said(row, where) for row in rows)
        return [message for message in read if message is not None]

    def _said(self, row: Json, where: Where) -> MessageReceived | None:
        try:
            return said(row, where, self._bot.identity, received_at=self._bot.clock.now(), from_history=True)
        except Exception:  # the channel loop: one row must not keep all behind it from being read
            log.exception(
                "a message of the history cannot be read and is lost",
                extra={"channel_id": self._channel_id, "message_id": str(row.get("id"))},
            )
            return None

    async def find(self, key: str, attempt: Attempt | None = None) -> SentRef | None:
        """See `History.find`. No history has the nonce: the gateway's echo has, and Discord itself for some minutes."""
        known = self._bot.own.by_nonce(self._channel_id, key)
        if known is not None:
            return SentRef(known)
        if attempt is None:
            return await self._asked_for(key)
        if (self._bot.clock.now() - attempt.since).total_seconds() < NONCE_S:
            return None  # to send it again is the surest way: Discord gives back the first one
        return await self._alike(attempt)

    async def _asked_for(self, key: str) -> SentRef | None:
        """The message that an earlier process sent with this key: Discord gives it back when the key is sent again.

        What it makes instead is taken away at once, and if the first request is still on its way, it makes none.
        """
        own, rest = self._bot.own, self._bot.rest
        if own.has_tried(self._channel_id, key):
            return None
        own.tries(self._channel_id, key)
        body: Json = {"content": ASKING, "flags": SILENT, "nonce": key, "enforce_nonce": True}
        try:
            made = await rest.create_message(self._channel_id, body | {"allowed_mentions": {"parse": []}})
        except ChannelBusy:
            own.forgets(self._channel_id, key)  # nothing was asked
            raise
        message_id = str(made["id"])
        own.note(self._channel_id, message_id, key)
        if str(made.get("content")) != ASKING:
            return SentRef(message_id)
        await rest.delete_message(self._channel_id, message_id)  # if that fails, it is what is found from now on
        own.is_over(message_id)
        return None

    async def _alike(self, attempt: Attempt) -> SentRef | None:
        """The message of ours that reads like it. Raises ChannelUnsure when there is another that might be it."""
        looks, unknown = await _looks(attempt.message), False
        after, since = snowflake_at(attempt.since - CLOCKS_DIFFER), int(snowflake_at(attempt.since))
        for _ in range(MOST_PAGES):
            rows = await self.page(after)
            for row in rows:
                if str(row["author"]["id"]) != self._bot.rest.user_id or str(row["id"]) in attempt.others:
                    continue
                if _looks_of(row) == looks and _answers(row, attempt.message.reply_to):
                    return SentRef(str(row["id"]))
                unknown = unknown or int(row["id"]) >= since
            if len(rows) < PAGE:
                break
            after = str(rows[-1]["id"])
        else:
            unknown = True
        if unknown:
            raise ChannelUnsure("a message of ours stands there, and nobody can tell which")
        return None


async def _looks(message: Outbound) -> tuple[str, list[int]]:
    sizes = [(await anyio.Path(file.path).stat()).st_size for file in message.files]
    return render(message.document).strip(), sizes


def _looks_of(row: Json) -> tuple[str, list[int]]:
    return str(row.get("content") or "").strip(), [int(file["size"]) for file in row.get("attachments") or ()]


def _answers(row: Json, reply_to: str | None) -> bool:
    """Does it not answer another message than that one? An answer to a command has no reference."""
    reference = (row.get("message_reference") or {}).get("message_id")
    return reference is None or reply_to is None or str(reference) == reply_to


READERS = 4  # places read at once
ATTEMPTS = 5  # for one place
MOST = 500  # messages read in one place
LONGEST_WAIT_S = 30.0
OWED_AFTER_S = 30.0  # what could not be stored is read again after that
KNOWN_WITHIN_S = 30.0
ASKED_AGAIN = Backoff(first_s=2.0, longest_s=60.0)  # while nobody can say which places there are
REMEMBERED = 4096  # places of which the last message that was taken is kept in mind


@dataclass(slots=True)
class _Reading:
    """A place to be read, from where on; `done` once it was. `old` messages were too old, `newest_old` is the last."""

    channel_id: str
    after: str
    old: int = 0
    newest_old: MessageReceived | None = None
    done: anyio.Event = field(default_factory=anyio.Event)


class CatchUp:
    """One for an account. `begin` and `jump` are called while events arrive and never wait."""

    def __init__(
        self,
        bot: Bot,
        queues: KeyedQueue,
        locate: Locate,
        *,
        known: Callable[[], Awaitable[Sequence[Place]]],
        max_age_s: float,
        deliver: Callable[[MessageReceived], Awaitable[Receipt | None]],
        gone: Callable[[str], Awaitable[None]],
    ) -> None:
        self._bot = bot
        self._queues = queues
        self._locate = locate
        self._known = known
        self._max_age = timedelta(seconds=max_age_s)
        self._deliver = deliver
        self._gone = gone
        self._pending: OrderedDict[str, _Reading] = OrderedDict()
        self._owed: dict[str, str] = {}
        self._held: set[str] = set()  # places whose next messages wait for what is owed
        self._taken: BoundedMap[str, str] = BoundedMap(REMEMBERED)
        self._unknown_since: datetime | None = None  # when the first session began whose places nobody named yet
        self._read_unnamed: set[str] = set()  # places that were read in this session although nobody named them
        self._wanted = anyio.Event()
        self._pause = anyio.CancelScope()
        self._filled = anyio.Event()
        self.left = 0  # messages too old to be answered, since the start

    def begin(self) -> None:
        """A new session began: hold what arrives until it is known which places have to be read first."""
        self._queues.close_gate()
        self._unknown_since = self._unknown_since or self._bot.clock.now()
        self._read_unnamed.clear()
        self._wanted.set()
        self._pause.cancel()

    def jump(self, channel_id: str) -> None:
        """Something arrives there: read its history first, now."""
        reading = self._pending.pop(channel_id, None)
        if reading is not None:
            self._queue(reading)

    def owe(self, channel_id: str, message_id: str) -> None:
        """This message was not taken; the history has it, and what comes behind it waits for that."""
        self._owe_from(channel_id, str(int(message_id) - 1))
        self._held.add(channel_id)

    def took(self, channel_id: str, message_id: str) -> None:
        self._taken[channel_id] = max(message_id, self._taken.get(channel_id, message_id), key=int)

    async def read_before(self, channel_id: str) -> None:
        """A job of the place's lane, ahead of what came there live: read it, if nobody could say whether to."""
        if self._unknown_since is not None and channel_id not in self._read_unnamed:
            self._read_unnamed.add(channel_id)
            after = self._taken.get(channel_id) or snowflake_at(self._unknown_since - self._max_age)
            await self._read(_Reading(channel_id, after))

    def holds(self, channel_id: str) -> bool:
        """Something earlier is owed there: what is to be taken now would overtake it."""
        return channel_id in self._held

    async def run(self) -> None:
        async with anyio.create_task_group() as group:
            for _ in range(READERS):
                group.start_soon(self._reader)
            group.start_soon(self._pay_debts)
            retries = Retries(ASKED_AGAIN)
            while True:
                await self._wanted.wait()
                self._wanted = anyio.Event()
                if await self._plan():
                    retries.succeeded()
                    continue
                wait_s = retries.failed()
                if not self._wanted.is_set():
                    with anyio.CancelScope() as self._pause:  # a new session ends it
                        await self._bot.clock.sleep(wait_s)
                    self._wanted.set()

    async def _pay_debts(self) -> None:
        while True:
            await self._bot.clock.sleep(OWED_AFTER_S)
            if self._owed:
                self._fill({})

    async def _plan(self) -> bool:
        """Queue what has to be read, and let live messages through; False when nobody could say what that is."""
        try:
            with anyio.fail_after(KNOWN_WITHIN_S):
                places = await self._known()
        except (GatewayUnavailable, TimeoutError) as error:
            log.warning("what was said meanwhile is read later, the places are not known yet: %s", error)
            self._queues.open_gate()
            return False
        cutoff = self._bot.clock.now() - self._max_age
        readings = {}
        for place in places:
            last = place.last_message_id
            after = last if last is not None and last.isdecimal() else snowflake_at(max(place.last_at, cutoff))
            readings[place.key.channel_id] = after
        self._fill(readings)
        self._unknown_since = None
        self._queues.open_gate()
        return True

    def _fill(self, readings: dict[str, str]) -> None:
        owed, self._owed = self._owed, {}
        for channel_id, after in {**owed, **readings}.items():
            start = min(after, owed.get(channel_id, after), key=int)
            reading = _Reading(channel_id, start)
            if self._queues.is_waiting(channel_id):
                self._queue(reading, first=True)  # ahead of what has already arrived there
            else:
                self._pending[channel_id] = reading
        self._filled.set()

    def _queue(self, reading: _Reading, *, first: bool = False) -> None:
        if not self._queues.put_nowait(reading.channel_id, partial(self._read, reading), first=first):
            self._owe_from(reading.channel_id, reading.after)
            reading.done.set()

    def _owe_from(self, channel_id: str, after: str) -> None:
        self._owed[channel_id] = min(self._owed.get(channel_id, after), after, key=int)

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
        # From now on nothing waits there, unless what is read now cannot be taken again: an unreadable history must not
        # make the place deaf.
        self._held.discard(reading.channel_id)
        reading.after = min(reading.after, self._owed.pop(reading.channel_id, reading.after), key=int)
        history = DiscordHistory(self._bot, reading.channel_id, self._locate)
        try:
            for _ in range(ATTEMPTS):
                try:
                    return await self._collect(history, reading)
                except ChannelBusy as error:
                    await self._bot.clock.sleep(min(error.after_s, LONGEST_WAIT_S))
            await self._leave_old(reading)
            self._owe_from(reading.channel_id, reading.after)
        except ChannelGone:
            await self._gone(reading.channel_id)
        except ChannelError as error:
            log.warning("catch-up: %s", error, extra={"channel_id": reading.channel_id})
        except anyio.get_cancelled_exc_class():  # it took too long
            self._owe_from(reading.channel_id, reading.after)
            raise
        finally:
            reading.done.set()

    async def _collect(self, history: DiscordHistory, reading: _Reading) -> None:
        """Page by page; `reading.after` moves along, so that a second attempt goes on where the first one ended.

        It ends at a message that is not taken: that one is owed now, and all behind it.
        """
        cutoff = self._bot.clock.now() - self._max_age
        young = 0
        while young < MOST:
            rows = await history.page(reading.after)
            for message in await history.read(rows):
                if message.sent_at is not None and message.sent_at < cutoff:
                    reading.old, reading.newest_old = reading.old + 1, message
                    continue
                young += 1
                if not await self._leave_old(reading) or await self._deliver(message) is None:
                    return
            if rows:
                reading.after = str(rows[-1]["id"])
            if len(rows) < PAGE:
                break
            # A busy place after a long pause: do not leaf through hours that will not be answered.
            reading.after = max(reading.after, snowflake_at(cutoff), key=int)
        await self._leave_old(reading)

    async def _leave_old(self, reading: _Reading) -> bool:
        """False when that could not be done.

        The newest of the old ones is handed over: the gateway refuses it, tells its owner, and the next reading begins
        behind it.
        """
        newest, reading.newest_old = reading.newest_old, None
        if newest is None:
            return True
        receipt = await self._deliver(newest)
        if receipt is not None and receipt.outcome is not Outcome.DUPLICATE:
            self.left += reading.old
            log.warning(
                "catch-up: %d messages came more than %d s ago and are left unanswered",
                reading.old,
                self._max_age.total_seconds(),
                extra={"conversation": f"{self._bot.settings.channel_type}:{reading.channel_id}"},
            )
        reading.old = 0
        return receipt is not None
