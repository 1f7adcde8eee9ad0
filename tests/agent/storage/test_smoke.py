from agent.core.ids import ConversationId
from agent.storage import inbox_rows, conversation_rows
from agent.storage.payloads import encode_incoming
from agent.inbox import Incoming
from datetime import datetime, UTC
from functools import partial

async def test_it(database):
    K = ConversationId("telegram:1")
    p = encode_incoming(Incoming(text="hi", received_at=datetime.now(UTC)))
    a = await database.write(partial(inbox_rows.admit, conversation=K, kind="message", dedup="a", payload=p, at=1))
    b = await database.write(partial(inbox_rows.admit, conversation=K, kind="message", dedup="a", payload=p, at=1))
    print(a, b)
    e = await database.write(lambda c: conversation_rows.claim(c, K, worker="w", run="r", now=1, until=100))
    assert e == 1
    rows = await database.write(lambda c: inbox_rows.due(c, K, now=5))
    assert rows[0].incoming.text == "hi"
    print(await database.read(lambda c: conversation_rows.lease(c, K)))
    assert await database.write(lambda c: inbox_rows.finish(c, [rows[0].id], "done", 1)) == 1
