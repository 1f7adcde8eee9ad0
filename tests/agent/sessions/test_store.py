"""Sessions and transcripts on both databases."""

from datetime import UTC, datetime

import pytest
from sqlalchemy import Connection, update

from agent.core.ids import ConversationId, RunId, SessionId
from agent.core.messages import (
    FilePart,
    Message,
    Part,
    RedactedThinking,
    SummaryPart,
    TextPart,
    Thinking,
    ToolResult,
    ToolUse,
    text_message,
)
from agent.sessions import runs, store
from agent.sessions.runs import Checkpoint
from agent.sessions.store import Stored
from agent.storage import conversation_rows
from agent.storage.database import Database
from agent.storage.tables import message as message_table

KEY, ONE, TWO = ConversationId("telegram:77"), SessionId("aaaa-1"), SessionId("aabb-2")
THREE, FOUR = SessionId("bbbb-3"), SessionId("cccc-4")
EVERY_PART: tuple[Part, ...] = (
    TextPart(text="héllo 🙂"),
    ToolUse(id="a", name="echo", input={"text": "x", "deep": {"list": [1, 2.5, None, True]}}),
    ToolResult(tool_use_id="a", content="x", is_error=True),
    Thinking(thinking="hm\n", signature="c2ln==", family="anthropic"),
    RedactedThinking(data="b3BhcXVl", family="anthropic"),
    FilePart(path="files/a.png", mime_type="image/png", name="a.png", size=12),
    SummaryPart(text="before"),
)


def begun(conn: Connection, session: SessionId = ONE, at: int = 1) -> None:
    conversation_rows.ensure(conn, KEY, at)
    store.open_session(conn, session, KEY, title="  Hello\n there ", at=at)


def said(conn: Connection, *messages: Message, inbox: int = 1, session: SessionId = ONE) -> list[int | None]:
    return [
        store.append(conn, session, KEY, Stored(message=message, inbox_id=inbox, position=place), at=5)
        for place, message in enumerate(messages)
    ]


@pytest.mark.requirement("B-07")
async def test_a_session_is_begun_and_is_the_current_one(database: Database) -> None:
    def work(conn: Connection) -> None:
        conversation_rows.ensure(conn, KEY, 1)
        assert store.current(conn, KEY) is None
        begun(conn)
        assert store.current(conn, KEY) == ONE
        session = store.find(conn, ONE)
        assert session is not None
        assert (session.title, session.state, session.message_count) == ("Hello there", "active", 0)

    await database.write(work)


@pytest.mark.requirement("Z-19")
async def test_every_part_comes_back_as_it_went(database: Database) -> None:
    at = datetime(2026, 1, 1, 12, 0, 0, 5, tzinfo=UTC)

    def work(conn: Connection) -> Message:
        begun(conn)
        said(conn, Message(role="assistant", parts=EVERY_PART, created_at=at, pinned=True))
        return store.history(conn, ONE).messages[0]

    read = await database.write(work)
    assert read.parts == EVERY_PART
    assert (read.role, read.created_at, read.pinned, read.agent_visible) == ("assistant", at, True, True)
    assert read.id is not None


@pytest.mark.requirement("B-52")
async def test_writing_a_message_again_changes_nothing(database: Database) -> None:
    def work(conn: Connection) -> None:
        begun(conn)
        (first,) = said(conn, text_message("user", "one"))
        (again,) = said(conn, text_message("user", "other"))
        assert first is not None
        assert again is None
        assert [message.content for message in store.history(conn, ONE).messages] == ["one"]

    await database.write(work)


@pytest.mark.requirement("B-89", "W-15")
async def test_what_is_hidden_stays_stored(database: Database) -> None:
    def work(conn: Connection) -> None:
        begun(conn)
        ids = said(conn, *(text_message("user", text) for text in ("one", "two", "three")))
        assert ids[1] is not None
        assert store.hide_from(conn, ONE, ids[1], also_from_people=False) == 2
        assert [message.content for message in store.history(conn, ONE).messages] == ["one"]
        kept = [stored.message for stored in store.transcript(conn, ONE)]
        assert [(message.content, message.agent_visible, message.user_visible) for message in kept] == [
            ("one", True, True), ("two", False, True), ("three", False, True),
        ]  # fmt: skip
        store.hide_from(conn, ONE, ids[1], also_from_people=True)
        assert [stored.message.user_visible for stored in store.transcript(conn, ONE)] == [True, False, False]
        assert store.visible_count(conn, ONE) == 1

    await database.write(work)


