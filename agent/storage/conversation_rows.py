"""Ownership of a conversation: its row, its epoch and the lease of the process that works on it (B-60…B-64).

A lease is freed by the run that took it, by its time running out, or by force. The epoch grows with every claim and
never falls, so a former owner that wakes up late writes nothing (`agent.storage.database`).
"""

from collections.abc import Collection
from dataclasses import dataclass

from sqlalchemy import Connection, and_, bindparam, exists, insert, or_, select, update

from agent.core.ids import ConversationId, SessionId
from agent.storage.process_tables import process
from agent.storage.statements import CompiledStatement, or_ignore
from agent.storage.tables import conversation


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """The lock record (B-63). Moments are UTC microseconds."""

    conversation: ConversationId
    session: SessionId | None
    worker: str
    run: str
    epoch: int
    acquired_at: int
    expires_at: int


_KEY = conversation.c.key == bindparam("conversation")
_FREE = or_(conversation.c.run_id.is_(None), conversation.c.expires_at <= bindparam("now"))
# A lease of a process that is gone. One on SQLite is the only one, and frees what it finds at its start.
_LOST = and_(
    conversation.c.worker.is_not(None), ~exists(select(process.c.id).where(process.c.id == conversation.c.worker))
)
_NO_LEASE = {"worker": None, "run_id": None, "acquired_at": None, "expires_at": None}

_ENSURE = CompiledStatement(or_ignore(insert(conversation)))
_LOCK = CompiledStatement(select(conversation.c.key).where(_KEY).with_for_update())
# A lease of the same worker is one that it failed to release: within a process the dispatcher keeps runs apart.
_TAKING = update(conversation).values(
    epoch=conversation.c.epoch + 1,
    worker=bindparam("me"),
    run_id=bindparam("run"),
    acquired_at=bindparam("now"),
    expires_at=bindparam("until"),
)
_OURS = conversation.c.worker == bindparam("me")
_CLAIM = CompiledStatement(_TAKING.where(_KEY, or_(_FREE, _OURS)).returning(conversation.c.epoch))
_CLAIM_BESIDE_OTHERS = CompiledStatement(_TAKING.where(_KEY, or_(_FREE, _LOST, _OURS)).returning(conversation.c.epoch))
_LEASE = select(conversation).where(_KEY, conversation.c.run_id.is_not(None))
# By their keys: no index has the worker, so that a claim writes none.
_EXTEND = (
    update(conversation)
    .where(conversation.c.key.in_(bindparam("keys", expanding=True)), _OURS, conversation.c.run_id.is_not(None))
    .values(expires_at=bindparam("until"))
    .returning(conversation.c.key, conversation.c.run_id)
)
_RELEASE = update(conversation).where(_KEY, conversation.c.run_id == bindparam("run")).values(**_NO_LEASE)
_FORCE = update(conversation).where(_KEY, conversation.c.epoch == bindparam("by")).values(**_NO_LEASE)
_RELEASE_ALL = update(conversation).where(conversation.c.run_id.is_not(None)).values(**_NO_LEASE)
_STATE = update(conversation).where(_KEY).values(state=bindparam("what"))
_GONE = CompiledStatement(select(conversation.c.key).where(_KEY, conversation.c.state == "gone"))


def ensure(conn: Connection, key: ConversationId, at: int) -> None:
    """Make the row if there is none."""
    _ENSURE.run(conn, {"key": key, "created_at": at})


def lock_row(conn: Connection, key: ConversationId) -> None:
    """Keep others from admitting here until this transaction ends, so that ids follow the order of arrival."""
    if conn.dialect.name != "sqlite":  # which has one writer
        _LOCK.run(conn, {"conversation": key})


def claim(conn: Connection, key: ConversationId, *, worker: str, run: str, now: int, until: int) -> int | None:
    """Take the lease until `until` and return the new epoch; None while somebody else holds it.

    A lease that has run out holds nobody up (B-64), nor does one of a process that is gone.
    """
    ensure(conn, key, now)
    taking = _CLAIM if conn.dialect.name == "sqlite" else _CLAIM_BESIDE_OTHERS
    epoch: int | None = taking.scalar(conn, {"conversation": key, "me": worker, "run": run, "now": now, "until": until})
    return epoch


def lease(conn: Connection, key: ConversationId) -> Lease | None:
    """The lock record, also one that has run out but was not cleared; None when nobody works here."""
    row = conn.execute(_LEASE, {"conversation": key}).one_or_none()
    if row is None:
        return None
    return Lease(
        conversation=ConversationId(row.key),
        session=SessionId(row.session_id) if row.session_id else None,
        worker=row.worker,
        run=row.run_id,
        epoch=row.epoch,
        acquired_at=row.acquired_at,
        expires_at=row.expires_at,
    )


def extend(conn: Connection, keys: Collection[ConversationId], *, worker: str, until: int) -> dict[ConversationId, str]:
    """Put off the end of this worker's leases of these; what is returned (conversation → run) it really holds."""
    held = conn.execute(_EXTEND, {"keys": list(keys), "me": worker, "until": until})
    return {ConversationId(row.key): row.run_id for row in held}


def release(conn: Connection, key: ConversationId, *, run: str) -> bool:
    """Free the lease that this run took; False when it is not this run's (any more)."""
    return conn.execute(_RELEASE, {"conversation": key, "run": run}).rowcount == 1


def force_release(conn: Connection, key: ConversationId, *, epoch: int) -> bool:
    """Free whatever lease there is, unless a later owner has come (B-49); False when one has."""
    return conn.execute(_FORCE, {"conversation": key, "by": epoch}).rowcount == 1


def clear_all(conn: Connection) -> int:
    """Free every lease: only for the start of a process that is the sole owner of the database."""
    return conn.execute(_RELEASE_ALL).rowcount


def set_gone(conn: Connection, key: ConversationId, *, gone: bool) -> None:
    """Note that the bot was removed from the place, or is back."""
    conn.execute(_STATE, {"conversation": key, "what": "gone" if gone else "open"})


def is_gone(conn: Connection, key: ConversationId) -> bool:
    return _GONE.scalar(conn, {"conversation": key}) is not None


def all_keys(conn: Connection, *, most: int) -> tuple[ConversationId, ...]:
    """Conversations there are, in the order of their names."""
    found = conn.execute(select(conversation.c.key).order_by(conversation.c.key).limit(most)).scalars()
    return tuple(ConversationId(key) for key in found)
