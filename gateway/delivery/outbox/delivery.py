"""Empties the outbox: one worker per conversation that has something to send, nothing for one that has not.

The only way out for what must arrive. No polling: committed rows wake it, the start looks once.
"""

import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Protocol
from weakref import WeakValueDictionary

import anyio
from anyio.abc import TaskGroup
from sqlalchemy import Connection

from agent.core.backoff import Backoff, Retries
from agent.core.clock import Clock
from agent.core.files.store import FileStore, LocalFiles
from agent.core.ids import ConversationId
from agent.core.phrases import Phrases
from agent.storage import outbox_rows
from agent.storage.database import Database
from agent.storage.errors import StorageTrouble
from agent.storage.outbox_rows import EphemeralKind, EphemeralRow
from agent.storage.timestamps import to_timestamp
from gateway.channels.channel import Channel
from gateway.channels.keys import ConversationKey
from gateway.delivery.conversation_outbox import STOP_BUTTON_AFTER_S, ConversationOutbox
from gateway.delivery.egress import Guard, guarded
from gateway.delivery.ephemeral.drafts import Drafts
from gateway.delivery.ephemeral.messages import Ephemera, Showing, Shown, Spawn, Tidying, previews_to_keep
from gateway.delivery.ephemeral.pairing_alerts import PairingAlerts
from gateway.delivery.ephemeral.presence import TYPING_AFTER_S
from gateway.delivery.ephemeral.prompts import PlanPrompts, Prompts
from gateway.delivery.ephemeral.questions import Questions
from gateway.delivery.ephemeral.status import Buttons, LiveLines
from gateway.delivery.outbox import rows
from gateway.delivery.outbox.call_journal import CallJournal
from gateway.delivery.outbox.rows import Claimed, InFlightRows, Settle, Taken
from gateway.delivery.outbox.sender import Sender
from gateway.delivery.outbox.spoken import SpokenRows
from gateway.delivery.outbox.worker import STORAGE_PAUSE_S, Reports, Settled, Worker
from gateway.delivery.pacing import FIRST_FRAME_AFTER_S
from gateway.delivery.settings import Settings, Verbosity
from gateway.delivery.sleep import InterruptibleSleep, Later
from gateway.storage.queues.given_up import Buried, untold

# Retries of places that could not be served: the worker failed, the login was refused, or the account is absent. Their
# messages are kept meanwhile.

log = logging.getLogger("tieline.delivery")

FAILED_PAUSE_S = 30.0  # before a worker that failed comes again
LOST_PAUSE_S = 5.0  # before one does whose row another process took
REFUSED_PAUSE_S = 60.0  # before one whose login was refused does
REFUSED_LASTS_S = 2 * REFUSED_PAUSE_S
REST_WITHIN_S = 5.0
LOOKING = Backoff(first_s=0.25, longest_s=30.0)  # how soon and how seldom accounts that are not there are looked for


class Outlets(Protocol):
    """Which conversations this process sends to, where several processes might (G-161).

    Whoever takes a conversation's outlet sends all that is due there, in order, until it gives it back or is dead.
    """

    def serves(self, conversation: ConversationId) -> bool:
        """Whether it is this process that should look for what is due there."""

    def holds(self, conversation: ConversationId) -> bool:
        """Whether its outlet is this process's now."""

    async def take(self, conversation: ConversationId) -> Sequence[EphemeralRow] | None:
        """Take it. What an owner that is gone has left on the screen; None: another process has the outlet."""

    async def rest(self, conversation: ConversationId) -> None:
        """All that was due there is sent, or waits for its moment."""


