"""What must hold before a schedule is stored: its words, its moments, how many there are, whose it is. Pure.

Each raises Mistake with the sentence that says what is wrong.
"""

from datetime import datetime, timedelta
from itertools import pairwise

from gateway.scheduler.mistakes import Mistake
from gateway.scheduler.occurrences import Occurrence, first_after
from gateway.scheduler.rights import may_change, shortest_period_s
from gateway.scheduler.schedule import LONGEST_KIND, LONGEST_NAME, LONGEST_TEXT, Creator, Plan, Schedule
from gateway.scheduler.settings import SchedulerSettings
from gateway.scheduler.store import Counts
from gateway.scheduler.zones import zone_named

LOOKED_AT = 12  # moments whose distances are compared with the shortest period


def checked_first(plan: Plan, name: str | None, by: Creator, now: datetime, settings: SchedulerSettings) -> Occurrence:
    """The plan's first moment, when there is one, it is not too long and does not come too often for whoever asks."""
    if not plan.text.strip():
        raise Mistake("when_no_text")
    for what, value, limit in (
        ("text", plan.text, LONGEST_TEXT),
        ("name", name or "", LONGEST_NAME),
        ("kind", plan.kind, LONGEST_KIND),
    ):
        if len(value) > limit:
            raise Mistake("schedule_long", what=what, length=len(value), limit=limit)
    first = first_moment(plan, now)
    moments, zone = [first], zone_named(plan.zone)
    while len(moments) < LOOKED_AT and (one := first_after(plan.rule, zone, moments[-1].at)) is not None:
        moments.append(one)
    limit = shortest_period_s(by, settings)
    if any(later.at - earlier.at < timedelta(seconds=limit) for earlier, later in pairwise(moments)):
        key = "schedule_often" if limit == settings.min_period_s else "schedule_often_in_group"
        raise Mistake(key, limit=limit)
    return first


def first_moment(plan: Plan, now: datetime) -> Occurrence:
    """The next moment from now."""
    first = first_after(plan.rule, zone_named(plan.zone), now)
    if first is None:
        raise Mistake("when_never")
    return first


def check_room(counts: Counts, settings: SchedulerSettings) -> None:
    """Whether one more may be set there, by that person."""
    if counts.here >= settings.per_conversation:
        raise Mistake("schedule_full_here", limit=settings.per_conversation)
    if counts.theirs >= settings.per_person:
        raise Mistake("schedule_full_person", limit=settings.per_person)


def check_right(schedule: Schedule, who: Creator) -> None:
    """Whether it is theirs to change."""
    if not may_change(schedule, who):
        raise Mistake("schedule_of_another", title=schedule.title)
