"""The list of conversations on each database: whose turn was the newest there."""

from sqlalchemy import Connection, insert

from agent.core.clock import SystemClock
from agent.core.ids import ConversationId, PersonId
from agent.inbox import Incoming
from agent.storage.database import Database
from agent.storage.payloads import encode_incoming
from agent.storage.tables import conversation, inbox, turn
from gateway.storage import conversation_list


async def test_a_conversation_is_named_by_its_newest_turn(database: Database) -> None:
    now = SystemClock().now()

    def fill(conn: Connection) -> None:
        conn.execute(insert(conversation), {"key": "telegram:77", "state": "active", "created_at": 1})
        for number, name in enumerate(("Ann before", "Ann"), 1):
            incoming = Incoming(text="x", person=PersonId("telegram:77"), display=name, received_at=now)
            row = {"id": number, "conv": "telegram:77", "kind": "message", "dedup": name, "status": "done"}
            conn.execute(insert(inbox), {**row, "payload": encode_incoming(incoming), "created_at": number})
            run = {"inbox_id": number, "conv": "telegram:77", "session_id": "s", "run_id": name, "epoch": 1}
            conn.execute(insert(turn), {**run, "state": "done", "created_at": number})

    await database.write(fill)
    (entry,) = await database.read(conversation_list.newest)
    assert (entry.key, entry.name, entry.person) == (ConversationId("telegram:77"), "Ann", PersonId("telegram:77"))
    found = await database.read(lambda conn: conversation_list.find(conn, ConversationId("telegram:77")))
    assert found == entry
