"""The rows in flight, whatever their place is called now: no other worker takes one for cut off.

A place that moved has two workers for a while: the one of its old key, with a row in its hands, and
that of its new key, which finds the same row `sending`.
"""

import json
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError
from sqlalchemy import Connection, and_, bindparam, literal_column, select, union, update

from agent.core.ids import ConversationId
from agent.core.outbox import OutgoingMessage
from agent.storage import conversation_rows, outbox_rows
from agent.storage.inbox_rows import UNREADABLE
from agent.storage.payloads import decode_incoming, decode_outgoing
from agent.storage.statements import CompiledStatement
from agent.storage.tables import conversation, inbox, outbox
from gateway.channels.keys import ConversationKey
from gateway.delivery.outbox.call_journal import CallJournal
from gateway.storage.queues.given_up import Buried, GivenUp, untold

# Rows of the outbox for delivery: taking a conversation's next row, and writing down its result.

log = logging.getLogger("tieline.delivery")

Settle = Callable[[Connection], None]  # something to do within a transaction

_REPEATED = "repeated piece "  # the note of a row whose cut-off piece was sent a second time
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed:
    """A row that is marked `sending`. `cut_off`: it was so before, and its next piece may have arrived already.

    `others`, known only then, are the platform's ids of what was last said there before it.
    `sent_refs` are the platform's ids of the pieces that did arrive; `repeated` is the number of a piece that was sent
    twice without knowing better; `inbox_id` is the work that it answers; moments are UTC microseconds. `attempt` counts
    how often the row was taken, this time included.
    """

    id: int
    inbox_id: int | None
    conversation: ConversationId
    say: OutgoingMessage
    cut_off: bool
    sent_refs: tuple[str, ...]
    repeated: int | None
    created_at: int
    attempt: int = 1
    others: frozenset[str] = frozenset()

    def key(self, piece: int) -> str:
        """Names a piece across repeats in at most 25 characters (Discord's nonce), and across databases."""
        return f"{_base36(self.created_at)}-{_base36(self.id)}-{_base36(piece)}"


@dataclass(frozen=True, slots=True)
class Waiting:
    """The next row must wait until this moment, in UTC microseconds."""

    until: int


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """The next row is in the hands of another worker, which is sure to let go of it."""


# Written out: behind parameters neither database could use the partial index of open rows.
_IS_OPEN = outbox.c.status.in_((literal_column("'new'"), literal_column("'sending'")))
_OPEN = (outbox.c.conv == bindparam("conversation"), _IS_OPEN)
_NEXT = CompiledStatement(
    select(
        outbox.c.id,
        outbox.c.inbox_id,
        outbox.c.payload,
        outbox.c.status,
        outbox.c.attempts,
        outbox.c.noted_by,
        outbox.c.called_piece,
        outbox.c.sent_refs,
        outbox.c.not_before,
        outbox.c.note,
        outbox.c.created_at,
        conversation.c.state,
    )
    .join_from(outbox, conversation, conversation.c.key == outbox.c.conv, isouter=True)
    .where(*_OPEN)
    .order_by(outbox.c.id)
    .limit(1)
)
_BEFORE = (
    select(outbox.c.sent_refs)
    .where(outbox.c.conv == bindparam("conversation"), outbox.c.id < bindparam("row"))
    .order_by(outbox.c.id.desc())
    .limit(50)
)
_ANSWERED = select(outbox.c.inbox_id).where(_IS_OPEN, outbox.c.inbox_id.is_not(None))
_BEGUN = and_(inbox.c.status == literal_column("'new'"), inbox.c.attempts > 0)
_MESSAGE = select(inbox.c.conv, inbox.c.payload)
_UNFINISHED = union(
    _MESSAGE.where(_BEGUN), _MESSAGE.where(inbox.c.id.in_(_ANSWERED))
)  # an `or` would read the whole inbox
_LEFT = _MESSAGE.where(inbox.c.id.in_(_ANSWERED), inbox.c.conv == bindparam("conversation"))
_NOTE = update(outbox).where(outbox.c.id == bindparam("row")).values(note=bindparam("what"))


