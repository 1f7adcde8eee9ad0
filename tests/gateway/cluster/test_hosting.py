"""Hosting: one worker takes in what arrived for a conversation, in order, and does its work."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial

import anyio
import pytest
from sqlalchemy import func, insert, select, text, update

from agent.core.clock import SystemClock
from agent.core.ids import ConversationId
from agent.storage.database import PROCESS, TROUBLE
from agent.storage.postgres import PostgresDatabase
from agent.storage.process_tables import arrival, conversation_host
from agent.storage.tables import inbox
from gateway.channels.inbound import Inbound, MessageReceived, Outcome, Receipt, Sender
from gateway.channels.keys import ConversationKey, UserId
from gateway.cluster.arrivals import MOST_TRIES, encoded
from gateway.cluster.engine import Engine
from gateway.cluster.hosting import Hosting, Others
from gateway.router.router import TRIES
from tests.fakes.agents import House, admit, answers
from tests.fakes.databases import away
from tests.fakes.waiting import until

CHAT = ConversationId("telegram:77")
AT = datetime(2026, 1, 1, tzinfo=UTC)
FOUND_WITHIN_S = 2.0
LATE_S = 3.0  # of a busy machine


def said(text: str, chat: str = "77") -> MessageReceived:
    return MessageReceived(
        key=ConversationKey("telegram", chat),
        place=chat,
        message_id=text,
        sender=Sender(id=UserId("77")),
        received_at=AT,
        text=text,
    )


class Worker:
    """This process as a worker: real hosting and engine, and an agent that says the words back."""

    def __init__(self, database: PostgresDatabase) -> None:
        self.house = House(database, worker=PROCESS, is_alone=False)
        self.hosting = Hosting(self.house.dispatcher, database, SystemClock(), works=True)
        self.database = database
        self.taken: list[str] = []
        self.opened: list[ConversationId] = []
        self.closed: list[ConversationId] = []
        self.awake: set[ConversationId] = set()
        self.delivering: set[ConversationId] = set()
        self.closes = True
        self.failures: dict[str, int] = {}  # how often what arrives meets a defect
        others = Others(
            admit=self._admit,
            delivers=lambda conversation: conversation in self.delivering,
            opened=partial(self._note, self.opened),
            closed=partial(self._note, self.closed),
            is_awake=lambda conversation: conversation in self.awake,
        )
        self.hosting.connect(others, partial(Engine, database.url, database, PROCESS))

    @asynccontextmanager
    async def process(self) -> AsyncIterator["Worker"]:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self.hosting.run)
            yield self
            await self.hosting.drain(5.0)
            tasks.cancel_scope.cancel()

    async def _admit(self, inbound: Inbound) -> Receipt:
        """The router's part."""
        assert isinstance(inbound, MessageReceived)
        if self.failures.get(inbound.text, 0):
            self.failures[inbound.text] -= 1
            raise RuntimeError("a defect")
        self.taken.append(inbound.text)
        admitted = await admit(self.database, str(inbound.key), inbound.text, dedup=inbound.message_id, limit=None)
        self.hosting.wake(ConversationId(str(inbound.key)))
        return Receipt(Outcome.DUPLICATE if admitted.duplicate else Outcome.ACCEPTED)

    async def _note(self, list: list[ConversationId], conversation: ConversationId) -> bool:
        list.append(conversation)
        return self.closes


async def arrives(database: PostgresDatabase, *words: str, chat: str = "77", payload: str | None = None) -> None:
    rows = [
        {
            "conv": f"telegram:{chat}",
            "payload": payload or encoded(said(word, chat)),
            "ingress": "other",
            "created_at": 0,
        }
        for word in words
    ]
    await database.write(lambda conn: conn.execute(insert(arrival), rows))


async def answered(database: PostgresDatabase, *words: str, within_s: float = 10.0) -> None:
    async def are_there() -> bool:
        said = await answers(database)  # those that waited together are answered together
        return [line for answer in said for line in answer.splitlines() if line] == [*words]

    await until(are_there, longest_s=within_s)


async def count(database: PostgresDatabase, table: object) -> int:
    query = select(func.count()).select_from(table)  # type: ignore[arg-type]
    found: int = await database.read(lambda conn: conn.execute(query).scalar_one())
    return found


