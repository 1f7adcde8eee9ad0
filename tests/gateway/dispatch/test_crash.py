"""kill -9 in the middle of the work: every acknowledged message is answered, once, in order, after the next start."""

import signal
import subprocess
import sys
from collections import defaultdict
from functools import partial
from pathlib import Path

import pytest

from agent.core.ids import ConversationId
from agent.storage.database import Database
from gateway.storage.repair import open_database
from tests.fakes.agents import House, answers, statuses
from tests.fakes.waiting import until

CHAT = ConversationId("telegram:1")

ONE_TURN = """
import sys
from datetime import UTC, datetime
from pathlib import Path

import anyio

from gateway.storage.repair import open_database
from tests.fakes.agents import House, admit

async def turn(work):
    print(work.attempt, work.incoming.text.replace("\\n", "+"), flush=True)
    await anyio.sleep_forever()

async def main():
    database = await open_database("sqlite:///tieline.db", Path(sys.argv[1]))
    house = House(database, turn)
    at = datetime.now(UTC)  # one for both: they are one turn
    await admit(database, "telegram:1", "a", dedup="a", at=at)
    await admit(database, "telegram:1", "b", dedup="b", at=at)
    async with house.running():
        await anyio.sleep_forever()

anyio.run(main)
"""

BUSY = """
import random
import sys
from pathlib import Path

import anyio

from agent.core.ids import ConversationId
from gateway.storage.repair import open_database
from tests.fakes.agents import House, admit

async def turn(work):
    await anyio.sleep(random.random() * 0.01)

async def main():
    database = await open_database("sqlite:///tieline.db", Path(sys.argv[1]))
    house = House(database, turn)

    async def person(chat):
        for number in range(1000):
            text = f"{sys.argv[2]}.{number}"
            await admit(database, f"telegram:{chat}", text, limit=None)
            print(chat, text, flush=True)
            house.dispatcher.wake(ConversationId(f"telegram:{chat}"))
            await anyio.sleep(random.random() * 0.01)

    async with house.running(), anyio.create_task_group() as people:
        for chat in range(10):
            people.start_soon(person, chat)

anyio.run(main)
"""


def killed(program: str, home: Path, name: str, after_lines: int) -> list[str]:
    """The output of a process that was killed after so many lines."""
    with subprocess.Popen(
        [sys.executable, "-c", program, str(home), name], stdout=subprocess.PIPE, text=True, cwd=Path.cwd()
    ) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(after_lines)]
        process.send_signal(signal.SIGKILL)
        return [line.strip() for line in (*lines, *process.stdout) if line.endswith("\n")]


async def nothing_is_new(database: Database) -> bool:
    return "new" not in await database.read(statuses)


@pytest.mark.requirement("W-13", "B-48")
async def test_a_run_cut_off_by_a_kill_is_the_same_work_in_its_next_attempt(tmp_path: Path) -> None:
    assert killed(ONE_TURN, tmp_path, "first", 1) == ["1 a+b"]
    assert killed(ONE_TURN, tmp_path, "second", 1) == ["2 a+b"]  # the merged words stay together
    database = await open_database("sqlite:///tieline.db", tmp_path)
    services = House(database)
    async with services.running():
        await until(partial(nothing_is_new, database))
    assert [(work.attempt, work.incoming.text) for work in services.given] == [(3, "a\nb")]
    assert await answers(database) == ["a\nb"]
    await database.aclose()


@pytest.mark.requirement("W-13", "G-12")
async def test_after_kills_under_load_everything_acknowledged_is_answered_once_and_in_order(tmp_path: Path) -> None:
    said: defaultdict[str, list[str]] = defaultdict(list)
    for name, after in (("x", 90), ("y", 200)):
        for line in killed(BUSY, tmp_path, name, after):
            chat, text = line.split()
            said[chat].append(text)
    database = await open_database("sqlite:///tieline.db", tmp_path)
    services = House(database)
    async with services.running():
        await until(partial(nothing_is_new, database), longest_s=60)
    for chat, texts in said.items():
        answered = [line for text in await answers(database, f"telegram:{chat}") for line in text.split("\n")]
        # The last write before a kill may have been stored without its acknowledgement being seen.
        assert [text for text in answered if text in texts] == texts
        assert len(answered) == len(set(answered))
    await database.aclose()
