"""What ten thousand schedules cost: CPU and memory while none is due, and how late they are while many are."""

import sqlite3
import time
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import anyio

from gateway.scheduler.rules import Calendar, Every, Line, Rule, encode_rule
from tests.bench.measure import Line as Figure
from tests.bench.measure import cpu_seconds, percentile, rss_mb
from tests.bench.turns import Answers, config_for, say
from tests.doubles.limits import unhindered
from tests.program.doubles import Doubles
from tests.program.running import Program

COUNT, SECONDS = 10_000, 15
DUE_A_SECOND, TALKING = 20, 10  # schedules that fire, people that talk meanwhile

_ADD = """
insert into schedule (conv, person, action, text, rule, said, zone, zone_source, misfire, due_at, due_key, next_at,
                      created_at, updated_at)
values (?, ?, 'remind', 'tea', ?, 'then', 'Europe/Berlin', 'person', 'once', ?, ?, ?, 1, 1)
"""


async def schedules(doubles: Doubles, folder: Path) -> list[Figure]:
    await doubles.telegram.post("reset")
    await doubles.telegram.post("settings", unhindered())
    await doubles.llm.post("reset")
    program = Program(folder / "schedules", config_for(doubles, "openai"))
    async with program:
        await anyio.sleep(4)
        assert program.process is not None
        empty = rss_mb(program.process.pid)
        await program.stop()
    noon = Calendar(lines=(Line(hours=(12,)),))
    far = datetime.now(UTC) + timedelta(days=2)
    _add(program, [(1000 + number, noon, far) for number in range(COUNT)])
    async with program:
        await anyio.sleep(4)
        assert program.process is not None
        pid = program.process.pid
        full, begin = rss_mb(pid), cpu_seconds(pid)
        await anyio.sleep(SECONDS)
        share = (cpu_seconds(pid) - begin) / SECONDS * 100
        await program.stop()
    for number in range(
        DUE_A_SECOND * SECONDS
    ):  # people who have talked to the bot before: a refusal would cost as well
        chat = {"id": 1000 + number, "type": "private", "first_name": "Ann"}
        await doubles.telegram.post("chats", {"chat": chat})
    soon = datetime.now(UTC) + timedelta(seconds=8)
    spread = [soon + timedelta(seconds=number / DUE_A_SECOND) for number in range(DUE_A_SECOND * SECONDS)]
    _add(program, [(1000 + number, Every(seconds=86_400, anchor=at), at) for number, at in enumerate(spread)])
    async with program:
        begun = time.time()
        while datetime.now(UTC) < soon + timedelta(seconds=SECONDS):
            for person in range(TALKING):
                await say(doubles, "hello", user=60_000 + person)
            await anyio.sleep(1)
        await Answers(doubles, begun).wait(TALKING, 30)
        with anyio.fail_after(60):
            while _arrived(program) < len(spread):  # noqa: ASYNC110 - another process's file
                await anyio.sleep(0.5)
        await program.stop()
    late = sorted(_lateness_ms(program))
    return [
        Figure(f"{COUNT} schedules, none due", "< 1 % CPU", f"{share:.2f} %", share < 1),
        Figure(f"{COUNT} schedules, memory", "", f"{max(0.0, full - empty):.1f} MB"),
        Figure(
            f"lateness, {DUE_A_SECOND} due a second, {TALKING} people talking",
            "p99 < 250 ms",
            f"p50 {percentile(late, 0.5):.0f}, p99 {percentile(late, 0.99):.0f} ms of {len(late)}",
            len(late) == len(spread) and percentile(late, 0.99) < 250,
        ),
    ]


def _add(program: Program, rows: list[tuple[int, Rule, datetime]]) -> None:
    with closing(sqlite3.connect(program.home / "tieline.db")) as database:
        database.executemany(
            _ADD,
            [
                (f"telegram:{number}", f"telegram:{number}", encode_rule(rule), _us(at), at.isoformat(), _us(at))
                for number, rule, at in rows
            ],
        )
        database.commit()


def _lateness_ms(program: Program) -> list[float]:
    """From the moment that was meant to the transaction that fired it."""
    with closing(sqlite3.connect(program.home / "tieline.db")) as database:
        rows = database.execute("select at - due_at from schedule_run where outcome in ('fired', 'late')").fetchall()
    return [row[0] / 1000 for row in rows]


def _arrived(program: Program) -> int:
    """Reminders that Telegram has taken."""
    with closing(sqlite3.connect(program.home / "tieline.db")) as database:
        query = "select count(*) from outbox where status = 'sent' and dedup like 'rem:%'"
        return int(database.execute(query).fetchone()[0])


def _us(at: datetime) -> int:
    return int(at.timestamp() * 1_000_000)
