"""Messages whose run fails: retried, given up visibly, never lost, never blocking others."""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TypeVar

import anyio
import pytest
from sqlalchemy import Connection

from agent.core.errors import LockTimeout, Permanent
from agent.core.ids import ConversationId, RunId, SessionId, random_uuid
from agent.core.outbox import OutgoingMessage
from agent.inbox import Source, Work
from agent.sessions import runs
from agent.sessions.runs import Checkpoint
from agent.storage import conversation_rows, inbox_rows, outbox_rows
from agent.storage.database import Database, Dialect
from agent.storage.errors import StorageTrouble
from gateway.dispatch.dispatcher import Timing
from gateway.dispatch.source import Leases
from gateway.storage.queues import inbox_entries
from tests.fakes.agents import QUICK, EchoAgent, House, admit, answers, statuses
from tests.fakes.clock import FakeClock
from tests.fakes.waiting import until

T = TypeVar("T")
CHAT = ConversationId("telegram:1")


async def is_answered(database: Database, *texts: str) -> bool:
    return await answers(database) == list(texts)


async def lease(database: Database) -> conversation_rows.Lease | None:
    return await database.read(partial(conversation_rows.lease, key=CHAT))


class Troubled:
    """A database that fails while told to, and keeps its promise otherwise."""

    def __init__(self, database: Database) -> None:
        self.dialect: Dialect = database.dialect
        self.database = database
        self.fails = False
        self.failing_writes = 0

    async def write(self, work: Callable[[Connection], T]) -> T:
        if self.fails:
            self.failing_writes += 1
            raise StorageTrouble("the database failed 4 times: disk I/O error")
        return await self.database.write(work)

    async def read(self, work: Callable[[Connection], T]) -> T:
        return await self.database.read(work)

    async def aclose(self) -> None:
        await self.database.aclose()


async def test_a_run_that_fails_is_tried_again_by_a_new_agent_and_counted(database: Database) -> None:
    async def turn(work: Work) -> None:
        if work.attempt < 3:
            raise ZeroDivisionError

    services = House(database, turn)
    async with services.running():
        await services.says(CHAT, "a")
        await until(partial(is_answered, database, "a"))
    assert [work.attempt for work in services.given] == [1, 2, 3]
    assert len({work.epoch for work in services.given}) == 3
    assert [agent.is_closed for agent in services.woken[:2]] == [True, True]


async def test_a_message_that_fails_five_times_is_given_up_visibly_and_the_next_one_runs(database: Database) -> None:
    async def turn(work: Work) -> None:
        if work.incoming.text == "poison":
            raise ZeroDivisionError

    services = House(database, turn, timing=replace(QUICK, merge_within=0))
    async with services.running():
        await services.says(CHAT, "poison")
        await services.says(CHAT, "fine")
        await until(partial(is_answered, database, "gave up: poison", "fine"))
        await until(lambda: bool(services.dead))
    assert [work.attempt for work in services.given] == [1, 2, 3, 4, 5, 1]
    (dead,) = services.dead
    assert (dead.conversation, dead.incoming.text, dead.attempts) == (CHAT, "poison", 5)
    assert CHAT in services.delivered
    (letter,) = await database.read(inbox_entries.dead)
    assert letter.why == "given up after 5 attempts"


@pytest.mark.requirement("B-63")
async def test_the_run_of_a_message_that_was_given_up_is_over_until_the_message_is_tried_anew(
    database: Database,
) -> None:
    checkpoint = Checkpoint(started=frozenset({"call 1"}))

    async def turn(work: Work) -> None:
        def begin(conn: Connection) -> None:
            runs.open_run(
                conn,
                inbox_id=work.inbox_id,
                conversation=CHAT,
                session=SessionId("s"),
                run=RunId("r"),
                epoch=work.epoch,
                at=1,
            )
            runs.save_checkpoint(conn, work.inbox_id, checkpoint)

        await database.write(begin)
        raise Permanent("no good")

    services = House(database, turn)
    async with services.running():
        await services.says(CHAT, "a")
        await until(partial(is_answered, database, "gave up: a"))
        await until(lambda: bool(services.dead))
    row = services.dead[0].inbox_id
    run = await database.read(partial(runs.find_run, inbox_id=row))
    assert run is not None
    assert (run.state, run.checkpoint) == ("failed", checkpoint), "what has begun is not begun again"
    await database.write(partial(inbox_entries.revive, row_id=row))
    run = await database.read(partial(runs.find_run, inbox_id=row))
    assert run is not None
    assert (run.state, run.checkpoint) == ("running", checkpoint)


