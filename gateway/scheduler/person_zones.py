"""The zone each person lives in, as they told it, and whom we have asked.

Each account of a person keeps its own; of somebody who has several (`accounts`), the zone that was told last holds.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import chain

from sqlalchemy import BindParameter, Connection, bindparam, delete, insert, select

from agent.storage.statements import CompiledStatement, or_ignore, or_update
from agent.storage.timestamps import to_timestamp
from gateway.scheduler import store
from gateway.scheduler.schedule import Plan, Schedule, ZoneSource
from gateway.scheduler.triggers.occurrences import first_after
from gateway.scheduler.triggers.rules import On, follows_the_wall
from gateway.scheduler.triggers.zones import is_zone, zone_named
from gateway.storage.tables import person_zone as table

_WHO = table.c.person == bindparam("who")
_SET = or_update(insert(table), key=("person",), columns=("zone", "updated_at"))
_ASKED = or_ignore(insert(table)).returning(table.c.person)
_GET = CompiledStatement(select(table.c.zone).where(_WHO))  # every turn tells its model the time
_OF_ALL: BindParameter[list[str]] = bindparam("people", expanding=True)
_GET_OF_ALL = (
    select(table.c.zone)
    .where(table.c.person.in_(_OF_ALL), table.c.zone.is_not(None))
    .order_by(table.c.updated_at.desc())
    .limit(1)
)
_ALL_GIVEN = select(table.c.person, table.c.zone).where(table.c.zone.is_not(None))
_FORGET = delete(table).where(table.c.person.in_(_OF_ALL))


@dataclass(frozen=True, slots=True)
class Zone:
    """A person's zone, an IANA name, and who says so."""

    name: str
    source: ZoneSource


def zone_of(conn: Connection, accounts: Sequence[str], told: str | None, *, assumed: str) -> Zone:
    """Where the person lives: by their own word, else the platform's (`told`), else as is assumed."""
    if len(accounts) > 1:
        own = conn.execute(_GET_OF_ALL, {"people": list(accounts)}).scalar_one_or_none()
    else:
        own = _GET.scalar(conn, {"who": accounts[0]}) if accounts else None
    if own is not None:
        return Zone(own, "person")
    if told is not None and is_zone(told):
        return Zone(told, "platform")
    return Zone(assumed, "assumed")


def given_zones(conn: Connection, people: Sequence[str]) -> Mapping[str, str]:
    """The zones that these accounts told, by account."""
    rows = conn.execute(_ALL_GIVEN.where(table.c.person.in_(_OF_ALL)), {"people": list(people)}) if people else ()
    return {row.person: row.zone for row in rows}


def note_asked(conn: Connection, person: str, *, at: int) -> bool:
    """They are being asked; False when they were before, or have told."""
    return conn.execute(_ASKED, {"person": person, "zone": None, "updated_at": at}).scalar_one_or_none() is not None


def set_zone(conn: Connection, person: str, zone: str, *, at: int) -> None:
    conn.execute(_SET, {"person": person, "zone": zone, "updated_at": at})


def forget_zone(conn: Connection, accounts: Sequence[str]) -> bool:
    return conn.execute(_FORGET, {"people": list(accounts)}).rowcount > 0


# Change of a person's zone: what they asked for by their own wall clock follows them.


def move(conn: Connection, accounts: Sequence[str], zone: str, now: datetime) -> tuple[Schedule, ...]:
    """Note the zone of the first of the person's accounts; gives the schedules that were moved."""
    set_zone(conn, accounts[0], zone, at=to_timestamp(now))
    moved = []
    for schedule in chain.from_iterable(store.of_person(conn, account) for account in accounts):
        plan = schedule.plan
        if plan.zone_source == "given" or plan.zone == zone or not follows_the_wall(plan.rule):
            continue
        plan = replace(plan, zone=zone, zone_source="person")
        moved.append(_rezoned(conn, schedule, plan, now))
    return tuple(moved)


def _rezoned(conn: Connection, schedule: Schedule, plan: Plan, now: datetime) -> Schedule:
    """The same wall-clock time in another zone; a one-shot that would have passed there happens a day later."""
    first = first_after(plan.rule, zone_named(plan.zone), now)
    if first is None and isinstance(plan.rule, On):
        plan = replace(plan, rule=On(wall=plan.rule.wall + timedelta(days=1)))
        first = first_after(plan.rule, zone_named(plan.zone), now)
    if first is None:
        return schedule
    state = schedule.state
    store.rewrite(conn, schedule.id, plan, first, at=to_timestamp(now))
    if state != "active":
        store.turn_off(conn, schedule.id, state, schedule.note, at=to_timestamp(now))
    moved = store.by_id(conn, schedule.id)
    assert moved is not None
    return moved
