"""Acts on one due schedule, inside a transaction of the caller: ledger, inbox or outbox row, and when it is due next.

All of it or nothing is committed, and the ledger's key is unique: a moment fires once, whatever crashes.
Never calls an agent or a platform: an agent turn is a row of the conversation's inbox (G-14), a plain reminder one of
its outbox.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from agent.core.ids import ConversationId
from agent.core.outbox import OutgoingMessage
from agent.inbox import HeldRoles
from agent.storage import conversation_rows, inbox_rows, outbox_rows
from agent.storage.payloads import encode_incoming
from agent.storage.timestamps import to_timestamp
from gateway.phrases.catalogue import Catalogue
from gateway.scheduler import ledger, store
from gateway.scheduler.ledger import Entry, Finding, Outcome
from gateway.scheduler.phrases import wording
from gateway.scheduler.schedule import Schedule
from gateway.scheduler.settings import SchedulerSettings
from gateway.scheduler.triggers.misfires import Fire, Quiet, held_back, judge
from gateway.scheduler.triggers.occurrences import Occurrence, due, first_after

MOST_COUNTED = 100  # moments that are looked at after a downtime; of more, the oldest are not told apart
AT_ONCE = 4  # agents woken together; the others follow one after another
LOGIN_PAUSE = timedelta(minutes=1)  # between two looks of a one-shot whether the account's login is taken again
TRY_AGAIN = (timedelta(minutes=1), timedelta(minutes=5), timedelta(minutes=30))

_log = logging.getLogger("tieline.scheduler")


@dataclass(frozen=True, slots=True, kw_only=True)
class FiringDeps:
    """The port of firing to the gateway; all of it is quick and does no I/O but through the connection.

    `why_not` says why nothing may be done for the schedule's creator there, or None; `role` is the creator's now, which
    may be less than it was when they set it. `reachable` says whether the account can send there at all, which
    nobody in the chat can help.
    """

    phrase: Catalogue
    settings: SchedulerSettings
    why_not: Callable[[Schedule], str | None]
    reachable: Callable[[ConversationId], bool]
    role: Callable[[Schedule], HeldRoles]
    quiet: Callable[[Connection, ConversationId], Quiet | None]


@dataclass(slots=True)
class Done:
    """The effects of one transaction, to be told once it is committed."""

    deliver: set[ConversationId] = field(default_factory=set)
    work: set[ConversationId] = field(default_factory=set)
    outcomes: list[tuple[Outcome, float]] = field(default_factory=list)  # and how many seconds after its moment
    turned_off: list[Schedule] = field(default_factory=list)
    agents: int = 0

    def clear(self) -> None:
        """The transaction begins anew."""
        self.deliver.clear()
        self.work.clear()
        self.outcomes.clear()
        self.turned_off.clear()
        self.agents = 0


def act(conn: Connection, schedule: Schedule, now: datetime, around: FiringDeps, done: Done) -> None:
    """Do what is due. The schedule was read under a lock in this transaction."""
    assert schedule.due is not None
    if _is_out_of_reach(conn, schedule, now, around, done) or _is_hidden_from_history(
        conn, schedule, now, around, done
    ):
        return
    quiet = around.quiet(conn, schedule.conversation) if schedule.recurs else None
    until = quiet.ends_after(now) if quiet is not None else None
    if until is not None:
        store.move(conn, schedule.id, schedule.due, until, held=True, at=to_timestamp(now))
        return
    moments = due(schedule.plan.rule, schedule.zone, first=schedule.due, now=now, most=MOST_COUNTED)
    grace = timedelta(seconds=around.settings.late_after_s)
    # A firing held back is on time when quiet hours end. If nobody was running then, it is as late as any other.
    is_on_time = schedule.held and schedule.next_at is not None and now - schedule.next_at <= grace
    verdict = held_back(moments) if is_on_time else judge(moments, schedule.plan.misfire, now=now, grace=grace)
    if verdict.missed:
        _write_off(conn, schedule, verdict.missed, now, around, done, tell=not verdict.fires)
    for fire in verdict.fires:
        _fire(conn, schedule, fire, now, around, done)
    advance(conn, schedule, after=max(now, moments[-1].at), now=now)


def compute(conn: Connection, schedule: Schedule, now: datetime) -> None:
    """Find out when an active schedule is due of which that is not known; it does not fire for it (G-15)."""
    first = first_after(schedule.plan.rule, schedule.zone, now)
    if first is None:
        store.turn_off(conn, schedule.id, "failed", "it has no moment to come", at=to_timestamp(now))
    else:
        store.move(conn, schedule.id, first, first.at, held=False, at=to_timestamp(now))


def advance(conn: Connection, schedule: Schedule, *, after: datetime, now: datetime) -> Occurrence | None:
    """On to its next moment; one that has none has ended."""
    following = first_after(schedule.plan.rule, schedule.zone, after) if schedule.recurs else None
    if following is None:
        store.end(conn, schedule.id, at=to_timestamp(now))
    else:
        store.move(conn, schedule.id, following, following.at, held=False, at=to_timestamp(now))
    return following


def start(
    conn: Connection,
    schedule: Schedule,
    *,
    key: str,
    at: datetime,
    now: datetime,
    around: FiringDeps,
    done: Done,
    late: bool = False,
    stands_for: int = 0,
) -> bool:
    """Start one run for the moment of that key; False when there was one before."""
    dedup = f"rem:{schedule.id}:{key}"
    outcome: Outcome = "late" if late else "fired"
    noted = ledger.note(
        conn,
        schedule,
        key=key,
        due_at=to_timestamp(at),
        outcome=outcome,
        at=to_timestamp(now),
        dedup=dedup,
        count=1 + stands_for,
    )
    if not noted:
        _log.info("%s fired for %s before", schedule.id, key)
        return False
    if schedule.plan.action == "remind":
        _say(conn, schedule, wording.reminder(schedule, at, around.phrase, late=late), dedup, now)
        done.deliver.add(schedule.conversation)
    else:
        _wake(conn, schedule, wording.task(schedule, at, late=late), dedup, now, around, done)
    done.outcomes.append((outcome, (now - at).total_seconds()))
    return True


def turn_off(conn: Connection, schedule: Schedule, why: str, now: datetime, around: FiringDeps, done: Done) -> None:
    """After too many failures: it stays, visible and off, and those concerned are told."""
    store.turn_off(conn, schedule.id, "failed", why, at=to_timestamp(now))
    done.turned_off.append(schedule)
    if not conversation_rows.is_gone(conn, schedule.conversation):
        text = around.phrase(
            "schedule_turned_off", schedule.creator.language, id=schedule.id, title=schedule.title, why=why
        )
        _say(conn, schedule, text, f"rem:{schedule.id}:off:{to_timestamp(now)}", now)
        done.deliver.add(schedule.conversation)


def count_failure(
    conn: Connection, schedule: Schedule, why: str, now: datetime, around: FiringDeps, done: Done
) -> bool:
    """One more in a row; True when that was one too many. A one-shot that is not off is tried again."""
    failures = schedule.failures + 1
    store.count_failures(conn, schedule.id, failures, at=to_timestamp(now))
    if failures >= around.settings.max_failures:
        turn_off(conn, schedule, why, now, around, done)
        return True
    if not schedule.recurs and schedule.due is not None:
        again = now + TRY_AGAIN[min(failures, len(TRY_AGAIN)) - 1]
        store.move(conn, schedule.id, schedule.due, again, held=False, at=to_timestamp(now))
    return False


def _is_out_of_reach(conn: Connection, schedule: Schedule, now: datetime, around: FiringDeps, done: Done) -> bool:
    """The place is closed or its creator may not: noted, counted, and nothing is started."""
    assert schedule.due is not None
    gone = conversation_rows.is_gone(conn, schedule.conversation)
    why = around.phrase("schedule_gone", schedule.creator.language) if gone else around.why_not(schedule)
    if why is None:
        return False
    key, at = _attempt(schedule, schedule.due.key), to_timestamp(schedule.due.at)
    ledger.note(conn, schedule, key=key, due_at=at, outcome="unreachable", at=to_timestamp(now))
    done.outcomes.append(("unreachable", (now - schedule.due.at).total_seconds()))
    if not count_failure(conn, schedule, why, now, around, done) and schedule.recurs:
        advance(conn, schedule, after=max(now, schedule.due.at), now=now)
    return True


def _is_hidden_from_history(
    conn: Connection, schedule: Schedule, now: datetime, around: FiringDeps, done: Done
) -> bool:
    """The account's login is refused: no model is paid for what nobody can read (Z-36).

    A recurring schedule waits for its next moment, a one-shot for the login. Neither counts as failed, as neither did.
    A reminder costs nothing: it is said, and sent when the login is taken again.
    """
    assert schedule.due is not None
    if schedule.plan.action == "remind" or around.reachable(schedule.conversation):
        return False
    key, at = f"{_attempt(schedule, schedule.due.key)}@login", to_timestamp(schedule.due.at)
    if ledger.note(conn, schedule, key=key, due_at=at, outcome="unreachable", at=to_timestamp(now)):
        done.outcomes.append(("unreachable", (now - schedule.due.at).total_seconds()))
    if schedule.recurs:
        advance(conn, schedule, after=max(now, schedule.due.at), now=now)
    else:
        store.move(conn, schedule.id, schedule.due, now + LOGIN_PAUSE, held=False, at=to_timestamp(now))
    return True


def _fire(conn: Connection, schedule: Schedule, fire: Fire, now: datetime, around: FiringDeps, done: Done) -> None:
    at = fire.occurrence.at
    if schedule.recurs and schedule.plan.action != "remind" and ledger.is_waiting(conn, schedule):
        # One run of a schedule at a time: a slow model must not make it pile up.
        ledger.note(
            conn, schedule, key=fire.occurrence.key, due_at=to_timestamp(at), outcome="overlap", at=to_timestamp(now),
            count=1 + fire.stands_for,
        )  # fmt: skip
        done.outcomes.append(("overlap", (now - at).total_seconds()))
        return
    start(
        conn,
        schedule,
        key=_attempt(schedule, fire.occurrence.key),
        at=at,
        now=now,
        around=around,
        done=done,
        late=fire.late,
        stands_for=fire.stands_for,
    )


def _attempt(schedule: Schedule, key: str) -> str:
    """A one-shot that failed is tried again under another key."""
    return f"{key}#{schedule.failures + 1}" if schedule.failures and not schedule.recurs else key


def _write_off(
    conn: Connection,
    schedule: Schedule,
    missed: tuple[Occurrence, ...],
    now: datetime,
    around: FiringDeps,
    done: Done,
    *,
    tell: bool,
) -> None:
    """One row for all of them; told in the chat unless something fires in their place or nobody wants to know."""
    last = missed[-1]
    noted = ledger.note(
        conn,
        schedule,
        key=last.key,
        due_at=to_timestamp(last.at),
        outcome="missed",
        at=to_timestamp(now),
        count=len(missed),
    )
    done.outcomes.append(("missed", (now - last.at).total_seconds()))
    if noted and tell and schedule.plan.misfire.policy != "skip" and schedule.plan.action != "heartbeat":
        more = len(missed) > MOST_COUNTED
        text = wording.missed(schedule, last.at, len(missed), around.phrase, more=more)
        _say(conn, schedule, text, f"rem:{schedule.id}:missed:{last.key}", now)
        done.deliver.add(schedule.conversation)


def tell_change(
    conn: Connection, schedule: Schedule, verb: wording.OperatorChange, who: str, around: FiringDeps, now: datetime
) -> None:
    """Say in the chat that an operator has changed it from elsewhere. The caller wakes delivery."""
    text = wording.changed(schedule, verb, who, around.phrase)
    _say(conn, schedule, text, f"rem:{schedule.id}:{verb}:{to_timestamp(now)}", now)


def _say(conn: Connection, schedule: Schedule, text: str, dedup: str, now: datetime) -> None:
    say = OutgoingMessage(text=text, kind="notice", verbatim=True)
    conversation_rows.ensure(conn, schedule.conversation, to_timestamp(now))
    outbox_rows.add(
        conn, conversation=schedule.conversation, inbox_id=None, part=0, dedup=dedup, say=say, at=to_timestamp(now)
    )


def _wake(
    conn: Connection, schedule: Schedule, text: str, dedup: str, now: datetime, around: FiringDeps, done: Done
) -> None:
    """Into the conversation's inbox, ahead of what people say: it was asked for first (Z-22).

    Many at once are spread, so that a full hour or a restart is no stampede. Those that are put off so, and heartbeats,
    which nobody waits for, come after people.
    """
    done.agents += 1
    later = max(0, done.agents - AT_ONCE) * around.settings.spread_s
    is_postponed = later > 0 or schedule.plan.action == "heartbeat"
    inbox_rows.admit(
        conn,
        conversation=schedule.conversation,
        kind="reminder",
        dedup=dedup,
        payload=encode_incoming(wording.incoming(schedule, text, around.role(schedule), now)),
        at=to_timestamp(now),
        not_before=to_timestamp(now + timedelta(seconds=later)) if is_postponed else None,
        limit=None,
    )
    done.work.add(schedule.conversation)


# Error seam around one schedule: a defect in it holds up no other.


def guarded(conn: Connection, schedule: int, now: datetime, work: Callable[[], None]) -> None:
    """Do the work on the schedule of that id; if that cannot be done, none of it stays and the schedule is off."""
    try:
        with conn.begin_nested():
            work()
    except DBAPIError:
        raise  # the database's trouble, not the schedule's
    except Exception as error:  # noqa: BLE001 - the seam of one schedule's work, as a turn is of one message's
        _log.exception("schedule %d cannot be worked with", schedule)
        store.turn_off(conn, schedule, "failed", type(error).__name__, at=to_timestamp(now))


# Results of started runs, and what follows for their schedules; inside a transaction of the caller.

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