class Returning:
    """`wake` serves a place."""

    def __init__(
        self,
        channel_for: Callable[[ConversationKey], Channel | None],
        clock: Clock,
        reports: Reports,
        spawn: Spawn,
        wake: Callable[[ConversationKey], None],
    ) -> None:
        self._channel_for = channel_for
        self._clock = clock
        self._reports = reports
        self._spawn = spawn
        self._wake = wake
        self._returning: set[ConversationKey] = set()  # whose worker comes again after a pause
        self._refused: dict[str, float] = {}  # accounts with which nothing can be sent, and when that was last tried
        self._homeless: dict[ConversationKey, Sequence[EphemeralRow]] = {}  # their account is not there (yet)
        self._awaiting = False
        self._opening = InterruptibleSleep(clock)

    def note_call(self, key: ConversationKey, accepted: bool) -> None:
        """A login that is refused may be taken again, also where the adapter never noticed and goes on hearing."""
        if not accepted:
            self._refused[key.channel_type] = self._clock.monotonic()
        elif self._refused.pop(key.channel_type, None) is not None:
            self._reports.login_accepted(key.channel_type)

    def is_refused(self, channel_type: str) -> bool:
        """Whether a call of that account has just met a refused login.

        What waits to be sent is tried each minute. Where nothing waits, nobody knows after two, and it is tried anew.
        """
        at = self._refused.get(channel_type)
        return at is not None and self._clock.monotonic() - at < REFUSED_LASTS_S

    def come_again(self, key: ConversationKey, after_s: float) -> None:
        """Once, however often it was asked for meanwhile."""
        if key in self._returning:
            return
        self._returning.add(key)

        async def later() -> None:
            await self._clock.sleep(after_s)
            self._returning.discard(key)
            self._wake(key)

        self._spawn(later)

    def shelve(self, key: ConversationKey, left_over: Sequence[EphemeralRow]) -> None:
        """Keep what a conversation has to say until its account is there: accounts open after the start."""
        log.info("no account serves it now; what it has to say is kept", extra={"conversation": str(key)})
        self._homeless[key] = left_over
        if not self._awaiting:
            self._awaiting = True
            self._spawn(self._await_accounts)

    def is_shelved(self, key: ConversationKey) -> bool:
        return key in self._homeless

    def unshelved(self, key: ConversationKey) -> Sequence[EphemeralRow]:
        """The rows kept for the place, which is served now."""
        return self._homeless.pop(key, ())

    def look_again(self) -> None:
        """An account was opened: what waits for a pause to be over may go now."""
        self._opening.end()
        for key in list(self._returning):
            self._wake(key)

    def account_closed(self, channel_type: str) -> None:
        """That its login was refused tells nothing of the next one."""
        self._refused.pop(channel_type, None)

    async def _await_accounts(self) -> None:
        retries = Retries(LOOKING)
        while self._homeless:
            await self._opening.sleep(retries.failed())
            for key in [key for key in self._homeless if self._channel_for(key) is not None]:
                self._wake(key)
        self._awaiting = False


