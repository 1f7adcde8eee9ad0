"""Carries one outbox row to its platform: every piece once, in order, nothing twice without saying so.

What could not be done comes back as data: the worker of the conversation decides when to come again.
"""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import anyio
from sqlalchemy import Connection

from agent.core.failpoints import failpoint
from agent.core.files.store import FileStore, LocalFiles
from agent.core.phrases import Phrases
from agent.storage import outbox_rows
from agent.storage.errors import StorageTrouble
from agent.storage.timestamps import from_timestamp
from gateway.channels.channel import Attempt, Channel
from gateway.channels.document import Plain
from gateway.channels.errors import (
    ChannelBusy,
    ChannelError,
    ChannelFatal,
    ChannelGone,
    ChannelRejected,
    ChannelUnsure,
)
from gateway.channels.keys import UserId
from gateway.channels.outbound import Outbound, SentRef
from gateway.delivery.egress import Guard
from gateway.delivery.ephemeral.messages import Shown, located, take_away
from gateway.delivery.outbox import rows
from gateway.delivery.outbox.call_journal import CallJournal
from gateway.delivery.outbox.rows import Claimed, Settle
from gateway.delivery.outbox.spoken import SpokenRows
from gateway.delivery.rendering.compose import composed, flagged

log = logging.getLogger("tieline.delivery")

SEND_DEADLINE_S = 60.0
UPLOAD_DEADLINE_S = 300.0
UNSURE_PAUSE_S = 1.0

