"""Settings of single places as texts by name: the rows behind `gateway.conversations.place_settings`.

Some rows are no choice for a place: `owner` and `outage` (`gateway.running.monitoring.alerts`) and `mcp_server`
(`gateway.running.mcp.added_servers`), `paused` (`gateway.running.accounts.changes`) and `backup`
(`gateway.backup.outcome`) are read and written here by those modules; `parent` belongs to the record itself.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, cast

from sqlalchemy import Connection, bindparam, delete, insert, select

from agent.core.ids import ConversationId
from agent.storage.statements import or_update
from gateway.storage.tables import channel_setting as table
from gateway.storage.tables import setting_change

Source = Literal["user", "admin"]


@dataclass(frozen=True, slots=True)
class Row:
    """A value as it is stored. `source`: who chose it, where that matters."""

    value: str
    source: Source | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """A change that a person made; `value` None: back to the default. `at` is UTC microseconds."""

    conversation: ConversationId
    key: str
    value: str | None
    by: str
    at: int


Rows = Mapping[ConversationId, Mapping[str, Row]]  # by conversation, then by name

_CONV = table.c.conv == bindparam("conversation")
_KEY = table.c.key == bindparam("name")
_SET = or_update(insert(table), key=("conv", "key"), columns=("value", "source", "updated_at"))
_GET = select(table.c.value).where(_CONV, _KEY)
_OF_NAMES = select(table).where(table.c.key.in_(bindparam("names", expanding=True)))
_OF_PLACES = _OF_NAMES.where(table.c.conv.in_(bindparam("conversations", expanding=True)))
_EVERYWHERE = select(table.c.conv, table.c.value).where(_KEY)
_CLEAR = delete(table).where(_CONV, _KEY)
_NOTE = insert(setting_change)
_CHANGES = (
    select(setting_change)
    .where(setting_change.c.conv.in_(bindparam("conversations", expanding=True)))
    .order_by(setting_change.c.id.desc())
    .limit(bindparam("most"))
)
_CHANGES_OF_KEY = _CHANGES.where(setting_change.c.key == bindparam("name"))


def put(
    conn: Connection, conversation: ConversationId, key: str, value: str, *, at: int, source: Source | None = None
) -> None:
    """Set it in place of the earlier value. `at` is UTC microseconds."""
    values = {"conv": conversation, "key": key, "value": value, "source": source, "updated_at": at}
    conn.execute(_SET, values)


def get(conn: Connection, conversation: ConversationId, key: str) -> str | None:
    """None: the default."""
    return conn.execute(_GET, {"conversation": conversation, "name": key}).scalar_one_or_none()


def all_of(conn: Connection, names: Collection[str], conversations: Collection[ConversationId] | None = None) -> Rows:
    """The settings of these names, in one query; None: of every conversation."""
    values: dict[str, object] = {"names": list(names)}
    query = _OF_NAMES
    if conversations is not None:
        query, values = _OF_PLACES, values | {"conversations": list(conversations)}
    found: dict[ConversationId, dict[str, Row]] = {}
    for row in conn.execute(query, values):
        found.setdefault(ConversationId(row.conv), {})[row.key] = Row(row.value, cast(Source | None, row.source))
    return found


def everywhere(conn: Connection, key: str) -> Mapping[ConversationId, str]:
    """One setting of every conversation that has it."""
    return {ConversationId(row.conv): row.value for row in conn.execute(_EVERYWHERE, {"name": key})}


def clear(conn: Connection, conversation: ConversationId, key: str) -> bool:
    """Back to the default; False when nothing was set."""
    return conn.execute(_CLEAR, {"conversation": conversation, "name": key}).rowcount > 0


def note(conn: Connection, change: Change) -> None:
    """Keep who changed it."""
    values = {"conv": change.conversation, "key": change.key, "value": change.value, "by": change.by, "at": change.at}
    conn.execute(_NOTE, values)


def changes(conn: Connection, conversations: Sequence[ConversationId], key: str, most: int) -> Sequence[Change]:
    """The newest changes of these places, the newest first; `key` "": of every setting."""
    values: dict[str, object] = {"conversations": list(conversations), "most": most}
    rows = conn.execute(_CHANGES_OF_KEY, values | {"name": key}) if key else conn.execute(_CHANGES, values)
    return [Change(ConversationId(row.conv), row.key, row.value, row.by, row.at) for row in rows]