@pytest.mark.requirement("G-139")
async def test_what_arrived_is_taken_in_once_and_in_order(joined: PostgresDatabase) -> None:
    words = [f"word {number}" for number in range(30)]
    async with Worker(joined).process() as worker:
        await arrives(joined, *words[:25])
        await answered(joined, *words[:25], within_s=30)
        await arrives(joined, *words[25:])
        await answered(joined, *words, within_s=30)
        assert worker.taken == words

        async def is_let_go() -> bool:
            return await count(joined, conversation_host) == 0

        await until(is_let_go)
        assert worker.opened[0] == worker.closed[-1] == CHAT
    assert await count(joined, arrival) == 0


@pytest.mark.requirement("G-139")
async def test_what_meets_a_defect_is_tried_again_before_what_came_after_it(joined: PostgresDatabase) -> None:
    async with Worker(joined).process() as worker:
        worker.failures["one"] = TRIES - 1
        await arrives(joined, "one", "two")
        await answered(joined, "one", "two")
        assert worker.taken == ["one", "two"]


@pytest.mark.requirement("G-139")
async def test_what_cannot_be_read_blocks_nothing(joined: PostgresDatabase) -> None:
    async with Worker(joined).process():
        await arrives(joined, "of a later version", payload='{"kind": "Reacted", "of": {}}')
        await arrives(joined, "two")
        await answered(joined, "two")
        letters = select(inbox.c.status).where(inbox.c.dedup.startswith("arrival:"))
        assert await joined.read(lambda conn: conn.execute(letters).scalars().all()) == ["dead"]
    assert await count(joined, arrival) == 0


@pytest.mark.requirement("G-139")
async def test_what_each_worker_dies_of_does_not_go_round_for_ever(joined: PostgresDatabase) -> None:
    await arrives(joined, "deadly")
    await joined.write(lambda conn: conn.execute(update(arrival).values(tries=MOST_TRIES)))
    await arrives(joined, "behind it")
    async with Worker(joined).process() as worker:
        await until(lambda: worker.taken == ["behind it"])
        letter = select(inbox.c.status, inbox.c.note).where(inbox.c.status == "dead")
        found = await joined.read(lambda conn: [tuple(row) for row in conn.execute(letter)])
        assert found == [("dead", f"it was given to {MOST_TRIES + 1} workers in vain")]


@pytest.mark.parametrize("lost", ["arrival", "inbox", "put off"])
@pytest.mark.requirement("G-139")
async def test_work_whose_wake_up_was_lost_is_found(joined: PostgresDatabase, lost: str) -> None:
    async with Worker(joined).process():
        await anyio.sleep(0.5)  # the first look is over
        began = anyio.current_time()
        if lost == "put off":
            await admit(joined, CHAT, "found", not_before=1)  # no trigger wakes for these
        else:
            await joined.write(lambda conn: conn.execute(text(f"alter table {lost} disable trigger user")))
            await (arrives(joined, "found") if lost == "arrival" else admit(joined, CHAT, "found"))
            await joined.write(lambda conn: conn.execute(text(f"alter table {lost} enable trigger user")))
        await answered(joined, "found")
        assert anyio.current_time() - began < FOUND_WITHIN_S + LATE_S


@pytest.mark.requirement("G-139")
async def test_work_that_waits_for_a_process_that_is_gone_is_found(joined: PostgresDatabase) -> None:
    row = {"conv": CHAT, "process": "other"}
    await joined.write(lambda conn: conn.execute(insert(conversation_host), row))
    await arrives(joined, "for another")
    gone = text("delete from process where id = 'other'")  # its wake-up was committed after it had gone
    async with Worker(joined).process() as worker:
        await anyio.sleep(1.5)  # a look or two
        assert worker.taken == [], "another has it"
        began = anyio.current_time()
        await joined.write(lambda conn: conn.execute(gone))
        await answered(joined, "for another")
        assert anyio.current_time() - began < FOUND_WITHIN_S + LATE_S


@pytest.mark.requirement("G-139")
async def test_conversations_do_not_wait_for_each_other(joined: PostgresDatabase) -> None:
    async with Worker(joined).process() as worker:
        worker.failures["stuck"] = 1_000_000
        await arrives(joined, "stuck", chat="1")
        for number in range(2, 22):
            await arrives(joined, f"to {number}", chat=str(number))

        async def are_answered() -> bool:
            return len(await answers(joined)) == 20

        await until(are_answered, longest_s=20)
        worker.failures.clear()


