"""Rows of schedules: the truth of what will happen. Moments are UTC microseconds in the table."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

from pydantic import ValidationError
from sqlalchemy import Connection, Row, bindparam, delete, func, insert, literal_column, not_, or_, select, update

from agent.core.ids import ConversationId, PersonId
from agent.inbox import ChatType, read_role, written_role
from agent.storage.statements import or_ignore
from agent.storage.timestamps import from_timestamp, to_timestamp
from gateway.phrases.catalogue import UsageError
from gateway.scheduler.schedule import Action, Creator, Plan, Schedule, State, ZoneSource
from gateway.scheduler.triggers.misfires import Misfire, read_misfire, written
from gateway.scheduler.triggers.occurrences import Occurrence
from gateway.scheduler.triggers.rules import decode_rule, encode_rule
from gateway.storage.tables import schedule as table

_log = logging.getLogger("tieline.scheduler")


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Schedules there are: in the conversation, and of the person anywhere."""

    here: int
    theirs: int


_ONE = table.c.id == bindparam("row")
_CONV = table.c.conv == bindparam("conversation")
_THERE = table.c.state != literal_column("'ended'")
# Written out: behind a parameter a prepared plan of PostgreSQL could not use the partial index of active rows.
_ACTIVE = table.c.state == literal_column("'active'")

_ADD = or_ignore(insert(table)).returning(table.c.id)
_BY_ID = select(table).where(_ONE)
_BY_NAME = select(table).where(_CONV, table.c.name == bindparam("wanted"))
_BY_ORIGIN = select(table).where(table.c.origin == bindparam("wanted"))
_OF_CONVERSATION = (
    select(table)
    .where(_CONV, _THERE)
    .order_by(not_(_ACTIVE), table.c.next_at.is_(None), table.c.next_at, table.c.id)
    .limit(bindparam("most"))
)
_OF_PERSON = select(table).where(table.c.person == bindparam("who"), _THERE).order_by(table.c.id)
_COUNT_HERE = select(func.count()).select_from(table).where(_CONV, _THERE)
_COUNT_THEIRS = (
    select(func.count()).select_from(table).where(table.c.person.in_(bindparam("people", expanding=True)), _THERE)
)
_DUE = (
    select(table)
    .where(_ACTIVE, table.c.next_at <= bindparam("now"))
    .order_by(table.c.next_at, table.c.id)
    .limit(bindparam("most"))
    .with_for_update(skip_locked=True)
)
_EARLIEST = select(func.min(table.c.next_at)).where(_ACTIVE)
_UNCOMPUTED = (
    select(table).where(_ACTIVE, table.c.next_at.is_(None)).limit(bindparam("most")).with_for_update(skip_locked=True)
)
# What operators sort all schedules by: each column with what rests or is unknown last.
_ORDERS: Mapping[str, Sequence[Any]] = {
    "next": (not_(_ACTIVE), table.c.next_at.is_(None), table.c.next_at),
    "where": (table.c.conv,),
    "whose": (table.c.display, table.c.person),
    "failures": (table.c.failures,),
    "set": (table.c.created_at,),
}
ORDERS = tuple(_ORDERS)
_STATES = select(table.c.state, func.count().label("rows")).group_by(table.c.state)
_DELETE = delete(table).where(_ONE)


def add(
    conn: Connection,
    *,
    conversation: ConversationId,
    name: str | None,
    origin: str | None,
    creator: Creator,
    plan: Plan,
    due: Occurrence,
    at: int,
) -> Schedule | None:
    """Store a new one, to happen at `due`; None when its name or origin is there already."""
    values = {
        "conv": conversation,
        "name": name,
        "origin": origin,
        "created_at": at,
        **_creator_values(creator),
        **_plan_values(plan),
        **_due_values(due, due.at, held=False),
        "updated_at": at,
    }
    row_id = conn.execute(_ADD, values).scalar_one_or_none()
    return by_id(conn, row_id) if row_id is not None else None


