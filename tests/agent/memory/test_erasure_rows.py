"""Forgetting at size, and cut off in the middle; on both databases where they differ."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest
from sqlalchemy import Connection, event, insert, select, text

from agent.core.ids import ConversationId, PersonId
from agent.core.messages import TextPart
from agent.core.outbox import OutgoingMessage
from agent.inbox import Incoming
from agent.memory import erasure_rows, rows
from agent.memory.lexicon import Lexicon
from agent.memory.records import Kept, Scope, audience_of_person
from agent.memory.rows import FORGOTTEN, PAGE, Target
from agent.storage import sqlite
from agent.storage.database import Database
from agent.storage.payloads import decode_incoming, encode_incoming, encode_outgoing, encode_parts
from agent.storage.tables import inbox, memory, memory_erasure, message, outbox, session, turn
from agent.storage.timestamps import to_timestamp
from tests.fakes.clock import FakeClock

CHAT, ANN = ConversationId("telegram:77"), PersonId("telegram:77")
SCOPE = Scope(conversation=CHAT, own=audience_of_person(ANN), visible=(audience_of_person(ANN),), person=ANN)
SECRET = "heron"
EVERYWHERE = Target(scope=SCOPE, words=SECRET)
FEW, MANY = 120, 2 * PAGE + 200


def fill(conn: Connection, clock: FakeClock, most: int = FEW) -> None:
    """Many exchanges; in the second of each the words stand, and what else it left does not hold them."""
    for place in (CHAT, ConversationId("telegram:78")):
        conn.execute(insert(session).values(id=place, conv=place, title="birds", created_at=1, updated_at=1))
    said = partial(Incoming, received_at=clock.now())
    for number in range(1, most):
        place = CHAT if number % 2 else ConversationId("telegram:78")
        there: dict[str, Any] = {"conv": place, "created_at": 1}
        words = f"my code is {SECRET} {number}" if number % 4 == 1 else f"nothing of note {number}"
        come = encode_incoming(said(text=f"asked {number}"))
        told = encode_outgoing(OutgoingMessage(text=f"told {number}", kind="reply"))
        parts = encode_parts((TextPart(text=words),))
        conn.execute(insert(inbox).values(**there, id=number, kind="message", dedup=str(number), payload=come,
                                          status="done"))  # fmt: skip
        conn.execute(insert(outbox).values(**there, inbox_id=number, dedup=str(number), payload=told, status="sent"))
        conn.execute(insert(turn).values(**there, inbox_id=number, session_id=place, run_id="r", epoch=1, state="done",
                                         checkpoint="{}"))  # fmt: skip
        conn.execute(insert(message).values(**there, session_id=place, inbox_id=number, role="user", parts=parts,
                                            person=place))  # fmt: skip
        if place == CHAT:
            kept = Kept(kind="said", text=words, source="chat", person=ANN, session=place, inbox_id=number,
                        message_id=number)  # fmt: skip
            rows.keep(conn, SCOPE, [kept], Lexicon(), at=1)
    command = encode_incoming(said(text=f"/memory forget {SECRET}"))
    conn.execute(insert(inbox).values(id=MANY, conv=CHAT, created_at=1, kind="message", dedup="c", payload=command,
                                      attempts=1))  # fmt: skip


def steps_now(conn: Connection, target: Target, at: int) -> Sequence[erasure_rows.Step]:
    meant = erasure_rows.gathered(conn, target)
    return list(erasure_rows.steps(target, meant, erasure_rows.left_behind(conn, meant), at=at))


def left(conn: Connection) -> tuple[int, ...]:
    """Occurrences of the words, and the number of erased rows of each kind."""
    told = " ".join(
        str(value)
        for column in (message.c.parts, inbox.c.payload, outbox.c.payload, memory.c.text)
        for value in conn.execute(select(column)).scalars()
    )
    kept = conn.execute(select(memory.c.id)).all()
    checkpoints = conn.execute(select(turn.c.id).where(turn.c.checkpoint.is_not(None))).all()
    return told.count(SECRET), told.count(FORGOTTEN), len(kept), len(checkpoints)


@pytest.mark.parametrize("cut_after", [0, 2, 5, -3, -1], ids=["at once", "early", "midway", "late", "before the end"])
async def test_cut_off_anywhere_it_is_done_again_whole(database: Database, clock: FakeClock, cut_after: int) -> None:
    await database.write(partial(fill, clock=clock))
    at = to_timestamp(clock.now())
    begun = await database.read(lambda conn: steps_now(conn, EVERYWHERE, at))
    for step in begun[:cut_after]:
        await database.write(step)
    command = select(inbox.c.payload).where(inbox.c.dedup == "c")
    assert SECRET in await database.read(lambda conn: conn.execute(command).scalar_one()), "it comes again, as it was"
    for step in await database.read(lambda conn: steps_now(conn, EVERYWHERE, at)):
        await database.write(step)
    hits = len(range(1, FEW, 4))
    words, forgotten, kept, checkpoints = await database.read(left)
    assert (words, forgotten) == (0, 3 * hits), "the message, what came and what was sent of each run"
    assert (kept, checkpoints) == (len(range(3, FEW, 4)), FEW - 1 - hits)
    waits = select(memory_erasure.c.id).where(memory_erasure.c.cleaned_at.is_(None))
    assert await database.read(lambda conn: conn.execute(waits).first()) is not None


async def test_other_commands_that_forget_keep_what_they_are_to_forget(
    sqlite_database: Database, clock: FakeClock
) -> None:
    said = partial(Incoming, received_at=clock.now())
    given = [(SECRET, "new", 1), ("pears", "new", 0), ("plums", "new", 1), ("figs", "done", 1), (SECRET, "new", 0)]

    def come(conn: Connection) -> None:
        for number, (words, status, attempts) in enumerate(given):
            payload = encode_incoming(said(text=f"/memory forget {words}"))
            conn.execute(insert(inbox).values(id=number + 1, conv=CHAT, created_at=1, kind="message", dedup=str(number),
                                              payload=payload, status=status, attempts=attempts))  # fmt: skip

    await sqlite_database.write(come)
    for step in await sqlite_database.read(lambda conn: steps_now(conn, EVERYWHERE, 1)):
        await sqlite_database.write(step)
    rows = await sqlite_database.read(
        lambda conn: conn.execute(select(inbox.c.payload).order_by(inbox.c.id)).scalars().all()
    )
    left = [decode_incoming(row).text.removeprefix("/memory forget").strip() for row in rows]
    assert left == ["", "pears", "plums", "", SECRET], "each empties itself when it is done"


async def test_no_step_is_large(sqlite_database: Database, clock: FakeClock) -> None:
    await sqlite_database.write(partial(fill, clock=clock, most=MANY))
    steps = await sqlite_database.read(lambda conn: steps_now(conn, Target(scope=SCOPE), 1))
    sizes = [len(step.keywords["ids"]) for step in steps if isinstance(step, partial) and "ids" in step.keywords]
    assert max(sizes) == PAGE
    assert len(sizes) > 10


@pytest.mark.slow
async def test_more_is_forgotten_than_a_statement_takes(database: Database) -> None:
    assert await database.write(lambda conn: rows.remove(conn, range(1, 70_000))) == 0


@pytest.mark.parametrize("target", [EVERYWHERE, Target(scope=SCOPE), Target(scope=SCOPE, only_by=ANN)])
async def test_of_others_nothing_is_read(sqlite_database: Database, clock: FakeClock, target: Target) -> None:
    """Every statement finds its rows by an index of the place, the session or the row itself."""
    await sqlite_database.write(partial(fill, clock=clock))
    asked: dict[str, Any] = {}

    def noted(conn: Connection, cursor: Any, statement: str, values: Any, context: Any, many: bool) -> None:
        asked.setdefault(statement.split("IN (")[0], (statement, values))

    def everything(conn: Connection) -> list[str]:
        event.listen(conn, "before_cursor_execute", noted)
        meant = erasure_rows.gathered(conn, target)
        erasure_rows.files(conn, target, meant)
        for step in erasure_rows.steps(target, meant, erasure_rows.left_behind(conn, meant), at=1):
            step(conn)
        event.remove(conn, "before_cursor_execute", noted)
        plans = []
        for statement, values in asked.values():
            if statement.startswith(("SELECT", "UPDATE", "DELETE")):
                plan = conn.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", values).all()
                plans += [f"{row[3]}: {statement}" for row in plan]
        return plans

    small = ("memory_erasure", "user_model")
    plans = [plan for plan in await sqlite_database.write(everything) if not any(f" {name}" in plan for name in small)]
    assert len(plans) > 15
    assert [plan for plan in plans if plan.startswith("SCAN") or "(rowid>?)" in plan.partition(":")[0]] == []


async def test_a_large_file_is_rebuilt_once_a_day(sqlite_database: Database) -> None:
    erased = insert(memory_erasure).values(conv=CHAT, items=1, messages=1, at=1)
    await sqlite_database.write(lambda conn: conn.execute(erased))
    day = sqlite.NOT_BEFORE_US

    async def is_due(at: int, large: int) -> bool:
        return await sqlite_database.read(lambda conn: sqlite.is_due(conn, at=at, large=large))

    assert await is_due(5, 1)
    await sqlite_database.write(lambda conn: sqlite.note_cleaned(conn, at=5))
    assert not await is_due(5 + 2 * day, 1)
    await sqlite_database.write(lambda conn: conn.execute(erased))
    assert not await is_due(4 + day, 1)
    assert await is_due(5 + day, 1)
    assert await is_due(6, sqlite.LARGE), "a small one within the hour"


async def test_of_removed_words_the_index_keeps_nothing(sqlite_database: Database) -> None:
    for number in range(40):
        kept = Kept(kind="fact", text=f"the {SECRET}{number} flies", source="tool", person=ANN)
        await sqlite_database.write(lambda conn, kept=kept: rows.keep_fact(conn, SCOPE, kept, Lexicon(), at=1))  # type: ignore[misc]
    await sqlite_database.write(lambda conn: rows.remove(conn, range(1, 41)))
    done = await sqlite_database.write(lambda conn: sqlite.merge(conn, first=True))
    while not done:
        done = await sqlite_database.write(lambda conn: sqlite.merge(conn, first=False))
    blocks = await sqlite_database.read(
        lambda conn: conn.execute(text("SELECT block FROM memory_fts_data")).scalars().all()
    )
    assert not any(b"heron" in block or b"eron1" in block for block in blocks)
