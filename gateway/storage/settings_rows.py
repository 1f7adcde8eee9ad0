"""Settings of single places as texts by name: the rows behind `gateway.conversations.place_settings`.

Some rows are no choice for a place: `owner` and `outage` (`gateway.running.alerts`) and `mcp_server`
(`gateway.running.added_servers`) are read and written here by those modules; `parent` belongs to the record itself.
"""

from collections.abc import Collection, Mapping

from sqlalchemy import Connection, bindparam, delete, insert, select

from agent.core.ids import ConversationId
from agent.storage.statements import or_update
from gateway.storage.tables import channel_setting as table

Rows = Mapping[ConversationId, Mapping[str, str]]  # the value by conversation, then by name

_CONV = table.c.conv == bindparam("conversation")
_KEY = table.c.key == bindparam("name")
_SET = or_update(insert(table), key=("conv", "key"), columns=("value", "updated_at"))
_GET = select(table.c.value).where(_CONV, _KEY)
_OF_NAMES = select(table.c.conv, table.c.key, table.c.value).where(table.c.key.in_(bindparam("names", expanding=True)))
_OF_PLACES = _OF_NAMES.where(table.c.conv.in_(bindparam("conversations", expanding=True)))
_EVERYWHERE = select(table.c.conv, table.c.value).where(_KEY)
_CLEAR = delete(table).where(_CONV, _KEY)


def put(conn: Connection, conversation: ConversationId, key: str, value: str, *, at: int) -> None:
    """Set it in place of the earlier value. `at` is UTC microseconds."""
    conn.execute(_SET, {"conv": conversation, "key": key, "value": value, "updated_at": at})


def get(conn: Connection, conversation: ConversationId, key: str) -> str | None:
    """None: the default."""
    return conn.execute(_GET, {"conversation": conversation, "name": key}).scalar_one_or_none()


def all_of(conn: Connection, names: Collection[str], conversations: Collection[ConversationId] | None = None) -> Rows:
    """The settings of these names, in one query; None: of every conversation."""
    values: dict[str, object] = {"names": list(names)}
    query = _OF_NAMES
    if conversations is not None:
        query, values = _OF_PLACES, values | {"conversations": list(conversations)}
    found: dict[ConversationId, dict[str, str]] = {}
    for row in conn.execute(query, values):
        found.setdefault(ConversationId(row.conv), {})[row.key] = row.value
    return found


def everywhere(conn: Connection, key: str) -> Mapping[ConversationId, str]:
    """One setting of every conversation that has it."""
    return {ConversationId(row.conv): row.value for row in conn.execute(_EVERYWHERE, {"name": key})}


def clear(conn: Connection, conversation: ConversationId, key: str) -> bool:
    """Back to the default; False when nothing was set."""
    return conn.execute(_CLEAR, {"conversation": conversation, "name": key}).rowcount > 0
