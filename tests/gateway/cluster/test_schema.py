"""Triggers: whoever writes a row of work wakes who does it, in that transaction. What looks for work reads little."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
from sqlalchemy import Connection, delete, insert, text

from agent.core.ids import ConversationId
from agent.storage import conversation_rows
from agent.storage.database import PROCESS
from agent.storage.postgres import PostgresDatabase
from agent.storage.process_tables import arrival, conversation_host, conversation_outlet
from agent.storage.tables import inbox, outbox
from gateway.cluster import engine, hosting, outlets
from gateway.cluster.connection import connect
from gateway.cluster.schema import DELIVERY, EVERYBODY, WATCHED, WATCHED_BY_PLACE, prepare
from gateway.storage.tables import channel_setting

CHAT = "telegram:77"
MINE, OTHERS = f"tieline_{PROCESS}", "tieline_other"

ARRIVAL = insert(arrival).values(conv=CHAT, payload="{}", ingress="other", created_at=0)
INBOX = insert(inbox).values(conv=CHAT, kind="message", dedup="1", payload="{}", created_at=0)
OUTBOX = insert(outbox).values(conv=CHAT, part=0, dedup="1", payload="{}", created_at=0)

Heard = Callable[[], Any]


@asynccontextmanager
async def listening(database: PostgresDatabase) -> AsyncIterator[Heard]:
    """Notifications of this chat, by channel."""
    connection = await connect(database.url)
    for channel in (MINE, OTHERS, EVERYBODY, DELIVERY):
        await connection.execute(f'listen "{channel}"'.encode())

    async def heard() -> list[tuple[str, str]]:
        await connection.execute("select 1")
        return [(told.channel, told.payload) async for told in connection.notifies(timeout=0.2)]

    try:
        yield heard
    finally:
        await connection.close()


async def jobs(database: PostgresDatabase) -> Sequence[str]:
    query = text("select queue_name || ' ' || lock from procrastinate_jobs order by id")
    return await database.read(lambda conn: conn.execute(query).scalars().all())


async def had_by(database: PostgresDatabase, process: str) -> None:
    row = {"conv": CHAT, "process": process}
    await database.write(lambda conn: conn.execute(insert(conversation_host), row))


@pytest.mark.parametrize("work", [pytest.param(ARRIVAL, id="arrival"), pytest.param(INBOX, id="inbox")])
@pytest.mark.requirement("G-163")
async def test_work_wakes_any_worker_where_none_has_the_conversation(joined: PostgresDatabase, work: Any) -> None:
    async with listening(joined) as heard:
        await joined.write(lambda conn: conn.execute(work))
        assert await heard() == []
    assert await jobs(joined) == [f"turns {CHAT}"]
    await joined.write(lambda conn: conn.execute(text("delete from arrival")))
    await joined.write(lambda conn: conn.execute(ARRIVAL))
    assert await jobs(joined) == [f"turns {CHAT}"], "it stands in line already"


@pytest.mark.parametrize("work", [pytest.param(ARRIVAL, id="arrival"), pytest.param(INBOX, id="inbox")])
@pytest.mark.requirement("G-163")
async def test_work_wakes_the_worker_that_has_the_conversation(joined: PostgresDatabase, work: Any) -> None:
    await had_by(joined, "other")
    async with listening(joined) as heard:
        await joined.write(lambda conn: conn.execute(work))
        assert await heard() == [(OTHERS, f"work {CHAT}")]
    assert await jobs(joined) == [f"host.other {CHAT}"]


@pytest.mark.requirement("G-163")
async def test_a_worker_does_not_wake_itself_for_its_own_words(joined: PostgresDatabase) -> None:
    await had_by(joined, PROCESS)
    async with listening(joined) as heard:
        await joined.write(lambda conn: conn.execute(INBOX))
        assert (await heard(), await jobs(joined)) == ([], [])
        await joined.write(lambda conn: conn.execute(ARRIVAL))
        assert await heard() == [(MINE, f"work {CHAT}")], "what arrived is taken in by the job"


@pytest.mark.parametrize("work", [ARRIVAL, INBOX, OUTBOX], ids=["arrival", "inbox", "outbox"])
@pytest.mark.requirement("G-163")
async def test_what_is_rolled_back_wakes_nobody(joined: PostgresDatabase, work: Any) -> None:
    def fail(conn: Connection) -> None:
        conn.execute(work)
        raise RuntimeError("no commit")

    await had_by(joined, "other")
    async with listening(joined) as heard:
        with pytest.raises(RuntimeError):
            await joined.write(fail)
        assert (await heard(), await jobs(joined)) == ([], [])


@pytest.mark.requirement("G-163")
async def test_what_is_put_off_or_over_wakes_nobody_yet(joined: PostgresDatabase) -> None:
    async with listening(joined) as heard:
        await joined.write(lambda conn: conn.execute(INBOX.values(not_before=1)))
        await joined.write(lambda conn: conn.execute(INBOX.values(dedup="2", status="done")))
        await joined.write(lambda conn: conn.execute(OUTBOX.values(status="sent")))
        assert (await heard(), await jobs(joined)) == ([], [])


@pytest.mark.parametrize(
    ("outlet", "host", "told"),
    [
        pytest.param("", "", DELIVERY, id="nobody: those that deliver"),
        pytest.param("", "other", OTHERS, id="the worker that has the conversation"),
        pytest.param("other", PROCESS, OTHERS, id="whoever sends there now comes first"),
        pytest.param(PROCESS, "other", "", id="this process knows by itself"),
    ],
)
@pytest.mark.requirement("G-163")
async def test_words_wake_who_sends_them(joined: PostgresDatabase, outlet: str, host: str, told: str) -> None:
    if host:
        await had_by(joined, host)
    if outlet:
        row = {"conv": CHAT, "process": outlet}
        await joined.write(lambda conn: conn.execute(insert(conversation_outlet), row))
    async with listening(joined) as heard:
        await joined.write(lambda conn: conn.execute(OUTBOX))
        assert await heard() == ([(told, f"say {CHAT}")] if told else [])


@pytest.mark.requirement("G-163")
async def test_a_changed_table_is_told_to_all(joined: PostgresDatabase) -> None:
    async with listening(joined) as heard:
        for table in WATCHED:
            await joined.write(lambda conn, table=table: conn.execute(text(f"delete from {table}")))  # type: ignore[misc]
        assert await heard() == [(EVERYBODY, f"changed {table} {PROCESS}") for table in WATCHED]
        await joined.write(lambda conn: conn.execute(text("delete from outbox")))
        assert await heard() == []


@pytest.mark.requirement("G-163")
async def test_of_settings_of_places_the_changed_place_is_told(joined: PostgresDatabase) -> None:
    """A process with 10,000 conversations in memory reads the rows of one."""
    assert WATCHED_BY_PLACE == ("channel_setting",)
    row = insert(channel_setting).values(conv=CHAT, key="mode", value='"fast"', updated_at=0)
    async with listening(joined) as heard:
        await joined.write(lambda conn: conn.execute(row))
        await joined.write(lambda conn: conn.execute(delete(channel_setting)))
        assert await heard() == [(EVERYBODY, f"changed channel_setting {PROCESS} {CHAT}")] * 2


@pytest.mark.requirement("G-163")
async def test_the_triggers_may_be_made_again(joined: PostgresDatabase) -> None:
    for _ in range(2):
        await joined.write(prepare)
    await joined.write(lambda conn: conn.execute(ARRIVAL))
    assert await jobs(joined) == [f"turns {CHAT}"]


@pytest.mark.requirement("G-163")
async def test_a_process_that_starts_keeps_no_turn_of_another_waiting(joined: PostgresDatabase) -> None:
    """Else each start would wait for turns that write, and deadlock with some of them."""
    connection = await connect(joined.url)
    async with connection.transaction():
        for table in ("arrival", "inbox", "outbox", *WATCHED, *WATCHED_BY_PLACE):
            await connection.execute(f"lock table {table} in row exclusive mode".encode())

        def start(conn: Connection) -> None:
            conn.execute(text("set local lock_timeout = '300ms'"))
            prepare(conn)

        await joined.write(start)
    await connection.close()


@pytest.mark.requirement("G-163")
async def test_a_trigger_of_another_version_is_made_anew(joined: PostgresDatabase) -> None:
    """An older process, started again during a rolling upgrade, has replaced it."""
    never = "create or replace trigger tieline_arrived after insert on arrival for each row when (false)"
    await joined.write(lambda conn: conn.execute(text(f"{never} execute function tieline_arrived()")))
    await joined.write(prepare)
    await joined.write(lambda conn: conn.execute(ARRIVAL))
    assert await jobs(joined) == [f"turns {CHAT}"]


# What runs for each message, and each second in each process, with many conversations behind it.

FILL = """
insert into conversation (key, created_at) select 'telegram:' || n, 0 from generate_series(1, {known}) n;
insert into conversation_host (conv, process) select 'telegram:' || n, 'other' from generate_series(1, {active}) n;
insert into conversation_outlet (conv, process) select 'telegram:' || n, 'other' from generate_series(1, {active}) n;
alter table inbox disable trigger user;
alter table outbox disable trigger user;
insert into inbox (conv, kind, dedup, payload, status, created_at)
  select 'telegram:' || n, 'message', 'done:' || n, '{{}}', 'done', 0 from generate_series(1, {known}) n;