async def test_what_trying_again_cannot_mend_is_given_up_at_once(database: Database) -> None:
    async def turn(_: Work) -> None:
        raise Permanent("the key sk-123 is no good")

    services = House(database, turn)
    async with services.running():
        await services.says(CHAT, "a")
        await until(partial(is_answered, database, "gave up: a"))
        await until(lambda: bool(services.dead))
    assert len(services.given) == 1
    assert services.dead[0].why == "Permanent; the log has more"


async def test_an_agent_that_cannot_be_woken_does_not_keep_its_message_for_ever(database: Database) -> None:
    def broken(*_: object) -> EchoAgent:
        raise ZeroDivisionError

    services = House(database, make=broken)
    async with services.running():
        await services.says(CHAT, "a")
        await until(partial(is_answered, database, "gave up: a"))
        await until(lambda: bool(services.dead))
    assert services.dead[0].attempts == 5


async def test_an_agent_that_leaves_its_work_undone_gets_it_again_and_in_the_end_it_is_given_up(
    database: Database,
) -> None:
    class Lazy(EchoAgent):
        async def run(self, source: Source) -> None:
            async for work in source:
                await self.turn(work)

    services = House(database, make=Lazy)
    async with services.running():
        await services.says(CHAT, "a")
        await until(partial(is_answered, database, "gave up: a"))
        await until(lambda: bool(services.dead))
    assert [work.attempt for work in services.given] == [1, 2, 3, 4, 5]


async def test_after_the_last_message_nobody_looks_again_before_the_linger_time_is_over(database: Database) -> None:
    looks: list[float] = []
    ends: list[float] = []

    class Counting(Troubled):
        async def write(self, work: Callable[[Connection], T]) -> T:
            if getattr(getattr(work, "func", work), "__name__", "") == "_begin":
                looks.append(time.monotonic())
            return await super().write(work)

    async def turn(_: Work) -> None:
        ends.append(time.monotonic())

    services = House(Counting(database), turn, timing=replace(QUICK, linger=0.3, look_around=60))
    async with services.running():
        await services.says(CHAT, "a")
        await until(partial(is_answered, database, "a"))
        await until(lambda: not services.dispatcher.is_running(CHAT))
        await until(lambda: len(looks) == 2)
        assert looks[1] - ends[0] >= 0.3
        await services.says(CHAT, "b")
        await until(partial(is_answered, database, "a", "b"))


async def test_a_message_that_is_expected_is_begun_in_its_own_transaction_and_not_looked_for_again(
    sqlite_database: Database,
) -> None:
    joined: list[bool] = []  # for each look, whether it came behind something in the same transaction
    given: list[str] = []

    class Watched(Troubled):
        async def write(self, work: Callable[[Connection], T]) -> T:
            name = getattr(getattr(work, "func", work), "__name__", "")
            given.append(name)

            def watched(conn: Connection) -> T:
                if name == "_begin":
                    joined.append(bool(getattr(conn.connection.dbapi_connection, "in_transaction", False)))
                return work(conn)

            return await super().write(watched)

    async def expected(words: str) -> None:
        services.dispatcher.expect(CHAT)
        admitted = await admit(services.database, CHAT, words)
        services.dispatcher.wake(CHAT, admitted.id)

    services = House(Watched(sqlite_database), timing=replace(QUICK, linger=60, look_around=60))
    async with services.running():
        await services.says(CHAT, "a")
        await until(partial(is_answered, sqlite_database, "a"))
        await until(lambda: not services.dispatcher.is_running(CHAT))
        answered = ["a"]
        for words in "bcdefghij":  # on a busy machine the two may come apart, and then it is rightly looked for twice
            joined.clear()
            given.clear()
            held, hold = threading.Event(), threading.Event()

            def block(_: Connection, held: threading.Event = held, hold: threading.Event = hold) -> None:
                held.set()
                hold.wait(30)

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(sqlite_database.write, block)  # what is given meanwhile comes together behind it
                await anyio.to_thread.run_sync(held.wait)
                tasks.start_soon(expected, words)
                await until(lambda: "_begin" in given)  # both wait for the writer now
                await anyio.wait_all_tasks_blocked()
                hold.set()
            answered.append(words)
            await until(partial(is_answered, sqlite_database, *answered))
            await until(lambda: not services.dispatcher.is_running(CHAT))
            await anyio.wait_all_tasks_blocked()
            if joined == [True]:
                break
        assert joined == [True], "begun in the transaction of its message, and not looked for again"


