"""The worker of one conversation's outbox: sends in order, until it is empty or the place is closed."""

import logging
from collections.abc import Awaitable, Callable
from functools import partial
from math import inf
from typing import Protocol

import anyio
from sqlalchemy import Connection

from agent.core.clock import Clock
from agent.core.ids import ConversationId
from agent.core.phrases import Phrases
from agent.storage import outbox_rows
from agent.storage.database import Database
from agent.storage.errors import StorageTrouble
from agent.storage.timestamps import to_timestamp
from gateway.channels.channel import Channel
from gateway.channels.document import Plain
from gateway.channels.errors import ChannelBusy, ChannelError
from gateway.channels.keys import ConversationKey, UserId
from gateway.channels.outbound import Outbound
from gateway.delivery.ephemeral.messages import CALL_DEADLINE_S, Shown, notes
from gateway.delivery.outbox import rows
from gateway.delivery.outbox.call_journal import CallJournal
from gateway.delivery.outbox.rows import Claimed, Elsewhere, InFlightRows, Settle, Taken, Waiting
from gateway.delivery.outbox.sender import Gone, Later, Lost, Outcome, Refused, Sender, Sent
from gateway.delivery.pacing import retry_after
from gateway.delivery.settings import Settings
from gateway.storage.queues.given_up import Buried, GivenUp, untold

log = logging.getLogger("tieline.delivery")

STORAGE_PAUSE_S = 2.0
HAND_OVER_S = 0.5  # between looks at a row that another worker still carries: its place has moved
FAULTS_ENOUGH = 5  # an adapter that raises what it must not is asked so often about one message
Settled = Callable[[Claimed, bool], None]  # the row will not be looked at again: was it sent? Must only note it
TRIES_AT_LEAST = 5  # a message that grew old while nobody ran is still tried so often


class Reports(Protocol):
    """Told what the operator and the owner should know; must only note it."""

    def dead(self, key: ConversationKey, outbox_id: int, reason: str) -> None:
        """A message will never be sent."""

    def gone(self, key: ConversationKey, reason: str) -> None:
        """A place is closed to us; told once until it is back."""

    def login_refused(self, channel_type: str, reason: str) -> None:
        """Nothing can be sent with this account, whatever its adapter hears; told at each try."""

    def login_accepted(self, channel_type: str) -> None:
        """Note that the login is accepted again."""


