"""Who and where may talk, as far as it was given while running; the configuration's lists are not in here."""

from dataclasses import dataclass
from typing import Literal, cast

from sqlalchemy import Connection, bindparam, delete, insert, select

from agent.storage.conflicts import or_update
from gateway.storage.tables import access_grant as table

Kind = Literal["person", "place"]
RoleName = Literal["owner", "admin", "member", "blocked"]

EVERYWHERE = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """`subject` is a person (`telegram:77`) or a place (`telegram:-1005`). `place` bounds where a person's role holds.

    `at` is UTC microseconds, `granted_by` a person's name or "operator".
    """

    subject: str
    kind: Kind
    role: RoleName
    place: str = EVERYWHERE
    granted_by: str
    at: int


_ONE = (table.c.subject == bindparam("who"), table.c.place == bindparam("where"))
_GIVE = or_update(insert(table), key=("subject", "place"), columns=("kind", "role", "granted_by", "at"))
_TAKE = delete(table).where(*_ONE)
_ALL = select(table).order_by(table.c.subject, table.c.place)


def give(conn: Connection, grant: Grant) -> None:
    """In place of what the subject had there before."""
    names = ("subject", "place", "kind", "role", "granted_by", "at")
    conn.execute(_GIVE, {name: getattr(grant, name) for name in names})


def take(conn: Connection, subject: str, place: str = EVERYWHERE) -> bool:
    """Take back what was given there; False when nothing was."""
    return conn.execute(_TAKE, {"who": subject, "where": place}).rowcount > 0


def all_grants(conn: Connection) -> tuple[Grant, ...]:
    """Everything that was given, sorted by subject: few enough to be kept in memory."""
    return tuple(
        Grant(
            subject=row.subject,
            place=row.place,
            kind=cast(Kind, row.kind),
            role=cast(RoleName, row.role),
            granted_by=row.granted_by,
            at=row.at,
        )
        for row in conn.execute(_ALL)
    )
