"""Rows of the outbox: what must arrive on a platform, in the order of `id` within a conversation.

new → sending → sent, or dead; `postpone` takes a row back to new; an operator may have it dropped. Nothing here sends.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, cast

from sqlalchemy import Connection, bindparam, delete, func, insert, literal_column, select, update

from agent.core.ids import ConversationId
from agent.core.outbox import OutgoingMessage
from agent.storage.payloads import decode_outgoing, encode_outgoing
from agent.storage.statements import CompiledStatement, or_ignore
from agent.storage.tables import ephemeral, outbox

OutboxStatus = Literal["new", "sending", "sent", "dead", "dropped"]

IN_ROW = "row"  # in `noted_by`: the row itself tells which piece the platform was last called with


class RowTaken(Exception):
    """Another process has taken the row meanwhile, or it is settled: it must not be sent from here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxRow:
    """One thing to say. `sent_refs` are the platform's ids of the pieces that arrived; moments are UTC microseconds."""

    id: int
    conversation: ConversationId
    inbox_id: int | None
    part: int
    dedup: str
    say: OutgoingMessage
    status: OutboxStatus
    attempts: int
    sent_refs: tuple[str, ...]
    not_before: int | None
    created_at: int


# Written out: behind parameters a prepared plan of PostgreSQL could not use the partial index of open rows.
_OPEN = outbox.c.status.in_((literal_column("'new'"), literal_column("'sending'")))
_ADD = CompiledStatement(or_ignore(insert(outbox)).returning(outbox.c.id))
_OPEN_OF = select(outbox).where(outbox.c.conv == bindparam("conversation"), _OPEN).order_by(outbox.c.id)
_WITH_OPEN = select(outbox.c.conv).where(_OPEN).distinct()
_ONE = outbox.c.id == bindparam("row")
_SENDING = CompiledStatement(
    update(outbox)
    .where(_ONE)
    .values(status="sending", attempts=outbox.c.attempts + 1, not_before=None, noted_by=bindparam("run"))
)
_SENDING_IN_ROW = CompiledStatement(
    update(outbox)
    .where(_ONE)
    .values(
        status="sending",
        attempts=outbox.c.attempts + 1,
        not_before=None,
        noted_by=bindparam("run"),
        called_piece=None,
    )
)
_CALLED = CompiledStatement(
    update(outbox)
    .where(_ONE, outbox.c.attempts == bindparam("attempt"), outbox.c.status == literal_column("'sending'"))
    .values(called_piece=bindparam("piece"))
)
_PROGRESS = update(outbox).where(_ONE).values(sent_refs=bindparam("refs"), noted_by=bindparam("run"))
_UNNOTED = update(outbox).where(_ONE).values(noted_by=None)
_NOTED_BY = select(outbox.c.noted_by).where(_OPEN, outbox.c.noted_by.is_not(None)).distinct()
_SENT = CompiledStatement(
    update(outbox).where(_ONE).values(status="sent", sent_refs=bindparam("refs"), not_before=None)
)
_DEAD = update(outbox).where(_ONE).values(status="dead", note=bindparam("why"))
# By the partial indexes: what was sent is not counted, since that would read everything ever sent.
_DEAD_LETTER = outbox.c.status == literal_column("'dead'")
COUNTED = tuple(select(func.count()).select_from(outbox).where(which) for which in (_OPEN, _DEAD_LETTER))
_POSTPONE = update(outbox).where(_ONE, _OPEN).values(status="new", not_before=bindparam("until"), noted_by=None)


def add(
    conn: Connection,
    *,
    conversation: ConversationId,
    inbox_id: int | None,
    part: int,
    dedup: str,
    say: OutgoingMessage,
    at: int,
) -> int | None:
    """Write one row and return its id; None when `dedup` is there already: then it was written before."""
    values = {
        "conv": conversation,
        "inbox_id": inbox_id,
        "part": part,
        "dedup": dedup,
        "payload": encode_outgoing(say),
        "created_at": at,
    }
    return cast(int | None, _ADD.scalar(conn, values))


def add_parts(
    conn: Connection,
    says: Sequence[OutgoingMessage],
    *,
    conversation: ConversationId,
    inbox_id: int | None,
    dedup: str,
    at: int,
) -> None:
    """Write what is said at one end, in order: the key of each row is `dedup` and its place among them."""
    for part, say in enumerate(says):
        add(conn, conversation=conversation, inbox_id=inbox_id, part=part, dedup=f"{dedup}:{part}", say=say, at=at)


def known(conn: Connection, dedups: Sequence[str]) -> frozenset[str]:
    """The keys, of one run's few, under which a row was written."""
    return frozenset(conn.execute(select(outbox.c.dedup).where(outbox.c.dedup.in_(dedups))).scalars())


