"""The outbox: once each, in order, with what is known of how far it got."""

from functools import partial

from agent.core.ids import ConversationId
from agent.core.outbox import Button, FileRef, OutgoingMessage
from agent.storage import outbox_rows
from agent.storage.database import Database

CHAT = ConversationId("telegram:1")


async def add(database: Database, text: str, *, dedup: str | None = None, chat: ConversationId = CHAT) -> int | None:
    return await database.write(
        partial(
            outbox_rows.add,
            conversation=chat,
            inbox_id=None,
            part=0,
            dedup=dedup or text,
            say=OutgoingMessage(text=text, kind="reply"),
            at=1,
        )
    )


async def rows(database: Database) -> tuple[outbox_rows.OutboxRow, ...]:
    return await database.read(partial(outbox_rows.open_rows, conversation=CHAT))


async def test_what_is_to_be_said_is_kept_whole_and_in_order(database: Database) -> None:
    say = OutgoingMessage(
        text="Sure?",
        kind="notice",
        reply_to="5",
        buttons=((Button(label="Yes", action="y", style="primary"),),),
        files=(FileRef(path="files/a.png", name="a.png", mime_type="image/png"),),
    )
    await database.write(
        partial(outbox_rows.add, conversation=CHAT, inbox_id=3, part=1, dedup="turn:3:1", say=say, at=9)
    )
    await add(database, "second")
    await add(database, "elsewhere", chat=ConversationId("telegram:2"))
    first, second = await rows(database)
    assert (first.say, first.inbox_id, first.part, first.created_at) == (say, 3, 1, 9)
    assert (second.say.text, second.status, second.attempts, second.sent_refs) == ("second", "new", 0, ())


async def test_the_same_part_of_the_same_answer_is_written_once(database: Database) -> None:
    assert await add(database, "a", dedup="turn:1:0") is not None
    assert await add(database, "a", dedup="turn:1:0") is None
    assert len(await rows(database)) == 1


async def test_a_row_tells_how_far_it_got_until_it_is_sent(database: Database) -> None:
    row_id = await add(database, "a") or 0
    await database.write(partial(outbox_rows.mark_sending, row_id=row_id))
    await database.write(partial(outbox_rows.mark_progress, row_id=row_id, sent_refs=["11"]))
    (row,) = await rows(database)
    assert (row.status, row.attempts, row.sent_refs) == ("sending", 1, ("11",))
    await database.write(partial(outbox_rows.mark_sent, row_id=row_id, sent_refs=["11", "12"]))
    assert await rows(database) == ()
    assert await database.read(outbox_rows.conversations_with_open) == ()


async def test_a_row_put_off_is_new_again_and_knows_when(database: Database) -> None:
    row_id = await add(database, "a") or 0
    await database.write(partial(outbox_rows.mark_sending, row_id=row_id))
    await database.write(partial(outbox_rows.postpone, row_id=row_id, not_before=77))
    (row,) = await rows(database)
    assert (row.status, row.attempts, row.not_before) == ("new", 1, 77)


async def test_a_dead_row_is_never_sent_nor_put_off(database: Database) -> None:
    row_id = await add(database, "a") or 0
    await database.write(partial(outbox_rows.mark_dead, row_id=row_id, note="blocked by the person"))
    await database.write(partial(outbox_rows.postpone, row_id=row_id, not_before=77))
    assert await rows(database) == ()


async def test_conversations_with_something_to_send_are_known_at_start(database: Database) -> None:
    await add(database, "a")
    await add(database, "b")
    other = ConversationId("slack:T1:C1")
    await add(database, "c", chat=other)
    assert set(await database.read(outbox_rows.conversations_with_open)) == {CHAT, other}
