"""What is known and set about one person, whatever the chat: how they are called, their language and time zone."""

from dataclasses import dataclass

from sqlalchemy import Connection, bindparam, insert, select

from agent.core.ids import PersonId
from agent.storage.conflicts import or_update
from gateway.storage.tables import person as table


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """`language` is a BCP 47 tag, `zone` an IANA name; None: not set."""

    id: PersonId
    display: str = ""
    language: str | None = None
    zone: str | None = None


_SAVE = or_update(insert(table), key=("id",), columns=("display", "language", "zone", "updated_at"))
_LOAD = select(table).where(table.c.id == bindparam("who"))


def save(conn: Connection, person: Person, *, at: int) -> None:
    """In place of what was known. `at` is UTC microseconds."""
    names = ("id", "display", "language", "zone")
    conn.execute(_SAVE, {**{name: getattr(person, name) for name in names}, "updated_at": at})


def load(conn: Connection, person: PersonId) -> Person | None:
    row = conn.execute(_LOAD, {"who": person}).one_or_none()
    if row is None:
        return None
    return Person(id=PersonId(row.id), display=row.display, language=row.language, zone=row.zone)