async def test_work_that_was_expected_in_vain_is_found_when_it_comes_after_all(sqlite_database: Database) -> None:
    services = House(sqlite_database, timing=replace(QUICK, linger=60, look_around=60))
    async with services.running():
        services.dispatcher.expect(CHAT)
        await until(lambda: bool(services.woken))  # it has looked, or is about to
        await sqlite_database.write(lambda conn: None)
        admitted = await admit(services.database, CHAT, "late")
        services.dispatcher.wake(CHAT, admitted.id)
        await until(partial(is_answered, sqlite_database, "late"))


class Opening(EchoAgent):
    """Writes the start of its run into the transaction that statuses it: here a note in the outbox."""

    fails = False

    async def run(self, source: Source) -> None:
        source.opens_with(self._open)
        await super().run(source)

    def _open(self, conn: Connection, work: Work) -> object:
        say = OutgoingMessage(text=f"begun: {work.incoming.text}", kind="notice")
        outbox_rows.add(conn, conversation=CHAT, inbox_id=None, part=0, dedup=f"b{work.inbox_id}", say=say, at=1)
        if self.fails:
            raise ValueError("no such column")
        return work.incoming.text.upper()


async def test_the_agent_opens_its_run_in_the_transaction_that_counts_it(database: Database) -> None:
    services = House(database, make=Opening)
    async with services.running():
        await services.says(CHAT, "a")
        await until(partial(is_answered, database, "begun: a", "a"))
    assert [work.opened for work in services.given] == ["A"]


async def test_an_opening_that_fails_leaves_nothing_and_takes_no_turn_away(database: Database) -> None:
    class Failing(Opening):
        fails = True

    services = House(database, make=Failing)
    async with services.running():
        await services.says(CHAT, "a")
        await until(partial(is_answered, database, "a"))
    assert [(work.opened, work.attempt) for work in services.given] == [(None, 1)]


async def test_an_agent_that_ends_by_itself_is_replaced_for_the_next_message(database: Database) -> None:
    class Leaving(EchoAgent):
        async def run(self, source: Source) -> None:
            async for work in source:
                await self.turn(work)
                await self.database.write(partial(self._commit, work=work))
                return

    services = House(database, make=Leaving, timing=replace(QUICK, merge_within=0, look_around=60))
    for text in "abc":
        await admit(database, CHAT, text)
    async with services.running():
        await until(partial(is_answered, database, "a", "b", "c"))
    assert len(services.woken) >= 3


@pytest.mark.requirement("B-48")
async def test_while_the_disk_fails_a_message_stays_new_and_is_answered_when_it_is_well(database: Database) -> None:
    troubled = Troubled(database)
    commits = 0

    async def turn(_: Work) -> None:
        nonlocal commits
        commits += 1
        troubled.fails = commits <= 8  # more often than a message may fail by itself

    services = House(troubled, turn)

    async def mend() -> None:
        """A moment later the disk is well, but only until the next commit."""
        while True:
            await anyio.sleep(0.002)
            if troubled.failing_writes:
                troubled.fails, troubled.failing_writes = False, 0

    async with services.running(), anyio.create_task_group() as tasks:
        tasks.start_soon(mend)
        await services.says(CHAT, "a")
        await until(partial(is_answered, database, "a"))
        tasks.cancel_scope.cancel()
    assert commits == 9
    assert services.dead == []
    assert await database.read(statuses) == {"done": 1}


async def test_a_taken_conversation_is_let_go_without_a_word(database: Database) -> None:
    """Another owner came while the turn ran: its agent is dropped and nothing of the turn is stored."""
    went_on = anyio.Event()

    async def turn(work: Work) -> None:
        if work.epoch > 1:
            return
        await database.write(lambda conn: conversation_rows.claim(conn, CHAT, worker="me", run="other", now=0, until=1))
        went_on.set()

    services = House(database, turn, timing=replace(QUICK, heartbeat=60, look_around=60))
    async with services.running():
        await services.says(CHAT, "a")
        await went_on.wait()
        await until(lambda: services.registry.awake == ())
        assert await answers(database) == []
        services.dispatcher.wake(CHAT)
        await until(partial(is_answered, database, "a"))
    assert [(work.epoch, work.attempt) for work in services.given] == [(1, 1), (3, 2)]


@pytest.mark.requirement("B-60")
async def test_who_lost_a_conversation_between_two_turns_begins_no_other_there(database: Database) -> None:
    async def turn(_: Work) -> None:
        return

    services = House(database, turn, timing=replace(QUICK, linger=60, heartbeat=60, look_around=60))
    async with services.running():
        await services.says(CHAT, "a")
        await until(partial(is_answered, database, "a"))
        assert CHAT in services.registry.awake, "it stays for the next message"

        def take(conn: Connection) -> int | None:
            conversation_rows.force_release(conn, CHAT, epoch=1)
            return conversation_rows.claim(conn, CHAT, worker="theirs", run="theirs", now=0, until=1 << 60)

        assert await database.write(take) == 2
        await services.says(CHAT, "b")
        await until(lambda: services.registry.awake == ())
        assert [work.incoming.text for work in services.given] == ["a"], "the other owner does it"
        assert await database.read(statuses) == {"done": 1, "new": 1}


