"""Somebody lives in another zone now: what they asked for by their own wall clock follows them.

Inside a transaction of the caller. What was asked for in a zone of its own, or as a span, stays where it is.
"""

from dataclasses import replace
from datetime import datetime, timedelta

from sqlalchemy import Connection

from agent.storage.timestamps import to_timestamp
from gateway.scheduler import people, store
from gateway.scheduler.occurrences import first_after
from gateway.scheduler.rules import On, follows_the_wall
from gateway.scheduler.schedule import Plan, Schedule
from gateway.scheduler.zones import zone_named


def move(conn: Connection, person: str, zone: str, now: datetime) -> tuple[Schedule, ...]:
    """Note the zone; gives the schedules that were moved."""
    people.set_zone(conn, person, zone, at=to_timestamp(now))
    moved = []
    for schedule in store.of_person(conn, person):
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