Write = Callable[[Callable[[Connection], None]], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Sent:
    refs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Later:
    """Come again after `after_s`. `surely_not`: what is open has not arrived, so there is nothing to look up then.

    `fault`: the adapter raised something it must not raise; that is not tried for ever.
    """

    after_s: float
    surely_not: bool
    reason: str
    fault: bool = False


@dataclass(frozen=True, slots=True)
class Refused:
    """Never to be sent."""

    reason: str


@dataclass(frozen=True, slots=True)
class Gone:
    """The place is closed to us, or (`account`) the whole account is."""

    reason: str
    surely_not: bool
    account: bool = False


@dataclass(frozen=True, slots=True)
class Lost:
    """Another process carries the row now: nothing of it is written from here."""

    reason: str


Outcome = Sent | Later | Refused | Gone | Lost


@dataclass(frozen=True, slots=True)
class _Step:
    """One message of a row. `cut_off`: it may have arrived already; `others` are ids of messages that it is not."""

    message: Outbound
    piece: int
    cut_off: bool
    others: frozenset[str]


class _Unknowable(Exception):
    """Nobody can tell whether a piece arrived, and it was repeated already."""


class Sender:
    """Sends rows through channels. `write` commits and does not give up; `journal` notes each call before it begins;
    `spoken` makes the sound of what is read out, `files` brings what is attached."""

    def __init__(
        self,
        write: Write,
        home: Path,
        phrase: Phrases,
        guard: Guard,
        journal: CallJournal,
        spoken: SpokenRows,
        files: FileStore = LocalFiles(),  # noqa: B008 - without state
    ) -> None:
        self._files = files
        self._guard = guard
        self._spoken = spoken
        self._journal = journal
        self._write = write
        self._home = home
        self._phrase = phrase

    async def deliver(
        self,
        row: Claimed,
        channel: Channel,
        preview: Shown | None,
        language: str,
        *,
        astray: Callable[[Shown], None],
        progress: Callable[[tuple[str, ...]], Settle],
    ) -> Outcome:
        """Send what is still to be sent of the row; `preview` is what its first piece takes the place of.

        `astray` is told when the piece arrived as a message of its own, since the preview was not to be found.
        `progress` says how it is written down that so many pieces have arrived.
        """
        refs = list(row.sent_refs)
        cut_off = row.cut_off
        try:
            row = await self._spoken.ready(row, channel.capabilities, language)
            await self._fetched(row)
            messages = await composed(row, channel.capabilities, self._home, self._phrase, language, self._guard)
            for piece in range(len(refs), len(messages)):
                failpoint("send.before")
                await self._note(row, piece)
                failpoint("send.noted")
                shown = preview if piece == 0 else None
                step = _Step(messages[piece], piece, cut_off, frozenset(refs) | row.others)
                sent = await self._piece(row, channel, step, shown, language, astray)
                failpoint("send.after")
                cut_off = False
                refs.append(sent.id)
                if piece < len(messages) - 1:
                    await self._write(progress(tuple(refs)))
                    failpoint("send.piece")
        except outbox_rows.RowTaken as error:
            return Lost(str(error))
        except ChannelBusy as error:
            return Later(error.after_s, surely_not=not cut_off, reason=str(error))
        except StorageTrouble as error:
            return Later(UNSURE_PAUSE_S, surely_not=not cut_off, reason=str(error))
        except ChannelUnsure as error:
            return Later(UNSURE_PAUSE_S, surely_not=False, reason=str(error))
        except TimeoutError:
            return Later(UNSURE_PAUSE_S, surely_not=False, reason="no answer from the platform")
        except ChannelGone as error:
            return Gone(str(error), surely_not=not cut_off)
        except ChannelRejected as error:
            return Refused(str(error))
        except ChannelFatal as error:
            return Gone(str(error), surely_not=not cut_off, account=True)
        except _Unknowable:
            return Refused("the connection broke off twice while sending; it may or may not have arrived")
        except Exception as error:  # the channel seam: what was to be sent stays, and is tried again
            log.exception("an adapter failed while sending", extra={"conversation": row.conversation})
            return Later(UNSURE_PAUSE_S, surely_not=False, reason=f"{type(error).__name__} in the adapter", fault=True)
        return Sent(tuple(refs))

    async def _fetched(self, row: Claimed) -> None:
        """Have its files here: another process may have made them. Raises StorageTrouble, ChannelBusy."""
        try:
            for file in row.say.files:
                await self._files.need(file.path)
        except OSError as error:
            raise ChannelBusy(f"a file cannot be fetched: {error}", after_s=UNSURE_PAUSE_S) from error

    async def _note(self, row: Claimed, piece: int) -> None:
        """Note the call. Where there is no room for that, the database says that it may have begun. Raises RowTaken."""
        if self._journal.in_rows:
            await self._write(partial(outbox_rows.mark_called, row_id=row.id, attempt=row.attempt, piece=piece))
        elif not self._journal.note(row.id, row.attempt, piece):
            await self._write(partial(outbox_rows.mark_unnoted, row_id=row.id))

    async def _piece(
        self,
        row: Claimed,
        channel: Channel,
        step: _Step,
        preview: Shown | None,
        language: str,
        astray: Callable[[Shown], None],
    ) -> SentRef:
        with anyio.fail_after(UPLOAD_DEADLINE_S if step.message.files else SEND_DEADLINE_S):
            if preview is not None:
                placed = await self._in_place_of(preview, channel, step)
                if placed is not None:
                    return placed
            sent = await self._anew(row, channel, step, language)
        if preview is not None and preview.by == "key":
            astray(preview)
        return sent

    async def _anew(self, row: Claimed, channel: Channel, step: _Step, language: str) -> SentRef:
        message = step.message
        if not step.cut_off:
            return await self._send(row, channel, message)
        if channel.capabilities.idempotent_send == "none":
            return await self._repeat(row, channel, step, language)
        # Also where the platform refuses a second one by itself: its memory is short.
        found: SentRef | None = None
        if channel.history is not None:
            attempt = Attempt(message=message, since=from_timestamp(row.created_at), others=step.others)
            try:
                found = await channel.history.find(message.key, attempt)
            except ChannelUnsure:
                return await self._repeat(row, channel, step, language)
        return found or await self._send(row, channel, message)

    async def _in_place_of(self, preview: Shown, channel: Channel, step: _Step) -> SentRef | None:
        """Turn the preview into the message; None when it must be sent anew."""
        message, cut_off = step.message, step.cut_off
        try:
            if preview.by == "key" and cut_off:
                if channel.capabilities.idempotent_send == "nonce":
                    # The message may stand beside it, and where keys are forgotten its looks could be the preview's.
                    await take_away(channel, preview)
                    return None
                if await _has_arrived(channel, message):
                    return None  # before the preview did
            if preview.by != "stream":
                sent = await located(channel, preview)
                if sent is not None:
                    await channel.edit(sent, message)
                return sent
            if channel.streams is not None and not cut_off:
                return await channel.streams.finish(preview.sent, message)
        except (ChannelUnsure, TimeoutError) as error:
            if preview.by != "stream":  # an edit may be made twice
                raise ChannelBusy(str(error) or "no answer to an edit", after_s=UNSURE_PAUSE_S) from error
            raise
        except ChannelGone:
            raise
        except ChannelRejected as error:
            # A deleted preview: whether the platform dislikes the text itself, the new message will tell.
            log.info("a preview cannot become final: %s", error, extra={"conversation": str(channel.key)})
            await _take_away(preview, channel)
        else:
            await _take_away(preview, channel)
        return None

    async def _send(self, row: Claimed, channel: Channel, message: Outbound) -> SentRef:
        can = channel.capabilities
        alone = can.ephemeral or (can.ephemeral_answers and row.say.interaction is not None)
        if row.say.private_to is not None and alone:
            to = UserId(row.say.private_to.partition(":")[2])
            return await channel.send_ephemeral(message, to) or SentRef("")
        return await channel.send(message)

    async def _repeat(self, row: Claimed, channel: Channel, step: _Step, language: str) -> SentRef:
        """Once, and with a line that says so: this platform cannot tell whether the first one arrived."""
        message, piece = step.message, step.piece
        if row.repeated == piece:
            raise _Unknowable
        await self._write(lambda conn: rows.mark_repeat(conn, row.id, piece))
        note = self._phrase("repeat", language)
        marked = flagged(message, note, channel.capabilities)
        try:
            if marked is None:
                await channel.send(Outbound(document=(Plain(note),)))
            return await self._send(row, channel, marked or message)
        except ChannelBusy:
            await self._write(lambda conn: rows.mark_repeat(conn, row.id, None))
            raise


async def _has_arrived(channel: Channel, message: Outbound) -> bool:
    return channel.history is not None and await channel.history.find(message.key) is not None


async def _take_away(preview: Shown, channel: Channel) -> None:
    try:
        await take_away(channel, preview)
    except ChannelError as error:
        log.info("a preview stays behind: %s", error, extra={"conversation": str(channel.key)})
