"""The store of adapters between starts (`gateway.channels.adapter.AdapterStore`): short texts by key, each for a
while.
"""

from sqlalchemy import Connection, bindparam, delete, insert, select

from agent.storage.statements import or_update
from gateway.storage.tables import adapter_store as table

_PUT = or_update(insert(table), key=("scope", "key"), columns=("value", "until"))
_GET = select(table.c.value).where(
    table.c.scope == bindparam("whose"), table.c.key == bindparam("name"), table.c.until > bindparam("now")
)
_OVER = delete(table).where(table.c.until <= bindparam("now"))


def get(conn: Connection, scope: str, key: str, *, now: int) -> str | None:
    """The value, if it is kept at that moment (UTC microseconds)."""
    return conn.execute(_GET, {"whose": scope, "name": key, "now": now}).scalar_one_or_none()


def put(conn: Connection, scope: str, key: str, value: str, *, until: int, now: int) -> None:
    """Keep it in place of the earlier value; what is over by now goes. Moments are UTC microseconds."""
    conn.execute(_OVER, {"now": now})
    conn.execute(_PUT, {"scope": scope, "key": key, "value": value, "until": until})
