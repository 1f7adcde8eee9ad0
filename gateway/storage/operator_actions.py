"""The audit log of operators: who changed what through the web, and who read whose words. Moments: UTC microseconds."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, insert, or_, select

from gateway.storage.tables import operator_action as table

_ADD = insert(table)
_NEWEST = select(table).order_by(table.c.id.desc())


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorAction:
    """One action. `person` is the account (`web:anna`), `name` what people call it, `address` where they came from.

    `action` names what was done (`approvals.decide`), `subject` to whom or what, `detail` how. None of them holds a
    secret.
    """

    at: int
    person: str
    name: str
    address: str
    action: str
    subject: str
    detail: str


def add(conn: Connection, done: OperatorAction) -> None:
    """Note it."""
    values = {
        "at": done.at,
        "person": done.person,
        "name": done.name,
        "address": done.address,
        "action": done.action,
        "subject": done.subject,
        "detail": done.detail,
    }
    conn.execute(_ADD, values)


def newest(
    conn: Connection, *, person: str = "", find: str = "", most: int = 50, skip: int = 0
) -> Sequence[OperatorAction]:
    """The newest first; of one person, or with these words in action, subject or detail, where given."""
    query = _NEWEST.limit(most).offset(skip)
    if person:
        query = query.where(table.c.person == person)
    if find:
        columns = (table.c.action, table.c.subject, table.c.detail)
        query = query.where(or_(*(column.icontains(find, autoescape=True) for column in columns)))
    return [
        OperatorAction(
            at=row.at,
            person=row.person,
            name=row.name,
            address=row.address,
            action=row.action,
            subject=row.subject,
            detail=row.detail,
        )
        for row in conn.execute(query)
    ]