def by_id(conn: Connection, id: int) -> Schedule | None:
    row = conn.execute(_BY_ID, {"row": id}).one_or_none()
    return _schedule(row) if row else None


def by_name(conn: Connection, conversation: ConversationId, name: str) -> Schedule | None:
    row = conn.execute(_BY_NAME, {"conversation": conversation, "wanted": name}).one_or_none()
    return _schedule(row) if row else None


def by_origin(conn: Connection, origin: str) -> Schedule | None:
    row = conn.execute(_BY_ORIGIN, {"wanted": origin}).one_or_none()
    return _schedule(row) if row else None


def of_conversation(conn: Connection, conversation: ConversationId, *, most: int = 1000) -> tuple[Schedule, ...]:
    """Schedules set there, the next first and the resting last; ended ones are left out."""
    found = conn.execute(_OF_CONVERSATION, {"conversation": conversation, "most": most})
    return _parsed(found.all())[0]


def of_person(conn: Connection, person: str) -> tuple[Schedule, ...]:
    """Schedules of that person, anywhere."""
    return _parsed(conn.execute(_OF_PERSON, {"who": person}).all())[0]


def everywhere(
    conn: Connection,
    *,
    find: str = "",
    in_words: bool = False,
    state: str = "",
    sort: str = "next",
    descending: bool = False,
    most: int,
    skip: int = 0,
) -> tuple[Schedule, ...]:
    """Schedules of all conversations in the order of one of `ORDERS`; ended ones are left out.

    `find` is looked for in places, people and rules, and with `in_words` in names and texts too.
    """
    *before, last = _ORDERS[sort]
    query = select(table).where(_THERE).order_by(*before, last.desc() if descending else last, table.c.id)
    if state:
        query = query.where(table.c.state == state)
    if find:
        sought = (table.c.conv, table.c.display, table.c.person, table.c.said)
        words = (table.c.name, table.c.text) if in_words else ()
        query = query.where(or_(*(column.icontains(find, autoescape=True) for column in (*sought, *words))))
    return _parsed(conn.execute(query.limit(most).offset(skip)).all())[0]


def counts(conn: Connection, conversation: ConversationId, accounts: Sequence[str]) -> Counts:
    """`accounts` are all of one person's."""
    theirs = conn.execute(_COUNT_THEIRS, {"people": list(accounts)}).scalar_one() if accounts else 0
    return Counts(here=conn.execute(_COUNT_HERE, {"conversation": conversation}).scalar_one(), theirs=theirs)


def states(conn: Connection) -> Mapping[str, int]:
    """How many there are in each state."""
    return {row.state: row.rows for row in conn.execute(_STATES)}


def due(conn: Connection, *, now: int, most: int) -> tuple[Schedule, ...]:
    """Schedules to be acted on now, the longest due first; locked until the end of the transaction."""
    return _readable(conn, conn.execute(_DUE, {"now": now, "most": most}).all(), now)


def earliest(conn: Connection) -> int | None:
    """When the next one is to be acted on."""
    return cast(int | None, conn.execute(_EARLIEST).scalar_one())


def uncomputed(conn: Connection, *, now: int, most: int) -> tuple[Schedule, ...]:
    """Active ones of which nobody has computed when (G-15)."""
    return _readable(conn, conn.execute(_UNCOMPUTED, {"most": most}).all(), now)


def move(conn: Connection, id: int, due: Occurrence, next_at: datetime, *, held: bool, at: int) -> None:
    """It is meant for `due` and will be acted on at `next_at`."""
    _update(conn, id, at, **_due_values(due, next_at, held=held), state="active")


def turn_off(conn: Connection, id: int, state: State, note: str | None, *, at: int) -> None:
    """It will not happen again, unless somebody turns it on."""
    _update(conn, id, at, state=state, note=note, due_at=None, due_key=None, next_at=None, held=False)


def unset(conn: Connection, id: int, *, at: int) -> None:
    """It goes on; when is to be computed anew."""
    _update(conn, id, at, due_at=None, due_key=None, next_at=None, held=False)