def claim(
    conn: Connection,
    key: ConversationId,
    now: int,
    *,
    journal: CallJournal,
    is_free: Callable[[int], bool],
    buried: Buried = untold,
) -> Claimed | Waiting | Elsewhere | None:
    """Mark the oldest open row `sending` and give it; None when there is none or the place is closed to us.

    A row that cannot be read any more is set aside as dead, which `buried` hears of. One that is `sending` already, and
    `is_free`, was cut off unless the journal of who took it shows that the platform was never called.
    """
    while found := _NEXT.rows(conn, {"conversation": key}):  # the last look of every turn finds nothing
        (row,) = found
        if row.state == "gone":
            return None
        if row.not_before is not None and row.not_before > now:
            return Waiting(row.not_before)
        if row.status == "sending" and not is_free(row.id):
            return Elsewhere()
        try:
            say = decode_outgoing(row.payload)
        except ValidationError:
            log.exception("an outbox row cannot be read", extra={"conversation": key, "outbox_id": row.id})
            outbox_rows.mark_dead(conn, row.id, UNREADABLE)
            letter = GivenUp(
                queue="out",
                id=row.id,
                conversation=key,
                inbox_id=row.inbox_id,
                attempts=row.attempts,
                why=UNREADABLE,
                at=now,
            )
            buried(conn, letter)
            continue
        sent_refs = tuple(json.loads(row.sent_refs))
        noted = (row.noted_by, row.id, row.attempts, len(sent_refs), row.called_piece)
        cut_off = row.status == "sending" and journal.may_have_begun(*noted)
        # Of a row that was cut off no journal of ours may tell that it was not.
        outbox_rows.mark_sending(conn, row.id, None if cut_off else journal.run)
        note = row.note or ""
        return Claimed(
            id=row.id,
            attempt=row.attempts + 1,
            inbox_id=row.inbox_id,
            conversation=key,
            say=say,
            cut_off=cut_off,
            sent_refs=sent_refs,
            repeated=int(note.removeprefix(_REPEATED)) if note.startswith(_REPEATED) else None,
            created_at=row.created_at,
            others=_before(conn, key, row.id) if cut_off else frozenset(),
        )
    return None


def _before(conn: Connection, key: ConversationId, row_id: int) -> frozenset[str]:
    found = conn.execute(_BEFORE, {"conversation": key, "row": row_id}).scalars()
    return frozenset(ref for refs in found for ref in json.loads(refs))


def mark_repeat(conn: Connection, row_id: int, piece: int | None) -> None:
    """Committed before a piece is sent a second time without knowing; None takes it back: it was surely not sent."""
    conn.execute(_NOTE, {"row": row_id, "what": None if piece is None else f"{_REPEATED}{piece}"})


def set_gone(conn: Connection, key: ConversationId, at: int) -> bool:
    """Stop sending there; True when this is news."""
    conversation_rows.ensure(conn, key, at)
    if conversation_rows.is_gone(conn, key):
        return False
    conversation_rows.set_gone(conn, key, gone=True)
    return True


def unfinished(conn: Connection) -> tuple[tuple[ConversationId, str], ...]:
    """Messages, by conversation and the platform's id, whose answer an earlier process began and has not delivered."""
    return _refs(conn.execute(_UNFINISHED).all())


def left_in(conn: Connection, key: ConversationId) -> tuple[tuple[ConversationId, str], ...]:
    """The same of one conversation, where the turn is over and its answer is still to be sent."""
    return _refs(conn.execute(_LEFT, {"conversation": key}).all())


def _refs(found: Sequence[Any]) -> tuple[tuple[ConversationId, str], ...]:
    refs = ((ConversationId(row.conv), _ref(row.conv, row.payload)) for row in found)
    return tuple((conversation, ref) for conversation, ref in refs if ref is not None)


def _ref(conversation: str, payload: str) -> str | None:
    """The platform's id of a stored message; None also where it cannot be read: its turn makes it a dead letter."""
    try:
        return decode_incoming(payload).message_ref
    except ValidationError:
        log.warning("a message that had begun cannot be read", extra={"conversation": conversation})
        return None


def _base36(number: int) -> str:
    digits = ""
    while True:
        number, digit = divmod(number, 36)
        digits = _DIGITS[digit] + digits
        if not number:
            return digits


Taken = Claimed | Waiting | Elsewhere


class InFlightRows:
    """One for a delivery. A row is in them from the transaction that takes it to the end of the one that settles it."""

    def __init__(self, journal: CallJournal, buried: Buried = untold) -> None:
        """`buried` hears of rows that cannot be read."""
        self._journal = journal
        self._buried = buried
        self._holders: dict[int, ConversationKey] = {}
        self._carried: dict[ConversationKey, set[int]] = {}

    def take(self, conn: Connection, key: ConversationKey, now: int) -> Taken | None:
        """The next row of the place, unless another place's worker carries it."""
        found = claim(
            conn,
            ConversationId(str(key)),
            now,
            journal=self._journal,
            is_free=lambda row: self._holders.get(row, key) == key,
            buried=self._buried,
        )
        if isinstance(found, Claimed):
            self._holders[found.id] = key
            self._carried.setdefault(key, set()).add(found.id)
        return found

    def keep_only(self, key: ConversationKey, row_id: int | None) -> None:
        """Drop the other rows of its worker, whose results are committed; None: it carries none any more."""
        carried = self._carried.pop(key, set())
        for row in carried - {row_id}:
            self._holders.pop(row, None)
        if row_id in carried:
            self._carried[key] = {row_id}
