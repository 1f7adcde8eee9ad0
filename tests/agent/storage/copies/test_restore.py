"""A copy takes the place of the database, whole or not at all; what stood there is kept, what was open is put aside."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import select

from agent.core.ids import ConversationId
from agent.core.outbox import OutgoingMessage
from agent.storage import inbox_rows, outbox_rows
from agent.storage.copies.restore import WHY, Restored, restore
from agent.storage.copies.sqlite import back_up
from agent.storage.errors import BackupRefused, DatabaseHeld
from agent.storage.payloads import decode_incoming
from agent.storage.tables import inbox
from gateway.storage.queues import inbox_entries, outbox_entries
from gateway.storage.repair import SCHEMA, open_database
from tests.fakes.agents import admit

URL = "sqlite:///tieline.db"
CHAT = ConversationId("telegram:1")
NOW = 1_800_000_000_000_000


@pytest.fixture
async def copy(tmp_path: Path) -> Path:
    """Of a database with an answered message, one that waits, and an answer on its way."""
    database = await open_database(URL, tmp_path)
    done = await admit(database, CHAT, "answered", dedup="a")
    assert done.id is not None
    answered = done.id
    await database.write(lambda conn: inbox_rows.finish(conn, [answered], "done"))
    await admit(database, CHAT, "waits", dedup="b")
    await database.write(
        lambda conn: outbox_rows.add(
            conn,
            conversation=CHAT,
            inbox_id=answered,
            part=0,
            dedup="o",
            say=OutgoingMessage(text="on its way", kind="reply"),
            at=1,
        )
    )
    await back_up(database, tmp_path / "copy.db")
    await admit(database, CHAT, "since the copy", dedup="c")
    await database.aclose()
    return tmp_path / "copy.db"


def three(_: object) -> int:
    return 3


def put_back(home: Path, copy: Path, **more: bool) -> Restored:
    return restore(URL, home, copy, schema=SCHEMA, kept_as="before.db", at=NOW, others=three, **more)


async def test_what_was_open_becomes_dead_letters_and_repeats_are_still_known(copy: Path, tmp_path: Path) -> None:
    done = put_back(tmp_path, copy)
    assert (done.messages, done.answers, done.others) == (1, 1, 3)
    database = await open_database(URL, tmp_path)
    assert [letter.why for letter in await database.read(inbox_entries.dead)] == [WHY]
    assert [letter.why for letter in await database.read(outbox_entries.dead)] == [WHY]
    assert (await admit(database, CHAT, "answered", dedup="a")).duplicate
    assert not (await admit(database, CHAT, "since the copy", dedup="c")).duplicate
    await database.aclose()


async def test_webhooks_that_waited_are_put_aside_and_wake_ups_of_the_gateway_are_left(tmp_path: Path) -> None:
    database = await open_database(URL, tmp_path)
    for dedup in (f"{inbox_rows.WEBHOOKS}builds:d-1", "goal:1:1"):
        await admit(database, CHAT, "the gateway asks", dedup=dedup, kind="system")
    await back_up(database, tmp_path / "copy.db")
    await database.aclose()
    assert put_back(tmp_path, tmp_path / "copy.db").messages == 1
    database = await open_database(URL, tmp_path)
    rows = await database.read(lambda conn: conn.execute(select(inbox.c.dedup, inbox.c.status)).all())
    assert {row.dedup: row.status for row in rows} == {"hook:builds:d-1": "dead", "goal:1:1": "new"}
    await database.aclose()


async def test_the_former_database_is_kept_whole(copy: Path, tmp_path: Path) -> None:
    done = put_back(tmp_path, copy)
    assert done.kept == tmp_path / "backups" / "before.db"
    former = await open_database("sqlite:///backups/before.db", tmp_path)
    assert (await admit(former, CHAT, "since the copy", dedup="c")).duplicate
    await former.aclose()
    assert not (tmp_path / "tieline.db-wal").exists()
    assert (tmp_path / "tieline.db").stat().st_mode & 0o077 == 0


async def test_what_was_open_can_be_kept_open(copy: Path, tmp_path: Path) -> None:
    done = put_back(tmp_path, copy, keep_open=True)
    assert (done.messages, done.answers, done.others) == (0, 0, 0)
    database = await open_database(URL, tmp_path)
    waiting = await database.read(inbox_entries.waiting)
    assert [decode_incoming(letter.payload).text for letter in waiting] == ["waits"]
    await database.aclose()


async def test_a_damaged_database_is_kept_as_it_lies(copy: Path, tmp_path: Path) -> None:
    (tmp_path / "tieline.db").write_bytes(b"damaged" * 1000)
    (tmp_path / "tieline.db-wal").write_bytes(b"its journal")
    done = put_back(tmp_path, copy)
    assert done.kept is not None
    assert done.kept.read_bytes().startswith(b"damaged")
    assert done.kept.with_name("before.db-wal").read_bytes() == b"its journal"
    await (await open_database(URL, tmp_path)).aclose()


async def test_where_there_was_none_the_copy_is_the_database(copy: Path, tmp_path: Path) -> None:
    home = tmp_path / "new" / "home"
    assert put_back(home, copy).kept is None
    await (await open_database(URL, home)).aclose()


async def test_nothing_changes_while_somebody_owns_the_database(copy: Path, tmp_path: Path) -> None:
    database = await open_database(URL, tmp_path)
    with pytest.raises(DatabaseHeld):
        put_back(tmp_path, copy)
    assert (await admit(database, CHAT, "since the copy", dedup="c")).duplicate
    await database.aclose()


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        pytest.param(lambda path: path.unlink(), "there is no file", id="not there"),
        pytest.param(lambda path: path.write_bytes(b"x" * 9000), "no backup of Tieline", id="not a database"),
        pytest.param(lambda path: path.write_bytes(path.read_bytes()[:9000]), "damaged|no backup", id="cut short"),
        pytest.param(lambda path: run(path, "update alembic_version set version_num = '9999'"), "newer", id="newer"),
        pytest.param(lambda path: run(path, "drop table alembic_version"), "none of its tables", id="not ours"),
    ],
)
async def test_what_is_no_copy_is_refused(
    copy: Path, tmp_path: Path, spoil: Callable[[Path], object], words: str
) -> None:
    spoil(copy)
    before = (tmp_path / "tieline.db").read_bytes()
    with pytest.raises(BackupRefused, match=words):
        put_back(tmp_path, copy)
    assert (tmp_path / "tieline.db").read_bytes() == before


def run(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path)) as opened:
        opened.execute(statement)
        opened.commit()


async def test_for_postgresql_its_own_tool_is_named(copy: Path, tmp_path: Path) -> None:
    with pytest.raises(BackupRefused, match="pg_restore"):
        restore("postgresql://tieline@127.0.0.1/x", tmp_path, copy, schema=SCHEMA, kept_as="x.db", at=NOW, others=three)
