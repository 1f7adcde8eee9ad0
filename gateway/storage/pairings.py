"""Requests of strangers to be let in: by the hash of their code, never the code. Moments: UTC microseconds.

open → approved | denied; an open one whose time is over counts as gone and is removed by `prune`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import Connection, Row, bindparam, delete, func, insert, literal_column, select, update

from agent.core.ids import ConversationId
from agent.core.outbox import OutgoingMessage
from agent.storage import conversation_rows, outbox_rows
from agent.storage.statements import or_ignore
from gateway.storage.tables import pairing as table
from gateway.storage.tables import pairing_attempt

KEPT_US = 86_400_000_000  # a day: longer than anybody looks back for tries or requests


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairing:
    """`conversation` is where the stranger waits for the answer."""

    id: int
    subject: str
    display: str
    conversation: ConversationId
    language: str
    created_at: int
    expires_at: int


_OPEN = (table.c.state == literal_column("'open'"), table.c.expires_at > bindparam("now"))
_ADD = or_ignore(insert(table)).returning(table.c.id)
_ALL_OPEN = select(table).where(*_OPEN).order_by(table.c.id)
_OPEN_OF = _ALL_OPEN.where(table.c.subject == bindparam("who"))
_BY_HASH = select(table).where(*_OPEN, table.c.code_hash == bindparam("hash")).with_for_update()
_END_OF = (
    update(table)
    .where(*_OPEN, table.c.subject == bindparam("who"))
    .values(state=bindparam("ending"), ended_at=bindparam("now"), ended_by=bindparam("by"))
    .returning(table)
)
_HASH_OF = select(table.c.code_hash).where(*_OPEN, table.c.id == bindparam("row"))
_COUNT = select(func.count()).select_from(table).where(*_OPEN)
_END = (
    update(table)
    .where(table.c.id == bindparam("row"))
    .values(state=bindparam("ending"), ended_at=bindparam("now"), ended_by=bindparam("by"))
)
_PRUNE = delete(table).where(table.c.expires_at <= bindparam("before"))
_DISPLAYS = select(table.c.subject, table.c.display).order_by(table.c.id)
_DISPLAYS_BY_PLACE = select(table.c.conv, table.c.display).order_by(table.c.id)
_WRONG = insert(pairing_attempt)
_WRONG_SINCE = (
    select(func.count())
    .select_from(pairing_attempt)
    .where(pairing_attempt.c.at > bindparam("since"), pairing_attempt.c.by == bindparam("who"))
)
_PRUNE_WRONG = delete(pairing_attempt).where(pairing_attempt.c.at <= bindparam("before"))


def ask(
    conn: Connection,
    *,
    code_hash: str,
    subject: str,
    display: str,
    conversation: str,
    language: str,
    now: int,
    expires: int,
    most_open: int,
) -> bool:
    """Keep a new request; False when the subject has an open one, or `most_open` are open over all."""
    if conn.execute(_OPEN_OF, {"now": now, "who": subject}).first() is not None:
        return False
    if conn.execute(_COUNT, {"now": now}).scalar_one() >= most_open:
        return False
    values = {
        "code_hash": code_hash,
        "subject": subject,
        "display": display,
        "conv": conversation,
        "language": language,
        "created_at": now,
        "expires_at": expires,
    }
    return conn.execute(_ADD, values).scalar_one_or_none() is not None


def open_requests(conn: Connection, now: int) -> tuple[Pairing, ...]:
    """All that wait for a decision, oldest first."""
    return tuple(_pairing(row) for row in conn.execute(_ALL_OPEN, {"now": now}))


def displays(conn: Connection) -> Mapping[str, str]:
    """The names of all who asked of late, by their subjects, decided or not."""
    return {row.subject: row.display for row in conn.execute(_DISPLAYS)}


def displays_by_place(conn: Connection) -> dict[ConversationId, str]:
    """The names of all who asked of late, by the conversations in which they did."""
    return {ConversationId(row.conv): row.display for row in conn.execute(_DISPLAYS_BY_PLACE)}


def open_of(conn: Connection, subject: str, now: int) -> Pairing | None:
    """This person's requests that nobody has decided yet."""
    row = conn.execute(_OPEN_OF, {"now": now, "who": subject}).first()
    return None if row is None else _pairing(row)


def end_of(
    conn: Connection, subject: str, *, ending: Literal["approved", "denied"], by: str, now: int
) -> Pairing | None:
    """Decide what this person has asked, once; None when nothing is open (any more)."""
    row = conn.execute(_END_OF, {"who": subject, "ending": ending, "by": by, "now": now}).first()
    return None if row is None else _pairing(row)


def tell(conn: Connection, request: Pairing, text: str, *, at: int) -> None:
    """Say to the person who asked, where they asked, what was decided; once. The caller wakes delivery."""
    conversation_rows.ensure(conn, request.conversation, at)
    outbox_rows.add(
        conn,
        conversation=request.conversation,
        inbox_id=None,
        part=0,
        dedup=f"notice:paired:{request.id}",
        say=OutgoingMessage(text=text, kind="notice", verbatim=True),
        at=at,
    )


def hash_of(conn: Connection, id: int, now: int) -> str | None:
    """The hash of an open request's code, for an operator who chose it from the list."""
    return conn.execute(_HASH_OF, {"row": id, "now": now}).scalar_one_or_none()


def end(
    conn: Connection, code_hash: str, *, ending: Literal["approved", "denied"], by: str, now: int
) -> Pairing | None:
    """Decide the open request of this code, once; None when there is none (any more)."""
    row = conn.execute(_BY_HASH, {"hash": code_hash, "now": now}).one_or_none()
    if row is None:
        return None
    conn.execute(_END, {"row": row.id, "ending": ending, "by": by, "now": now})
    return _pairing(row)


def note_wrong_code(conn: Connection, *, by: str, at: int) -> None:
    """Somebody tried a code that there is not."""
    conn.execute(_WRONG, {"by": by, "at": at})


def wrong_codes_since(conn: Connection, since: int, *, by: str) -> int:
    """How many they tried: the operator codes of pairing, a person codes that link accounts."""
    count: int = conn.execute(_WRONG_SINCE, {"since": since, "who": by}).scalar_one()
    return count


def prune(conn: Connection, now: int) -> int:
    """Remove requests whose time was over a day ago, and wrong tries as old; return how many requests."""
    before = now - KEPT_US
    conn.execute(_PRUNE_WRONG, {"before": before})
    return conn.execute(_PRUNE, {"before": before}).rowcount


def _pairing(row: Row[Any]) -> Pairing:
    return Pairing(
        id=row.id,
        subject=row.subject,
        display=row.display,
        conversation=ConversationId(row.conv),
        language=row.language,
        created_at=row.created_at,
        expires_at=row.expires_at,
    )
