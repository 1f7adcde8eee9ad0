"""kill -9 of a real process in the middle of its writes: what it acknowledged is there, all of it (W-13)."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from sqlalchemy import select

from agent.storage.tables import inbox
from gateway.storage.repair import open_database

WRITER = """
import sys
from itertools import count
from pathlib import Path

import anyio

from gateway.storage.repair import open_database
from tests.fakes.agents import admit

async def main():
    database = await open_database("sqlite:///tieline.db", Path(sys.argv[1]))

    async def person(number):
        for message in count():
            name = f"{sys.argv[2]}:{number}:{message}"
            await admit(database, f"telegram:{number}", "x" * 500, dedup=name, limit=None)
            print(name, flush=True)

    async with anyio.create_task_group() as people:
        for number in range(20):
            people.start_soon(person, number)

anyio.run(main)
"""


def write_and_kill(home: Path, life: int, after: int) -> set[str]:
    """Acknowledgements of a process that was killed after about so many writes."""
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(home), str(life)], stdout=subprocess.PIPE, text=True, cwd=Path.cwd()
    ) as writer:
        assert writer.stdout is not None
        acknowledged = {writer.stdout.readline().strip() for _ in range(after)}
        writer.send_signal(signal.SIGKILL)
        return acknowledged | {line.strip() for line in writer.stdout if line.endswith("\n")}


@pytest.mark.requirement("W-12", "W-13")
async def test_what_was_acknowledged_before_a_kill_is_there_after_it(tmp_path: Path) -> None:
    acknowledged: set[str] = set()
    for life, after in enumerate((137, 1000)):
        acknowledged |= write_and_kill(tmp_path, life, after)
        database = await open_database("sqlite:///tieline.db", tmp_path)
        stored = set(await database.read(lambda conn: conn.execute(select(inbox.c.dedup)).scalars().all()))
        await database.aclose()
        assert acknowledged <= stored
    assert len(acknowledged) >= 1137
