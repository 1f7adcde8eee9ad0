"""Operations on schedules for people and agents: set, look, change, remove. All is checked before it is stored."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise

from sqlalchemy import Connection

from agent.core.clock import Clock
from agent.core.ids import ConversationId
from agent.storage.database import Database
from agent.storage.timestamps import to_timestamp
from gateway.phrases.catalogue import UsageError
from gateway.scheduler import ledger, person_zones, store
from gateway.scheduler.firing import Done, FiringDeps, advance, start, tell_change
from gateway.scheduler.ledger import BY_HAND, Cost, Entry
from gateway.scheduler.person_zones import Zone, move
from gateway.scheduler.phrases.wording import OperatorChange
from gateway.scheduler.schedule import LONGEST_KIND, LONGEST_NAME, LONGEST_TEXT, Creator, Plan, Schedule
from gateway.scheduler.settings import SchedulerSettings
from gateway.scheduler.store import Counts
from gateway.scheduler.triggers.misfires import Misfire
from gateway.scheduler.triggers.occurrences import Occurrence, first_after
from gateway.scheduler.triggers.zones import zone_named

# Rights and shortest periods, for commands and the agent's tools. Pure.


def may_change(schedule: Schedule, who: Creator) -> bool:
    """Whether they may change the schedule: in a direct chat anybody, in a group its creator and admins."""
    return _is_free(who) or schedule.creator.person == who.person


def shortest_period_s(who: Creator, settings: SchedulerSettings) -> int:
    """The shortest period in seconds: everybody in a group hears and pays for one member's schedule."""
    return settings.min_period_s if _is_free(who) else max(settings.min_period_s, settings.group_period_s)


def _is_free(who: Creator) -> bool:
    return who.chat_type == "direct" or who.role not in ("member", "guest")


# Checks before a schedule is stored: its words, its moments, their number, its owner. Pure.

LOOKED_AT = 12  # moments whose distances are compared with the shortest period


def checked_first(plan: Plan, name: str | None, by: Creator, now: datetime, settings: SchedulerSettings) -> Occurrence:
    """The plan's first moment, when there is one, it is not too long and does not come too often for whoever asks."""
    if not plan.text.strip():
        raise UsageError("when_no_text")
    for what, value, limit in (
        ("text", plan.text, LONGEST_TEXT),
        ("name", name or "", LONGEST_NAME),
        ("kind", plan.kind, LONGEST_KIND),
    ):
        if len(value) > limit:
            raise UsageError("schedule_long", what=what, length=len(value), limit=limit)
    first = first_moment(plan, now)
    limit = shortest_period_s(by, settings)
    if shortest_distance_s(plan, now) < limit:
        key = "schedule_often" if limit == settings.min_period_s else "schedule_often_in_group"
        raise UsageError(key, limit=limit)
    return first


def shortest_distance_s(plan: Plan, now: datetime) -> float:
    """Seconds between the two of its next moments that are closest; endless where there is one at most."""
    moment, zone, moments = first_after(plan.rule, zone_named(plan.zone), now), zone_named(plan.zone), list[datetime]()
    while moment is not None and len(moments) < LOOKED_AT:
        moments.append(moment.at)
        moment = first_after(plan.rule, zone, moment.at)
    return min(((later - earlier).total_seconds() for earlier, later in pairwise(moments)), default=float("inf"))


def first_moment(plan: Plan, now: datetime) -> Occurrence:
    """The next moment from now."""
    first = first_after(plan.rule, zone_named(plan.zone), now)
    if first is None:
        raise UsageError("when_never")
    return first


def check_room(counts: Counts, settings: SchedulerSettings) -> None:
    """Whether one more may be set there, by that person."""
    if counts.here >= settings.per_conversation:
        raise UsageError("schedule_full_here", limit=settings.per_conversation)
    if counts.theirs >= settings.per_person:
        raise UsageError("schedule_full_person", limit=settings.per_person)


def check_right(schedule: Schedule, who: Creator) -> None:
    """Whether it is theirs to change."""
    if not may_change(schedule, who):
        raise UsageError("schedule_of_another", title=schedule.title)


@dataclass(frozen=True, slots=True, kw_only=True)
class Detail:
    """One schedule, what it did last (newest first), and what that cost."""

    schedule: Schedule
    runs: tuple[Entry, ...]
    cost: Cost


