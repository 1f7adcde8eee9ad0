"""Messages that wait: until their run begins, people may edit, take back or clear them, and an album's parts join.

A row for which a run has begun is found by none of these functions.
"""

from dataclasses import replace

from sqlalchemy import Connection, and_, bindparam, or_, select, update

from agent.core.ids import ConversationId
from agent.inbox import Incoming
from agent.storage.inbox_rows import NEW, WAITING, InboxRow, finish, read_row
from agent.storage.payloads import decode_incoming, encode_incoming
from agent.storage.tables import inbox

_REF = inbox.c.platform_ref == bindparam("ref")
_ONE = inbox.c.id == bindparam("row")

_ALL_WAITING = select(inbox).where(*WAITING).order_by(inbox.c.id)
_WAITING_IDS = select(inbox.c.id).where(*WAITING).order_by(inbox.c.id)
_BY_REF = select(inbox.c.id, inbox.c.payload).where(*WAITING, _REF).with_for_update()
_BEGUN = select(inbox.c.payload).where(
    inbox.c.conv == bindparam("conversation"),
    inbox.c.kind == "message",
    _REF,
    or_(inbox.c.status == "done", and_(inbox.c.status == "new", inbox.c.attempts > 0)),
)
_REWRITE = update(inbox).where(_ONE).values(payload=bindparam("text"))
_TAKE_BACK = update(inbox).where(_ONE).values(status="done", note="deleted")
_JOIN = update(inbox).where(_ONE, NEW).values(payload=bindparam("text"), not_before=bindparam("until"))
_COMPLETE = update(inbox).where(*WAITING, inbox.c.not_before.is_not(None)).values(not_before=None)


def waiting(conn: Connection, conversation: ConversationId) -> tuple[InboxRow, ...]:
    """The people's messages that wait for their run, oldest first."""
    return tuple(read_row(row) for row in conn.execute(_ALL_WAITING, {"conversation": conversation}))


def edit(conn: Connection, *, conversation: ConversationId, platform_ref: str, text: str, version: str) -> bool:
    """Give a message its new text; the lines about what could not be read of it stay.

    False when its run has begun, when it is unknown, or when a newer version was there before: then nothing changes.
    """
    row = conn.execute(_BY_REF, {"conversation": conversation, "ref": platform_ref}).first()
    if row is None:
        return False
    before = decode_incoming(row.payload)
    if _moment(version) < _moment(before.version):
        return False
    incoming = replace(before, text="\n".join(filter(None, (text, *before.notes))), version=version)
    conn.execute(_REWRITE, {"row": row.id, "text": encode_incoming(incoming)})
    return True


def is_edited_late(conn: Connection, *, conversation: ConversationId, platform_ref: str, text: str) -> bool:
    """Whether a run has begun for the message, with other words than these."""
    payload = conn.execute(_BEGUN, {"conversation": conversation, "ref": platform_ref}).scalar()
    if payload is None:
        return False
    before = decode_incoming(payload)
    return before.text not in (text, "\n".join(filter(None, (text, *before.notes))))


def take_back(conn: Connection, *, conversation: ConversationId, platform_ref: str) -> bool:
    """End a message that was deleted before its run; False when that has begun (or it is unknown)."""
    row = conn.execute(_BY_REF, {"conversation": conversation, "ref": platform_ref}).first()
    if row is None:
        return False
    conn.execute(_TAKE_BACK, {"row": row.id})
    return True


def clear_waiting(conn: Connection, conversation: ConversationId, *, note: str) -> int:
    """End all waiting messages as refused and return how many they were."""
    ids = conn.execute(_WAITING_IDS, {"conversation": conversation}).scalars().all()
    return finish(conn, ids, status="refused", epoch=None, note=note)


def drop_last_waiting(conn: Connection, conversation: ConversationId, *, note: str) -> bool:
    """End the newest waiting message as refused; False when none waits."""
    ids = conn.execute(_WAITING_IDS, {"conversation": conversation}).scalars().all()
    return finish(conn, ids[-1:], status="refused", epoch=None, note=note) == 1


def waiting_album(conn: Connection, conversation: ConversationId, said: Incoming) -> InboxRow | None:
    """The row to which the parts of an album that came before are joined, as long as no run has begun for it."""
    if said.album is None:
        return None
    rows = waiting(conn, conversation)
    alike = (row for row in rows if (row.incoming.album, row.incoming.person) == (said.album, said.person))
    return next(alike, None)


def join(conn: Connection, row: InboxRow, incoming: Incoming, *, part: int | None, not_before: int) -> None:
    """Give an album's row what it has with its newest part, whose own row ends, and let it wait for the next one."""
    if part is not None:
        finish(conn, [part], "merged", note=f"part of the album of {row.id}")
    conn.execute(_JOIN, {"row": row.id, "text": encode_incoming(incoming), "until": not_before})


def complete_albums(conn: Connection, conversation: ConversationId) -> None:
    """Something else was said there: no further part of an album is to be waited for."""
    conn.execute(_COMPLETE, {"conversation": conversation})


def _moment(version: str) -> tuple[float, str]:
    """By which versions are ordered: seconds of an epoch on some platforms, a written moment on others."""
    try:
        return float(version), ""
    except ValueError:
        return 0.0, version
