"""Cost of recall and keeping for a turn, at any length of history: CPU of the whole process."""

import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import cycle, islice
from pathlib import Path
from statistics import mean, median

from sqlalchemy import Connection, text

from agent.core.ids import SessionId
from agent.memory import rows
from agent.memory.lexicon import kept_of
from agent.memory.recall_block import block_for
from agent.memory.records import Kept
from agent.storage.timestamps import to_timestamp
from gateway.storage.repair import open_database
from tests.bench.memory import histories
from tests.bench.memory.feeding import BILL, GROUP, memory_of

TURNS = 200
A_DAY = 25  # messages
BEGINS = datetime(2026, 2, 2, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """Means over many turns, but for `recall_ms`, which is the median of the time that a turn waits for its block."""

    messages: int
    keep_cpu_ms: float
    recall_cpu_ms: float
    recall_ms: float
    floor_ms: float

    @property
    def cpu_ms(self) -> float:
        return self.keep_cpu_ms + self.recall_cpu_ms


async def turn_cost(home: Path, messages: int) -> Turn:
    """Turns of a question and an answer, after so many messages of the chats of this tree, one after the other."""
    home.mkdir(parents=True)  # noqa: ASYNC240 - nothing else runs
    database = await open_database("sqlite:///tieline.db", home)
    said = [one for given in histories.in_tree().values() for history in given for one in history.messages]
    asked = [one.text for given in histories.in_tree().values() for history in given for one in history.questions]
    texts = [(one.speaker, one.text) for one in islice(cycle(said), messages + 2 * TURNS)]
    try:
        memory = memory_of(database)
        scope = memory.scope(GROUP, "group", None)

        def kept(number: int) -> tuple[Kept, ...]:
            speaker, words = texts[number]
            session = SessionId(f"s{number // A_DAY}")
            return kept_of(
                words, person=speaker, speaker=speaker, session=session, message_id=number + 1, inbox_id=number
            )

        def keep(conn: Connection, first: int, many: int) -> None:
            for number in range(first, first + many):
                at = to_timestamp(BEGINS + timedelta(minutes=number))
                rows.keep(conn, scope, kept(number), memory.lexicon, at=at)

        for begin in range(0, messages, A_DAY):
            await database.write(lambda conn, begin=begin: keep(conn, begin, min(A_DAY, messages - begin)))  # type: ignore[misc]
        spent: dict[str, list[float]] = {"keep": [], "recall": [], "floor": []}
        waited = []
        for turn, question in enumerate(islice(cycle(asked), TURNS)):
            began, worked = time.perf_counter(), time.process_time()
            await block_for(question, scope, memory, memory.settings.recall, attribution=BILL, begins=turn % 10 == 0)
            waited.append((time.perf_counter() - began) * 1000)
            spent["recall"].append(time.process_time() - worked)
            worked = time.process_time()
            await database.write(lambda conn, turn=turn: keep(conn, messages + 2 * turn, 2))  # type: ignore[misc]
            spent["keep"].append(time.process_time() - worked)
            worked = time.process_time()
            await database.write(_nothing)
            await database.read(_nothing)
            spent["floor"].append(time.process_time() - worked)
        return Turn(
            messages=messages,
            keep_cpu_ms=mean(spent["keep"]) * 1000,
            recall_cpu_ms=mean(spent["recall"]) * 1000,
            recall_ms=median(waited),
            floor_ms=mean(spent["floor"]) * 1000,
        )
    finally:
        await database.aclose()


def _nothing(conn: Connection) -> None:
    conn.execute(text("SELECT 1"))
