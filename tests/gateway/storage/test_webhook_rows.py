"""The list of deliveries of webhooks, on both databases."""

from collections.abc import Sequence

import pytest
from sqlalchemy import Connection, insert, text

from agent.core.outbox import OutgoingMessage
from agent.inbox import Incoming
from agent.storage.database import Database
from agent.storage.payloads import encode_incoming, encode_outgoing
from agent.storage.tables import inbox, outbox, turn
from agent.storage.timestamps import from_timestamp
from gateway.storage import webhook_rows

HERE = "telegram:77"


def turn_row(number: int, *, name: str = "builds", **more: object) -> dict[str, object]:
    """A delivery for the agent, at that moment."""
    payload = encode_incoming(Incoming(text="task", received_at=from_timestamp(number)))
    return {
        "conv": HERE,
        "kind": "system",
        "dedup": f"hook:{name}:d-{number}",
        "payload": payload,
        "status": "done",
        "note": None,
        "created_at": number,
        **more,
    }


def words_row(number: int, *, name: str = "news", **more: object) -> dict[str, object]:
    """A delivery that is said, at that moment."""
    payload = encode_outgoing(OutgoingMessage(text="words", kind="notice"))
    return {
        "conv": HERE,
        "dedup": f"hook:{name}:d-{number}",
        "payload": payload,
        "status": "sent",
        "note": None,
        "created_at": number,
        **more,
    }


def moments(rows: Sequence[webhook_rows.WebhookRow]) -> list[int]:
    return [row.created_at for row in rows]


@pytest.mark.requirement("G-141")
async def test_deliveries_of_both_kinds_are_one_list_by_pages(database: Database) -> None:
    def look(conn: Connection) -> None:
        conn.execute(insert(inbox), [turn_row(number) for number in range(1, 100, 2)])
        conn.execute(insert(outbox), [words_row(number) for number in range(2, 100, 2)])
        conn.execute(insert(inbox), [turn_row(1000, dedup="telegram:7:1"), turn_row(1001, dedup="api:crm:1")])
        conn.execute(insert(outbox), [words_row(1002, dedup="in-7:0")])
        assert moments(webhook_rows.newest(conn, most=5)) == [99, 98, 97, 96, 95]
        assert moments(webhook_rows.newest(conn, most=5, skip=90)) == [9, 8, 7, 6, 5]
        assert moments(webhook_rows.newest(conn, most=5, skip=99)) == []
        assert moments(webhook_rows.newest(conn, webhook="news", most=3)) == [98, 96, 94]
        assert webhook_rows.newest(conn, webhook="new", most=3) == []
        assert webhook_rows.newest_at(conn, "builds") == 99
        assert webhook_rows.newest_at(conn, "gone") is None

    await database.write(look)


@pytest.mark.requirement("G-141")
async def test_a_delivery_has_its_outcome_and_its_turn(database: Database) -> None:
    def look(conn: Connection) -> None:
        rows = [
            turn_row(1, id=1, status="new"),
            turn_row(2, id=2),
            turn_row(3, id=3, status="dead", note="five tries"),
            turn_row(4, id=4, name="builds-2", status="new"),
        ]
        conn.execute(insert(inbox), rows)
        conn.execute(insert(outbox), [words_row(5, status="sending"), words_row(6, status="new"), words_row(7)])
        ran = {"inbox_id": 2, "conv": HERE, "session_id": "s", "run_id": "r", "epoch": 1, "created_at": 1}
        conn.execute(insert(turn), [ran | {"state": "failed"}])
        found = webhook_rows.newest(conn, webhook="builds", most=10)
        assert [(row.delivery, row.status, row.failed, row.run, row.note) for row in found] == [
            ("d-3", "dead", False, "", "five tries"),
            ("d-2", "done", True, "r", ""),
            ("d-1", "new", False, "", ""),
        ]
        names = ("builds", "builds-2", "news", "quiet")
        assert webhook_rows.waiting(conn, names) == {"builds": 1, "builds-2": 1, "news": 2}
        assert webhook_rows.waiting(conn, ()) == {}

    await database.write(look)


async def test_it_is_read_from_the_index_of_webhooks(sqlite_database: Database) -> None:
    """However many messages there are, only what webhooks brought is looked at."""

    def plans(conn: Connection) -> list[str]:
        found = []
        for table in ("inbox", "outbox"):
            query = f"select id from {table} where substr({table}.dedup, 1, 5) = 'hook:' order by id desc limit 51"
            found += [str(row.detail) for row in conn.execute(text(f"explain query plan {query}"))]
        return found

    details = await sqlite_database.read(plans)
    assert all("USING COVERING INDEX ix_" in one for one in details), details
