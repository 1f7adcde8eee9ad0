"""What conversations cost that nobody talks in: CPU and memory."""

import sqlite3
import time
from pathlib import Path

import anyio

from tests.bench.measure import Line, cpu_seconds, rss_mb
from tests.bench.turns import Answers, config_for, say
from tests.doubles.limits import unhindered
from tests.program.doubles import Doubles
from tests.program.running import Program

KNOWN, AWAKE, SECONDS = 10_000, 200, 10


async def idle(doubles: Doubles, folder: Path) -> list[Line]:
    await doubles.telegram.post("reset")
    await doubles.telegram.post("settings", unhindered())
    await doubles.llm.post("reset")
    program = Program(folder / "idle", config_for(doubles, "openai"))
    async with program:
        await anyio.sleep(4)
        assert program.process is not None
        empty = rss_mb(program.process.pid)
        await program.stop()
    with sqlite3.connect(program.home / "tieline.db") as database:
        rows = [(f"telegram:{number}", 1) for number in range(KNOWN)]
        database.executemany("insert into conversation (key, created_at) values (?, ?)", rows)
    async with program:
        await anyio.sleep(4)
        assert program.process is not None
        pid = program.process.pid
        known = rss_mb(pid)
        begin = cpu_seconds(pid)
        await anyio.sleep(SECONDS)
        share = (cpu_seconds(pid) - begin) / SECONDS * 100
        begun = time.time()
        await say(doubles, "hello", user=50_000)
        await Answers(doubles, begun).wait(1, 20)
        before = rss_mb(pid)
        for number in range(AWAKE):
            await say(doubles, "hello", user=60_000 + number)
        await Answers(doubles, begun).wait(AWAKE + 1, 60)
        each = (rss_mb(pid) - before) * 1000 / AWAKE
        await program.stop()
    per_known = max(0.0, known - empty) * 1000 / KNOWN
    return [
        Line("an idle conversation known to the process", "< 2 KB", f"{per_known:.2f} KB", per_known < 2),
        Line("an awake agent", "< 200 KB and its history", f"{each:.0f} KB", each < 200),
        Line(f"{KNOWN} idle conversations", "< 1 % CPU", f"{share:.2f} %", share < 1),
    ]
