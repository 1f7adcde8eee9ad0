"""Findings and repairs of the doctor in a database; on a healthy one it finds nothing."""

import pytest
from sqlalchemy import Connection, insert, select, update

from agent.core.ids import ConversationId
from agent.core.model_facts import ModelFacts
from agent.core.outbox import OutgoingMessage
from agent.sessions import runs
from agent.sessions.runs import Checkpoint
from agent.storage import inbox_rows, model_rows, outbox_rows
from agent.storage.database import Database
from agent.storage.tables import conversation, inbox, outbox, turn
from gateway.storage.queues import inbox_entries
from gateway.storage.repair import ailments, mend
from tests.fakes.agents import admit

CHAT = ConversationId("telegram:1")


def run_of(conn: Connection, row: int, state: str) -> None:
    values = {"inbox_id": row, "conv": CHAT, "session_id": "s", "run_id": "r", "epoch": 1, "state": state}
    conn.execute(insert(turn), {**values, "created_at": 1})


@pytest.mark.parametrize("what", ["session", "run", "done", "message", "answer", "window"])
async def test_each_ailment_is_found_and_mended_once(database: Database, what: str) -> None:
    row = (await admit(database, CHAT, "hi")).id
    assert row is not None

    def spoil(conn: Connection) -> None:
        match what:
            case "session":
                conn.execute(update(conversation).values(session_id="gone"))
            case "run":
                conn.execute(update(inbox).values(status="done"))
                run_of(conn, row, "running")
            case "done":
                run_of(conn, row, "done")
            case "message":
                conn.execute(update(inbox).values(payload="{"))
            case "window":
                for model, refused in (("small", 2_876), ("large", 60_000)):
                    model_rows.put(conn, ModelFacts(provider="main", model=model, refused=refused, refusals=1))
            case "answer":
                outbox_rows.add(
                    conn,
                    conversation=CHAT,
                    inbox_id=row,
                    part=0,
                    dedup="o",
                    say=OutgoingMessage(text="x", kind="reply"),
                    at=1,
                )
                conn.execute(update(outbox).values(payload="{"))

    assert await database.read(ailments) == []
    await database.write(spoil)
    (found,) = await database.read(ailments)
    assert (found.count, bool(found.text), bool(found.mended)) == (1, True, True)
    assert await database.write(mend) == [found]
    assert await database.read(ailments) == []


@pytest.mark.requirement("W-13")
async def test_a_dead_letter_is_taken_up_where_it_was_also_after_mending(database: Database) -> None:
    row = (await admit(database, CHAT, "hi")).id
    assert row is not None

    def died(conn: Connection) -> None:
        run_of(conn, row, "running")
        runs.save_checkpoint(conn, row, Checkpoint(started=frozenset({"call-1"})))
        inbox_rows.finish(conn, [row], status="dead", note="given up")

    await database.write(died)
    await database.write(mend)
    assert await database.write(lambda conn: inbox_entries.revive(conn, row)) == CHAT
    await database.write(mend)
    run = await database.read(lambda conn: runs.find_run(conn, row))
    assert run is not None
    assert run.state == "running"
    assert run.checkpoint.started == {"call-1"}
    status = await database.read(lambda conn: conn.execute(select(inbox.c.status)).scalar_one())
    assert status == "new", "it will be answered"


async def test_a_run_that_will_be_taken_up_is_left_alone(database: Database) -> None:
    row = (await admit(database, CHAT, "hi")).id
    assert row is not None
    await database.write(lambda conn: run_of(conn, row, "running"))
    assert await database.write(mend) == []
    assert await database.read(lambda conn: conn.execute(select(turn.c.state)).scalars().all()) == ["running"]
