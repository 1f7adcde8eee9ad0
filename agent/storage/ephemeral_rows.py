"""What is shown on a platform and must not stay: noted once it has a name, for a restart to clean up (DESIGN §13.5)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, cast

from sqlalchemy import Connection, bindparam, delete, insert, select

from agent.core.ids import ConversationId
from agent.storage.conflicts import or_ignore
from agent.storage.tables import ephemeral

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
    """What is still shown in one conversation, or (None) in all, oldest first."""
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
