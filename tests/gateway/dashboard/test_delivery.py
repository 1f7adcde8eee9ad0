"""Delivery on the dashboard: what was put aside is tried again or dropped, what is on its way, what waits by place."""

import pytest
from sqlalchemy import Connection, update

from agent.core.ids import ConversationId
from agent.core.outbox import OutgoingMessage
from agent.storage import conversation_rows, inbox_rows, outbox_rows
from agent.storage.payloads import encode_incoming
from agent.storage.tables import inbox
from agent.storage.timestamps import to_timestamp
from gateway.access.policy import Role
from gateway.channels.errors import ChannelGone
from gateway.dashboard.frame.listing import PAGE
from gateway.router.messages import incoming_from
from gateway.storage.queues import inbox_entries, outbox_entries
from tests.fakes.waiting import until
from tests.gateway.dashboard.conftest import Browsing
from tests.gateway.dashboard.looking import asked_as
from tests.gateway.world import BOB, World, slowly

CHAT = ConversationId("telegram:77")
HOSTILE = "<script>alert(1)</script>"
REFUSED = "given up after 5 attempts"


async def message(world: World, text: str, *, chat: str = "77") -> int:
    """A message that was put aside."""
    incoming = incoming_from(world.said(text, chat=chat), Role.ADMIN)

    def work(conn: Connection) -> int:
        at = to_timestamp(world.clock.now())
        key, payload = ConversationId(f"telegram:{chat}"), encode_incoming(incoming)
        admitted = inbox_rows.admit(conn, conversation=key, kind="message", dedup=text, payload=payload, at=at)
        assert admitted.id is not None
        inbox_rows.finish(conn, [admitted.id], "dead", note=REFUSED)
        return admitted.id

    return await world.database.write(work)


async def answer(world: World, text: str, *, later_s: float | None = None) -> int:
    """An answer that was put aside, or one that waits for its moment."""

    def work(conn: Connection) -> int:
        conversation_rows.ensure(conn, CHAT, 1)
        at, say = to_timestamp(world.clock.now()), OutgoingMessage(text=text, kind="reply")
        row = outbox_rows.add(conn, conversation=CHAT, inbox_id=None, part=0, dedup=text, say=say, at=at)
        assert row is not None
        if later_s is None:
            outbox_rows.mark_dead(conn, row, "the chat is gone")
        else:
            outbox_rows.postpone(conn, row, at + int(later_s * 1e6))
        return row

    return await world.database.write(work)


@pytest.mark.requirement("G-85")
async def test_letters_are_shown_with_reason_and_tried_again(owner: Browsing) -> None:
    world = owner.world
    assert "No message was put aside." in await owner.page("/delivery")
    incoming, outgoing = await message(world, f"a hard one {HOSTILE}"), await answer(world, "an old answer")
    page = await owner.page("/delivery")
    assert HOSTILE not in page
    assert "a hard one &lt;script&gt;" in page
    assert REFUSED in page
    assert "Person 77" in page
    assert '<span class="badge">2<span class="unseen"> waiting</span></span>' in page
    answers = await owner.page("/delivery?box=answers")
    assert "an old answer" in answers
    assert "the chat is gone" in answers
    assert await owner.act(f"/delivery/in-{incoming}/retry") == "The message of Person 77 is tried again."
    await world.shows("a hard one")
    assert await owner.act(f"/delivery/out-{outgoing}/retry") == "The answer to Person 77 is tried again."
    await world.shows("an old answer")
    late = await owner.post(f"/delivery/out-{outgoing}/drop")
    assert late.json() == {"error": "It is not put aside any more; somebody has settled it."}
    assert "No message was put aside." in await owner.page("/delivery?box=messages")
    kept = [(one.action, one.subject, one.detail) for one in await owner.actions()]
    assert kept == [
        ("delivery.read", "messages put aside", ""),
        ("delivery.read", "answers put aside", ""),
        ("delivery.letter", CHAT, f"retry in-{incoming}"),
        ("delivery.letter", CHAT, f"retry out-{outgoing}"),
    ]


@pytest.mark.requirement("G-85")
async def test_all_that_are_shown_are_settled_at_once(owner: Browsing) -> None:
    world = owner.world
    ids = [f"in-{await message(world, f'line {number}')}" for number in range(3)]
    hidden = await message(world, "one more")
    await owner.act(f"/delivery/{ids[0]}/drop")
    told = await owner.post("/delivery/all/drop", id=ids)
    assert told.json() == {"text": "2 messages are dropped."}
    assert [one.id for one in await world.database.read(inbox_entries.dead)] == [hidden]
    nothing = await owner.post("/delivery/all/retry", id=ids)
    assert nothing.json() == {"error": "None of these is put aside any more."}
    assert await owner.act("/delivery/all/retry", id=f"in-{hidden}") == "1 message is tried again."
    await world.shows("one more")
    assert (await owner.post("/delivery/all/burn", id=ids)).status_code == 404


