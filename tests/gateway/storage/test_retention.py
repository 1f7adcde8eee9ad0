"""Old rows go, found by their ids: no index, no scan."""

import sqlite3

import pytest
from sqlalchemy import Connection, insert, select

from agent.storage.database import Database
from agent.storage.statements import first_since
from agent.storage.tables import inbox, outbox, plan, session, task
from gateway.storage.retention import prune
from gateway.storage.tables import operator_action


def add(conn: Connection, id: int, at: int, status: str = "done") -> None:
    values = {"id": id, "conv": "telegram:1", "kind": "message", "dedup": str(id), "payload": "{}"}
    conn.execute(insert(inbox), {**values, "status": status, "created_at": at})


@pytest.mark.parametrize(
    ("moments", "moment", "first"),
    [
        pytest.param({}, 5, 0, id="empty"),
        pytest.param({1: 5, 2: 6}, 5, 1, id="all young"),
        pytest.param({1: 3, 2: 4}, 5, 3, id="all old"),
        pytest.param({1: 1, 5: 2, 900: 3, 901: 7, 5000: 8}, 5, 901, id="gaps between the ids"),
    ],
)
async def test_where_a_table_becomes_younger(
    database: Database, moments: dict[int, int], moment: int, first: int
) -> None:
    def work(conn: Connection) -> int:
        for id, at in moments.items():
            add(conn, id, at)
        return first_since(conn, inbox.c.id, inbox.c.created_at, moment)

    assert await database.write(work) == first


async def test_what_is_open_stays_however_old_it_is_and_a_clock_set_back_removes_nothing_young(
    database: Database,
) -> None:
    def work(conn: Connection) -> tuple[int, list[int]]:
        for id, (at, status) in enumerate(
            [(1, "done"), (1, "new"), (2, "dead"), (9, "done"), (3, "done"), (9, "done")], start=1
        ):
            add(conn, id, at, status)
        removed = prune(conn, inbox_before=5, outbox_before=5, runs_before=5, audit_before=5, now=0)
        return removed, list(conn.execute(select(inbox.c.id).order_by(inbox.c.id)).scalars())

    removed, left = await database.write(work)
    assert removed >= 2
    assert set(left) >= {2, 4, 6}
    assert not set(left) & {1, 3}


@pytest.mark.requirement("G-143")
async def test_words_of_webhooks_go_however_their_sending_ended(database: Database) -> None:
    def work(conn: Connection) -> list[str]:
        for status in ("new", "sending", "sent", "dead", "dropped"):
            values = {"conv": "telegram:1", "dedup": f"hook:builds:{status}", "payload": "{}", "created_at": 1}
            conn.execute(insert(outbox), {**values, "status": status})
        prune(conn, inbox_before=5, outbox_before=5, runs_before=5, audit_before=5, now=0)
        return list(conn.execute(select(outbox.c.status).order_by(outbox.c.id)).scalars())

    assert await database.write(work) == ["new", "sending"]


async def test_plans_that_ended_and_tasks_of_ended_sessions_go(database: Database) -> None:
    def work(conn: Connection) -> tuple[set[int], set[int]]:
        for id, (status, screen, at) in enumerate(
            [("completed", "settled", 1), ("running", None, 1), ("cancelled", "open", 1), ("failed", None, 9)], start=1
        ):
            values = {"conv": f"telegram:{id}", "goal": "", "tasks": "[]", "status": status, "screen": screen}
            conn.execute(insert(plan), {**values, "id": id, "origin": str(id), "created_at": 1, "updated_at": at})
        for id, state in enumerate(["ended", "active"], start=1):
            mine = {"conv": "telegram:1", "created_at": 1, "updated_at": 1}
            conn.execute(insert(session), {**mine, "id": state, "state": state})
            added = {"id": id, "session_id": state, "dedup": state, "description": "", "status": "pending"}
            conn.execute(insert(task), {**mine, **added})
        prune(conn, inbox_before=5, outbox_before=5, runs_before=5, audit_before=5, now=0)
        return set(conn.execute(select(plan.c.id)).scalars()), set(conn.execute(select(task.c.id)).scalars())

    assert await database.write(work) == ({2, 3, 4}, {2})


@pytest.mark.requirement("G-60")
async def test_old_lines_of_the_audit_log_go(database: Database) -> None:
    def work(conn: Connection) -> list[str]:
        for at, name in ((1, "old"), (9, "young")):
            done = {"person": "web:anna", "name": "Anna", "address": "", "action": "approvals.decide", "detail": ""}
            conn.execute(insert(operator_action), {**done, "at": at, "subject": name})
        prune(conn, inbox_before=5, outbox_before=5, runs_before=5, audit_before=5, now=0)
        return list(conn.execute(select(operator_action.c.subject)).scalars())

    assert await database.write(work) == ["young"]


async def test_a_table_in_which_nothing_is_old_is_not_read_through(sqlite_database: Database) -> None:
    rows = 20_000

    def fill(conn: Connection) -> None:
        shared = {"conv": "c", "kind": "message", "payload": "", "status": "done"}
        conn.execute(insert(inbox), [{**shared, "dedup": str(id), "created_at": id} for id in range(1, rows + 1)])

    def pruned(conn: Connection) -> int:
        """The steps of the database's virtual machine for it: a scan takes several a row."""
        steps = 0

        def count() -> int:
            nonlocal steps
            steps += 1
            return 0

        raw = conn.connection.driver_connection
        assert isinstance(raw, sqlite3.Connection)
        raw.set_progress_handler(count, 1)
        assert prune(conn, inbox_before=1, outbox_before=1, runs_before=1, audit_before=1, now=0) == 0
        raw.set_progress_handler(None, 0)
        return steps

    await sqlite_database.write(fill)
    assert await sqlite_database.write(pruned) < rows / 5
