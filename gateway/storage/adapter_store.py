"""The store of adapters between starts: short texts by key, each for a while (`gateway.channels.adapter.AdapterStore`),
and journals of lines (`AdapterLines`).
"""

from collections.abc import Mapping, Sequence

from sqlalchemy import Connection, bindparam, delete, func, insert, select

from agent.storage.statements import or_update
from gateway.storage.tables import adapter_line, adapter_store

_PUT = or_update(insert(adapter_store), key=("scope", "key"), columns=("value", "until"))
_GET = select(adapter_store.c.value).where(
    adapter_store.c.scope == bindparam("whose"),
    adapter_store.c.key == bindparam("name"),
    adapter_store.c.until > bindparam("now"),
)
_OVER = delete(adapter_store).where(adapter_store.c.until <= bindparam("now"))


def get(conn: Connection, scope: str, key: str, *, now: int) -> str | None:
    """The value, if it is kept at that moment (UTC microseconds)."""
    return conn.execute(_GET, {"whose": scope, "name": key, "now": now}).scalar_one_or_none()


def put(conn: Connection, scope: str, key: str, value: str, *, until: int, now: int) -> None:
    """Keep it in place of the earlier value; what is over by now goes. Moments are UTC microseconds."""
    conn.execute(_OVER, {"now": now})
    conn.execute(_PUT, {"scope": scope, "key": key, "value": value, "until": until})


# Journals: lines by account and name, oldest first.

_OF = (adapter_line.c.scope == bindparam("whose"), adapter_line.c.name == bindparam("journal"))
_READ = select(adapter_line.c.line).where(*_OF).order_by(adapter_line.c.id)
_DROP = delete(adapter_line).where(*_OF)


def journals(conn: Connection, scope: str, beginning: str) -> Mapping[str, int]:
    """The journals whose names begin so, with the number of the newest line of each."""
    found = select(adapter_line.c.name, func.max(adapter_line.c.id)).where(
        adapter_line.c.scope == scope, adapter_line.c.name.startswith(beginning, autoescape=True)
    )
    return {name: int(newest) for name, newest in conn.execute(found.group_by(adapter_line.c.name))}


def read_journal(conn: Connection, scope: str, name: str) -> Sequence[str]:
    """The lines of that journal."""
    return conn.execute(_READ, {"whose": scope, "journal": name}).scalars().all()


def append_line(conn: Connection, scope: str, name: str, line: str) -> None:
    """Add a line at the end."""
    conn.execute(insert(adapter_line), {"scope": scope, "name": name, "line": line})


def replace_journal(conn: Connection, scope: str, name: str, lines: Sequence[str]) -> None:
    """Put these lines in place of all."""
    conn.execute(_DROP, {"whose": scope, "journal": name})
    if lines:
        conn.execute(insert(adapter_line), [{"scope": scope, "name": name, "line": line} for line in lines])
