"""A history in a real memory, as if its people had written it in a group: a session a day, all in the transcript."""

import random
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import cast

from sqlalchemy import Connection

from agent.compaction.settings import MemorySettings
from agent.core.clock import SystemClock
from agent.core.ids import ConversationId, PersonId, SessionId
from agent.core.messages import text_message
from agent.memory import rows
from agent.memory.audience import Scope
from agent.memory.keeping import kept_of
from agent.memory.local_vectors import LocalEmbedder, is_installed
from agent.memory.memory import Memory
from agent.memory.records import Strategy
from agent.memory.settings import SemanticSettings
from agent.memory.vectors import Embedder, Vectors, unit
from agent.providers.metering import Bill
from agent.sessions import store
from agent.sessions.records import Stored
from agent.storage.database import Database
from agent.storage.moments import to_us
from gateway.storage.opening import open_database
from tests.bench.memory.histories import History
from tests.bench.memory.topics import CHATTER

GROUP = ConversationId("telegram:-1")
BILL = Bill(purpose="bench", conversation=GROUP)
MOST = 10
WIDTH = 384


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What one question brought: the places (from 1) of the messages that hold the answer, and how many those are."""

    history: str
    strategy: str
    kind: str
    places: tuple[int, ...]
    evidence: int
    ms: float


@dataclass(slots=True)
class Feed:
    """One history in a database of its own."""

    history: History
    memory: Memory
    scope: Scope
    home: Path
    ids: dict[int, str] = field(default_factory=dict)  # of the transcript, to those of the history

    @classmethod
    @asynccontextmanager
    async def of(cls, history: History, home: Path, *, vectors: bool) -> AsyncIterator["Feed"]:
        home.mkdir(parents=True)  # noqa: ASYNC240 - nothing else runs
        database = await open_database("sqlite:///tieline.db", home)
        try:
            embedder = LocalEmbedder() if vectors and is_installed() else None
            memory = _memory(database, embedder)
            feed = cls(history, memory, memory.scope(GROUP, "group", None), home)
            await feed._take(database)
            if memory.vectors is not None:
                await memory.vectors.catch_up(feed.scope.own, BILL)
            yield feed
        finally:
            await database.aclose()

    @property
    def bytes(self) -> int:
        """Of the database with its log."""
        return sum(path.stat().st_size for path in self.home.glob("tieline.db*"))

    async def asked(self, strategy: str) -> list[Found]:
        """Every question once, looked up by this way; "auto" goes by the question."""
        way = None if strategy == "auto" else cast(Strategy, strategy)
        found = []
        for question in self.history.questions:
            began = time.perf_counter()
            given = await self.memory.recall(question.text, self.scope, bill=BILL, strategy=way, limit=MOST)
            ms = (time.perf_counter() - began) * 1000
            order = list(dict.fromkeys(self.ids[item.message_id] for item in given.items if item.message_id))
            places = tuple(place for place, id in enumerate(order, 1) if id in question.evidence)
            found.append(
                Found(
                    history=self.history.id,
                    strategy=strategy,
                    kind=question.kind,
                    places=places,
                    evidence=len(question.evidence),
                    ms=ms,
                )
            )
        return found

    async def _take(self, database: Database) -> None:
        def work(conn: Connection) -> None:
            for number, said in enumerate(self.history.messages):
                session, person = SessionId(f"{said.at:%Y-%m-%d}"), PersonId(f"telegram:{said.speaker}")
                at = to_us(said.at)
                store.open_session(conn, session, GROUP, title=said.text, at=at)
                message = text_message("user", said.text, created_at=said.at)
                stored = Stored(message=message, inbox_id=number, position=0, person=person)
                id = store.append(conn, session, GROUP, stored, at=at)
                assert id is not None
                self.ids[id] = said.id
                kept = kept_of(
                    said.text,
                    person=person,
                    speaker=said.speaker,
                    session=session,
                    message_id=id,
                    inbox_id=number,
                )
                rows.keep(conn, self.scope, kept, at=at)

        await database.write(work)


async def crowded(home: Path, size: int, *, vectors: bool) -> dict[str, tuple[float, float]]:
    """The median of recalls (ms, and ms of CPU) in one audience with so many things, by words alone and both ways."""
    home.mkdir(parents=True)  # noqa: ASYNC240 - nothing else runs
    database = await open_database("sqlite:///tieline.db", home)
    draw = random.Random(size)
    try:
        memory = _memory(database, _Random(draw) if vectors else None)
        scope = memory.scope(GROUP, "group", None)
        texts = [f"{draw.choice(CHATTER)}, {draw.choice(CHATTER)} ({number})" for number in range(size)]

        def work(conn: Connection) -> None:
            for number, text in enumerate(texts):
                kept = kept_of(text, person="p", speaker="Ann", session=None, message_id=number + 1, inbox_id=None)
                rows.keep(conn, scope, kept, at=to_us(datetime(2026, 2, 2, tzinfo=UTC)))

        await database.write(work)
        if memory.vectors is not None:
            await memory.vectors.catch_up(scope.own, BILL)
        measured = {"by words": await _median(memory, scope, "keyword", draw)}
        if memory.vectors is not None:
            measured["by words and vectors (without making the question's)"] = await _median(
                memory, scope, "hybrid", draw
            )
        return measured
    finally:
        await database.aclose()


async def _median(memory: Memory, scope: Scope, way: Strategy, draw: random.Random) -> tuple[float, float]:
    spent, cpu = [], []
    for _ in range(40):
        query = " ".join(draw.choice(CHATTER).split()[-6:])
        began, worked = time.perf_counter(), time.process_time()
        await memory.recall(query, scope, bill=BILL, strategy=way, limit=MOST)
        spent.append((time.perf_counter() - began) * 1000)
        cpu.append((time.process_time() - worked) * 1000)
    return median(spent), median(cpu)


def _memory(database: Database, embedder: Embedder | None) -> Memory:
    settings = MemorySettings(semantic=SemanticSettings(timeout_s=600))

    async def current() -> Embedder | None:
        return embedder

    vectors = Vectors(database, current) if embedder is not None else None
    return Memory(database, SystemClock(), settings=lambda: settings, vectors=vectors)


@dataclass(slots=True)
class _Random:
    """Vectors without meaning, as long as real ones: for the time that comparing them takes."""

    draw: random.Random
    name: str = "random"
    least: float = -1.0
    sure: float = -1.0
    pool: list[bytes] = field(default_factory=list)

    async def embed(self, texts: Sequence[str], *, as_query: bool, bill: Bill) -> Sequence[bytes]:
        if not self.pool:
            self.pool = [unit([self.draw.gauss(0, 1) for _ in range(WIDTH)]) for _ in range(64)]
        return self.draw.choices(self.pool, k=len(texts))
