"""Messages of tools are rows of the outbox, once, however often a call is repeated after a crash."""

from pathlib import Path

from sqlalchemy import select

from agent.core.files.store import LocalFiles
from agent.core.ids import ConversationId
from agent.storage import conversation_rows
from agent.storage.database import Database
from agent.storage.outbox_rows import open_rows
from agent.storage.tables import outbox
from gateway.channels.keys import ConversationKey
from gateway.running.tools import Sending
from tests.fakes.clock import FakeClock

KEY = ConversationId("telegram:77")


async def test_said_once_and_delivered(sqlite_database: Database, tmp_path: Path, clock: FakeClock) -> None:
    woken: list[ConversationKey] = []
    sending = Sending(
        sqlite_database,
        clock,
        tmp_path,
        LocalFiles(),
        deliver=woken.append,
        serves=lambda key: key.platform == "telegram",
        is_admin=lambda person: False,
    )
    assert not await sending.knows(KEY)
    await sqlite_database.write(lambda conn: conversation_rows.ensure(conn, KEY, 0))
    assert await sending.knows(KEY)
    assert not await sending.knows(ConversationId("discord:1"))
    assert not await sending.knows(ConversationId("nonsense"))
    for _ in range(2):
        await sending.message(KEY, "hello", "1:0")
        await sending.file(KEY, b"abc", "../../x y.txt", "text/plain", "the list", "1:1")
    rows = await sqlite_database.read(lambda conn: open_rows(conn, KEY))
    assert [(row.say.text, row.say.kind) for row in rows] == [("hello", "reply"), ("the list", "reply")], "no answers"
    (file,) = rows[1].say.files
    assert (tmp_path / file.path).read_bytes() == b"abc"
    assert (tmp_path / file.path).parent.parent == tmp_path / "files" / "sent"
    assert file.name == "../../x y.txt", "its name is the platform's affair, its path is ours"
    assert len(woken) == 4
    assert len(await sqlite_database.read(lambda conn: conn.execute(select(outbox.c.id)).all())) == 2
