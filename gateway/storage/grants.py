"""Rows of grants for people and places, given while running; the configuration's lists are not in here."""

from dataclasses import dataclass, replace
from typing import Any, Literal, cast

from sqlalchemy import Connection, Row, bindparam, delete, insert, select

from agent.storage.statements import or_update
from gateway.storage.tables import access_grant as table

Kind = Literal["person", "place"]
RoleName = Literal["owner", "admin", "member", "blocked"]

EVERYWHERE = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """`subject` is a person (`telegram:77`) or a place (`telegram:-1005`). `place` bounds where a person's role holds.

    `at` is UTC microseconds, `granted_by` a person's name or "operator". `before` is the role that a blocked person had
    and has again once the block is taken back.
    """

    subject: str
    kind: Kind
    role: RoleName
    place: str = EVERYWHERE
    granted_by: str
    at: int
    before: RoleName | None = None


_ONE = (table.c.subject == bindparam("who"), table.c.place == bindparam("where"))
_GIVE = or_update(insert(table), key=("subject", "place"), columns=("kind", "role", "granted_by", "at"))
_TAKE = delete(table).where(*_ONE)
_ALL = select(table).order_by(table.c.subject, table.c.place)
_FIND = select(table).where(*_ONE)
_BLOCKED_BEFORE = "blocked:"  # in the column of the role; behind it the role from before the block


def give(conn: Connection, grant: Grant) -> None:
    """Put the grant in place of the subject's former one there."""
    names = ("subject", "place", "kind", "granted_by", "at")
    role = grant.role if grant.before is None else f"{_BLOCKED_BEFORE}{grant.before}"
    conn.execute(_GIVE, {"role": role, **{name: getattr(grant, name) for name in names}})


def block(conn: Connection, grant: Grant) -> Grant:
    """Give a `blocked` grant that remembers the role it replaces, and return it as it was written."""
    had = find(conn, grant.subject, grant.place)
    if had is not None:
        grant = replace(grant, before=had.before if had.role == "blocked" else had.role)
    give(conn, grant)
    return grant


def unblock(conn: Connection, subject: str, *, by: str, at: int) -> Grant | None:
    """Take a block back; the grant that holds again, None where there was none before."""
    had = find(conn, subject)
    take(conn, subject)
    if had is None or had.before is None:
        return None
    restored = replace(had, role=had.before, before=None, granted_by=by, at=at)
    give(conn, restored)
    return restored


def take(conn: Connection, subject: str, place: str = EVERYWHERE) -> bool:
    """Take back what was given there; False when nothing was."""
    return conn.execute(_TAKE, {"who": subject, "where": place}).rowcount > 0


def find(conn: Connection, subject: str, place: str = EVERYWHERE) -> Grant | None:
    """The grant of that subject there."""
    row = conn.execute(_FIND, {"who": subject, "where": place}).one_or_none()
    return None if row is None else _grant(row)


def all_grants(conn: Connection) -> tuple[Grant, ...]:
    """Everything that was given, sorted by subject: few enough to be kept in memory."""
    return tuple(_grant(row) for row in conn.execute(_ALL))


def _grant(row: Row[Any]) -> Grant:
    is_remembered = row.role.startswith(_BLOCKED_BEFORE)
    return Grant(
        subject=row.subject,
        place=row.place,
        kind=cast(Kind, row.kind),
        role="blocked" if is_remembered else cast(RoleName, row.role),
        granted_by=row.granted_by,
        at=row.at,
        before=cast(RoleName, row.role.removeprefix(_BLOCKED_BEFORE)) if is_remembered else None,
    )
