"""The zone each person lives in, as they told it, and whom we have asked."""

from dataclasses import dataclass

from sqlalchemy import Connection, bindparam, delete, insert, select

from agent.storage.conflicts import or_ignore, or_update
from agent.storage.statements import CompiledStatement
from gateway.scheduler.schedule import ZoneSource
from gateway.scheduler.zones import is_zone
from gateway.storage.tables import person_zone as table

_WHO = table.c.person == bindparam("who")
_SET = or_update(insert(table), key=("person",), columns=("zone", "updated_at"))
_ASKED = or_ignore(insert(table)).returning(table.c.person)
_GET = CompiledStatement(select(table.c.zone).where(_WHO))  # every turn tells its model the time
_FORGET = delete(table).where(_WHO)


@dataclass(frozen=True, slots=True)
class Zone:
    """A person's zone, an IANA name, and who says so."""

    name: str
    source: ZoneSource


def zone_of(conn: Connection, person: str | None, told: str | None, *, assumed: str) -> Zone:
    """Where the person lives: by their own word, else the platform's (`told`), else as is assumed."""
    own = _GET.scalar(conn, {"who": person}) if person else None
    if own is not None:
        return Zone(own, "person")
    if told is not None and is_zone(told):
        return Zone(told, "platform")
    return Zone(assumed, "assumed")


def note_asked(conn: Connection, person: str, *, at: int) -> bool:
    """They are being asked; False when they were before, or have told."""
    return conn.execute(_ASKED, {"person": person, "zone": None, "updated_at": at}).scalar_one_or_none() is not None


def set_zone(conn: Connection, person: str, zone: str, *, at: int) -> None:
    conn.execute(_SET, {"person": person, "zone": zone, "updated_at": at})


def forget_zone(conn: Connection, person: str) -> bool:
    return conn.execute(_FORGET, {"who": person}).rowcount > 0
