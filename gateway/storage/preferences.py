"""Rows of provider choices: one for each channel, with the person who chose (Z-65…Z-71)."""

from dataclasses import dataclass
from typing import Any, Literal, cast

from sqlalchemy import Connection, Row, bindparam, delete, insert, select

from agent.storage.statements import or_update
from gateway.storage.tables import channel_preference as table

Source = Literal["user", "admin"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Preference:
    """`model` overrides the provider's own. A `locked` one is for admins to change. `updated_at`: UTC microseconds."""

    channel_type: str
    channel_id: str  # "" for the terminal (Z-67), "*" for every chat of the account
    provider: str
    model: str | None = None
    source: Source = "user"
    locked: bool = False
    updated_at: int


_FIELDS = ("provider", "model", "source", "locked", "updated_at")
_PLACE = (table.c.channel_type == bindparam("type"), table.c.channel_id == bindparam("place"))
_SAVE = or_update(insert(table), key=("channel_type", "channel_id"), columns=_FIELDS)
_LOAD = select(table).where(*_PLACE)
_ALL = select(table).order_by(table.c.channel_type, table.c.channel_id)
_PROVIDERS = select(table.c.provider).distinct().order_by(table.c.provider)
_FORGET = delete(table).where(*_PLACE)


def save(conn: Connection, preference: Preference) -> None:
    """Keep it in place of the channel's earlier one."""
    values = {name: getattr(preference, name) for name in _FIELDS}
    key = {"channel_type": preference.channel_type, "channel_id": preference.channel_id}
    conn.execute(_SAVE, {**values, **key})


def load(conn: Connection, channel_type: str, channel_id: str) -> Preference | None:
    """The channel's preference; None: the default. The name may no longer be configured (Z-70 is the caller's)."""
    row = conn.execute(_LOAD, {"type": channel_type, "place": channel_id}).one_or_none()
    return _preference(row) if row else None


def load_all(conn: Connection) -> tuple[Preference, ...]:
    """Every channel's, sorted by key."""
    return tuple(_preference(row) for row in conn.execute(_ALL))


def providers(conn: Connection) -> tuple[str, ...]:
    """Every provider that some channel prefers, by name."""
    return tuple(conn.execute(_PROVIDERS).scalars())


def forget(conn: Connection, channel_type: str, channel_id: str) -> bool:
    """Back to the default; False when there was nothing to forget."""
    return conn.execute(_FORGET, {"type": channel_type, "place": channel_id}).rowcount > 0


def _preference(row: Row[Any]) -> Preference:
    return Preference(
        channel_type=row.channel_type,
        channel_id=row.channel_id,
        provider=row.provider,
        model=row.model,
        source=cast(Source, row.source),
        locked=row.locked,
        updated_at=row.updated_at,
    )
