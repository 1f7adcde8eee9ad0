"""Arrivals: stored whole before the platform is told, and the ingress learns what became of each."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import insert, select

from agent.core.clock import SystemClock
from agent.core.ids import ConversationId
from agent.storage.database import PROCESS
from agent.storage.postgres import PostgresDatabase
from agent.storage.process_tables import arrival, conversation_host
from agent.storage.tables import inbox
from gateway.channels.inbound import (
    Attachment,
    ButtonClicked,
    ChatType,
    Deleted,
    Edited,
    Inbound,
    Membership,
    Mention,
    MessageReceived,
    Moved,
    Outcome,
    Quoted,
    Receipt,
    Sender,
)
from gateway.channels.keys import ConversationKey, UserId
from gateway.cluster import arrivals
from gateway.cluster.arrivals import LONGEST_REASON, Mailbox, decoded, encoded
from gateway.cluster.connection import Notifications
from tests.fakes.running import running
from tests.fakes.waiting import until

AT = datetime(2026, 3, 29, 1, 59, 59, 999999, tzinfo=UTC)
KEY = ConversationKey("telegram@work", "-1005:7")
CHAT = ConversationId(str(KEY))
ANN = Sender(
    id=UserId("77"),
    display="Ann \U0001f469\u200d\U0001f52c",
    language="de-AT",
    zone="Europe/Vienna",
    is_chat_admin=True,
    platform_roles=frozenset({"creator", "Captain"}),
)
SHARED: dict[str, Any] = {
    "key": KEY,
    "place": "-1005",
    "message_id": "12",
    "sender": ANN,
    "received_at": AT,
    "chat_type": ChatType.GROUP,
    "chat_title": "Tea & more",
    "grantable": ("guild:1", "team:2"),
    "parent": "-1005",
    "around": "1",
    "thread_root": "3",
    "event_id": "update:9",
    "interaction": "handle",
}
FILE = Attachment(kind="image", handle="file:1", name="a b.png", mime_type="image/png", size=7)
WHOLE = MessageReceived(
    **SHARED,
    text="Hello",
    attachments=(FILE, replace(FILE, kind="audio", size=None)),
    mention=Mention.IMPLICIT,
    to_others=True,
    quoted=Quoted(text="before", attachments=(FILE,), sender=ANN, is_own=True, message_id="11"),
    album="a1",
    sent_at=AT - timedelta(seconds=1),
    from_history=True,
    interaction_id="i1",
    traceparent="00-" + "1" * 32 + "-" + "2" * 16 + "-01",
)
BARE = MessageReceived(
    key=ConversationKey("web", ""), place="", message_id="", sender=Sender(id=UserId("")), received_at=AT, text=""
)

EACH_KIND = [
    pytest.param(WHOLE, id="message"),
    pytest.param(BARE, id="message with nothing in it"),
    pytest.param(replace(WHOLE, text="half an emoji \ud83d and \udc00 alone"), id="lone surrogates"),
    pytest.param(replace(WHOLE, text="\0 NUL \x01 \u2028 \ufeff \\u0000 \" '"), id="control characters"),
    pytest.param(replace(WHOLE, text="x" * 1_000_000), id="a million characters"),
    pytest.param(replace(WHOLE, sender=replace(ANN, display="\ud800\0")), id="an odd name"),
    pytest.param(Edited(**SHARED, text="Hello!", version="1774749599.5", mention=Mention.DIRECT), id="edited"),
    pytest.param(Deleted(**SHARED), id="deleted"),
    pytest.param(ButtonClicked(**SHARED, action="approve:1", interaction_id="i2"), id="button"),
    pytest.param(Moved(**SHARED, new_key=ConversationKey("telegram", "-100200"), new_place="-100200"), id="moved"),
    pytest.param(Membership(**SHARED, present=False, also=(KEY, ConversationKey("discord", "1:2"))), id="membership"),
]


@pytest.mark.parametrize("inbound", EACH_KIND)
@pytest.mark.requirement("G-139")
def test_what_was_heard_is_the_same_afterwards(inbound: Inbound) -> None:
    payload = encoded(inbound)
    assert decoded(payload) == inbound
    assert "\0" not in payload
    payload.encode()


@given(st.text(st.characters(codec=None), max_size=50), st.text(max_size=20), st.datetimes(timezones=st.just(UTC)))
@pytest.mark.requirement("G-139")
def test_any_text_is_the_same_afterwards(text: str, name: str, at: datetime) -> None:
    inbound = replace(WHOLE, text=text, received_at=at, sender=replace(ANN, display=name))
    assert decoded(encoded(inbound)) == inbound


@pytest.mark.parametrize(
    "payload", ['{"kind": "Reacted", "of": {}}', "{}", "[]", "no JSON", '{"kind": "Deleted", "of": {}}']
)
@pytest.mark.requirement("G-139")
async def test_what_cannot_be_read_is_no_inbound(joined: PostgresDatabase, payload: str) -> None:
    await joined.write(lambda conn: conn.execute(insert(arrival), {**ROW, "payload": payload}))
    (row,) = await joined.read(partial(arrivals.waiting, conversation=CHAT))
    assert row.inbound is None


ROW = {"conv": CHAT, "payload": encoded(WHOLE), "ingress": PROCESS, "created_at": 0}


async def stored(database: PostgresDatabase) -> list[Any]:
    return list((await database.read(lambda conn: conn.execute(select(arrival).order_by(arrival.c.id)))).all())


@asynccontextmanager
async def hearing(database: PostgresDatabase, mailbox: Mailbox) -> AsyncIterator[None]:
    """The mailbox hears what workers tell."""

    async def heard(_: str, told: str) -> None:
        mailbox.heard(told.removeprefix("receipt "))

    notifications = Notifications(database.url, (f"tieline_{PROCESS}",), heard, lambda: None)
    async with running(notifications.run):
        await notifications.listening.wait()
        yield


@pytest.mark.parametrize(
    "receipt",
    [
        Receipt(Outcome.ACCEPTED),
        Receipt(Outcome.DUPLICATE),
        Receipt(Outcome.IGNORED, "not for the bot, nor for anybody else"),
        Receipt(Outcome.REFUSED, "ä" * 10_000),
    ],
    ids=lambda receipt: receipt.outcome.value,
)
@pytest.mark.requirement("G-139")
async def test_the_ingress_learns_what_became_of_it(joined: PostgresDatabase, receipt: Receipt) -> None:
    mailbox = Mailbox(joined, SystemClock())
    got: list[Receipt] = []

    async def admit() -> None:
        got.append(await mailbox.admit(WHOLE))

    async with hearing(joined, mailbox):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(admit)

            async def is_stored() -> bool:
                return len(await stored(joined)) == 1

            await until(is_stored)
            assert got == [], "the platform is told when a worker has it"
            (row,) = await joined.read(partial(arrivals.waiting, conversation=CHAT))
            assert (row.inbound, row.ingress) == (WHOLE, PROCESS)
            began = anyio.current_time()
            await joined.write(partial(arrivals.taken_in, row=row, receipt=receipt))
        assert anyio.current_time() - began < 2.0
    assert got == [Receipt(receipt.outcome, receipt.reason[:LONGEST_REASON])]
    assert await stored(joined) == []


@pytest.mark.requirement("G-139")
async def test_what_no_worker_takes_in_is_stored_and_acknowledged(joined: PostgresDatabase) -> None:
    began = anyio.current_time()
    assert await Mailbox(joined, SystemClock()).admit(WHOLE) == Receipt(Outcome.ACCEPTED)
    assert 2.5 < anyio.current_time() - began < 5.0
    (row,) = await stored(joined)
    assert decoded(row.payload) == WHOLE


@pytest.mark.requirement("G-139")
async def test_what_cannot_be_stored_is_not_acknowledged(joined: PostgresDatabase) -> None:
    mailbox = Mailbox(joined, SystemClock())
    await joined.write(lambda conn: conn.exec_driver_sql("alter table arrival rename to arrival_away"))
    with pytest.raises(Exception, match="arrival"):
        await mailbox.admit(WHOLE)


@pytest.mark.requirement("G-139")
async def test_rows_are_given_in_the_order_in_which_they_came(joined: PostgresDatabase) -> None:
    for number in range(30):
        payload = encoded(replace(WHOLE, message_id=str(number)))
        await joined.write(lambda conn, payload=payload: conn.execute(insert(arrival), {**ROW, "payload": payload}))  # type: ignore[misc]
    other = {**ROW, "conv": "telegram:other"}
    await joined.write(lambda conn: conn.execute(insert(arrival), other))
    first = await joined.read(partial(arrivals.waiting, conversation=CHAT))
    assert [row.inbound.message_id for row in first if row.inbound] == [str(number) for number in range(20)]


@pytest.mark.requirement("G-139")
async def test_a_terminal_is_served_by_the_process_that_shows_it(joined: PostgresDatabase) -> None:
    terminal = replace(WHOLE, key=ConversationKey("console", "1"))
    with anyio.move_on_after(0.5):
        await Mailbox(joined, SystemClock()).admit(terminal)
    host = select(conversation_host.c.conv, conversation_host.c.process)
    rows = (await joined.read(lambda conn: conn.execute(host))).all()
    assert [tuple(row) for row in rows] == [("console:1", PROCESS)]


@pytest.mark.requirement("G-139")
async def test_what_cannot_be_read_is_put_aside_for_the_operator(joined: PostgresDatabase) -> None:
    await joined.write(lambda conn: conn.execute(insert(arrival), {**ROW, "payload": "{}"}))
    (row,) = await joined.read(partial(arrivals.waiting, conversation=CHAT))
    await joined.write(partial(arrivals.put_aside, row=row, at=AT))
    letters = (await joined.read(lambda conn: conn.execute(select(inbox.c.status, inbox.c.note)))).all()
    assert [tuple(letter) for letter in letters] == [("dead", "its payload cannot be read")]
    assert await stored(joined) == []
