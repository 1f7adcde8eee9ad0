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


async def test_what_another_program_brought_names_no_chat(database: Database) -> None:
    now = SystemClock().now()
    brought = (
        ("telegram:77", "telegram:1", "telegram:77", "direct"),
        ("telegram:77", "hook:builds:1", "webhook:builds", "group"),
        ("telegram:77", "asked:api:crm:1", "api:crm", "group"),
        ("telegram:-5", "hook:builds:2", "webhook:builds", "group"),
        ("api:crm:a", "api:crm:a:1", "api:crm", "direct"),
    )

    def fill(conn: Connection) -> None:
        for chat in {chat for chat, *_ in brought}:
            conn.execute(insert(conversation), {"key": chat, "state": "active", "created_at": 1})
        for number, (chat, dedup, person, kind) in enumerate(brought, 1):
            incoming = Incoming(
                text="x",
                person=PersonId(person),
                display=f"name of {person}",
                chat_type="group" if kind == "group" else "direct",
                received_at=now,
            )
            row = {"id": number, "conv": chat, "kind": "message", "dedup": dedup, "status": "done"}
            conn.execute(insert(inbox), {**row, "payload": encode_incoming(incoming), "created_at": number})
            run = {"inbox_id": number, "conv": chat, "session_id": "s", "run_id": f"r{number}", "epoch": 1}
            conn.execute(insert(turn), {**run, "state": "done", "created_at": number})

    await database.write(fill)
    keys = [ConversationId(one) for one in ("telegram:77", "telegram:-5", "api:crm:a")]
    assert await database.read(lambda conn: conversation_list.names(conn, keys)) == {
        "telegram:77": "name of telegram:77",
        "telegram:-5": "telegram:-5",
        "api:crm:a": "name of api:crm",
    }
    assert (await database.read(lambda conn: conversation_list.chat_types(conn, keys)))[keys[0]] == "direct"
