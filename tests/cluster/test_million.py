"""A million known conversations, ten thousand of them active: how much a process needs that starts there."""

import random
import re
import time
from pathlib import Path

import anyio
import pytest
from sqlalchemy import Connection, create_engine, make_url, text

from tests.cluster.processes import Members, running
from tests.doubles.limits import raised_limits
from tests.program import configs
from tests.program.doubles import Doubles, all_doubles
from tests.program.people import OnTelegram, text_of

KNOWN, ACTIVE = 1_000_000, 10_000
FIRST = 1_000_000  # the id of the first person
EVE = 4711
TURNS = 3
PEOPLE = 100  # who write while nothing runs, and as many afterwards
MOST_MB = 250.0
SLOWER_BY_S = 5.0  # that a start may take beyond twice the time of one with an empty database
ONCE = ("conversation", "session", "inbox", "outbox")  # a row of each known conversation
OF_THE_ACTIVE = ("message", "turn", "turn_trace", "usage", "memory", "memory_session", "user_model")
ANEW = {
    ("inbox", "event_dedup"): "null",
    ("inbox", "dedup"): "'known:' || n",  # else the first message of a person would be a repeat
    ("outbox", "dedup"): "dedup || ':' || n",
    ("message", "inbox_id"): "inbox_id + n * 10",
    ("turn", "inbox_id"): "inbox_id + n * 10",
    ("turn_trace", "run_id"): "run_id || n",
    ("usage", "call_id"): "call_id || n",
    ("memory", "dedup"): "dedup || ':' || n",
    ("memory", "slot"): f"slot + (n - {FIRST - 1})::bigint * 1048576",  # a block of the index for each session
    ("memory_session", "no"): f"no + n - {FIRST - 1}",
}
_COLUMNS = """
select column_name, data_type, column_default is not null or is_identity = 'YES' from information_schema.columns
where table_schema = 'public' and table_name = :table order by ordinal_position
"""
_LOST = f"""
insert into process (id, host, pid, roles, version, started_at, seen_at)
  values ('lost', '', 0, 'worker', '', tieline_now(), tieline_now());
insert into conversation_host (conv, process)
  select 'telegram:' || {FIRST} + n, 'lost' from generate_series(0, {ACTIVE - 1}) n;
insert into conversation_outlet (conv, process)
  select 'telegram:' || {FIRST} + n, 'lost' from generate_series(0, {ACTIVE - 1}) n;
"""
_READ = """
select relname, seq_scan, seq_tup_read from pg_stat_user_tables where seq_tup_read >= :rows order by seq_tup_read desc
"""


def multiply(conn: Connection, table: str, times: int, session: str) -> None:
    """Give the rows that Eve has to so many people more; what names her or her session names them."""
    columns, values = [], []
    for name, kind, is_made in conn.execute(text(_COLUMNS), {"table": table}):
        if name == "id" and is_made:
            continue
        columns.append(f'"{name}"')
        named = f"replace(replace(\"{name}\", '{EVE}', n::text), '{session}', 's' || n)"
        values.append(ANEW.get((table, name)) or (named if kind == "text" else f'"{name}"'))
    series = f"generate_series({FIRST}, {FIRST + times - 1}) n"
    once = f"(select * from {table} limit 1)" if table in ("inbox", "outbox") else table
    conn.exec_driver_sql(f"alter table {table} disable trigger all")
    conn.exec_driver_sql(
        f"insert into {table} ({', '.join(columns)}) select {', '.join(values)} from {once} eve, {series}"
    )
    conn.exec_driver_sql(f"alter table {table} enable trigger all")


def fill(database: str) -> None:
    """Everybody but Eve; ten thousand were with a worker that is gone a moment later."""
    engine = create_engine(make_url(database).set(drivername="postgresql+psycopg"), isolation_level="AUTOCOMMIT")
    with engine.connect() as conn:
        session = conn.execute(text(f"select session_id from conversation where key = 'telegram:{EVE}'")).scalar_one()
        for table in ONCE:
            multiply(conn, table, KNOWN, session)
        for table in OF_THE_ACTIVE:
            multiply(conn, table, ACTIVE, session)
        conn.exec_driver_sql("vacuum analyze")
        conn.exec_driver_sql(_LOST)
        conn.exec_driver_sql("select pg_stat_reset()")
    engine.dispose()


async def answered(doubles: Doubles, words: set[str], seconds: float = 120.0) -> None:
    """Wait until the bot has said each of the words."""
    end = time.monotonic() + seconds
    missing = words
    while missing:
        assert time.monotonic() < end, f"{len(missing)} of {len(words)} wait, as {min(missing)}"
        await anyio.sleep(0.2)
        said = [text_of(one) for one in (await doubles.telegram.get("state"))["messages"] if one["from"].get("is_bot")]
        missing = words - set(re.findall(r"<\d+>", " ".join(said)))


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.requirement("G-163")
async def test_a_process_starts_and_serves_where_a_million_conversations_are_known(
    tmp_path: Path, postgres_url: str
) -> None:
    async with all_doubles() as doubles:
        await doubles.telegram.post("settings", raised_limits())
        config = configs.ACCESS + configs.models(doubles, "a") + configs.telegram(doubles)
        members = Members(tmp_path, postgres_url, config, ("all",))
        (one,) = members.all
        eve = OnTelegram(doubles, {"id": EVE, "first_name": "Eve"})
        began = time.monotonic()
        async with running(members):
            empty_s = time.monotonic() - began
            for turn in range(TURNS):
                await eve.say(f"hello {turn}")
                await eve.hears(f"hello {turn}")
            assert await one.stop() == 0
        began = time.monotonic()
        await anyio.to_thread.run_sync(fill, postgres_url)
        print(f"\nfilled in {time.monotonic() - began:.0f} s")

        async def write(number: int) -> str:
            await OnTelegram(doubles, {"id": number, "first_name": "P"}).say(f"please <{number}>")
            return f"<{number}>"

        chance = random.Random(1)
        waiting = {await write(FIRST + number) for number in chance.sample(range(ACTIVE), PEOPLE)}
        began = time.monotonic()
        one.start()
        await one.ready()
        ready_s = time.monotonic() - began
        await answered(doubles, waiting)
        back_s = time.monotonic() - began
        began = time.monotonic()
        await answered(doubles, {await write(FIRST + ACTIVE + n) for n in chance.sample(range(KNOWN - ACTIVE), PEOPLE)})
        served_s = time.monotonic() - began
        assert one.process is not None
        status = await anyio.Path("/proc", str(one.process.pid), "status").read_text()
        peak_mb = int(re.findall(r"VmHWM:\s+(\d+)", status)[0]) / 1024
        held = members.rows("select count(*) from conversation_host join process on process.id = process")
        assert await one.stop() == 0
        read = members.rows(_READ.replace(":rows", str(ACTIVE)))
        print(f"ready after {ready_s:.1f} s, with an empty database {empty_s:.1f} s;", end=" ")
        print(f"who waited was answered after {back_s:.1f} s, {PEOPLE} others in {served_s:.1f} s;", end=" ")
        print(f"{peak_mb:.0f} MB at the most, with {held[0][0]} conversations; read from end to end: {read}")
        assert [row for row in read if row[2] >= KNOWN] == []
        assert peak_mb <= MOST_MB
        assert ready_s <= 2 * empty_s + SLOWER_BY_S
