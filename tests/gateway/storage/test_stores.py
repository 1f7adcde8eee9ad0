"""The gateway's small stores: settings, grants, pairings, places, dead letters."""

from datetime import timedelta
from functools import partial
from typing import Any, Literal

import pytest
from sqlalchemy import Connection, select, text

from agent.core.ids import ConversationId
from agent.storage import conversation_rows, inbox_rows, outbox_rows
from agent.storage.database import Database
from gateway.running.foundation import Kept
from gateway.storage import conversation_list, grants, pairings, places, settings_rows
from gateway.storage.grants import Grant
from gateway.storage.queues import inbox_entries
from gateway.storage.settings_rows import Row
from gateway.storage.tables import adapter_store
from tests.fakes.agents import admit
from tests.fakes.clock import FakeClock

CHAT, OTHER = ConversationId("telegram:1"), ConversationId("telegram:2")


async def test_settings_are_kept_by_conversation_and_name(database: Database) -> None:
    for value in ("quiet", "verbose"):
        await database.write(partial(settings_rows.put, conversation=CHAT, key="verbosity", value=value, at=1))
    await database.write(partial(settings_rows.put, conversation=CHAT, key="persona", value="pirate", at=1))
    await database.write(partial(settings_rows.put, conversation=OTHER, key="persona", value="nurse", at=1))
    assert await database.read(partial(settings_rows.get, conversation=CHAT, key="verbosity")) == "verbose"
    read = partial(settings_rows.all_of, names=("verbosity", "persona"))
    here = {"verbosity": Row("verbose"), "persona": Row("pirate")}
    assert await database.read(read) == {CHAT: here, OTHER: {"persona": Row("nurse")}}
    assert await database.read(partial(read, conversations=(CHAT,))) == {CHAT: here}
    assert await database.read(partial(settings_rows.all_of, names=("verbosity",))) == {
        CHAT: {"verbosity": Row("verbose")}
    }
    clear = partial(settings_rows.clear, conversation=CHAT, key="persona")
    assert await database.write(clear)
    assert not await database.write(clear)
    assert await database.read(partial(settings_rows.get, conversation=OTHER, key="persona")) == "nurse"


async def test_what_adapters_keep_is_there_for_its_time_and_then_makes_room(database: Database) -> None:
    clock = FakeClock()
    telegram, slack = Kept(database, clock, "telegram"), Kept(database, clock, "slack")
    for value in ("first", "second"):
        await telegram.put("a", value, until=clock.now() + timedelta(seconds=10))
    await slack.put("a", "another", until=clock.now() + timedelta(seconds=20))
    assert [await telegram.get("a"), await slack.get("a"), await telegram.get("b")] == ["second", "another", None]
    clock.advance(10)
    assert [await telegram.get("a"), await slack.get("a")] == [None, "another"]
    await slack.put("b", "x", until=clock.now() + timedelta(seconds=1))
    rows = await database.read(lambda conn: conn.execute(select(adapter_store.c.scope, adapter_store.c.key)).all())
    assert {tuple(row) for row in rows} == {("slack", "a"), ("slack", "b")}
    with pytest.raises(ValueError, match="4001 characters"):
        await slack.put("c", "x" * 4000, until=clock.now())


async def test_a_grant_holds_where_it_was_given_and_the_newest_counts(database: Database) -> None:
    everywhere = Grant(subject="telegram:77", kind="person", role="member", granted_by="operator", at=1)
    here = Grant(subject="telegram:77", kind="person", place="telegram:-1005", role="admin", granted_by="x", at=2)
    group = Grant(subject="telegram:-1005", kind="place", role="member", granted_by="operator", at=3)
    blocked = Grant(subject="telegram:77", kind="person", role="blocked", granted_by="operator", at=4)
    for grant in (everywhere, here, group, blocked):
        await database.write(partial(grants.give, grant=grant))
    assert set(await database.read(grants.all_grants)) == {here, group, blocked}
    assert await database.write(partial(grants.take, subject="telegram:77"))
    assert not await database.write(partial(grants.take, subject="telegram:77"))
    assert set(await database.read(grants.all_grants)) == {here, group}


async def ask(database: Database, code: str, subject: str = "telegram:5", **more: Any) -> bool:
    values = {"display": "Eve", "conversation": CHAT, "language": "de", "now": 0, "expires": 100, "most_open": 3}
    return await database.write(partial(pairings.ask, code_hash=code, subject=subject, **{**values, **more}))


async def open_now(database: Database, now: int = 1) -> list[str]:
    return [one.subject for one in await database.read(partial(pairings.open_requests, now=now))]


async def test_a_stranger_has_one_open_request_and_it_ends_by_itself(database: Database) -> None:
    assert await ask(database, "a")
    assert not await ask(database, "b")
    assert await open_now(database) == ["telegram:5"]
    assert await open_now(database, now=100) == []
    assert await ask(database, "c", now=100, expires=200)


async def test_only_so_many_requests_are_open_over_all(database: Database) -> None:
    assert [await ask(database, f"c{number}", f"telegram:{number}") for number in range(5)] == [True] * 3 + [False] * 2


async def test_a_code_that_is_taken_is_not_given_twice(database: Database) -> None:
    assert await ask(database, "a", "telegram:5")
    assert not await ask(database, "a", "telegram:6")