insert into inbox (conv, kind, dedup, payload, status, created_at)
  select 'telegram:' || n, 'message', 'new:' || n, '{{}}', 'new', 0 from generate_series(1, 200) n;
insert into outbox (conv, part, dedup, payload, status, created_at)
  select 'telegram:' || n, 0, 'sent:' || n, '{{}}', 'sent', 0 from generate_series(1, {known}) n;
insert into outbox (conv, part, dedup, payload, status, created_at)
  select 'telegram:' || n, 0, 'new:' || n, '{{}}', 'new', 0 from generate_series(1, 200) n;
insert into arrival (conv, payload, ingress, created_at)
  select 'telegram:' || n, '{{}}', 'other', 0 from generate_series(1, 100) n;
alter table inbox enable trigger user;
alter table outbox enable trigger user;
analyze conversation, conversation_host, conversation_outlet, inbox, outbox, arrival, procrastinate_jobs, process;
"""
LARGE = {"conversation", "conversation_host", "inbox", "outbox"}


def scanned(plan: Mapping[str, Any]) -> set[str]:
    """The tables that the plan reads from one end to the other."""
    whole = {str(plan["Relation Name"])} if plan["Node Type"] == "Seq Scan" else set[str]()
    return whole.union(*(scanned(inner) for inner in plan.get("Plans", ())))


@pytest.mark.parametrize(
    ("known", "active"),
    [(100_000, 20_000), pytest.param(1_000_000, 10_000, marks=[pytest.mark.slow, pytest.mark.timeout(900)])],
)
@pytest.mark.requirement("G-163")
async def test_looking_for_work_reads_no_table_of_all_conversations(
    joined: PostgresDatabase, known: int, active: int
) -> None:
    await joined.migrate(lambda conn: conn.exec_driver_sql(FILL.format(known=known, active=active)))
    looked = {
        "orphans": engine._ORPHANS,  # noqa: SLF001 - the very statement is looked at
        "unserved": outlets._UNSERVED,  # noqa: SLF001
        "woken": text(f"select process from conversation_host where conv = '{CHAT}'"),
        "said": text(f"select process from conversation_outlet where conv = '{CHAT}'"),
        "arrived": text(f"select id from arrival where conv = '{CHAT}' order by id limit 20"),
    }
    for name, query in looked.items():
        explained = text(f"explain (format json, analyze) {query}")
        plan = (await joined.write(lambda conn, query=explained: conn.execute(query).scalar_one()))[0]  # type: ignore[misc]
        assert scanned(plan["Plan"]) & LARGE == set(), name
        assert plan["Execution Time"] < 500.0, (name, plan["Execution Time"])


_READ_WHOLE = f"""
select relname from pg_stat_user_tables
where relname in ({", ".join(f"'{name}'" for name in sorted(LARGE))}) and seq_scan > 0
"""


@pytest.mark.parametrize(
    ("known", "active"),
    [(100_000, 20_000), pytest.param(1_000_000, 10_000, marks=[pytest.mark.slow, pytest.mark.timeout(900)])],
)
@pytest.mark.requirement("G-163")
async def test_having_and_waking_a_conversation_reads_no_table_of_all(
    joined: PostgresDatabase, known: int, active: int
) -> None:
    """By the server's own count, so that what functions and foreign keys look up is counted too."""
    await joined.migrate(lambda conn: conn.exec_driver_sql(FILL.format(known=known, active=active)))
    nobodys, others = (ConversationId(f"telegram:{number}") for number in (known - 1, active - 1))
    await joined.write(lambda conn: conn.execute(text("select pg_stat_reset()")))
    for conversation in (nobodys, others):
        row = {"conv": conversation}
        await joined.write(lambda conn, row=row: conn.execute(ARRIVAL, row))  # type: ignore[misc]
        await joined.write(lambda conn, row=row: conn.execute(INBOX.values(dedup=f"i{row['conv']}"), row))  # type: ignore[misc]
        await joined.write(lambda conn, row=row: conn.execute(OUTBOX.values(dedup=f"o{row['conv']}"), row))  # type: ignore[misc]
        await joined.write(partial(hosting._have, conversation=conversation))  # noqa: SLF001
        await joined.read(partial(hosting._look, conversation=conversation, now=1))  # noqa: SLF001
        claim = partial(conversation_rows.claim, key=conversation, worker="me", run="r", now=0, until=1)
        await joined.write(claim)
        held = await joined.write(partial(conversation_rows.extend, keys=[conversation], worker="me", until=1))
        assert held == {conversation: "r"}
        await joined.write(partial(conversation_rows.release, key=conversation, run="r"))
        await joined.write(partial(hosting._let_go, conversation=conversation))  # noqa: SLF001

    def read_whole(conn: Connection) -> Sequence[str]:
        conn.execute(text("select pg_stat_force_next_flush()"))
        return conn.execute(text(_READ_WHOLE)).scalars().all()

    await joined.write(read_whole)  # the counts of a transaction are kept at its end
    assert await joined.write(read_whole) == []