async def test_a_turn_that_lost_its_lease_is_cut_off(database: Database) -> None:
    ended = anyio.Event()

    async def turn(work: Work) -> None:
        if work.attempt > 1:
            return
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()

    services = House(database, turn)
    async with services.running():
        await services.says(CHAT, "a")
        await until(lambda: services.dispatcher.is_running(CHAT))
        await database.write(partial(conversation_rows.force_release, key=CHAT, epoch=1))
        with anyio.fail_after(60):
            await ended.wait()
        await until(partial(is_answered, database, "a"))


@pytest.mark.requirement("B-08", "B-64", "B-88")
async def test_a_long_turn_keeps_its_lease(database: Database) -> None:
    go_on = anyio.Event()

    async def turn(_: Work) -> None:
        await go_on.wait()

    services = House(database, turn)
    async with services.running():
        await services.says(CHAT, "a")
        await until(lambda: services.dispatcher.is_running(CHAT))
        first = await lease(database)

        async def renewed() -> bool:
            now = await lease(database)
            assert now is not None
            assert first is not None
            assert now.run == first.run
            return now.expires_at > first.expires_at

        await until(renewed)
        go_on.set()
        await until(partial(is_answered, database, "a"))


@pytest.mark.requirement("B-08", "B-64", "B-88")
async def test_a_turn_that_outlasts_its_lease_is_begun_by_nobody_else(database: Database, clock: FakeClock) -> None:
    go_on = anyio.Event()

    async def turn(_: Work) -> None:
        await go_on.wait()

    services = House(database, turn, clock=clock)
    timing = replace(QUICK, queue_timeout=0)
    theirs = Leases(database, clock=clock, new_id=random_uuid, worker="theirs", timing=timing)
    async with services.running():
        await services.says(CHAT, "a")
        await until(lambda: services.dispatcher.is_running(CHAT))
        for _ in range(3):
            before = await lease(database)
            clock.advance(QUICK.lock_timeout * 2 / 3)

            async def renewed(before: conversation_rows.Lease | None = before) -> bool:
                now = await lease(database)
                assert now is not None
                assert before is not None
                return now.expires_at != before.expires_at

            await until(renewed)
            with pytest.raises(LockTimeout):
                await theirs.take(CHAT)
        go_on.set()
        await until(partial(is_answered, database, "a"))
    assert [work.attempt for work in services.given] == [1]


@pytest.mark.requirement("B-11", "B-12", "B-61", "B-83")
async def test_a_lease_of_another_worker_is_waited_for_thirty_seconds(
    sqlite_database: Database, clock: FakeClock
) -> None:
    mine, theirs = (
        Leases(sqlite_database, clock=clock, new_id=random_uuid, worker=worker, timing=Timing())
        for worker in ("mine", "theirs")
    )
    held = await theirs.take(CHAT)
    failed: list[LockTimeout] = []

    async def try_it() -> None:
        try:
            await mine.take(CHAT)
        except LockTimeout as error:
            failed.append(error)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(try_it)
        waited = 0.0
        while not failed:
            if clock.sleepers:
                clock.advance(0.5)
                waited += 0.5
            await anyio.sleep(0.001)
    assert waited == pytest.approx(30.0)
    assert "worked on elsewhere for more than 30 s" in str(failed[0])
    await theirs.release(held)
    assert (await mine.take(CHAT)).epoch == 2


class NotingClock(FakeClock):
    """Notes how long each sleep was to be."""

    def __init__(self) -> None:
        super().__init__()
        self.slept: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        await super().sleep(seconds)


@pytest.mark.requirement("B-11")
async def test_a_lease_of_another_worker_is_asked_for_ever_more_seldom_until_it_is_free(
    sqlite_database: Database,
) -> None:
    clock = NotingClock()
    mine, theirs = (
        Leases(sqlite_database, clock=clock, new_id=random_uuid, worker=worker, timing=Timing())
        for worker in ("mine", "theirs")
    )
    held, taken = await theirs.take(CHAT), anyio.Event()

    async def take() -> None:
        await mine.take(CHAT)
        taken.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(take)
        for tries in range(1, 7):
            await until(lambda tries=tries: len(clock.slept) == tries and clock.sleepers == 1)
            if tries == 6:
                await theirs.release(held)
            clock.advance(clock.slept[-1])
        with anyio.fail_after(10):
            await taken.wait()
    assert clock.slept == [0.25, 0.5, 1.0, 2.0, 4.0, 4.0]