class Worker:
    """`take_preview` hands over the preview that the reply to a piece of work takes the place of, if there is one;
    `remove_preview` sees to it that one goes; `settled` hears of rows as below. Once `is_closed` the channel is of no
    use: no row is taken any more. `buried` writes of a message that is given up, in the transaction that does that.
    """

    def __init__(
        self,
        key: ConversationKey,
        channel: Channel,
        *,
        database: Database,
        clock: Clock,
        sender: Sender,
        in_flight: InFlightRows,
        journal: CallJournal,
        phrase: Phrases,
        reports: Reports,
        settings: Settings,
        language: str,
        take_preview: Callable[[int | None], Awaitable[Shown | None]],
        remove_preview: Callable[[Shown], None],
        settled: Settled,
        is_closed: Callable[[], bool] = lambda: False,
        buried: Buried = untold,
    ) -> None:
        self._key = key
        self._conversation = ConversationId(str(key))
        self._channel = channel
        self._database = database
        self._clock = clock
        self._sender = sender
        self._in_flight = in_flight
        self._journal = journal
        self._phrase = phrase
        self._reports = reports
        self._settings = settings
        self._language = language
        self._take_preview = take_preview
        self._remove_preview = remove_preview
        self._told = settled
        self._is_closed = is_closed
        self._buried = buried
        self._preview: tuple[int, Shown] | None = None  # of the row it is meant for
        self._failures = (0, 0)  # row, failures in a row
        self._postponed_until = inf  # on the stopwatch; the row that is next
        self._gone_for: str | None = None  # why the place is closed, if that is news
        self.login_refused = False  # the last time that something was to be sent
        self.lost_row = False  # another process sends here, too

    async def run(self, first: Taken | None = None) -> None:
        """Begin with `first`, if it was taken already."""
        claimed = first or await self._next(None, closed=False)
        while claimed is not None:
            settle: Settle | None = None
            closed, due = False, 0
            before = claimed
            if isinstance(claimed, Waiting):
                # Put off by us, it waits by the stopwatch: the wall clock may be set back meanwhile.
                wait_s = min((claimed.until - self._now()) / 1e6, self._postponed_until - self._clock.monotonic())
                await self._clock.sleep(wait_s)
                due = claimed.until
            elif isinstance(claimed, Elsewhere):
                await self._clock.sleep(HAND_OVER_S)
            else:
                outcome = self._given_up(claimed, await self._deliver(claimed))
                settle, pause_s, closed = self._conclude(claimed, outcome)
                if isinstance(outcome, Refused):
                    pause_s = await self._apologise(claimed, outcome.reason)
                if pause_s:
                    await self._clock.sleep(pause_s)
            claimed = await self._next(settle, closed=closed, due=due)
            if isinstance(before, Claimed):
                self._journal.release(before.id)  # what became of it is committed
        if self._gone_for is not None:  # told here and not in `_leave`, which runs in the database's thread
            self._reports.gone(self._key, self._gone_for)

    async def _next(self, settle: Settle | None, *, closed: bool, due: int = 0) -> Taken | None:
        """However long the disk takes to recover."""
        while True:
            try:
                found = await self._database.write(partial(self._step, settle, closed, due))
            except StorageTrouble as error:
                log.warning("the outbox cannot be read or written: %s", error, extra={"conversation": str(self._key)})
                await self._clock.sleep(STORAGE_PAUSE_S)
            else:
                self._in_flight.keep_only(self._key, found.id if isinstance(found, Claimed) else None)
                return found

    def _step(self, settle: Settle | None, closed: bool, due: int, conn: Connection) -> Taken | None:
        """Write down what became of the last row and take the next, in one transaction."""
        if settle is not None:
            settle(conn)
        return None if closed or self._is_closed() else self._in_flight.take(conn, self._key, max(self._now(), due))

    def _now(self) -> int:
        return to_timestamp(self._clock.now())

    async def _deliver(self, row: Claimed) -> Outcome:
        preview = await self._preview_for(row)
        return await self._sender.deliver(
            row, self._channel, preview, self._language, astray=self._astray, progress=partial(self._progress, row)
        )

    def _progress(self, row: Claimed, refs: tuple[str, ...]) -> Settle:
        mark = partial(outbox_rows.mark_progress, row_id=row.id, sent_refs=refs, noted_by=self._journal.run)
        return self._settled(row, mark)

    def _astray(self, preview: Shown) -> None:
        """The reply stands without it; if it arrives yet, it goes."""
        self._preview = None
        self._remove_preview(preview)

    async def _preview_for(self, row: Claimed) -> Shown | None:
        if row.sent_refs or row.say.kind == "notice" or row.say.private_to is not None or row.say.spoken is not None:
            return None
        if self._preview is None or self._preview[0] != row.id:
            shown = await self._take_preview(row.inbox_id)
            self._preview = (row.id, shown) if shown is not None else None
        return self._preview[1] if self._preview else None

    def _conclude(self, row: Claimed, outcome: Outcome) -> tuple[Settle | None, float, bool]:
        """The values to write, the pause before the next look, and whether to stop altogether."""
        extra = {"conversation": str(self._key), "outbox_id": row.id}
        match outcome:
            case Sent(refs):
                self.login_refused = False
                self._told(row, True)
                return self._settled(row, partial(outbox_rows.mark_sent, row_id=row.id, sent_refs=refs)), 0.0, False
            case Refused(reason):
                log.error("a message was given up: %s", reason, extra=extra)
                self._reports.dead(self._key, row.id, reason)
                self._told(row, False)
                if self._preview is not None and self._preview[0] == row.id and self._preview[1].by == "key":
                    self._astray(self._preview[1])
                return self._settled(row, partial(self._bury, self._letter(row, reason))), 0.0, False
            case Later(after_s, surely_not, reason):
                wait = retry_after(after_s, self._failures[1])
                log.info("sending waits %.1f s: %s", wait, reason, extra=extra)
                if surely_not:
                    until = self._now() + int(wait * 1e6)
                    self._postponed_until = self._clock.monotonic() + wait
                    return partial(outbox_rows.postpone, row_id=row.id, not_before=until), 0.0, False
                return partial(outbox_rows.mark_unnoted, row_id=row.id), wait, False
            case Lost(reason):
                log.warning("another process sends there: %s", reason, extra=extra)
                self.lost_row = True
                return None, 0.0, True
            case Gone(reason, surely_not, account):
                log.warning("nothing is sent there any more: %s", reason, extra=extra)
                if account:
                    self.login_refused = True
                    self._reports.login_refused(self._key.channel_type, reason)
                return partial(self._leave, row, reason, surely_not, account), 0.0, True

    def _letter(self, row: Claimed, why: str) -> GivenUp:
        return GivenUp(
            queue="out",
            id=row.id,
            conversation=self._conversation,
            inbox_id=row.inbox_id,
            attempts=row.attempt,
            why=why,
            at=self._now(),
        )

    def _bury(self, letter: GivenUp, conn: Connection) -> None:
        outbox_rows.mark_dead(conn, letter.id, letter.why)
        self._buried(conn, letter)

    def _given_up(self, row: Claimed, outcome: Outcome) -> Outcome:
        """The outcome, or a refusal in place of one try too many."""
        if not isinstance(outcome, Later):
            return outcome
        failures = self._failures[1] + 1 if self._failures[0] == row.id else 1
        self._failures = (row.id, failures)
        age_s = (self._now() - row.created_at) / 1e6
        too_old = age_s >= self._settings.give_up_after_s and failures >= TRIES_AT_LEAST
        if too_old or (outcome.fault and failures >= FAULTS_ENOUGH):
            return Refused(f"given up after {age_s / 3600:.1f} h: {outcome.reason}")
        return outcome

    def _settled(self, row: Claimed, mark: Settle) -> Settle:
        """`mark`, and in the same transaction the preview ceases to be one: what a piece took the place of is never
        taken away, whenever the process ends.
        """
        if self._preview is None or self._preview[0] != row.id:
            return mark
        shown, self._preview = self._preview[1], None

        def both(conn: Connection) -> None:
            mark(conn)
            outbox_rows.forget(conn, conversation=self._conversation, kind="preview", refs=notes(shown))

        return both

    def _leave(self, row: Claimed, reason: str, surely_not: bool, account: bool, conn: Connection) -> None:
        if surely_not:
            outbox_rows.postpone(conn, row.id, self._now())
        else:
            outbox_rows.mark_unnoted(conn, row.id)
        if not account and rows.set_gone(conn, self._conversation, self._now()):
            self._gone_for = reason

    async def _apologise(self, row: Claimed, reason: str) -> float:
        """One short sentence instead of the message that was refused; if that fails too, the operator knows.

        What was for one person alone is no news for the others there. Gives how long the platform wants to be left
        alone.
        """
        try:
            with anyio.fail_after(CALL_DEADLINE_S):
                told = self._phrase("undeliverable", self._language, reason=reason[:200])
                words = self._phrase("with_ref", self._language, text=told, ref=f"out-{row.id}")
                notice = Outbound(document=(Plain(words),))
                if row.say.private_to is not None and self._channel.capabilities.ephemeral:
                    await self._channel.send_ephemeral(notice, UserId(row.say.private_to.partition(":")[2]))
                else:
                    await self._channel.send(notice)
        except ChannelBusy as error:
            return error.after_s
        except (ChannelError, TimeoutError) as error:
            log.warning("nor could that be told there: %s", error, extra={"conversation": str(self._key)})
        except Exception:  # the channel seam: what became of the row must be written down
            log.exception("nor could that be told there", extra={"conversation": str(self._key)})
        return 0.0
