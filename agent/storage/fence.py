"""The fence: nobody writes for a conversation that another owner has taken (ENGINE.md, fact 4)."""

from collections.abc import Sequence

from sqlalchemy import Connection, bindparam, select

from agent.core.errors import Fenced
from agent.core.ids import ConversationId
from agent.storage.statements import CompiledStatement
from agent.storage.tables import conversation as conversation_table

# The lock keeps a new owner from claiming between this check and our commit; SQLite has one writer and needs none.
_EPOCH = CompiledStatement(
    select(conversation_table.c.epoch)
    .where(conversation_table.c.key == bindparam("conversation"))
    .with_for_update(read=True)
)

# Each writer's lock is a share of the row; in the order of the keys no two who wait like this wait for each other.
_HELD = (
    select(conversation_table.c.key)
    .where(conversation_table.c.key.in_(bindparam("conversations", expanding=True)))
    .order_by(conversation_table.c.key)
    .with_for_update(key_share=True)
)


def check_epoch(conn: Connection, conversation: ConversationId, epoch: int) -> None:
    """Raises Fenced unless `epoch` is the conversation's present one. Call it first in every write of a turn."""
    current = _EPOCH.scalar(conn, {"conversation": conversation})
    if current != epoch:
        raise Fenced(f"{conversation}: epoch {epoch} is over, {current} holds")


def wait_for_writers(conn: Connection, conversations: Sequence[ConversationId]) -> None:
    """Return when nothing that passed `check_epoch` there is still uncommitted."""
    conn.execute(_HELD, {"conversations": list(conversations)}).all()