async def test_only_the_newest_are_loaded_in_order(database: Database) -> None:
    def work(conn: Connection) -> list[str]:
        begun(conn)
        said(conn, *(text_message("user", str(number)) for number in range(5)))
        return [message.content for message in store.history(conn, ONE, most=3).messages]

    assert await database.write(work) == ["2", "3", "4"]


@pytest.mark.requirement("B-23")
@pytest.mark.parametrize(
    ("written", "left"),
    [
        pytest.param("{torn", [], id="unreadable: left out"),
        pytest.param('[{"kind":"text","text":"kept"},{"kind":"bogus"}]', ["kept"], id="what can be read is kept"),
        pytest.param('"from before there were parts"', ["from before there were parts"], id="legacy text"),
        pytest.param("[]", [], id="empty"),
    ],
)
async def test_a_damaged_row_is_mended_or_left_out(
    database: Database, written: str, left: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    def work(conn: Connection) -> list[str]:
        begun(conn)
        ids = said(conn, text_message("user", "secret"), text_message("assistant", "fine"))
        conn.execute(update(message_table).where(message_table.c.id == ids[0]).values(parts=written))
        return [message.content for message in store.history(conn, ONE).messages]

    assert await database.write(work) == [*left, "fine"]
    if written != "[]":
        assert "is damaged" in caplog.text
        assert "torn" not in caplog.text
        assert "kept" not in caplog.text


@pytest.mark.requirement("W-64", "B-43")
async def test_sessions_are_listed_found_and_counted(database: Database) -> None:
    def work(conn: Connection) -> None:
        begun(conn, ONE, at=1)
        begun(conn, TWO, at=2)
        assert [session.id for session in store.sessions_of(conn, KEY)] == [TWO, ONE]
        store.grow(conn, ONE, messages=2, prompt=10, output=5, at=9)
        store.grow(conn, ONE, messages=1, prompt=1, output=1, at=10)
        newest = store.sessions_of(conn, KEY)[0]
        assert (newest.id, newest.message_count, newest.prompt_tokens, newest.output_tokens) == (ONE, 3, 11, 6)
        assert newest.updated_at.microsecond == 10
        assert [session.id for session in store.by_prefix(conn, KEY, "AABB")] == [TWO]
        assert len(store.by_prefix(conn, KEY, "aa")) == 2
        assert store.by_prefix(conn, KEY, "%") == ()
        latest = store.latest_but(conn, KEY, ONE)
        assert latest is not None
        assert latest.id == TWO
        begun(conn, THREE, at=3)
        begun(conn, FOUR, at=4)
        store.grow(conn, TWO, messages=1, prompt=1, output=1, at=11)
        latest = store.latest_but(conn, KEY, FOUR)
        assert latest is not None
        assert latest.id == TWO, "three began later, and two was used last"
        for ended in (TWO, THREE, FOUR):
            store.set_state(conn, ended, "terminated")
        assert store.latest_but(conn, KEY, ONE) is None

    await database.write(work)


async def test_the_last_thing_said_is_what_began_the_last_exchange(database: Database) -> None:
    def work(conn: Connection) -> None:
        begun(conn)
        assert store.last_said(conn, ONE) is None
        said(conn, text_message("user", "one"), text_message("assistant", "1"), inbox=1)
        ids = said(conn, text_message("user", "two"), text_message("assistant", "2"), inbox=2)
        found = store.last_said(conn, ONE)
        assert found is not None
        last, _ = found
        assert (last.id, last.content) == (ids[0], "two")

    await database.write(work)


async def test_a_run_is_opened_taken_over_and_ended_once(database: Database) -> None:
    result = ToolResult(tool_use_id="a", content="done")

    def work(conn: Connection) -> None:
        begun(conn)
        assert runs.find_run(conn, 7) is None
        for run in ("r1", "r1"):
            runs.open_run(conn, inbox_id=7, conversation=KEY, session=ONE, run=RunId(run), epoch=1, at=1)
        runs.save_checkpoint(conn, 7, Checkpoint(started=frozenset("ab"), results={"a": result}))
        runs.take_over(conn, 7, run=RunId("r2"), epoch=2)
        row = runs.find_run(conn, 7)
        assert row is not None
        assert (row.run, row.session, row.state) == ("r2", ONE, "running")
        assert row.checkpoint == Checkpoint(started=frozenset("ab"), results={"a": result})
        assert runs.end_run(conn, 7, "done", 9)
        assert not runs.end_run(conn, 7, "failed", 9), "a run ends once"
        ended = runs.find_run(conn, 7)
        assert ended is not None
        assert (ended.state, ended.checkpoint) == ("done", Checkpoint())

    await database.write(work)
