"""Cost of ten thousand schedules: CPU and memory while none is due, and delays while many are."""

import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta

import anyio

from gateway.scheduler.triggers.rules import Calendar, Every, Line, Rule, encode_rule
from tests.bench.peers.doubles import TOKEN
from tests.bench.peers.drivers.tieline import home_of
from tests.bench.peers.performance import Result, percentile
from tests.bench.peers.rig import Rig

COUNT, SECONDS = 10_000, 15
DUE_A_SECOND = 20
DUE = DUE_A_SECOND * SECONDS  # schedules that fire
TALKERS = range(60_000, 60_010)  # people who talk meanwhile
REMINDED = range(1_000, 1_000 + DUE)

_ADD = """
insert into schedule (conv, person, action, text, rule, said, zone, zone_source, misfire, due_at, due_key, next_at,
                      created_at, updated_at)
values (?, ?, 'remind', 'tea', ?, 'then', 'Europe/Berlin', 'person', 'once', ?, ?, ?, 1, 1)
"""


async def schedules(rig: Rig) -> Result:
    """10,000 schedules due in two days; then 300 of other people fire, 20 a second, while ten people talk."""
    await rig.start()
    await rig.settle()
    empty = rig.process.memory().rss_mb
    await rig.stop()
    noon = Calendar(lines=(Line(hours=(12,)),))
    far = datetime.now(UTC) + timedelta(days=2)
    _add(rig, [(1000 + number, noon, far) for number in range(COUNT)])
    await rig.start()
    await rig.settle()
    full = rig.process.memory().rss_mb
    share = await rig.idle_share(SECONDS)
    await rig.stop()
    for person in REMINDED:  # people who have talked to the bot before: a refusal would cost as well
        rig.telegram.bot(TOKEN).chats.setdefault(person, {"id": person, "type": "private", "first_name": "Ann"})
    soon = datetime.now(UTC) + timedelta(seconds=8)
    spread = [soon + timedelta(seconds=number / DUE_A_SECOND) for number in range(DUE)]
    _add(rig, [(1000 + number, Every(seconds=86_400, anchor=at), at) for number, at in enumerate(spread)])
    await rig.start()
    async with anyio.create_task_group() as group:
        second = 0
        while datetime.now(UTC) < soon + timedelta(seconds=SECONDS):
            second += 1
            for person in TALKERS:
                group.start_soon(rig.ask, person, second)
            await anyio.sleep(1)
    with anyio.fail_after(60):
        while _arrived(rig) < DUE:  # noqa: ASYNC110 - another process's file
            await anyio.sleep(0.5)
    await rig.stop()
    late = _lateness_ms(rig)
    return {
        "cpu_share": share,
        "memory_mb": max(0.0, full - empty),
        "due": DUE,
        "fired": len(late),
        "late_p50_ms": percentile(late, 0.5),
        "late_p99_ms": percentile(late, 0.99),
    }


def _add(rig: Rig, rows: list[tuple[int, Rule, datetime]]) -> None:
    with closing(sqlite3.connect(home_of(rig.site) / "tieline.db")) as database:
        database.executemany(
            _ADD,
            [
                (f"telegram:{number}", f"telegram:{number}", encode_rule(rule), _us(at), at.isoformat(), _us(at))
                for number, rule, at in rows
            ],
        )
        database.commit()


def _lateness_ms(rig: Rig) -> list[float]:
    """The delay from the due moment to the transaction that fired it."""
    with closing(sqlite3.connect(home_of(rig.site) / "tieline.db")) as database:
        rows = database.execute("select at - due_at from schedule_run where outcome in ('fired', 'late')").fetchall()
    return [row[0] / 1000 for row in rows]


def _arrived(rig: Rig) -> int:
    """Reminders that Telegram has taken."""
    with closing(sqlite3.connect(home_of(rig.site) / "tieline.db")) as database:
        query = "select count(*) from outbox where status = 'sent' and dedup like 'rem:%'"
        return int(database.execute(query).fetchone()[0])


def _us(at: datetime) -> int:
    return int(at.timestamp() * 1_000_000)