@pytest.mark.requirement("G-12")
@pytest.mark.parametrize("ending", ["approved", "denied"])
async def test_a_code_decides_once_and_in_time(database: Database, ending: Literal["approved", "denied"]) -> None:
    await ask(database, "a")
    end = partial(pairings.end, code_hash="a", ending=ending, by="operator")
    assert await database.write(partial(end, now=100)) is None
    found = await database.write(partial(end, now=99))
    assert found is not None
    assert (found.subject, found.conversation, found.language) == ("telegram:5", CHAT, "de")
    assert await database.write(partial(end, now=99)) is None
    assert await open_now(database) == []


async def test_wrong_codes_are_counted_and_forgotten_in_time(database: Database) -> None:
    for at in (1, 2, 3):
        await database.write(partial(pairings.note_wrong_code, by="operator", at=at))
    assert await database.read(partial(pairings.wrong_codes_since, since=1, by="operator")) == 2
    await ask(database, "a", expires=2)
    await ask(database, "b", "telegram:6", expires=9)
    day_later = pairings.KEPT_US + 2
    assert await database.write(partial(pairings.prune, now=2)) == 0
    assert await database.write(partial(pairings.prune, now=day_later)) == 1
    assert await database.read(partial(pairings.wrong_codes_since, since=0, by="operator")) == 1
    assert await open_now(database) == ["telegram:6"]


async def test_places_are_one_accounts_lately_used_newest_first(database: Database) -> None:
    for key, ref in (
        ("slack:T:C1", "1.1"),
        ("slack:T:C2", "2.1"),
        ("slack:T:C1", "1.2"),
        ("slack:T:gone", "3.1"),
        ("slack@other:T:C1", "4.1"),
        ("slackish:C1", "5.1"),
    ):
        await admit(database, key, "hi", ref=ref)
    await admit(database, "slack:T:C9", "tick", kind="system")
    await database.write(partial(conversation_rows.set_gone, key=ConversationId("slack:T:gone"), gone=True))
    found = await database.read(partial(places.known_places, channel_type="slack", since=0))
    assert [(place.conversation, place.last_message_id) for place in found] == [
        ("slack:T:C1", "1.2"),
        ("slack:T:C2", "2.1"),
    ]
    after = found[0].last_at + 1
    assert await database.read(partial(places.known_places, channel_type="slack", since=after)) == ()


async def test_the_operator_sees_dead_letters_and_can_bring_one_back(database: Database) -> None:
    ids = [(await admit(database, CHAT, text)).id or 0 for text in ("a", "b", "c")]
    for row_id in ids[:2]:
        await database.write(
            partial(inbox_rows.finish, ids=[row_id], status="dead", epoch=1, note="given up after 5 attempts")
        )
    letters = await database.read(inbox_entries.dead)
    assert [(letter.id, letter.why) for letter in letters] == [
        (ids[1], "given up after 5 attempts"),
        (ids[0], "given up after 5 attempts"),
    ]
    assert await database.read(inbox_entries.counts) == (1, 2)
    assert await database.write(partial(inbox_entries.revive, row_id=ids[0])) == CHAT
    assert await database.write(partial(inbox_entries.revive, row_id=ids[2])) is None
    due = await database.write(lambda conn: inbox_rows.due(conn, CHAT, now=1))
    assert [row.incoming.text for row in due] == ["a", "c"]


async def test_what_waits_is_counted_by_place_and_named(database: Database) -> None:
    ids = [(await admit(database, CHAT, text)).id or 0 for text in ("a", "b", "c")]
    await database.write(lambda conn: inbox_rows.finish(conn, [ids[0]], "dead", epoch=1, note="given up"))
    (queue,) = await database.read(lambda conn: inbox_entries.by_place(conn, most=9))
    assert (queue.conversation, queue.waiting, queue.later, queue.next_at) == (CHAT, 2, 0, None)
    assert await database.read(lambda conn: inbox_entries.by_place(conn, most=9, skip=1)) == ()
    assert set(await database.read(lambda conn: inbox_entries.senders(conn, ids[:2]))) == set(ids[:2])
    assert await database.read(lambda conn: inbox_entries.senders(conn, ())) == {}
    nobody = ConversationId("telegram:404")
    assert await database.read(lambda conn: conversation_list.names(conn, [CHAT, nobody, nobody])) == {
        CHAT: CHAT,
        nobody: nobody,
    }
    assert await database.read(lambda conn: conversation_list.names(conn, ())) == {}


async def test_what_the_status_page_counts_is_counted_by_indexes_of_what_is_open(sqlite_database: Database) -> None:
    plans: list[str] = []

    def look(conn: Connection) -> None:
        for count in (*inbox_entries.COUNTED, *outbox_rows.COUNTED):
            query = str(count.compile(conn, compile_kwargs={"literal_binds": True}))
            plans.extend(str(row.detail) for row in conn.execute(text(f"explain query plan {query}")))

    await sqlite_database.read(look)
    indexes = [plan.rpartition("INDEX ")[2] for plan in plans]
    assert indexes == ["ix_inbox_new", "ix_inbox_dead", "ix_outbox_open", "ix_outbox_dead"]