def open_rows(conn: Connection, conversation: ConversationId) -> tuple[OutboxRow, ...]:
    """Rows not yet sent, in order; also rows that must wait and rows whose sending was cut off."""
    return tuple(
        OutboxRow(
            id=row.id,
            conversation=ConversationId(row.conv),
            inbox_id=row.inbox_id,
            part=row.part,
            dedup=row.dedup,
            say=decode_outgoing(row.payload),
            status=cast(OutboxStatus, row.status),
            attempts=row.attempts,
            sent_refs=tuple(json.loads(row.sent_refs)),
            not_before=row.not_before,
            created_at=row.created_at,
        )
        for row in conn.execute(_OPEN_OF, {"conversation": conversation})
    )


def conversations_with_open(conn: Connection) -> tuple[ConversationId, ...]:
    """Conversations that have something to send, for the start."""
    return tuple(ConversationId(key) for key in conn.execute(_WITH_OPEN).scalars())


def mark_sending(conn: Connection, row_id: int, noted_by: str | None = None) -> None:
    """Committed before the platform is called: whoever finds it later knows that it may have arrived.

    Unless the run `noted_by` notes its calls, and has not noted one for this row.
    """
    if noted_by == IN_ROW:
        _SENDING_IN_ROW.run(conn, {"row": row_id, "run": noted_by})
    else:
        _SENDING.run(conn, {"row": row_id, "run": noted_by})


def mark_called(conn: Connection, row_id: int, attempt: int, piece: int) -> None:
    """Committed before the platform is called with this piece, by whoever took the row for the `attempt`th time.

    Raises RowTaken: of two processes that both believe a row to be theirs, the one that took it last sends it.
    """
    if _CALLED.run(conn, {"row": row_id, "attempt": attempt, "piece": piece}) != 1:
        raise RowTaken(f"row {row_id} of the outbox was taken again after attempt {attempt}")


def mark_progress(conn: Connection, row_id: int, sent_refs: Sequence[str], noted_by: str | None = None) -> None:
    """These pieces have arrived; the row stays open. `noted_by` is as with `mark_sending`, for the next piece."""
    conn.execute(_PROGRESS, {"row": row_id, "refs": json.dumps(list(sent_refs)), "run": noted_by})


def mark_unnoted(conn: Connection, row_id: int) -> None:
    """From now on its next piece may have arrived, whatever is noted."""
    conn.execute(_UNNOTED, {"row": row_id})


def runs_with_open(conn: Connection) -> tuple[str, ...]:
    """The runs that open rows name as noting their calls."""
    return tuple(conn.execute(_NOTED_BY).scalars())


def mark_sent(conn: Connection, row_id: int, sent_refs: Sequence[str]) -> None:
    _SENT.run(conn, {"row": row_id, "refs": json.dumps(list(sent_refs))})


def mark_dead(conn: Connection, row_id: int, note: str) -> None:
    """Never to be sent; `note` says why."""
    conn.execute(_DEAD, {"row": row_id, "why": note})


def postpone(conn: Connection, row_id: int, not_before: int) -> None:
    """Certainly not sent: try again from `not_before` on."""
    conn.execute(_POSTPONE, {"row": row_id, "until": not_before})


def counts(conn: Connection) -> tuple[int, int]:
    """How many rows are on their way, and how many were given up."""
    under_way, dead = (int(conn.execute(count).scalar_one()) for count in COUNTED)
    return under_way, dead


# Ephemeral messages: noted once they have a name, so that a restart can remove them.

EphemeralKind = Literal["preview", "status", "whisper", "question"]


@dataclass(frozen=True, slots=True, kw_only=True)
class EphemeralRow:
    conversation: ConversationId
    kind: EphemeralKind
    ref: str  # the platform's id of the message
    created_at: int  # UTC microseconds


_NOTE = or_ignore(insert(ephemeral))
_FORGET = delete(ephemeral).where(
    ephemeral.c.conv == bindparam("conversation"),
    ephemeral.c.kind == bindparam("shown"),
    ephemeral.c.ref.in_(bindparam("names", expanding=True)),
)
_ALL = select(ephemeral).order_by(ephemeral.c.id)
_ALL_OF = _ALL.where(ephemeral.c.conv == bindparam("conversation"))


def note(conn: Connection, *, conversation: ConversationId, kind: EphemeralKind, ref: str, at: int) -> None:
    """Remember it; noting twice is noting once."""
    conn.execute(_NOTE, {"conv": conversation, "kind": kind, "ref": ref, "created_at": at})


def forget(conn: Connection, *, conversation: ConversationId, kind: EphemeralKind, refs: Sequence[str]) -> None:
    """It is gone, or it has become the final message; `refs` are all it may be noted by."""
    conn.execute(_FORGET, {"conversation": conversation, "shown": kind, "names": list(refs)})


def all_for(conn: Connection, conversation: ConversationId | None = None) -> tuple[EphemeralRow, ...]:
    """Messages still shown in one conversation, or (None) in all, oldest first."""
    found = conn.execute(_ALL) if conversation is None else conn.execute(_ALL_OF, {"conversation": conversation})
    return tuple(
        EphemeralRow(
            conversation=ConversationId(row.conv),
            kind=cast(EphemeralKind, row.kind),
            ref=row.ref,
            created_at=row.created_at,
        )
        for row in found
    )