@pytest.mark.requirement("G-139")
async def test_what_arrives_while_a_worker_ends_waits_for_the_next(joined: PostgresDatabase) -> None:
    async with Worker(joined).process():
        await arrives(joined, "one")
        await answered(joined, "one")
    jobs = text("select status from procrastinate_jobs")
    assert await joined.read(lambda conn: conn.execute(jobs).scalars().all()) == [], "its job has ended with it"
    await arrives(joined, "two")
    async with Worker(joined).process():
        await answered(joined, "one", "two")


@pytest.mark.requirement("G-139")
async def test_a_wake_up_from_before_another_had_it_goes_to_that_one(joined: PostgresDatabase) -> None:
    await arrives(joined, "one")  # any worker may fetch it
    row = {"conv": CHAT, "process": "other"}
    await joined.write(lambda conn: conn.execute(insert(conversation_host), row))
    queues = text("select queue_name from procrastinate_jobs where status = 'todo'")
    async with Worker(joined).process() as worker:

        async def is_handed_on() -> bool:
            return await joined.read(lambda conn: conn.execute(queues).scalars().all()) == ["host.other"]

        await until(is_handed_on)
        assert (worker.taken, worker.opened) == ([], [])
    assert await holders(joined) == ["other"]


async def holders(database: PostgresDatabase) -> Sequence[str]:
    query = select(conversation_host.c.process)
    return await database.read(lambda conn: conn.execute(query).scalars().all())


@pytest.mark.parametrize("keeps", ["nothing", "delivering", "outlet"])
@pytest.mark.requirement("G-161")
async def test_who_ends_lets_go_of_what_is_at_rest_alone(joined: PostgresDatabase, keeps: str) -> None:
    """Two would send there at the same time."""
    worker = Worker(joined)
    async with worker.process():
        worker.awake.add(CHAT)
        await arrives(joined, "one")
        await answered(joined, "one")
        jobs = text("select count(*) from procrastinate_jobs")

        async def is_at_rest() -> bool:
            return bool(await joined.read(lambda conn: conn.execute(jobs).scalar_one()) == 0)

        await until(is_at_rest)
        assert await holders(joined) == [PROCESS], "its agent is awake here"
        worker.closes = keeps != "outlet"
        if keeps == "delivering":
            worker.delivering.add(CHAT)
    assert await holders(joined) == ([] if keeps == "nothing" else [PROCESS])
    assert worker.closed == ([] if keeps == "delivering" else [CHAT] * len(worker.closed))
    assert (worker.closed != []) == (keeps != "delivering")


@pytest.mark.parametrize("trouble", ["connections", "queue"])
@pytest.mark.requirement("G-139")
async def test_jobs_are_fetched_again_after_the_database_was_away_while_one_goes_on(
    joined: PostgresDatabase, postgres_url: str, trouble: str
) -> None:
    async with Worker(joined).process() as worker:
        worker.delivering.add(CHAT)  # its job lasts as long
        await arrives(joined, "one")
        await answered(joined, "one")
        async with away(postgres_url) if trouble == "connections" else unreadable(joined):
            await anyio.sleep(2.5)  # until the queue has noticed

        async def arrives_again() -> bool:
            try:
                await arrives(joined, "two", chat="78")
            except TROUBLE:  # connections from before
                return False
            return True

        await until(arrives_again)
        await answered(joined, "one", "two", within_s=15)
        worker.delivering.clear()
        worker.hosting.ring(CHAT)


@asynccontextmanager
async def unreadable(database: PostgresDatabase) -> AsyncIterator[None]:
    """The queue refuses to be read: its worker ends."""
    await database.write(lambda conn: conn.execute(text("alter table procrastinate_jobs rename to elsewhere")))
    yield
    await database.write(lambda conn: conn.execute(text("alter table elsewhere rename to procrastinate_jobs")))


BUSY_S = 0.5


@pytest.mark.requirement("G-139")
async def test_work_whose_wake_up_was_lost_is_found_within_two_seconds(joined: PostgresDatabase) -> None:
    """The best of a few counts: a busy machine is late now and then, a rare look is late each time."""
    took_s: list[float] = []
    async with Worker(joined).process():
        for number in range(4):
            await anyio.sleep(0.5)  # the answer before it is settled
            began = anyio.current_time()
            await admit(joined, CHAT, f"found {number}", not_before=1)  # no trigger wakes for these
            await answered(joined, *(f"found {before}" for before in range(number + 1)))
            took_s.append(anyio.current_time() - began)
    assert min(took_s[1:]) < FOUND_WITHIN_S + BUSY_S, took_s
