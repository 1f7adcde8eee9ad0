"""Rows of a conversation's settings: persona, verbosity, queue mode, language … as plain texts by name."""

from collections.abc import Mapping

from sqlalchemy import Connection, bindparam, delete, insert, select

from agent.core.ids import ConversationId
from agent.storage.statements import or_update
from gateway.storage.tables import channel_setting as table

_CONV = table.c.conv == bindparam("conversation")
_KEY = table.c.key == bindparam("name")
_SET = or_update(insert(table), key=("conv", "key"), columns=("value", "updated_at"))
_GET = select(table.c.value).where(_CONV, _KEY)
_ALL = select(table.c.key, table.c.value).where(_CONV)
_EVERYWHERE = select(table.c.conv, table.c.value).where(_KEY)
_CLEAR = delete(table).where(_CONV, _KEY)


def put(conn: Connection, conversation: ConversationId, key: str, value: str, *, at: int) -> None:
    """Set it in place of the earlier value. `at` is UTC microseconds."""
    conn.execute(_SET, {"conv": conversation, "key": key, "value": value, "updated_at": at})


def get(conn: Connection, conversation: ConversationId, key: str) -> str | None:
    """None: the default."""
    return conn.execute(_GET, {"conversation": conversation, "name": key}).scalar_one_or_none()


def all_of(conn: Connection, conversation: ConversationId) -> Mapping[str, str]:
    """Everything that is set there."""
    return {row.key: row.value for row in conn.execute(_ALL, {"conversation": conversation})}


def everywhere(conn: Connection, key: str) -> Mapping[ConversationId, str]:
    """One setting of every conversation that has it."""
    return {ConversationId(row.conv): row.value for row in conn.execute(_EVERYWHERE, {"name": key})}


def clear(conn: Connection, conversation: ConversationId, key: str) -> bool:
    """Back to the default; False when nothing was set."""
    return conn.execute(_CLEAR, {"conversation": conversation, "name": key}).rowcount > 0