@pytest.mark.requirement("G-85")
async def test_what_is_on_its_way_is_sent_now_or_dropped(owner: Browsing) -> None:
    world = owner.world
    soon, never = await answer(world, "sent soon", later_s=3_600), await answer(world, "never sent", later_s=3_600)
    page = await owner.page("/delivery")  # nothing was put aside: the first queue that holds something
    assert "sent soon" in page
    assert "tried again" in page
    assert await owner.act(f"/delivery/sending/{soon}/retry") == "The answer to telegram:77 is sent now."
    await world.shows("sent soon")
    assert await owner.act(f"/delivery/sending/{never}/drop") == "The answer to telegram:77 is not sent any more."
    assert await world.database.read(outbox_entries.still_open) == ()
    late = await owner.post(f"/delivery/sending/{never}/retry")
    assert late.json() == {"error": "It is not on its way any more."}
    assert "never sent" not in world.texts()


@pytest.mark.requirement("G-85")
async def test_an_answer_for_a_chat_that_blocked_the_bot_says_so_and_counts_on_the_overview(owner: Browsing) -> None:
    world = owner.world
    await world.answered("hello", person=BOB)
    world.screen(BOB).fail("send", ChannelGone("bot was blocked by the user"))
    await world.say("the code?", person=BOB)

    async def is_held() -> bool:
        return await world.database.read(outbox_entries.held) == 1

    await until(is_held)
    page = await owner.page("/delivery")
    assert "The bot was removed from or blocked in this chat." in page
    assert "It is sent when they let it back" in page
    assert '<span class="badge">1<span class="unseen"> waiting</span></span>' in page
    overview = await owner.page("/")
    assert "1 answer waits for a chat that has removed or blocked the bot" in overview
    assert '<a href="/delivery?box=sending">blocked chats</a>' in overview
    await world.say("back again", person=BOB)
    await world.shows("the code?", BOB)
    await world.settled()
    assert "blocked the bot" not in await owner.page("/")
    await answer(world, "never sent")
    overview = await owner.page("/")
    assert "try each again or drop it on the page Delivery" in overview
    assert "tieline dead" not in overview, "the buttons do it"


@pytest.mark.requirement("G-85")
async def test_waiting_messages_are_counted_by_place(owner: Browsing) -> None:
    world = owner.world
    world.script(slowly("slow"))
    await world.say("a slow one")
    await world.until_asked()
    await world.say("and another")
    page = await owner.page("/delivery?box=waiting")
    assert "Person 77" in page
    assert "answering" in page
    assert "a slow one" not in page
    world.go_on()
    await world.settled()
    assert "No message waits." in await owner.page("/delivery?box=waiting")


async def test_pages_of_many_letters(owner: Browsing) -> None:
    world = owner.world
    for number in range(PAGE + 1):
        await message(world, f"line {number:02}")
    first, second = await owner.page("/delivery"), await owner.page("/delivery?box=messages&page=2")
    assert "line 50" in first
    assert "line 00" not in first
    assert "line 00" in second


async def test_a_damaged_letter_can_be_dropped(owner: Browsing) -> None:
    world = owner.world
    row = await message(world, "hello")
    await world.database.write(lambda conn: conn.execute(update(inbox).where(inbox.c.id == row).values(payload="{")))
    assert "(unreadable)" in await owner.page("/delivery")
    assert await owner.act(f"/delivery/in-{row}/drop") == "The message of telegram:77 is dropped."


@pytest.mark.requirement("G-85")
async def test_words_and_deeds_are_for_those_who_have_the_rights(owner: Browsing) -> None:
    world = owner.world
    row = await message(world, "my secret")
    page = (await asked_as(world, "/delivery", "view")).text
    assert REFUSED in page
    assert "my secret" not in page
    assert "/drop" not in page
    assert await owner.actions() == []
    refused = await asked_as(world, f"/delivery/in-{row}/drop", "view", "transcripts", post=True)
    assert refused.status_code == 403
    page = (await asked_as(world, "/delivery", "view", "operate")).text
    assert "my secret" not in page
    assert f"/delivery/in-{row}/drop" in page


@pytest.mark.requirement("G-85")
async def test_pages_of_many_places_that_wait(owner: Browsing) -> None:
    world = owner.world
    incoming = encode_incoming(incoming_from(world.said("later"), Role.ADMIN))

    def wait(conn: Connection) -> None:
        at = to_timestamp(world.clock.now())
        for number in range(PAGE + 1):
            key = ConversationId(f"telegram:{9_000 + number}")
            inbox_rows.admit(
                conn,
                conversation=key,
                kind="message",
                dedup=str(key),
                payload=incoming,
                at=at + number,
                not_before=at + 3_600_000_000,
                limit=None,
            )

    await world.database.write(wait)
    first, second = await owner.page("/delivery?box=waiting"), await owner.page("/delivery?box=waiting&page=2")
    earliest, latest = "telegram%3A9000", f"telegram%3A{9_000 + PAGE}"
    assert [earliest in first, latest in first] == [True, False]
    assert [earliest in second, latest in second] == [False, True]