class Delivery:
    """Owns all sending. `run` must be under way for anything to leave."""

    def __init__(
        self,
        database: Database,
        channel_for: Callable[[ConversationKey], Channel | None],
        clock: Clock,
        *,
        home: Path,
        journal: CallJournal,
        phrase: Phrases,
        reports: Reports,
        settings: Settings | None = None,
        verbosity: Callable[[ConversationKey], Verbosity] | None = None,
        is_busy: Callable[[], bool] = lambda: False,
        guard: Guard = Guard(),  # noqa: B008 - frozen
        buried: Buried = untold,
        outlets: Outlets | None = None,
        files: FileStore = LocalFiles(),  # noqa: B008 - without state
    ) -> None:
        """While `is_busy`, what may be left out is not sent. `guard` looks at what leaves; `close` ends `journal`.

        `verbosity` is what counts in a place; None: what `settings` say. `buried` writes of messages that are given up.
        `outlets` None: no other process sends.
        `files` brings what is attached to the data directory.
        """
        channel_for = guarded(channel_for, guard, lambda key, accepted: self._returning.note_call(key, accepted))
        self.guard = guard
        self.is_busy = is_busy
        self.settings = settings or Settings()
        self.verbosity = verbosity or (lambda key: self.settings.verbosity_of(key))
        self.clock = clock
        self.phrase = phrase
        self.channel_for = channel_for
        self.ephemera = Ephemera(database, clock)
        self._tidying = Tidying(channel_for, self.ephemera, clock, phrase, lambda: self.settings.acknowledge)
        self.showing = Showing(self.ephemera, clock, self.spawn, self._discard)
        first_frames = Later(FIRST_FRAME_AFTER_S, clock, self.spawn)
        self.drafts = Drafts(self.spawn, first_frames, self._discard, self._has_more)
        self.signs_of_life = Later(TYPING_AFTER_S, clock, self.spawn)
        self.stop_buttons = Later(STOP_BUTTON_AFTER_S, clock, self.spawn)
        self.questions = Questions(self.showing, clock, phrase, self.spawn)
        self.prompts = Prompts(database, channel_for, clock, phrase, home, self.spawn)
        self.plan_prompts = PlanPrompts(database, channel_for, clock, phrase, home, self.spawn)
        self.pairing_alerts = PairingAlerts(database, channel_for, clock, phrase, home, self.spawn)
        self._database = database
        self._reports = reports
        self._settled: list[Settled] = []
        self._journal = journal
        self.spoken = SpokenRows(phrase, guard)
        self._sender = Sender(self._write, home, phrase, guard, journal, self.spoken, files)
        self._buried = buried
        self.outlets = outlets
        self._in_flight = InFlightRows(journal, buried)
        self._tasks: TaskGroup | None = None
        self._woken: set[ConversationKey] = set()
        self._workers: set[ConversationKey] = set()
        self._closings: dict[str, int] = {}  # how often each account was closed while the rest went on
        self._returning = Returning(channel_for, clock, reports, self.spawn, self.wake)
        self._started = anyio.Event()
        self._idle = anyio.Event()
        self._live = LiveLines(channel_for, self.showing, clock, self.spawn, lambda: self.is_busy())
        self._voices: WeakValueDictionary[ConversationKey, ConversationOutbox] = WeakValueDictionary()

    # -- what other rooms use

    def outbox_for(self, key: ConversationKey) -> ConversationOutbox:
        """The conversation's voice; the same object while somebody holds it."""
        voice = self._voices.get(key)
        if voice is None:
            voice = self._voices[key] = ConversationOutbox(key, self)
        return voice

    def wake(self, key: ConversationKey) -> None:
        """Rows of this conversation were committed. Another process that sends them is told by the database."""
        if self.outlets is not None and not self.outlets.serves(ConversationId(str(key))):
            return
        self._woken.add(key)
        if self._tasks is not None and key not in self._workers:
            self._start(key, self._returning.unshelved(key))

    def adopt(self, key: ConversationKey, left_over: Sequence[EphemeralRow]) -> None:
        """Its outlet is this process's now: finish what one that is gone has left."""
        self._woken.add(key)
        if self._tasks is not None and key not in self._workers:
            self._start(key, left_over, is_adopted=True)

    @contextmanager
    def committing(self, key: ConversationKey) -> Iterator[Settle]:
        """See `agent.core.outbox.Outbox`. Where a worker is under way, it is only woken."""
        tasks = self._tasks
        channel = None
        ours = self.outlets is None or self.outlets.holds(ConversationId(str(key)))
        if tasks is not None and ours and key not in self._workers and not self._returning.is_shelved(key):
            channel = self.channel_for(key)
        if tasks is None or channel is None:
            yield lambda conn: None
            self.wake(key)
            return
        closings = self._closings.get(key.channel_type, 0)
        self._workers.add(key)  # nobody else may take a row between the commit and the start of its worker
        taken: Taken | None = None
        first: Taken | None = None  # where what became of the commit is not known, the worker looks

        def take(conn: Connection) -> None:
            nonlocal taken
            taken = self._in_flight.take(conn, key, to_timestamp(self.clock.now()))

        try:
            yield take
            first = taken
        finally:
            self._woken.add(key)
            if self._closings.get(key.channel_type, 0) != closings:  # meanwhile: another channel may be there now
                channel = None
            if self._tasks is tasks:
                tasks.start_soon(self._work, key, (), first, channel)
            else:  # nothing is sent any more; the next start does it
                self._workers.discard(key)

    def hear_settled(self, listener: Settled) -> None:
        """Tell it of each row that was sent or given up; it must only note that."""
        self._settled.append(listener)

    async def reachable(self, key: ConversationKey, within_s: float) -> Channel | None:
        """The place, as soon as its account is open: work that a crash cut off goes on before accounts are."""
        gives_up = self.clock.monotonic() + within_s
        while (channel := self.channel_for(key)) is None and self.clock.monotonic() < gives_up:
            await self.clock.sleep(LOOKING.first_s)
        return channel

    def is_refused(self, channel_type: str) -> bool:
        """Whether the platform refuses the account's login when called; its adapter may not have noticed."""
        return self._returning.is_refused(channel_type)

    def look_again(self) -> None:
        """An account was opened: send what waited for it. (Without this it is noticed within half a minute.)"""
        self._returning.look_again()

    def account_closed(self, channel_type: str) -> None:
        """Channels of that account are of no use any more; what is due there waits until it is open again."""
        self._closings[channel_type] = self._closings.get(channel_type, 0) + 1
        self._returning.account_closed(channel_type)

    async def run(self) -> None:
        """Finish what an earlier process left, then serve until cancelled. Start it before any agent."""
        left_over: dict[ConversationKey, list[EphemeralRow]] = {}
        if self.outlets is None:
            await self._find_left(left_over)
        reacted = await self._database.read(rows.unfinished) if self.outlets is None else ()
        runs = await self._database.read(outbox_rows.runs_with_open)
        await anyio.to_thread.run_sync(self._journal.recover, runs)
        try:
            async with anyio.create_task_group() as tasks:
                self._tasks = tasks
                self._woken.update(left_over)
                for conversation, message in reacted:
                    self.spawn(partial(self._tidying.unreact, ConversationKey.parse(conversation), message))
                for key in sorted(self._woken, key=str):
                    self._start(key, left_over.get(key, ()))
                self.spawn(self.prompts.recover)
                self.spawn(self.plan_prompts.recover)
                self._started.set()
                await anyio.sleep_forever()
        finally:
            self._tasks = None

    async def _find_left(self, left_over: dict[ConversationKey, list[EphemeralRow]]) -> None:
        """Leftovers of an earlier process: shown things, and rows to send."""
        for row in await self._database.read(outbox_rows.all_for):
            left_over.setdefault(ConversationKey.parse(row.conversation), []).append(row)
        for conversation in await self._database.read(outbox_rows.conversations_with_open):
            self._woken.add(ConversationKey.parse(conversation))

    async def ready(self) -> None:
        """Return once `run` has looked at what was left; before that, voices show nothing."""
        await self._started.wait()

    async def drain(self, within_s: float) -> bool:
        """Wait until everything committed was sent; False when time was short: the rest waits for the next start."""
        with anyio.move_on_after(within_s):
            await self.ready()
            while self._workers:
                self._idle = anyio.Event()
                await self._idle.wait()
        return not self._workers

    def close(self) -> None:
        """Nothing is sent any more."""
        self._journal.close()

    # -- what voices use

    def spawn(self, job: Callable[[], Awaitable[None]]) -> bool:
        """Run something best effort beside everything else; False: without `run` it is left out."""
        if self._tasks is None:
            return False
        self._tasks.start_soon(self._best_effort, job)
        return True

    async def _best_effort(self, job: Callable[[], Awaitable[None]]) -> None:
        try:
            await job()
        except Exception:  # the channel seam, for what may be left out
            log.exception("a preview, status or sign of life failed; what must arrive is not touched")

    def is_delivering(self, key: ConversationKey) -> bool:
        """Something that was said before is still on its way."""
        return key in self._workers

    def show_live(self, key: ConversationKey, text: str, buttons: Buttons = ()) -> None:
        """One message that follows longer work there, changed in place; "" takes it away."""
        self._live.show(key, text, buttons)

    def _has_more(self, key: ConversationKey) -> bool:
        """A row of it is still on its way, or just committed."""
        return key in self._workers or key in self._woken

    def _discard(self, key: ConversationKey, kind: EphemeralKind, shown: Shown) -> None:
        """See to it that something that was noted goes from the screen."""
        self.spawn(partial(self._tidying.remove, key, kind, shown, self._language(key)))

    # -- the workers

    def _start(self, key: ConversationKey, left_over: Sequence[EphemeralRow], *, is_adopted: bool = False) -> None:
        assert self._tasks is not None
        self._workers.add(key)
        self._tasks.start_soon(partial(self._work, key, left_over, is_adopted=is_adopted))

    async def _work(
        self,
        key: ConversationKey,
        left_over: Sequence[EphemeralRow],
        first: Taken | None = None,
        channel: Channel | None = None,
        *,
        is_adopted: bool = False,
    ) -> None:
        """`first` are rows that are taken already, `channel` is the place, where it was found already.

        `is_adopted`: the outlet was another process's; signs that it was at work are taken back.
        """
        kept: list[Shown] = []
        try:
            channel = channel or self.channel_for(key)
            if channel is None:
                self._returning.shelve(key, left_over)
                return
            if self.outlets is not None and not self.outlets.holds(ConversationId(str(key))):
                found = await self.outlets.take(ConversationId(str(key)))
                if found is None:
                    return
                left_over, is_adopted = found, True
            if is_adopted:  # before anything is sent: then it would not be left any more
                for _, message in await self._database.read(partial(rows.left_in, key=ConversationId(str(key)))):
                    self.spawn(partial(self._tidying.unreact, key, message))
            if left_over:
                kept = previews_to_keep(channel, left_over)
                self.spawn(partial(self._tidying.clear, key, left_over, tuple(kept), self._language(key)))
            closings = self._closings.get(key.channel_type, 0)
            while key in self._woken:
                self._woken.discard(key)
                worker = self._worker(key, channel, kept)
                await worker.run(first)
                if worker.login_refused:
                    self._returning.come_again(key, REFUSED_PAUSE_S)
                if worker.lost_row:
                    self._returning.come_again(key, LOST_PAUSE_S)
                first = None
                if self._closings.get(key.channel_type, 0) != closings:  # its account was closed, or opened anew
                    closings = self._closings[key.channel_type]
                    channel = self.channel_for(key)
                    if channel is None:
                        self._returning.shelve(key, ())
                        return
                    self._woken.add(key)
            for shown in kept:  # nothing was there to take its place
                self._discard(key, "preview", shown)
        except Exception:  # the channel seam: other conversations are delivered to
            log.exception("a delivery worker failed; it comes again", extra={"conversation": str(key)})
            self._returning.come_again(key, FAILED_PAUSE_S)
        finally:
            self._woken.discard(key)
            self._workers.discard(key)
            self._in_flight.keep_only(key, None)
            if not self._workers:
                self._idle.set()
            self.drafts.drop_ended(key)
            if self.outlets is not None:
                with anyio.CancelScope(shield=True), anyio.move_on_after(REST_WITHIN_S):
                    await self.outlets.rest(ConversationId(str(key)))

    def _worker(self, key: ConversationKey, channel: Channel, kept: list[Shown]) -> Worker:
        closings = self._closings.get(key.channel_type, 0)

        async def take_preview(work: int | None) -> Shown | None:
            """Only that of the same work: another one's would hide whether this reply had arrived already."""
            if work is None:
                return None
            for shown in [shown for shown in kept if shown.of == work]:
                kept.remove(shown)
                return shown
            return await self.drafts.take(key, work)

        return Worker(
            key,
            channel,
            database=self._database,
            clock=self.clock,
            sender=self._sender,
            in_flight=self._in_flight,
            journal=self._journal,
            phrase=self.phrase,
            reports=self._reports,
            settings=self.settings,
            language=self._language(key),
            take_preview=take_preview,
            remove_preview=partial(self._discard, key, "preview"),
            settled=self._tell_settled,
            is_closed=lambda: self._closings.get(key.channel_type, 0) != closings,
            buried=self._buried,
        )

    def _tell_settled(self, row: Claimed, sent: bool) -> None:
        for listener in self._settled:
            listener(row, sent)

    def _language(self, key: ConversationKey) -> str:
        voice = self._voices.get(key)
        return voice.language if voice is not None else self.settings.language

    async def _write(self, work: Settle) -> None:
        """Commit, however long the disk takes to recover: a lost note about a sent message would send it again."""
        while True:
            try:
                await self._database.write(work)
            except StorageTrouble as error:
                log.warning("what was sent cannot be written down yet: %s", error)
                await self.clock.sleep(STORAGE_PAUSE_S)
            else:
                return
