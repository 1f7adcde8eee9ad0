"""The promise of `Dispatcher`: in order, one at a time, everything, and nobody waits for a stranger."""

import random
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import TypeVar

import anyio
import anyio.lowlevel
import pytest
from sqlalchemy import Connection

from agent.core.ids import ConversationId
from agent.inbox import Work
from agent.storage import conversation_rows
from agent.storage.database import Database, Dialect
from tests.fakes.agents import QUICK, House, admit, answers, statuses
from tests.fakes.waiting import until

T = TypeVar("T")
CHAT = ConversationId("telegram:1")


async def is_answered(database: Database, *texts: str, conversation: str = CHAT) -> bool:
    return await answers(database, conversation) == list(texts)


@pytest.mark.requirement("B-60", "B-65", "B-88", "G-06")
@pytest.mark.parametrize("seed", [1, 2])
async def test_each_conversation_in_order_one_at_a_time_and_many_at_once(database: Database, seed: int) -> None:
    chance = random.Random(seed)
    chats, messages = 8, 12
    under_way: Counter[str] = Counter()
    most_of_one, most_at_once = 0, 0

    async def turn(work: Work) -> None:
        nonlocal most_of_one, most_at_once
        chat = work.incoming.text.split(":")[0]
        under_way[chat] += 1
        most_of_one = max(most_of_one, under_way[chat])
        most_at_once = max(most_at_once, sum(under_way.values()))
        await anyio.sleep(chance.random() * 0.004)
        under_way[chat] -= 1

    services = House(database, turn, timing=replace(QUICK, merge_within=0))

    async def person(chat: int) -> None:
        for number in range(messages):
            await admit(database, f"telegram:{chat}", f"{chat}:{number}", limit=None)
            services.dispatcher.wake(ConversationId(f"telegram:{chat}"))
            await anyio.sleep(chance.random() * 0.01)

    async with services.running():
        async with anyio.create_task_group() as people:
            for chat in range(chats):
                people.start_soon(person, chat)

        async def all_done() -> bool:
            return (await database.read(statuses)).get("done", 0) == chats * messages

        await until(all_done)
    for chat in range(chats):
        expected = [f"{chat}:{number}" for number in range(messages)]
        assert await answers(database, f"telegram:{chat}") == expected
    assert most_of_one == 1
    assert most_at_once > 1


@pytest.mark.slow
async def test_a_message_that_comes_just_as_the_work_ends_is_not_stranded(sqlite_database: Database) -> None:
    """Looking around would find it late; here it must be the wake that does."""
    services = House(sqlite_database, timing=replace(QUICK, linger=0.002, look_around=600))
    chance = random.Random(7)
    async with services.running():
        for number in range(300):
            await services.says(CHAT, str(number))
            with anyio.fail_after(60):
                while len(services.given) <= number:
                    await anyio.lowlevel.checkpoint()
            # Around the end of the linger, where the work is just being let go.
            await anyio.sleep(chance.uniform(0.0, 0.006))
    assert [work.incoming.text for work in services.given] == [str(number) for number in range(300)]


class Interposing:
    """A database that lets something happen between the look into an empty inbox and what follows from it."""

    def __init__(self, database: Database) -> None:
        self.dialect: Dialect = database.dialect
        self.database = database
        self.between: Callable[[], Awaitable[object]] | None = None

    async def write(self, work: Callable[[Connection], T]) -> T:
        result = await self.database.write(work)
        if (
            result is None
            and getattr(getattr(work, "func", work), "__name__", "") == "_begin"
            and self.between is not None
        ):
            between, self.between = self.between, None
            await between()
        return result

    async def read(self, work: Callable[[Connection], T]) -> T:
        return await self.database.read(work)

    async def aclose(self) -> None:
        await self.database.aclose()


async def test_a_message_that_comes_just_after_the_inbox_was_found_empty_is_not_stranded(database: Database) -> None:
    interposing = Interposing(database)
    services = House(interposing, timing=replace(QUICK, look_around=60))
    interposing.between = partial(services.says, CHAT, "b")
    async with services.running():
        await services.says(CHAT, "a")
        await until(partial(is_answered, database, "a", "b"))


async def test_many_wakes_for_one_message_are_one_run(database: Database) -> None:
    services = House(database)
    async with services.running():
        await admit(database, CHAT, "a")
        for _ in range(20):
            services.dispatcher.wake(CHAT)
        await until(partial(is_answered, database, "a"))
    assert len(services.given) == 1


async def test_a_wake_before_the_start_counts(database: Database) -> None:
    services = House(database, timing=replace(QUICK, look_around=60))
    await services.says(CHAT, "a")
    async with services.running():
        await until(partial(is_answered, database, "a"))


async def test_what_nobody_woke_us_for_is_found(database: Database) -> None:
    services = House(database)
    async with services.running():
        await anyio.wait_all_tasks_blocked()
        await admit(database, CHAT, "a")
        await until(partial(is_answered, database, "a"))


