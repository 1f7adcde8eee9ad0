"""The inbox: once each, in order, bounded, open to edits until its run begins."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from sqlalchemy import Connection, select, update

from agent.core.ids import ConversationId
from agent.storage import inbox_rows
from agent.storage.database import Database
from agent.storage.tables import inbox
from tests.fakes.agents import admit

CHAT = ConversationId("telegram:1")


async def due(database: Database, now: int = 1_000) -> list[inbox_rows.InboxRow]:
    return await database.write(lambda conn: inbox_rows.due(conn, CHAT, now=now))


async def row(database: Database, row_id: int | None) -> Any:
    return await database.read(lambda conn: conn.execute(select(inbox).where(inbox.c.id == row_id)).one())


async def begin(database: Database, *absorbed: int) -> inbox_rows.InboxRow:
    """Begin the first that is due."""
    (first, *_) = await due(database)
    await database.write(lambda conn: inbox_rows.begin(conn, first, first.incoming, absorbed))
    return first


@pytest.mark.requirement("G-12")
@pytest.mark.parametrize(
    ("dedup", "event", "duplicate"),
    [
        pytest.param("m:1", "u:1", True, id="the same update again"),
        pytest.param("m:1", "u:2", True, id="the same message in another event"),
        pytest.param("m:2", "u:1", True, id="the same event under another name"),
        pytest.param("m:1", None, True, id="the same message read from history"),
        pytest.param("m:2", "u:2", False, id="another message"),
        pytest.param("m:2", None, False, id="another message without an event"),
    ],
)
async def test_a_repeat_is_known_by_message_or_event(
    database: Database, dedup: str, event: str | None, duplicate: bool
) -> None:
    first = await admit(database, CHAT, "hi", dedup="m:1", event="u:1")
    assert first.id is not None
    assert await database.read(partial(inbox_rows.is_known, dedup=dedup, event_dedup=event)) is duplicate
    second = await admit(database, CHAT, "hi", dedup=dedup, event=event)
    assert second.duplicate is duplicate
    assert (second.id is None) is duplicate
    assert len(await due(database)) == (1 if duplicate else 2)


@pytest.mark.requirement("G-12")
async def test_a_repeat_of_what_is_long_done_is_a_repeat(database: Database) -> None:
    first = await admit(database, CHAT, "hi", dedup="m:1")
    await database.write(lambda conn: inbox_rows.finish(conn, [first.id or 0], "done", 1))
    assert (await admit(database, CHAT, "hi", dedup="m:1")).duplicate
    assert await due(database) == []


async def test_messages_without_an_event_do_not_collide(database: Database) -> None:
    assert [(await admit(database, CHAT, "hi")).duplicate for _ in range(3)] == [False] * 3


@pytest.mark.requirement("B-62", "B-84", "G-13")
async def test_the_eleventh_that_waits_is_refused_and_its_repeat_is_a_repeat(database: Database) -> None:
    admitted = [await admit(database, CHAT, str(number)) for number in range(10)]
    assert [one.depth for one in admitted] == list(range(1, 11))
    eleventh = await admit(database, CHAT, "10", dedup="m:11")
    assert (eleventh.refused, eleventh.depth) == (True, 10)
    assert (await row(database, eleventh.id)).status == "refused"
    assert (await row(database, eleventh.id)).note == "more than 10 messages were waiting"
    assert (await admit(database, CHAT, "10", dedup="m:11")).duplicate
    assert not (await admit(database, "telegram:2", "other chats are not meant")).refused


@pytest.mark.requirement("B-62")
@pytest.mark.parametrize("kind", ["reminder", "system"])
async def test_only_what_people_say_is_refused(database: Database, kind: str) -> None:
    for number in range(10):
        await admit(database, CHAT, str(number))
    assert not (await admit(database, CHAT, "due", kind=kind, limit=5)).refused


@pytest.mark.requirement("B-62")
async def test_a_message_whose_run_has_begun_does_not_wait_any_more(database: Database) -> None:
    for number in range(10):
        await admit(database, CHAT, str(number))
    await begin(database)
    assert (await admit(database, CHAT, "10")).depth == 10


@pytest.mark.requirement("Z-22")
async def test_injected_work_comes_before_people_and_put_off_work_after_them(database: Database) -> None:
    await admit(database, CHAT, "reminder", kind="reminder")
    await admit(database, CHAT, "tick", kind="system", not_before=500)
    await admit(database, CHAT, "first")
    await admit(database, CHAT, "second")
    await admit(database, CHAT, "injected", kind="system")
    found = [one.incoming.text for one in await due(database)]
    assert found == ["reminder", "injected", "first", "second", "tick"]


async def test_put_off_work_waits_for_its_moment(database: Database) -> None:
    await admit(database, CHAT, "later", kind="system", not_before=2_000)
    assert await due(database, now=1_999) == []
    assert await database.read(partial(inbox_rows.conversations_with_work, now=1_999)) == ()
    assert await database.read(partial(inbox_rows.next_due, now=1_999)) == 2_000
    assert [one.incoming.text for one in await due(database, now=2_000)] == ["later"]
    assert await database.read(partial(inbox_rows.conversations_with_work, now=2_000)) == (CHAT,)
    assert await database.read(partial(inbox_rows.next_due, now=2_000)) is None


async def test_an_edit_before_the_run_gives_the_message_its_new_words(database: Database) -> None:
    await admit(database, CHAT, "teh", ref="5")
    assert await database.write(partial(inbox_rows.edit, conversation=CHAT, platform_ref="5", text="the", version="2"))
    assert [one.incoming.text for one in await due(database)] == ["the"]


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        pytest.param("1735732800", "1735732801", "second", id="Telegram: the later edit counts"),
        pytest.param("1735732801", "1735732800", "first", id="Telegram: one that comes late changes nothing"),
        pytest.param("1735732801", "1735732801", "second", id="within one second the order of arrival counts"),
        pytest.param("999.5", "1000.5", "second", id="Slack: by number, not by spelling"),
        pytest.param("2026-01-01T12:00:01+00:00", "2026-01-01T12:00:00.9+00:00", "first", id="Discord: by its moment"),
    ],
)
async def test_edits_count_in_their_own_order(database: Database, first: str, second: str, words: str) -> None:
    await admit(database, CHAT, "as it was", ref="5")
    for text, version in (("first", first), ("second", second)):
        await database.write(partial(inbox_rows.edit, conversation=CHAT, platform_ref="5", text=text, version=version))
    assert [one.incoming.text for one in await due(database)] == [words]


async def test_an_edit_keeps_the_lines_about_what_could_not_be_read(database: Database) -> None:
    await admit(database, CHAT, "see\n[a.png is too large]", ref="5", notes=("[a.png is too large]",))
    edit = partial(inbox_rows.edit, conversation=CHAT, platform_ref="5")
    for version, text in enumerate(("look", "", "look here")):
        assert await database.write(partial(edit, text=text, version=str(version)))
    assert [one.incoming.text for one in await due(database)] == ["look here\n[a.png is too large]"]


async def test_a_deletion_before_the_run_ends_the_message(database: Database) -> None:
    admitted = await admit(database, CHAT, "oops", ref="5")
    assert await database.write(partial(inbox_rows.take_back, conversation=CHAT, platform_ref="5"))
    assert await due(database) == []
    found = await row(database, admitted.id)
    assert (found.status, found.note) == ("done", "deleted")


@pytest.mark.parametrize("change", [partial(inbox_rows.edit, text="new", version="2"), inbox_rows.take_back])
async def test_once_its_run_has_begun_a_message_is_what_it_was(database: Database, change: Callable[..., bool]) -> None:
    await admit(database, CHAT, "old", ref="5")
    await begin(database)
    assert not await database.write(partial(change, conversation=CHAT, platform_ref="5"))
    assert [one.incoming.text for one in await due(database)] == ["old"]


@pytest.mark.parametrize("change", [partial(inbox_rows.edit, text="new", version="2"), inbox_rows.take_back])
async def test_the_same_id_in_another_chat_is_another_message(database: Database, change: Callable[..., bool]) -> None:
    await admit(database, CHAT, "old", ref="5")
    other = ConversationId("telegram:2")
    assert not await database.write(partial(change, conversation=other, platform_ref="5"))
    assert [one.incoming.text for one in await due(database)] == ["old"]


async def test_the_queue_can_be_cleared_but_for_what_runs(database: Database) -> None:
    for word in "abc":
        await admit(database, CHAT, word)
    await begin(database)
    await admit(database, CHAT, "reminder", kind="reminder")
    waiting = await database.read(lambda conn: inbox_rows.waiting(conn, CHAT))
    assert [one.incoming.text for one in waiting] == ["b", "c"]
    assert await database.write(lambda conn: inbox_rows.clear_waiting(conn, CHAT, note="cleared")) == 2
    assert [one.incoming.text for one in await due(database)] == ["reminder", "a"]


async def test_the_newest_in_the_queue_can_be_dropped(database: Database) -> None:
    for word in "ab":
        await admit(database, CHAT, word)
    drop = partial(inbox_rows.drop_last_waiting, conversation=CHAT, note="dropped")
    assert await database.write(drop)
    assert [one.incoming.text for one in await due(database)] == ["a"]
    assert await database.write(drop)
    assert not await database.write(drop)


@pytest.mark.requirement("G-13")
async def test_what_was_merged_stays_merged_and_its_words_stay_with_the_run(database: Database) -> None:
    for word in "ab":
        await admit(database, CHAT, word)
    first, second = await due(database)
    said = first.incoming

    def merge(conn: Connection) -> int:
        return inbox_rows.begin(conn, first, said, [second.id])

    assert await database.write(merge) == 1
    assert [(one.id, one.attempts) for one in await due(database)] == [(first.id, 1)]
    ended = await database.write(lambda conn: inbox_rows.finish(conn, [first.id, second.id], "done", 7))
    assert ended == 1
    merged = await row(database, second.id)
    assert (merged.status, merged.note) == ("merged", f"merged into {first.id}")
    assert ((await row(database, first.id)).status, (await row(database, first.id)).done_epoch) == ("done", 7)


async def test_a_row_that_cannot_be_read_is_dead_and_blocks_nobody(database: Database) -> None:
    broken = await admit(database, CHAT, "a")
    await admit(database, CHAT, "b")
    await database.write(
        lambda conn: conn.execute(update(inbox).where(inbox.c.id == broken.id).values(payload='{"text": 1}'))
    )
    assert [one.incoming.text for one in await due(database)] == ["b"]
    assert (await row(database, broken.id)).status == "dead"


async def test_looking_for_work_uses_the_index_of_new_rows(sqlite_database: Database) -> None:
    """A hundred thousand old messages must not slow the next one down."""

    asked: list[str] = []

    def plans(conn: Connection) -> list[list[str]]:
        conn.begin()
        raw: Any = conn.connection.driver_connection
        raw.set_trace_callback(asked.append)
        inbox_rows.due(conn, CHAT, now=1)
        inbox_rows.conversations_with_work(conn, 1)
        inbox_rows.next_due(conn, 1)
        raw.set_trace_callback(None)
        return [[step[3] for step in raw.execute(f"explain query plan {statement}")] for statement in asked]

    found = await sqlite_database.write(plans)
    assert len(found) == 3
    for plan in found:
        assert any("ix_inbox_new" in step for step in plan), found


@pytest.mark.requirement("G-05")
async def test_the_next_open_one_is_refused_unless_a_run_of_it_has_begun_meanwhile(database: Database) -> None:
    one, two = [await admit(database, CHAT, text, dedup=text) for text in ("one", "two")]

    async def look(**fields: Any) -> inbox_rows.OpenRow | None:
        return await database.read(lambda conn: inbox_rows.next_open(conn, CHAT, **{"said_at": 10**18} | fields))

    async def refused(found: inbox_rows.OpenRow | None) -> bool:
        assert found is not None
        return await database.write(lambda conn: inbox_rows.refuse_open(conn, CHAT, found, note="stopped"))

    assert await look(said_at=-1) is None, "it was stored later"
    before = await look()
    await begin(database)
    assert not await refused(before), "the run that has begun ends it"
    behind = await look(unbegun=True)
    assert behind is not None
    assert behind.id == two.id
    failed = await look()
    assert await refused(failed), "nothing has begun since its run failed"
    assert not await refused(failed), "once"
    found = await row(database, one.id)
    assert (found.status, found.note) == ("refused", "stopped")
    assert await look() == behind
