"""Rows of the keys of other programs. Moments: UTC microseconds."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, bindparam, case, insert, select, update

from agent.storage.statements import CompiledStatement, or_ignore
from gateway.storage.tables import api_key

MINUTE_US = 60_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRow:
    """A key; `shown` are its last characters. `uses` counts those of the minute of its last use."""

    name: str
    shown: str
    scopes: tuple[str, ...]
    places: tuple[str, ...]
    per_minute: int
    created_by: str
    created_at: int
    expires_at: int | None
    revoked_at: int | None
    used_at: int | None
    uses: int


_ADD = CompiledStatement(or_ignore(insert(api_key)).returning(api_key.c.name))
_ALL = select(api_key).order_by(api_key.c.name)
_FIND = CompiledStatement(select(api_key).where(api_key.c.hash == bindparam("hashed")))
_USE = CompiledStatement(
    update(api_key)
    .where(api_key.c.name == bindparam("who"))
    .values(
        used_at=bindparam("now"),
        minute=bindparam("this"),
        uses=case((api_key.c.minute == bindparam("this"), api_key.c.uses + 1), else_=1),
    )
    .returning(api_key.c.uses)
)
_REVOKE = (
    update(api_key)
    .where(api_key.c.name == bindparam("who"), api_key.c.revoked_at.is_(None))
    .values(revoked_at=bindparam("now"))
)


def add(conn: Connection, **values: Any) -> bool:
    """Keep a new one; False where one of this name was there before, revoked or not."""
    written = values | {"scopes": " ".join(values["scopes"]), "places": " ".join(values["places"])}
    return _ADD.scalar(conn, written) is not None


def all_keys(conn: Connection) -> Sequence[KeyRow]:
    """All that ever were, by name."""
    return [_row(row) for row in conn.execute(_ALL)]


def find(conn: Connection, hashed: str) -> KeyRow | None:
    """The key of that hash, whether or not it still holds."""
    rows = _FIND.rows(conn, {"hashed": hashed})
    return _row(rows[0]) if rows else None


def use(conn: Connection, name: str, now: int) -> int:
    """Note a use, and tell how many there were in this minute, this one included."""
    return int(_USE.scalar(conn, {"who": name, "now": now, "this": now // MINUTE_US}))


def revoke(conn: Connection, name: str, now: int) -> bool:
    """It holds no more; False where it did not."""
    return conn.execute(_REVOKE, {"who": name, "now": now}).rowcount > 0


def _row(row: Any) -> KeyRow:
    return KeyRow(
        name=row.name,
        shown=row.shown,
        scopes=tuple(row.scopes.split()),
        places=tuple(row.places.split()),
        per_minute=row.per_minute,
        created_by=row.created_by,
        created_at=row.created_at,
        expires_at=row.expires_at,
        revoked_at=row.revoked_at,
        used_at=row.used_at,
        uses=row.uses,
    )
