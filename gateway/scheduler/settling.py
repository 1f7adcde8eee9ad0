"""Finds out how started runs went, and what follows for their schedules; inside a transaction of the caller.

A run and the delivery of its words are two things (PEERS §3.9): either may fail, and either counts.
"""

from dataclasses import dataclass
from datetime import datetime
from functools import partial

from sqlalchemy import Connection

from agent.storage.timestamps import to_timestamp
from gateway.scheduler import ledger, store
from gateway.scheduler.firing import Done, FiringDeps, count_failure
from gateway.scheduler.guarding import guarded
from gateway.scheduler.ledger import Entry, Finding
from gateway.scheduler.schedule import Schedule

MOST = 200  # runs looked at in one transaction


@dataclass(frozen=True, slots=True)
class Settled:
    """`still` says whether some are under way; the next look begins behind the id `after`."""

    still: bool
    after: int = 0


def settle(conn: Connection, now: datetime, around: FiringDeps, done: Done, *, after: int) -> Settled:
    """Look at some of the runs that are under way: in turn, so that those that never end hide none."""
    entries = ledger.open_runs(conn, after=after, most=MOST)
    still = False
    for entry in entries:
        found = ledger.finding(conn, entry)
        if found.run is None or found.delivery is None:
            still = True
            continue
        ledger.settle(conn, entry, found, at=to_timestamp(now))
        guarded(conn, entry.schedule, now, partial(_conclude, conn, entry, found, now, around, done))
    if len(entries) == MOST:
        return Settled(True, entries[-1].id)
    return Settled(still or after > 0)


def _counts(entry: Entry, schedule: Schedule) -> bool:
    """Of a one-shot only the run of its own moment: not one by hand, nor one of a moment that it had before."""
    return schedule.recurs or (schedule.due is not None and entry.due_at == to_timestamp(schedule.due.at))


def _conclude(conn: Connection, entry: Entry, found: Finding, now: datetime, around: FiringDeps, done: Done) -> None:
    schedule = store.by_id(conn, entry.schedule)
    if schedule is None or schedule.state in ("failed", "paused") or not _counts(entry, schedule):
        return
    if found.run == "ok" and found.delivery != "dead":
        if schedule.state == "ended":
            store.remove(conn, schedule.id)
        elif schedule.failures:
            store.count_failures(conn, schedule.id, 0, at=to_timestamp(now))
        return
    key = "schedule_run_failed" if found.run == "failed" else "schedule_undelivered"
    count_failure(conn, schedule, around.phrase(key, schedule.creator.language), now, around, done)
