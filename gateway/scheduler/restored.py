"""Schedules after a restore of the database, inside the transaction that restores it.

Moments that passed since the copy have most likely fired, and runs that were under way have ended: the ledger of the
copy knows of neither, so nothing of it is done a second time.
"""

from datetime import datetime
from functools import partial

from sqlalchemy import Connection, inspect

from agent.storage.timestamps import to_timestamp
from gateway.phrases.catalogue import Catalogue
from gateway.scheduler import ledger, store
from gateway.scheduler.firing import guarded
from gateway.scheduler.ledger import Entry, Finding
from gateway.scheduler.schedule import Schedule
from gateway.storage.tables import schedule as table

BATCH = 200


def put_aside(conn: Connection, now: datetime, phrase: Catalogue) -> int:
    """Note what passed as missed; how many schedules that concerns.

    What recurs goes on with its next moment; what was for one moment is off, for its creator to decide.
    """
    if not inspect(conn).has_table(table.name):  # of a version that knew no schedules
        return 0
    concerned: set[int] = set()
    after = 0
    while entries := ledger.open_runs(conn, after=after, most=BATCH):
        for entry in entries:
            guarded(conn, entry.schedule, now, partial(_close, conn, entry, now, phrase, concerned))
        after = entries[-1].id
    while (earliest := store.earliest(conn)) is not None and earliest <= to_timestamp(now):
        for schedule in store.due(conn, now=to_timestamp(now), most=BATCH):
            _pass_over(conn, schedule, now, phrase)
            concerned.add(schedule.id)
    return len(concerned)


def _close(conn: Connection, entry: Entry, now: datetime, phrase: Catalogue, concerned: set[int]) -> None:
    """A run that was under way is not tried again, unless it is seen that all went well."""
    found = ledger.finding(conn, entry)
    if found.run == "ok" and found.delivery in ("sent", "none"):
        return
    delivery = found.delivery or ("dead" if found.run else "none")
    ledger.settle(conn, entry, Finding(found.run or "failed", delivery), at=to_timestamp(now))
    schedule = store.by_id(conn, entry.schedule)
    if schedule is not None and schedule.state == "ended":
        _switch_off(conn, schedule, now, phrase)
        concerned.add(schedule.id)


def _pass_over(conn: Connection, schedule: Schedule, now: datetime, phrase: Catalogue) -> None:
    assert schedule.due is not None
    due = schedule.due
    ledger.note(conn, schedule, key=due.key, due_at=to_timestamp(due.at), outcome="missed", at=to_timestamp(now))
    if schedule.recurs:
        store.unset(conn, schedule.id, at=to_timestamp(now))
    else:
        _switch_off(conn, schedule, now, phrase)


def _switch_off(conn: Connection, schedule: Schedule, now: datetime, phrase: Catalogue) -> None:
    why = phrase("schedule_restored", schedule.creator.language)
    store.turn_off(conn, schedule.id, "failed", why, at=to_timestamp(now))
