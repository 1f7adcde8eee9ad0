"""Firing: once for each moment, whatever happens meanwhile, on both databases."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, time, timedelta
from functools import partial
from typing import Any

import pytest
from sqlalchemy import Connection, select, update

from agent.core.ids import ConversationId, PersonId
from agent.inbox import HeldRoles, Incoming
from agent.storage import conversation_rows, inbox_rows, outbox_rows
from agent.storage.database import Database
from agent.storage.payloads import decode_incoming, decode_outgoing, encode_incoming
from agent.storage.tables import inbox, outbox
from agent.storage.timestamps import to_timestamp
from gateway.phrases.catalogue import UsageError, read_catalogue
from gateway.scheduler import ledger, store
from gateway.scheduler.firing import AT_ONCE, FiringDeps
from gateway.scheduler.process_scheduler import ProcessScheduler
from gateway.scheduler.runner import LOOK_EVERY_S, Runner
from gateway.scheduler.schedule import Action, Creator, Plan, Schedule
from gateway.scheduler.service import ScheduleService
from gateway.scheduler.settings import SchedulerSettings
from gateway.scheduler.triggers.misfires import ONE_SHOT, RECURRING, Misfire, Quiet
from gateway.scheduler.triggers.rules import Calendar, Every, Line, On, Once, Rule, is_recurring
from gateway.storage.tables import schedule as schedule_table
from gateway.storage.tables import schedule_run
from tests.fakes.clock import FakeClock

HERE = ConversationId("telegram:77")
ANN = Creator(person=PersonId("telegram:77"), display="Ann")
NINE = Calendar(lines=(Line(hours=(9,)),))  # the clock begins at 12:00 UTC


@dataclass
class Room:
    """The room around a database. `gone` says why nothing may be done, `quiet` are everybody's quiet hours.

    `mute`: the account's login is refused. `roles` are those of whoever set a schedule.
    """

    database: Database
    clock: FakeClock
    scheduler: ProcessScheduler | None = None
    look_every_s: float = LOOK_EVERY_S
    settings: SchedulerSettings = field(default_factory=lambda: SchedulerSettings(spread_s=0.0))
    gone: str | None = None
    quiet: Quiet | None = None
    mute: bool = False
    roles: Callable[[Schedule], HeldRoles] = lambda one: HeldRoles(one.creator.role)
    outcomes: list[str] = field(default_factory=list)
    turned_off: list[Schedule] = field(default_factory=list)
    runner: Runner = field(init=False)
    service: ScheduleService = field(init=False)

    def __post_init__(self) -> None:
        def nothing(_: ConversationId) -> None: ...

        around: Callable[[], FiringDeps] = lambda: FiringDeps(  # noqa: E731
            phrase=read_catalogue(),
            settings=self.settings,
            why_not=lambda _: self.gone,
            reachable=lambda _: not self.mute,
            role=self.roles,
            quiet=lambda conn, _: self.quiet,
        )
        self.runner = Runner(
            self.database, self.clock, self.scheduler or ProcessScheduler(self.clock),
            deps=around, deliver=nothing, work=nothing,
            fired=lambda outcome, _: self.outcomes.append(outcome), turned_off=self.turned_off.append,
            look_every_s=self.look_every_s,
        )  # fmt: skip
        self.service = ScheduleService(
            self.database, self.clock, deps=around, changed=self.runner.look, deliver=nothing, work=nothing,
            serves=lambda _: True,
        )  # fmt: skip

    async def set(
        self, rule: Rule, text: str = "tea", *, action: Action = "remind", late: Misfire | None = None, **more: Any
    ) -> Schedule:
        misfire = late or (RECURRING if is_recurring(rule) else ONE_SHOT)
        plan = Plan(
            action=action, text=text, rule=rule, said="then", zone="UTC", zone_source="given", misfire=misfire
        )  # fmt: skip
        return await self.service.add(HERE, ANN, plan, **more)

    async def said(self) -> list[str]:
        """Everything in the outbox, oldest first."""
        query = select(outbox.c.payload).order_by(outbox.c.id)
        rows = await self.database.read(lambda conn: list(conn.execute(query).scalars()))
        return [decode_outgoing(row).text for row in rows]

    async def asked(self) -> list[str]:
        """The texts of the inbox, oldest first."""
        query = select(inbox.c.payload).order_by(inbox.c.id)
        rows = await self.database.read(lambda conn: list(conn.execute(query).scalars()))
        return [decode_incoming(row).text for row in rows]

    async def ledger(self) -> list[tuple[str, int]]:
        """Outcomes with how many moments they stand for."""
        query = select(schedule_run.c.outcome, schedule_run.c["count"]).order_by(schedule_run.c.id)
        return await self.database.read(lambda conn: [(row[0], row[1]) for row in conn.execute(query)])

    async def states(self) -> dict[str, int]:
        return dict(await self.database.read(store.states))

    async def passes(self, **span: float) -> None:
        """Time passes, and the runner looks."""
        self.clock.advance(timedelta(**span).total_seconds())
        await self.runner.step()

    async def write(self, work: Callable[[Connection], object]) -> None:
        await self.database.write(work)


@pytest.fixture
def room(database: Database, clock: FakeClock) -> Room:
    """On SQLite and on PostgreSQL."""
    return Room(database, clock)


@pytest.fixture
def lite(sqlite_database: Database, clock: FakeClock) -> Room:
    """On SQLite."""
    return Room(sqlite_database, clock)


def in_(clock: FakeClock, **span: float) -> Once:
    return Once(at=clock.now() + timedelta(**span))


@pytest.mark.requirement("G-14", "G-15")
async def test_a_reminder_fires_once_and_is_removed_when_it_arrived(room: Room) -> None:
    await room.set(in_(room.clock, minutes=20))
    await room.passes(minutes=19)
    assert await room.said() == []
    await room.passes(minutes=1)
    await room.passes(seconds=1)
    assert await room.said() == ["⏰ tea"]
    assert await room.states() == {"ended": 1}  # it stays until it has arrived
    await room.write(lambda conn: outbox_rows.mark_sent(conn, 1, ["m1"]))
    await room.passes(seconds=2)
    assert (await room.states(), await room.ledger()) == ({}, [("fired", 1)])


@pytest.mark.requirement("G-14")
async def test_a_task_is_a_row_of_the_inbox_in_its_creator_s_name(room: Room) -> None:
    await room.set(in_(room.clock, minutes=1), "look\x07 at\tit", action="ask")
    await room.passes(minutes=1)
    rows = await room.database.write(lambda conn: inbox_rows.due(conn, HERE, now=to_timestamp(room.clock.now())))
    assert [(row.kind, row.incoming.text, row.incoming.person) for row in rows] == [
        ("reminder", "[Scheduled task] look at\tit", "telegram:77")
    ]


async def test_the_end_of_a_run_whose_schedule_cannot_be_read_is_noted(room: Room) -> None:
    """Another version wrote its rule meanwhile: it is off, and holds up neither the others nor the next start."""
    broken = await room.set(in_(room.clock, minutes=1), "broken")
    await room.set(in_(room.clock, minutes=1), "sound")
    await room.passes(minutes=1)
    newer = update(schedule_table).where(schedule_table.c.id == broken.id).values(rule='{"kind":"newer"}')
    await room.write(lambda conn: conn.execute(newer))
    await room.write(lambda conn: conn.execute(update(outbox).values(status="sent")))
    await room.passes(seconds=2)
    assert await room.states() == {"failed": 1}, "the sound one has arrived and is gone"
    ended = select(schedule_run.c.run, schedule_run.c.delivery)
    runs = await room.database.read(lambda conn: [tuple(row) for row in conn.execute(ended)])
    assert runs == [("ok", "sent"), ("ok", "sent")]
    await Room(room.database, room.clock).passes(seconds=2)  # the next start


async def test_two_runners_on_one_database_fire_once(room: Room) -> None:
    other = Room(room.database, room.clock)
    for number in range(20):
        await room.set(in_(room.clock, minutes=1), f"number {number}")
    room.clock.advance(60)
    await room.runner.step()
    await other.runner.step()
    assert sorted(room.outcomes + other.outcomes) == ["fired"] * 20
    assert len(set(await room.said())) == 20


@pytest.mark.requirement("G-14")
async def test_a_moment_that_fired_never_fires_again_whatever_the_table_says(room: Room) -> None:
    set_ = await room.set(in_(room.clock, minutes=1))
    await room.passes(minutes=1)
    assert set_.due is not None
    due = set_.due
    await room.write(lambda conn: store.move(conn, set_.id, due, due.at, held=False, at=0))
    await room.passes(seconds=1)
    assert await room.said() == ["⏰ tea"]
    assert (room.outcomes, await room.ledger()) == (["fired"], [("fired", 1)])


@pytest.mark.requirement("G-15")
async def test_nothing_fires_without_a_computed_moment(lite: Room) -> None:
    await lite.set(NINE)
    await lite.write(lambda conn: conn.execute(update(schedule_table).values(next_at=None, due_at=None)))
    await lite.passes(days=3)
    assert await lite.said() == []
    await lite.passes(hours=20, minutes=59)
    assert await lite.said() == []
    await lite.passes(minutes=1)
    assert await lite.said() == ["⏰ tea"]


@pytest.mark.requirement("G-15")
async def test_after_a_downtime_a_one_shot_comes_late_and_says_so(lite: Room) -> None:
    await lite.set(in_(lite.clock, minutes=20))
    await lite.passes(hours=5)
    assert await lite.said() == ["⏰ tea\n(Late: this was due at 2026-01-01 12:20 UTC. I was not running then.)"]
    assert lite.outcomes == ["late"]


@pytest.mark.requirement("G-15")
async def test_after_a_long_downtime_what_recurs_goes_on_with_its_next_time(lite: Room) -> None:
    await lite.set(NINE)
    await lite.passes(days=3)
    said = await lite.said()
    assert said == [
        "⏰ While I was away I missed #1 “tea” (3×, last 2026-01-04 09:00 UTC). It goes on with its next time."
    ]
    assert await lite.ledger() == [("missed", 3)]
    await lite.passes(hours=21)
    assert (await lite.said())[1:] == ["⏰ tea"]


async def test_a_short_downtime_is_made_up_for(lite: Room) -> None:
    await lite.set(NINE)
    await lite.passes(hours=22)
    assert await lite.said() == ["⏰ tea\n(Late: this was due at 2026-01-02 09:00 UTC. I was not running then.)"]


async def test_all_are_made_up_for_when_that_is_wanted(lite: Room) -> None:
    await lite.set(Every(seconds=3600, anchor=lite.clock.now()), late=Misfire(policy="all"))
    await lite.passes(hours=3, minutes=30)
    assert (len(await lite.said()), lite.outcomes) == (3, ["late"] * 3)


async def test_a_clock_set_back_or_forward_doubles_nothing(lite: Room) -> None:
    await lite.set(Every(seconds=3600, anchor=lite.clock.now()))
    await lite.passes(hours=1)
    lite.clock.set_wall_clock(hours=-1)
    await lite.passes(minutes=30)
    assert len(await lite.said()) == 1
    lite.clock.set_wall_clock(hours=1)
    await lite.passes(minutes=30)
    assert lite.outcomes == ["fired", "fired"]


async def test_a_task_waits_for_no_second_of_its_kind(lite: Room) -> None:
    """One run of a schedule at a time."""
    await lite.set(Every(seconds=600, anchor=lite.clock.now()), "look", action="ask")
    await lite.passes(minutes=10)
    await lite.passes(minutes=10)
    assert len(await lite.asked()) == 1
    assert lite.outcomes == ["fired", "overlap"]
    await lite.write(lambda conn: inbox_rows.finish(conn, [1], "done"))
    await lite.passes(minutes=10)
    assert len(await lite.asked()) == 2


async def test_quiet_hours_hold_back_what_recurs_and_nothing_else(lite: Room) -> None:
    lite.quiet = Quiet(begin=time(8), end=time(10, 30), zone="UTC")
    await lite.set(Every(seconds=1800, anchor=lite.clock.now()), "often")
    await lite.set(On(wall=datetime(2026, 1, 2, 9, 30)), "once")
    await lite.passes(hours=20, minutes=1)
    assert lite.outcomes == []
    await lite.passes(hours=1, minutes=30)
    assert await lite.said() == ["⏰ once"]
    await lite.passes(hours=1)
    assert (await lite.said())[1:] == ["⏰ often"]  # one for all that were held back, and not late


@pytest.mark.parametrize(
    ("off", "outcomes"),
    [
        pytest.param([8], ["fired"], id="back when they end: it is on time"),
        pytest.param([13], ["late"], id="back in the middle of the day: it is late"),
        pytest.param([24], [], id="back in the next quiet hours: they hold it back again"),
        pytest.param([24, 8], ["fired"], id="until they end: then it is on time"),
    ],
)
async def test_what_quiet_hours_held_back_is_on_time_when_they_end_and_late_afterwards(
    lite: Room, off: list[int], outcomes: list[str]
) -> None:
    lite.quiet = Quiet(begin=time(22), end=time(7), zone="UTC")
    await lite.set(Calendar(lines=(Line(hours=(23,)),)))
    await lite.passes(hours=11)
    for hours in off:
        await lite.passes(hours=hours)
    assert lite.outcomes == outcomes
    assert len(await lite.said()) == len(outcomes)


@pytest.mark.requirement("G-15")
async def test_after_three_failures_it_is_switched_off_and_those_concerned_are_told(lite: Room) -> None:
    await lite.set(Every(seconds=600, anchor=lite.clock.now()), "look", action="ask")
    for number in range(1, 4):
        await lite.passes(minutes=10)
        await lite.write(lambda conn, row=number: inbox_rows.finish(conn, [row], "dead"))  # type: ignore[misc]
        await lite.passes(seconds=2)
    assert await lite.states() == {"failed": 1}
    assert [one.title for one in lite.turned_off] == ["look"]
    assert "switched off #1 “look”" in (await lite.said())[-1]
    await lite.passes(hours=1)
    assert len(await lite.asked()) == 3


@pytest.mark.requirement("Z-22")
async def test_all_tasks_of_one_moment_come_before_people_but_those_that_are_spread(lite: Room) -> None:
    lite.settings = SchedulerSettings(spread_s=1.0)
    for number in range(AT_ONCE + 1):
        await lite.set(in_(lite.clock, minutes=1), f"task {number}", action="ask")
    ann = Incoming(text="from Ann", received_at=lite.clock.now())
    admit = partial(inbox_rows.admit, conversation=HERE, kind="message", dedup="ann", payload=encode_incoming(ann))
    await lite.write(lambda conn: admit(conn, at=to_timestamp(lite.clock.now()), limit=None))
    await lite.passes(minutes=1)
    now = to_timestamp(lite.clock.now() + timedelta(minutes=1))
    due = await lite.database.read(lambda conn: inbox_rows.due(conn, HERE, now=now))
    order = [row.incoming.text for row in due]
    assert order.index("from Ann") == AT_ONCE
    assert all(f"task {number}" in order[number] for number in range(AT_ONCE))


@pytest.mark.requirement("G-15")
async def test_a_one_shot_whose_place_cannot_be_reached_stays_and_is_tried_again(lite: Room) -> None:
    await lite.set(in_(lite.clock, minutes=1), "feed the cat", action="ask")
    lite.gone = "you are blocked"
    await lite.passes(minutes=1)
    assert (lite.outcomes, await lite.states()) == (["unreachable"], {"active": 1})
    lite.gone = None
    await lite.passes(minutes=1)
    assert len(await lite.asked()) == 1


@pytest.mark.requirement("G-15")
async def test_a_failed_one_shot_stays_and_is_tried_again(lite: Room) -> None:
    await lite.set(in_(lite.clock, minutes=1), "look", action="ask")
    await lite.passes(minutes=1)
    await lite.write(lambda conn: inbox_rows.finish(conn, [1], "dead"))
    await lite.passes(seconds=2)
    assert await lite.states() == {"active": 1}
    await lite.passes(minutes=1)
    assert len(await lite.asked()) == 2
    await lite.write(lambda conn: inbox_rows.finish(conn, [2], "done"))
    await lite.passes(seconds=2)
    assert await lite.states() == {}


@pytest.mark.requirement("G-15")
async def test_a_run_by_hand_that_fails_leaves_a_one_shot_its_own_moment(lite: Room) -> None:
    set_ = await lite.set(in_(lite.clock, hours=24), "feed the cat", action="ask")
    await lite.service.run_now(HERE, set_.id, "press 1")
    await lite.write(lambda conn: inbox_rows.finish(conn, [1], "dead"))
    await lite.passes(seconds=2)
    await lite.passes(minutes=1)
    assert (len(await lite.asked()), await lite.states()) == (1, {"active": 1})
    await lite.passes(hours=24)
    await lite.write(lambda conn: inbox_rows.finish(conn, [2], "done"))
    await lite.passes(seconds=2)
    assert (len(await lite.asked()), await lite.states()) == (2, {})


@pytest.mark.requirement("G-15")
async def test_a_run_by_hand_that_goes_well_is_not_the_run_of_its_moment(lite: Room) -> None:
    set_ = await lite.set(in_(lite.clock, minutes=1), "feed the cat", action="ask")
    await lite.service.run_now(HERE, set_.id, "press 1")
    await lite.passes(minutes=1)
    await lite.write(lambda conn: inbox_rows.finish(conn, [1], "done"))
    await lite.passes(seconds=2)
    await lite.write(lambda conn: inbox_rows.finish(conn, [2], "dead"))
    await lite.passes(seconds=2)
    assert await lite.states() == {"active": 1}, "its own run failed and is tried again"


async def test_a_run_that_fails_after_its_one_shot_was_replaced_hurries_nothing(lite: Room) -> None:
    await lite.set(in_(lite.clock, minutes=1), "old", action="ask", name="report")
    await lite.passes(minutes=1)
    await lite.set(in_(lite.clock, hours=5), "new", action="ask", name="report")
    await lite.write(lambda conn: inbox_rows.finish(conn, [1], "dead"))
    await lite.passes(seconds=2)
    await lite.passes(minutes=1)
    assert len(await lite.asked()) == 1
    await lite.passes(hours=5)
    assert len(await lite.asked()) == 2


async def test_a_run_and_its_delivery_are_two_things(lite: Room) -> None:
    """It ran, and nobody saw it."""
    await lite.set(NINE)
    await lite.passes(hours=21)
    await lite.write(lambda conn: outbox_rows.mark_dead(conn, 1, "refused"))
    await lite.passes(seconds=2)
    entry = (await lite.database.read(lambda conn: ledger.recent(conn, 1)))[0]
    assert (entry.outcome, entry.run, entry.delivery) == ("fired", "ok", "dead")
    found = await lite.service.find(HERE, "1")
    assert found.failures == 1


async def test_a_closed_place_is_not_written_to(lite: Room) -> None:
    await lite.write(lambda conn: conversation_rows.ensure(conn, HERE, 1))
    await lite.write(lambda conn: conversation_rows.set_gone(conn, HERE, gone=True))
    await lite.set(Every(seconds=600, anchor=lite.clock.now()))
    for _ in range(3):
        await lite.passes(minutes=10)
    assert (await lite.said(), lite.outcomes) == ([], ["unreachable"] * 3)
    assert await lite.states() == {"failed": 1}


async def test_somebody_who_was_shut_out_wakes_no_agent(lite: Room) -> None:
    lite.gone = "whoever set it may no longer talk to me"
    await lite.set(Every(seconds=600, anchor=lite.clock.now()), action="ask")
    await lite.passes(minutes=10)
    assert (await lite.asked(), lite.outcomes) == ([], ["unreachable"])


async def test_one_that_breaks_halfway_leaves_nothing_of_its_work(lite: Room) -> None:
    """A moment that is noted as fired would never be made up for."""

    def broken(schedule: Schedule) -> HeldRoles:
        raise LookupError(schedule.plan.text)

    lite.roles = broken
    await lite.set(in_(lite.clock, minutes=1), "broken", action="ask")
    await lite.passes(minutes=1)
    assert (await lite.states(), await lite.ledger(), await lite.asked()) == ({"failed": 1}, [], [])


async def test_one_that_cannot_be_read_holds_nobody_up(lite: Room) -> None:
    await lite.set(in_(lite.clock, minutes=1), "broken")
    await lite.set(in_(lite.clock, minutes=1), "sound")
    await lite.write(lambda conn: conn.execute(update(schedule_table).where(schedule_table.c.id == 1).values(rule="{")))
    await lite.passes(minutes=1)
    assert await lite.said() == ["⏰ sound"]
    assert (await lite.states())["failed"] == 1


async def test_a_zone_that_is_no_more_turns_one_off_and_holds_nobody_up(lite: Room) -> None:
    await lite.set(NINE, "broken")
    await lite.set(NINE, "sound")
    await lite.write(
        lambda conn: conn.execute(update(schedule_table).where(schedule_table.c.id == 1).values(zone="Mars/Base"))
    )
    await lite.passes(hours=21)
    assert await lite.said() == ["⏰ sound"]
    assert await lite.states() == {"failed": 1, "active": 1}


async def test_many_agents_are_not_woken_at_once(lite: Room) -> None:
    lite.settings = replace(lite.settings, spread_s=2.0)
    for number in range(8):
        await lite.set(in_(lite.clock, minutes=1), f"look {number}", action="ask")
    await lite.passes(minutes=1)
    now = to_timestamp(lite.clock.now())
    query = select(inbox.c.not_before).order_by(inbox.c.id)
    delays = await lite.database.read(lambda conn: list(conn.execute(query).scalars()))
    assert [delay and (delay - now) / 1e6 for delay in delays] == [None] * 4 + [2.0, 4.0, 6.0, 8.0]


async def test_a_step_tells_when_the_next_moment_is(lite: Room) -> None:
    assert await lite.runner.step() is None
    await lite.set(in_(lite.clock, milliseconds=250))
    assert await lite.runner.step() == lite.clock.now() + timedelta(milliseconds=250)


async def test_switched_off_nothing_fires_and_nothing_is_set(lite: Room) -> None:
    await lite.set(in_(lite.clock, minutes=1))
    lite.settings = replace(lite.settings, enabled=False)
    await lite.passes(minutes=1)
    assert await lite.said() == []
    with pytest.raises(UsageError, match="scheduler_off"):
        await lite.set(in_(lite.clock, minutes=1))


# --- the desk ---------------------------------------------------------------------------------------


async def test_the_same_message_sets_one_and_the_same_name_replaces(room: Room) -> None:
    first = await room.set(in_(room.clock, minutes=1), origin="telegram:77:5")
    assert (await room.set(in_(room.clock, minutes=1), origin="telegram:77:5")).id == first.id
    named = await room.set(in_(room.clock, minutes=1), "old", name="report")
    again = await room.set(in_(room.clock, minutes=2), "new", name="report")
    assert (again.id, again.plan.text) == (named.id, "new")
    assert len(await room.service.all_of(HERE)) == 2


async def test_in_a_group_members_set_nothing_that_comes_all_the_time(lite: Room) -> None:
    often = Every(seconds=599, anchor=lite.clock.now())
    bob = Creator(person=PersonId("telegram:78"), chat_type="group")
    plan = (await lite.set(often)).plan  # in a direct chat
    with pytest.raises(UsageError, match="schedule_often_in_group"):
        await lite.service.add(HERE, bob, plan)
    slow = await lite.service.add(HERE, bob, replace(plan, rule=Every(seconds=600, anchor=lite.clock.now())))
    with pytest.raises(UsageError, match="schedule_often_in_group"):
        await lite.service.edit(HERE, slow.id, plan, by=bob)
    await lite.service.add(HERE, replace(bob, role="admin"), plan)


@pytest.mark.requirement("G-16")
@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"text": "x" * 513}, "schedule_long"),
        ({"name": "x" * 129}, "schedule_long"),
        ({"text": " "}, "when_no_text"),
        ({"rule": Every(seconds=4, anchor=datetime(2026, 1, 1, tzinfo=UTC))}, "schedule_often"),
        ({"rule": Calendar(lines=(Line(hours=(9,), seconds=(0, 3)),))}, "schedule_often"),
        ({"rule": On(wall=datetime(2025, 1, 1))}, "when_never"),
    ],
)
async def test_what_cannot_be_set(lite: Room, values: dict[str, Any], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        await lite.set(**{"rule": NINE, **values})


@pytest.mark.requirement("G-16")
async def test_what_is_as_long_as_it_may_be_is_set(lite: Room) -> None:
    set_ = await lite.set(NINE, "x" * 512, name="n" * 128)
    plan = replace(set_.plan, kind="k" * 64)
    await lite.service.edit(HERE, set_.id, plan, by=ANN)
    (kept,) = await lite.service.all_of(HERE)
    assert (kept.plan.text, kept.name, kept.plan.kind) == ("x" * 512, "n" * 128, "k" * 64)


async def test_there_is_room_for_so_many(lite: Room) -> None:
    lite.settings = replace(lite.settings, per_conversation=2)
    for _ in range(2):
        await lite.set(NINE)
    with pytest.raises(UsageError, match="schedule_full_here"):
        await lite.set(NINE)
    lite.settings = replace(lite.settings, per_conversation=9, per_person=2)
    with pytest.raises(UsageError, match="schedule_full_person"):
        await lite.set(NINE)
    await lite.service.remove(HERE, 1, by=ANN)
    await lite.set(NINE)


async def test_pausing_skipping_and_running_by_hand(lite: Room) -> None:
    set_ = await lite.set(NINE)
    assert (await lite.service.pause(HERE, set_.id)).state == "paused"
    await lite.passes(days=2)
    assert await lite.said() == []
    resumed = await lite.service.resume(HERE, set_.id)
    assert resumed.next_at == datetime(2026, 1, 4, 9, tzinfo=UTC)
    skipped = await lite.service.skip(HERE, set_.id)
    assert skipped.next_at == datetime(2026, 1, 5, 9, tzinfo=UTC)
    for _ in range(2):  # a repeated press
        await lite.service.run_now(HERE, set_.id, "press 1")
    assert await lite.said() == ["⏰ tea"]
    assert await lite.ledger() == [("skipped", 1), ("fired", 1)]


async def test_what_becomes_of_missed_times_can_be_set_while_it_is_paused(lite: Room) -> None:
    set_ = await lite.set(NINE)
    await lite.service.pause(HERE, set_.id)
    noted = await lite.service.set_misfire(HERE, set_.id, Misfire(policy="once"))
    assert (noted.state, noted.next_at, noted.plan.misfire) == ("paused", None, Misfire(policy="once"))


async def test_schedules_of_other_chats_cannot_be_touched(lite: Room) -> None:
    set_ = await lite.set(NINE)
    elsewhere = ConversationId("telegram:78")
    for change in (lite.service.pause, lite.service.resume, lite.service.skip, partial(lite.service.remove, by=ANN)):
        with pytest.raises(UsageError, match="schedule_unknown"):
            await change(elsewhere, set_.id)
    with pytest.raises(UsageError, match="schedule_unknown"):
        await lite.service.find(elsewhere, f"#{set_.id}")


async def test_in_a_group_only_its_creator_and_admins_replace_or_remove_one(room: Room) -> None:
    ann = replace(ANN, chat_type="group", role="admin")
    bob, eve = (Creator(person=PersonId(f"telegram:{id}"), chat_type="group") for id in (78, 79))
    plan = (await room.set(NINE)).plan
    added = await room.service.add(HERE, ann, plan, name="report")
    with pytest.raises(UsageError, match="schedule_of_another"):
        await room.service.add(HERE, bob, replace(plan, text="bob's words"), name="report")
    with pytest.raises(UsageError, match="schedule_of_another"):
        await room.service.remove(HERE, added.id, by=bob)
    assert await room.service.find(HERE, "report") == added
    own = await room.service.add(HERE, bob, plan, name="bob's")
    with pytest.raises(UsageError, match="schedule_of_another"):
        await room.service.remove(HERE, own.id, by=eve)
    taken_over = await room.service.add(HERE, ann, replace(plan, text="ann's words"), name="bob's")
    assert (taken_over.id, taken_over.creator) == (own.id, ann)  # whose words they are, whose name they come in
    await room.service.remove(HERE, added.id, by=ann)


async def test_what_was_meant_by_the_wall_clock_follows_its_person(lite: Room) -> None:
    person = "telegram:77"
    assert (await lite.service.zone_of(person, None)).source == "assumed"
    assert (await lite.service.zone_of(person, "Asia/Tokyo")).source == "platform"
    assert (await lite.service.zone_of(person, "Mars/Base")).source == "assumed"
    plan = (await lite.set(NINE)).plan
    own = await lite.service.add(HERE, ANN, replace(plan, zone_source="assumed"))
    span = await lite.set(in_(lite.clock, hours=1))
    moved = await lite.service.set_zone(person, "Asia/Tokyo")
    assert [(one.id, one.next_at) for one in moved] == [(own.id, datetime(2026, 1, 2, 0, tzinfo=UTC))]
    assert (await lite.service.find(HERE, str(span.id))).next_at == span.next_at
    assert (await lite.service.zone_of(person, None)).name == "Asia/Tokyo"


async def test_a_one_shot_that_would_have_passed_there_comes_a_day_later(lite: Room) -> None:
    plan = (await lite.set(On(wall=datetime(2026, 1, 1, 17, 30)))).plan
    await lite.service.add(HERE, ANN, replace(plan, zone_source="assumed"))
    (moved,) = await lite.service.set_zone("telegram:77", "Asia/Tokyo")  # where it is 21:00
    assert moved.next_at == datetime(2026, 1, 2, 8, 30, tzinfo=UTC)


@pytest.mark.requirement("Z-36")
async def test_a_refused_login_wakes_no_agent_and_turns_nothing_off(lite: Room) -> None:
    lite.mute = True
    await lite.set(Every(seconds=600, anchor=lite.clock.now()), "look", action="ask")
    await lite.set(in_(lite.clock, minutes=1), "once", action="ask")
    await lite.set(in_(lite.clock, minutes=10), "tea")
    for _ in range(10):
        await lite.passes(minutes=10)
    assert (await lite.asked(), await lite.said()) == ([], ["⏰ tea"])
    assert lite.outcomes.count("unreachable") == 11  # each moment of the first, the second once
    assert (await lite.states()).get("failed", 0) == 0
    lite.mute = False
    await lite.passes(minutes=1)
    assert len(await lite.asked()) == 1
    assert "once" in (await lite.asked())[0]
    await lite.passes(minutes=10)
    assert len(await lite.asked()) == 2