@pytest.mark.requirement("B-08", "B-44", "B-63")
async def test_the_lease_is_taken_before_the_work_and_freed_after_it(database: Database) -> None:
    seen = []

    async def turn(work: Work) -> None:
        seen.append(await lease(database))

    services = House(database, turn)
    async with services.running():
        await services.says(CHAT, "a")
        await until(partial(is_answered, database, "a"))
    (held,) = seen
    assert held is not None
    assert held.epoch == 1
    assert held.run
    assert held.expires_at > held.acquired_at
    assert await lease(database) is None


@pytest.mark.requirement("B-11", "B-61")
async def test_a_message_behind_a_foreign_lease_is_not_lost(database: Database) -> None:
    services = House(database, timing=replace(QUICK, queue_timeout=0.01))
    async with services.running():
        await services.says("telegram:2", "it runs")
        await until(partial(is_answered, database, "it runs"))
        claim = partial(conversation_rows.claim, key=CHAT, worker="other", run="r", now=0, until=2**60)
        await database.write(claim)
        await services.says(CHAT, "a")
        await anyio.sleep(0.05)  # five times as long as it waits for the lease
        assert len(services.given) == 1
        await database.write(partial(conversation_rows.release, key=CHAT, run="r"))
        await until(partial(is_answered, database, "it runs", "locked: a", "a"))


class FailsToRelease(Troubled):
    """The first release fails; the storage is well again right after it."""

    async def write(self, work: Callable[[Connection], T]) -> T:
        if getattr(work, "func", None) is conversation_rows.release and not self.failing_writes:
            self.failing_writes += 1
            raise StorageTrouble("the database failed 4 times: disk I/O error")
        return await self.database.write(work)


@pytest.mark.requirement("B-49", "B-91")
async def test_a_lease_that_cannot_be_released_is_freed_by_force_with_a_warning(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    services = House(FailsToRelease(database))
    with caplog.at_level(logging.WARNING, "tieline.dispatch"):
        held = await services.leases.take(CHAT)
        await services.leases.release(held)
    assert await lease(database) is None
    assert "could not be released, freeing it by force" in caplog.text


@pytest.mark.requirement("B-49")
async def test_a_lease_that_cannot_be_freed_at_all_holds_up_only_others(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    troubled = Troubled(database)
    services = House(troubled)
    held = await services.leases.take(CHAT)
    troubled.fails = True
    with caplog.at_level(logging.WARNING, "tieline.dispatch"):
        await services.leases.release(held)
    troubled.fails = False
    assert "stays until it runs out" in caplog.text
    assert (await services.leases.take(CHAT)).epoch == 2


async def test_at_the_start_leases_are_freed_and_what_is_open_is_delivered(database: Database) -> None:
    await database.write(lambda conn: conversation_rows.claim(conn, CHAT, worker="dead", run="r", now=0, until=2**60))
    await admit(database, CHAT, "a")
    await database.write(lambda conn: inbox_rows.finish(conn, [1], "done", 1))
    await database.write(
        partial(
            outbox_rows.add,
            conversation=CHAT,
            inbox_id=1,
            part=0,
            dedup="x",
            say=OutgoingMessage(text="left", kind="reply"),
            at=1,
        )
    )
    services = House(database)
    async with services.running():
        await until(lambda: services.delivered == [CHAT])
        assert await lease(database) is None


@pytest.mark.parametrize(
    ("attempts", "pause"), [(0, 1.0), (1, 1.0), (2, 2.0), (3, 4.0), (5, 16.0), (6, 30.0), (5_000, 30.0)]
)
def test_pauses_between_runs_double_up_to_a_limit(attempts: int, pause: float) -> None:
    assert Timing().backoff.wait_s(attempts) == pause


@pytest.mark.requirement("B-12")
async def test_who_waits_behind_a_reminder_is_told_of_the_lock_too(database: Database) -> None:
    services = House(database, timing=replace(QUICK, queue_timeout=0.01))
    async with services.running():
        await services.says("telegram:2", "it runs")
        await until(partial(is_answered, database, "it runs"))
        await database.write(partial(conversation_rows.claim, key=CHAT, worker="other", run="r", now=0, until=2**60))
        await admit(database, CHAT, "a reminder", kind="reminder")
        await services.says(CHAT, "a")
        await until(partial(is_answered, database, "it runs", "locked: a"))
        assert CHAT in services.delivered