class ScheduleService:
    """`changed` wakes the runner; `deliver` and `work` tell of committed rows; `serves` knows the bot's accounts,
    `accounts` all that a person has, the given one first.
    """

    def __init__(
        self,
        database: Database,
        clock: Clock,
        *,
        deps: Callable[[], FiringDeps],
        changed: Callable[[], None],
        deliver: Callable[[ConversationId], None],
        work: Callable[[ConversationId], None],
        serves: Callable[[ConversationId], bool],
        accounts: Callable[[str], Sequence[str]] = lambda person: (person,),
    ) -> None:
        self._database = database
        self._clock = clock
        self._deps = deps
        self._changed = changed
        self._deliver = deliver
        self._work = work
        self._serves = serves
        self._accounts = accounts

    @property
    def now(self) -> datetime:
        return self._clock.now()

    @property
    def settings(self) -> SchedulerSettings:
        return self._deps().settings

    # -- zones

    async def zone_of(self, person: str | None, told: str | None) -> Zone:
        """Where the person lives: by their own word, else the platform's (`told`), else as configured."""
        assumed, accounts = self.settings.zone, self._all_of(person)
        return await self._database.read(lambda conn: person_zones.zone_of(conn, accounts, told, assumed=assumed))

    async def asks_for_zone(self, person: str) -> bool:
        """Whether to ask them now: once, as long as they do not tell."""
        at = to_timestamp(self.now)
        return await self._database.write(lambda conn: person_zones.note_asked(conn, person, at=at))

    async def set_zone(self, person: str, zone: str) -> tuple[Schedule, ...]:
        """They live there now; what they asked for by their own wall clock follows. Gives what was moved."""
        zone_named(zone)
        now, accounts = self.now, self._accounts(person)
        moved = await self._database.write(lambda conn: move(conn, accounts, zone, now))
        self._changed()
        return moved

    async def forget_zone(self, person: str) -> None:
        """They no longer say; schedules stay where they are."""
        accounts = self._accounts(person)
        await self._database.write(lambda conn: person_zones.forget_zone(conn, accounts))

    def _all_of(self, person: str | None) -> Sequence[str]:
        return self._accounts(person) if person else ()

    # -- setting

    async def add(
        self,
        conversation: ConversationId,
        creator: Creator,
        plan: Plan,
        *,
        name: str | None = None,
        origin: str | None = None,
    ) -> Schedule:
        """Set it; one of the same name in that conversation is replaced, and is the creator's from then on.

        Raises UsageError, also where the creator may not change the one that is there.
        `origin` names the message that asks: when it comes a second time, what it set the first time is given.
        """
        now = self.now
        first = self._checked(conversation, plan, name, creator, now)

        def work(conn: Connection) -> Schedule:
            if origin is not None and (known := store.by_origin(conn, origin)) is not None:
                return known
            if name is not None and (known := store.by_name(conn, conversation, name)) is not None:
                check_right(known, creator)
                store.rewrite(conn, known.id, plan, first, at=to_timestamp(now), creator=creator)
                return _again(conn, known.id)
            check_room(store.counts(conn, conversation, self._all_of(creator.person)), self.settings)
            added = store.add(
                conn,
                conversation=conversation,
                name=name,
                origin=origin,
                creator=creator,
                plan=plan,
                due=first,
                at=to_timestamp(now),
            )
            if added is None:  # another process was quicker
                raise UsageError("schedule_taken", name=name or "")
            return added

        added = await self._database.write(work)
        self._changed()
        return added

    async def edit(self, conversation: ConversationId, id: int, plan: Plan, *, by: Creator) -> Schedule:
        """Give it another plan; it starts afresh and active. Raises UsageError."""
        now = self.now
        first = self._checked(conversation, plan, None, by, now)

        def work(conn: Connection) -> Schedule:
            store.rewrite(conn, _there(conn, conversation, id).id, plan, first, at=to_timestamp(now))
            return _again(conn, id)

        edited = await self._database.write(work)
        self._changed()
        return edited

    # -- looking

    async def all_of(self, conversation: ConversationId) -> tuple[Schedule, ...]:
        return await self._database.read(lambda conn: store.of_conversation(conn, conversation))

    async def find(self, conversation: ConversationId, wanted: str) -> Schedule:
        """By its number, with or without #, or by its name. Raises UsageError."""

        def work(conn: Connection) -> Schedule | None:
            number = wanted.strip().removeprefix("#")
            found = store.by_id(conn, int(number)) if number.isdecimal() and len(number) < 18 else None
            return found or store.by_name(conn, conversation, wanted.strip())

        found = await self._database.read(work)
        if found is None or found.conversation != conversation or found.state == "ended":
            raise UsageError("schedule_unknown", wanted=wanted[:40])
        return found

    async def detail(self, schedule: Schedule) -> Detail:
        runs, cost = await self._database.read(
            lambda conn: (ledger.recent(conn, schedule.id), ledger.cost(conn, schedule.id))
        )
        return Detail(schedule=schedule, runs=runs, cost=cost)

    # -- changing. The people in the chat are told of an `operator` who changes it from elsewhere.

    async def pause(self, conversation: ConversationId, id: int, *, operator: str = "") -> Schedule:
        """It does not happen until it is resumed."""

        def work(conn: Connection, now: datetime) -> None:
            store.turn_off(conn, _there(conn, conversation, id).id, "paused", None, at=to_timestamp(now))

        return await self._change(id, work, "paused", operator)

    async def resume(self, conversation: ConversationId, id: int, *, operator: str = "") -> Schedule:
        """It goes on with its next moment, without those that passed meanwhile. Raises UsageError if none is left."""

        def work(conn: Connection, now: datetime) -> None:
            schedule = _there(conn, conversation, id)
            store.rewrite(conn, id, schedule.plan, first_moment(schedule.plan, now), at=to_timestamp(now))

        return await self._change(id, work, "resumed", operator)

    async def set_misfire(self, conversation: ConversationId, id: int, misfire: Misfire) -> Schedule:
        """Set the treatment of its missed moments; it stays as it is otherwise, on or off."""

        def work(conn: Connection, now: datetime) -> None:
            store.set_misfire(conn, _there(conn, conversation, id).id, misfire, at=to_timestamp(now))

        return await self._change(id, work)

    async def skip(self, conversation: ConversationId, id: int) -> Schedule:
        """Leave out its next moment. Raises UsageError where there is none after it."""

        def work(conn: Connection, now: datetime) -> None:
            schedule = _there(conn, conversation, id)
            if not schedule.recurs or schedule.due is None:
                raise UsageError("schedule_no_skip", id=id)
            due = schedule.due
            ledger.note(
                conn, schedule, key=due.key, due_at=to_timestamp(due.at), outcome="skipped", at=to_timestamp(now)
            )
            advance(conn, schedule, after=max(now, due.at), now=now)

        return await self._change(id, work)

    async def run_now(self, conversation: ConversationId, id: int, origin: str) -> Schedule:
        """One run at once, besides those that are planned; one for each `origin`."""
        done = Done()

        def work(conn: Connection, now: datetime) -> None:
            done.clear()
            schedule = _there(conn, conversation, id)
            start(conn, schedule, key=f"{BY_HAND}{origin}", at=now, now=now, around=self._deps(), done=done)

        schedule = await self._change(id, work)
        for key in done.deliver:
            self._deliver(key)
        for key in done.work:
            self._work(key)
        return schedule

    async def remove(self, conversation: ConversationId, id: int, *, by: Creator, operator: str = "") -> Schedule:
        """Gone for good; its ledger stays. Raises UsageError where it is not theirs to remove."""
        now = self.now

        def work(conn: Connection) -> Schedule:
            schedule = _there(conn, conversation, id)
            check_right(schedule, by)
            store.remove(conn, id)
            self._tell(conn, schedule, "removed", operator, now)
            return schedule

        removed = await self._database.write(work)
        if operator:
            self._deliver(conversation)
        return removed

    async def _change(
        self,
        id: int,
        work: Callable[[Connection, datetime], None],
        verb: OperatorChange | None = None,
        operator: str = "",
    ) -> Schedule:
        now = self.now

        def change(conn: Connection) -> Schedule:
            before = store.by_id(conn, id)
            work(conn, now)
            after = _again(conn, id)
            if verb is not None and before is not None and before.state != after.state:
                self._tell(conn, after, verb, operator, now)
            return after

        changed = await self._database.write(change)
        self._changed()
        if operator:
            self._deliver(changed.conversation)
        return changed

    def _tell(self, conn: Connection, schedule: Schedule, verb: OperatorChange, operator: str, now: datetime) -> None:
        if operator and self._serves(schedule.conversation):
            tell_change(conn, schedule, verb, operator, self._deps(), now)

    # -- checks

    def _checked(
        self, conversation: ConversationId, plan: Plan, name: str | None, by: Creator, now: datetime
    ) -> Occurrence:
        """Its first moment. Raises UsageError."""
        if not self.settings.enabled:
            raise UsageError("scheduler_off")
        if not self._serves(conversation):
            raise UsageError("schedule_no_place")
        return checked_first(plan, name, by, now, self.settings)


def _there(conn: Connection, conversation: ConversationId, id: int) -> Schedule:
    schedule = store.by_id(conn, id)
    if schedule is None or schedule.conversation != conversation or schedule.state == "ended":
        raise UsageError("schedule_unknown", wanted=f"#{id}")
    return schedule


def _again(conn: Connection, id: int) -> Schedule:
    schedule = store.by_id(conn, id)
    assert schedule is not None
    return schedule