def end(conn: Connection, id: int, *, at: int) -> None:
    """A one-shot has fired; what it was meant for stays, in case it must be tried again."""
    _update(conn, id, at, state="ended", next_at=None, held=False)


def count_failures(conn: Connection, id: int, failures: int, *, at: int) -> None:
    _update(conn, id, at, failures=failures)


def set_misfire(conn: Connection, id: int, misfire: Misfire, *, at: int) -> None:
    _update(conn, id, at, misfire=written(misfire))


def rewrite(conn: Connection, id: int, plan: Plan, due: Occurrence, *, at: int, creator: Creator | None = None) -> None:
    """Give it another plan; it starts afresh. With `creator` it is theirs from now on."""
    _update(
        conn,
        id,
        at,
        **_plan_values(plan),
        **_due_values(due, due.at, held=False),
        **(_creator_values(creator) if creator is not None else {}),
        state="active",
        failures=0,
        note=None,
    )


def remove(conn: Connection, id: int) -> bool:
    return conn.execute(_DELETE, {"row": id}).rowcount == 1


def _readable(conn: Connection, rows: Sequence[Row[Any]], now: int) -> tuple[Schedule, ...]:
    """A row that cannot be read is turned off: it must not hold up the others."""
    found, broken = _parsed(rows)
    for id in broken:
        turn_off(conn, id, "failed", "it cannot be read", at=now)
    return found


def _parsed(rows: Sequence[Row[Any]]) -> tuple[tuple[Schedule, ...], tuple[int, ...]]:
    """The schedules that can be read, and the ids of the others."""
    found, broken = [], []
    for row in rows:
        try:
            found.append(_schedule(row))
        except (ValidationError, UsageError):
            _log.exception("schedule %d of %s cannot be read", row.id, row.conv)
            broken.append(row.id)
    return tuple(found), tuple(broken)


def _update(conn: Connection, id: int, at: int, **values: Any) -> None:
    conn.execute(update(table).where(table.c.id == id).values(updated_at=at, **values))


def _plan_values(plan: Plan) -> dict[str, Any]:
    return {
        "action": plan.action,
        "kind": plan.kind,
        "text": plan.text,
        "rule": encode_rule(plan.rule),
        "said": plan.said,
        "zone": plan.zone,
        "zone_source": plan.zone_source,
        "misfire": written(plan.misfire),
    }


def _creator_values(creator: Creator) -> dict[str, Any]:
    return {
        "person": creator.person,
        "display": creator.display,
        "language": creator.language,
        "role": written_role(creator.role, creator.roles),
        "chat_type": creator.chat_type,
    }


def _due_values(due: Occurrence, next_at: datetime, *, held: bool) -> dict[str, Any]:
    return {"due_at": to_timestamp(due.at), "due_key": due.key, "next_at": to_timestamp(next_at), "held": held}


def _schedule(row: Row[Any]) -> Schedule:
    role, roles = read_role(row.role)
    return Schedule(
        id=row.id,
        conversation=ConversationId(row.conv),
        name=row.name,
        creator=Creator(
            person=PersonId(row.person) if row.person else None,
            display=row.display,
            language=row.language,
            role=role,
            roles=roles,
            chat_type=cast(ChatType, row.chat_type),
        ),
        plan=Plan(
            action=cast(Action, row.action),
            kind=row.kind,
            text=row.text,
            rule=decode_rule(row.rule),
            said=row.said,
            zone=row.zone,
            zone_source=cast(ZoneSource, row.zone_source),
            misfire=read_misfire(row.misfire),
        ),
        state=cast(State, row.state),
        due=Occurrence(key=row.due_key, at=from_timestamp(row.due_at)) if row.due_at is not None else None,
        next_at=from_timestamp(row.next_at) if row.next_at is not None else None,
        held=row.held,
        failures=row.failures,
        note=row.note,
        created_at=from_timestamp(row.created_at),
    )