async def test_put_off_work_runs_when_it_is_due_and_not_before(database: Database) -> None:
    services = House(database, timing=replace(QUICK, look_around=60))
    now = services.clock.now().timestamp()
    due = int((now + 0.3) * 1_000_000)
    async with services.running():
        await admit(database, CHAT, "tick", kind="system", not_before=due)
        services.dispatcher.wake(CHAT)
        await anyio.sleep(0.1)  # a part of the time that it was put off for
        assert not services.given or services.clock.now().timestamp() * 1_000_000 >= due
    again = House(database, timing=replace(QUICK, look_around=60))
    async with again.running():
        await until(partial(is_answered, database, "tick"))
    assert again.clock.now().timestamp() >= now + 0.3


@pytest.mark.requirement("G-13")
async def test_texts_in_quick_succession_behind_a_turn_are_one_run(database: Database) -> None:
    go_on = anyio.Event()

    async def turn(work: Work) -> None:
        if work.incoming.text == "first":
            await go_on.wait()

    services = House(database, turn)
    async with services.running():
        await services.says(CHAT, "first")
        await until(lambda: services.dispatcher.is_running(CHAT))
        at = services.clock.now()
        for text in ("a", "b", "c"):
            await admit(database, CHAT, text, at=at)
        go_on.set()
        await until(partial(is_answered, database, "first", "a\nb\nc"))
    assert [len(work.inbox_ids) for work in services.given] == [1, 3]
    assert await database.read(statuses) == {"done": 2, "merged": 2}


@pytest.mark.requirement("G-06", "R-54")
async def test_a_turn_that_hangs_or_fails_holds_up_nobody_else(database: Database) -> None:
    async def turn(work: Work) -> None:
        if work.incoming.text == "hangs":
            await anyio.sleep_forever()
        if work.incoming.text == "fails":
            raise ZeroDivisionError

    services = House(database, turn)
    async with services.running():
        await services.says("telegram:hangs", "hangs")
        await services.says("telegram:fails", "fails")
        await services.says(CHAT, "works")
        await until(partial(is_answered, database, "works"))


async def test_is_running_from_the_begin_of_a_turn_to_its_end(database: Database) -> None:
    go_on = anyio.Event()

    async def turn(_: Work) -> None:
        await go_on.wait()

    services = House(database, turn, timing=replace(QUICK, linger=5))
    async with services.running():
        assert not services.dispatcher.is_running(CHAT)
        await services.says(CHAT, "a")
        await until(lambda: services.dispatcher.is_running(CHAT))
        go_on.set()
        await until(lambda: not services.dispatcher.is_running(CHAT))  # though its agent lingers
    assert await answers(database) == ["a"]


@pytest.mark.requirement("B-91")
async def test_every_lease_is_free_after_the_work_whatever_happened(database: Database) -> None:
    async def turn(work: Work) -> None:
        if work.incoming.text == "fails" and work.attempt < 3:
            raise ZeroDivisionError

    services = House(database, turn)
    async with services.running():
        await services.says(CHAT, "works")
        await services.says("telegram:2", "fails")
        await until(partial(is_answered, database, "works"))
        await until(partial(is_answered, database, "fails", conversation="telegram:2"))

        async def free() -> bool:
            keys = (CHAT, ConversationId("telegram:2"))
            leases = [await database.read(partial(conversation_rows.lease, key=key)) for key in keys]
            return leases == [None, None]

        await until(free)


@pytest.mark.requirement("G-27", "B-91")
async def test_a_drain_lets_turns_finish_and_begins_no_other(database: Database) -> None:
    go_on = anyio.Event()

    async def turn(_: Work) -> None:
        await go_on.wait()

    services = House(database, turn, timing=replace(QUICK, merge_within=0))
    async with services.running():
        await services.says(CHAT, "a")
        await until(lambda: services.dispatcher.is_running(CHAT))
        await services.says(CHAT, "b")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(services.dispatcher.drain, 60)
            await anyio.wait_all_tasks_blocked()
            go_on.set()
        await services.says("telegram:2", "c")
    assert await answers(database) == ["a"]
    assert await database.read(statuses) == {"done": 1, "new": 2}
    assert await database.read(partial(conversation_rows.lease, key=CHAT)) is None
    assert services.woken[0].stopped_for == []


@pytest.mark.requirement("G-27", "B-91")
async def test_a_drain_cuts_off_what_takes_too_long_and_the_next_start_takes_it_up(database: Database) -> None:
    async def turn(_: Work) -> None:
        await anyio.sleep_forever()

    services = House(database, turn)
    async with services.running():
        await services.says(CHAT, "a")
        await until(lambda: services.dispatcher.is_running(CHAT))
        with anyio.fail_after(60):
            await services.dispatcher.drain(0.01)
    assert services.woken[0].stopped_for == ["shutdown"]
    assert await database.read(statuses) == {"new": 1}
    assert await database.read(partial(conversation_rows.lease, key=CHAT)) is None

    again = House(database)
    async with again.running():
        await until(partial(is_answered, database, "a"))
    assert again.given[0].attempt == 2
