"""Old messages go by whole runs, with all that was made of them; what is open stays. On both databases."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest
from sqlalchemy import Connection, Table, event, insert, select, text, update

from agent.compaction.settings import MemorySettings
from agent.core.ids import ConversationId, PersonId, SessionId
from agent.core.messages import SummaryPart, TextPart
from agent.memory import rows
from agent.memory.expiry import BATCH, Removed, expire, remove_some
from agent.memory.lexicon import Lexicon
from agent.memory.memory import Memory
from agent.memory.records import Kept, Scope, audience_of_person
from agent.sessions.store import STEP
from agent.storage.database import Database
from agent.storage.errors import StorageTrouble
from agent.storage.payloads import encode_parts
from agent.storage.tables import (
    cleared_result,
    conversation,
    feedback,
    goal,
    guideline,
    inbox,
    memory,
    message,
    passage,
    plan,
    session,
    session_goal,
    task,
    tool_call,
    turn,
    usage,
)
from tests.fakes.clock import FakeClock, HastyClock

CHAT, ANN, HERE = ConversationId("telegram:77"), PersonId("telegram:77"), SessionId("s1")
SCOPE = Scope(conversation=CHAT, own=audience_of_person(ANN), visible=(audience_of_person(ANN),), person=ANN)
BEFORE = 1_000  # what is older goes


def memory_of(database: Database, clock: FakeClock) -> Memory:
    return Memory(database, clock, settings=MemorySettings)


def begin(conn: Connection, id: str = HERE, *, current: bool = True) -> None:
    values = {"id": id, "conv": CHAT, "title": "first words", "created_at": 1, "updated_at": 1, "message_count": 10}
    conn.execute(insert(session).values(**values))
    if current:
        conn.execute(insert(conversation).values(key=CHAT, session_id=id, created_at=1))


def run(
    conn: Connection, number: int, *moments: int, id: str = HERE, state: str = "done", status: str = "done"
) -> None:
    """A run with a message at each of these moments, and all that it leaves."""
    there: dict[str, Any] = {"conv": CHAT, "created_at": moments[0]}
    conn.execute(insert(inbox).values(**there, id=number, kind="message", dedup=f"{number}", payload="{}",
                                      status=status))  # fmt: skip
    conn.execute(insert(turn).values(**there, inbox_id=number, session_id=id, run_id="r", epoch=1, state=state))
    called = {"call_id": "c", "tool": "shell", "arguments": "{}", "verdict": "ran", "result": "", "elapsed_ms": 1}
    conn.execute(insert(tool_call).values(**there, inbox_id=number, run_id="r", **called))
    counted = dict.fromkeys(("prompt", "output", "cache_creation", "cache_read"), 1) | {"estimated": False}
    paid = {"purpose": "turn", "provider": "p", "model": "m", "call_id": f"{number}"}
    conn.execute(insert(usage).values(**there, **paid, **counted))
    conn.execute(insert(feedback).values(**there, session_id=id, inbox_id=number, person=ANN, up=True, text="good"))
    for position, at in enumerate(moments):
        written = encode_parts((TextPart(text=f"words {number}.{position}"),))
        made = conn.execute(
            insert(message)
            .values(session_id=id, conv=CHAT, inbox_id=number, position=position, parts=written, created_at=at,
                    role="assistant" if position % 2 else "user")
            .returning(message.c.id)
        ).scalar_one()  # fmt: skip
        conn.execute(insert(passage).values(session_id=id, conv=CHAT, message_id=made, number=0, text="words"))
        conn.execute(insert(cleared_result).values(message_id=made, call="c", session_id=id, text="words", at=at))
        kinds: Sequence[Any] = ("said", "fact") if position == 0 else ("said",)
        for kind in kinds:
            kept = Kept(kind=kind, text=f"a {kind} {number}.{position}", source="chat", person=ANN, session=id,
                        inbox_id=number, message_id=made)  # fmt: skip
            rows.keep(conn, SCOPE, [kept], Lexicon(), at=at)


def summary(conn: Connection, place: int, at: int, id: str = HERE) -> None:
    """A summary that a compaction has put there."""
    written = encode_parts((SummaryPart(text="a summary"),))
    values = {"session_id": id, "conv": CHAT, "position": -1, "role": "user", "parts": written, "place": place}
    conn.execute(insert(message).values(**values, created_at=at))


def numbers(conn: Connection, table: Table, column: str = "inbox_id") -> list[int]:
    return sorted(set(conn.execute(select(table.c[column])).scalars()))


@pytest.mark.requirement("G-40")
async def test_whole_runs_go_with_all_that_was_made_of_them(database: Database, clock: FakeClock) -> None:
    def lay(conn: Connection) -> None:
        begin(conn)
        conn.execute(update(session).values(summary="of the oldest", summary_upto=3))
        conn.execute(insert(guideline).values(conv=CHAT, session_id=HERE, body="keep paths", at=999))
        run(conn, 1, 10, 20)
        run(conn, 2, 990, 1_010)  # across the moment
        run(conn, 3, 1_020, 1_030)
        summary(conn, STEP + 1, 1_040)  # of the first run
        summary(conn, 5 * STEP, 1_050)  # of the third

    await database.write(lay)
    assert await expire(memory_of(database, clock), before=BEFORE, clock=clock) == 2

    def look(conn: Connection) -> None:
        left = conn.execute(select(message.c.inbox_id, message.c.place).order_by(message.c.id)).all()
        assert [tuple(row) for row in left] == [(2, None)] * 2 + [(3, None)] * 2 + [(None, 5 * STEP)]
        assert [numbers(conn, table) for table in (turn, feedback)] == [[2, 3]] * 2
        assert numbers(conn, tool_call) == [1, 2, 3], "the record of calls has days of its own"
        assert len(conn.execute(select(usage.c.id)).all()) == 3, "the ledger stays"
        assert [numbers(conn, table, "message_id") for table in (passage, cleared_result)] == [[3, 4, 5, 6]] * 2
        kept = conn.execute(select(memory.c.kind, memory.c.inbox_id).order_by(memory.c.id)).all()
        assert [tuple(row) for row in kept if row.inbox_id == 1] == [("fact", 1)]
        assert len([row for row in kept if row.kind == "said"]) == 4
        found = conn.execute(select(session)).one()
        assert (found.title, found.summary, found.summary_upto, found.message_count) == ("", None, None, 8)
        assert conn.execute(select(guideline)).all() == []

    await database.read(look)


@pytest.mark.parametrize(
    ("state", "status"),
    [
        pytest.param("running", "new", id="it goes on"),
        pytest.param("failed", "dead", id="an operator may try it anew"),
        pytest.param("running", "done", id="a crash left it"),
    ],
)
async def test_an_open_run_stays_however_old(database: Database, clock: FakeClock, state: str, status: str) -> None:
    def lay(conn: Connection) -> None:
        begin(conn)
        run(conn, 1, 10, 20)
        run(conn, 2, 30, 40, state=state, status=status)

    await database.write(lay)
    assert await expire(memory_of(database, clock), before=BEFORE, clock=clock) == 2
    assert await database.read(lambda conn: numbers(conn, message)) == [2]
    await database.write(lambda conn: conn.execute(update(inbox).values(status="done")))
    await database.write(lambda conn: conn.execute(update(turn).values(state="done")))
    assert await expire(memory_of(database, clock), before=BEFORE, clock=clock) == 2


@pytest.mark.parametrize(
    ("work", "left"),
    [
        pytest.param(insert(plan).values(conv=CHAT, origin="o", goal="g", tasks="[]", status="waiting",
                                         created_at=35, updated_at=1), [2, 3], id="a plan that is open"),
        pytest.param(insert(plan).values(conv=CHAT, origin="o", goal="g", tasks="[]", status="completed",
                                         created_at=35, updated_at=1), [], id="a plan that is over"),
        pytest.param(insert(goal).values(conv=CHAT, text="g", status="active", auto_state="running",
                                         created_at=35, updated_at=1), [2, 3], id="a goal that is worked on"),
        pytest.param(insert(goal).values(conv=CHAT, text="g", status="active",
                                         created_at=35, updated_at=1), [], id="a goal that people pursue"),
    ],
)  # fmt: skip
async def test_what_open_work_began_with_stays(
    database: Database, clock: FakeClock, work: Any, left: list[int]
) -> None:
    def lay(conn: Connection) -> None:
        begin(conn)
        run(conn, 1, 10, 20)
        run(conn, 2, 30, 40)  # within it, the work was begun
        run(conn, 3, 50, 60)
        conn.execute(work)

    await database.write(lay)
    await expire(memory_of(database, clock), before=BEFORE, clock=clock)
    assert await database.read(lambda conn: numbers(conn, message)) == left
    tables = (plan, goal)
    assert await database.read(lambda conn: sum(len(conn.execute(select(one.c.id)).all()) for one in tables)) == 1


async def test_sessions_that_are_empty_go_but_for_the_present_one(database: Database, clock: FakeClock) -> None:
    def lay(conn: Connection) -> None:
        begin(conn, "left", current=False)
        begin(conn)
        for number, id in enumerate(("left", HERE), start=1):
            run(conn, number, 10, id=id)
            conn.execute(insert(session_goal).values(session_id=id, state="active", text="g", updated_at=1))
            done = {"description": "d", "status": "completed", "created_at": 1, "updated_at": 1, "dedup": id}
            conn.execute(insert(task).values(conv=CHAT, session_id=id, **done))

    await database.write(lay)
    assert await expire(memory_of(database, clock), before=BEFORE, clock=clock) == 2

    def look(conn: Connection) -> None:
        assert list(conn.execute(select(session.c.id)).scalars()) == [HERE]
        assert conn.execute(select(session_goal)).all() == []
        assert list(conn.execute(select(task.c.session_id)).scalars()) == [HERE]

    await database.read(look)


class Mortal:
    """A database of which nothing is written any more after so many transactions."""

    def __init__(self, database: Database, lives: int) -> None:
        self._database, self._lives = database, lives

    async def read(self, work: Any) -> Any:
        return await self._database.read(work)

    async def write(self, work: Any) -> Any:
        if self._lives == 0:
            raise StorageTrouble("gone")
        self._lives -= 1
        return await self._database.write(work)


@pytest.mark.parametrize("lives", range(3))
async def test_cut_off_between_two_steps_it_goes_on_and_leaves_nothing_half(
    database: Database, clock: FakeClock, lives: int
) -> None:
    def lay(conn: Connection) -> None:
        begin(conn)
        for number in range(1, 3 * BATCH // 2):
            run(conn, number, 10, 20)

    await database.write(lay)
    mortal: Any = Mortal(database, lives)
    kept = memory_of(mortal, clock)
    with pytest.raises(StorageTrouble):
        await expire(kept, before=BEFORE, clock=HastyClock())
    assert kept.forgotten.words(CHAT) == int(lives > 0), "who is awake reads its window again"
    assert kept.forgotten.may_write(CHAT, int(lives > 0))

    def halves(conn: Connection) -> None:
        told = {id for (id,) in conn.execute(select(message.c.id))}
        assert len(told) == 3 * BATCH - 2 - lives * BATCH
        for table in (passage, cleared_result):
            assert set(numbers(conn, table, "message_id")) == told
        assert set(numbers(conn, message)) == set(numbers(conn, turn))
        said = select(memory.c.message_id).where(memory.c.kind == "said")
        assert set(conn.execute(said).scalars()) == told

    await database.read(halves)
    await expire(memory_of(database, clock), before=BEFORE, clock=HastyClock())
    assert await database.read(lambda conn: numbers(conn, message)) == []


async def test_no_step_reads_a_table_from_end_to_end(database: Database, clock: FakeClock) -> None:
    """So it costs the same however much there is: each table that grows is read by an index."""

    def lay(conn: Connection) -> None:
        begin(conn)
        for number in range(1, 4):
            run(conn, number, 10, 20)
        summary(conn, 5 * STEP, 1_050)

    await database.write(lay)
    statements: list[tuple[str, Any]] = []

    def note(conn: Connection, cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        statements.append((statement, parameters))

    def watched(conn: Connection) -> Removed:
        event.listen(conn, "before_cursor_execute", note)
        try:
            step = partial(remove_some, id=HERE, place=CHAT, before=BEFORE, below=100, after=0)
            return step(conn, at=1)
        finally:
            event.remove(conn, "before_cursor_execute", note)

    assert (await database.write(watched)).messages == 6

    def plans(conn: Connection) -> list[str]:
        found = []
        if conn.dialect.name != "sqlite":
            conn.execute(text("SET LOCAL enable_seqscan = off"))  # in a small table PostgreSQL reads all of it
        for statement, parameters in statements:
            if statement.lstrip().startswith(("SELECT", "DELETE", "UPDATE")):
                explained = ("EXPLAIN QUERY PLAN " if conn.dialect.name == "sqlite" else "EXPLAIN ") + statement
                rows = conn.exec_driver_sql(explained, parameters)
                found += [f"{' '.join(map(str, row))} | {statement[:80]}" for row in rows]
        return found

    lines = await database.read(plans)
    few = ("memory_erasure", "guideline")  # a row a day, and one a conversation
    scans = [line for line in lines if "SCAN" in line or "Seq Scan" in line]
    assert [line for line in scans if not any(one in line for one in few)] == []
    if database.dialect == "sqlite":  # a session may be long; PostgreSQL takes either index where there is so little
        assert any("ix_message_placed" in line for line in lines)
