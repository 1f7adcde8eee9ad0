"""A history in a real memory, as if its people had written it in a group: a session a day, all in the transcript."""

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from sqlalchemy import Connection

from agent.compaction.settings import MemorySettings
from agent.core.clock import SystemClock
from agent.core.ids import ConversationId, CostAttribution, PersonId, SessionId
from agent.core.messages import text_message
from agent.core.untrusted_text import harmless
from agent.memory import rows
from agent.memory.lexicon import kept_of
from agent.memory.local_vectors import LocalEmbedder, is_installed
from agent.memory.memory import Memory
from agent.memory.recall_block import block_for
from agent.memory.records import Scope, Strategy
from agent.memory.settings import RecallSettings, SemanticSettings
from agent.memory.vectors import Embedder, Vectors
from agent.sessions import store
from agent.sessions.store import Stored
from agent.storage.database import Database
from agent.storage.timestamps import to_timestamp
from gateway.storage.repair import open_database
from tests.bench.memory.histories import Asked, History, Said

GROUP = ConversationId("telegram:-1")
BILL = CostAttribution(purpose="bench", conversation=GROUP)
MOST = 10
# The default, which goes by words; and both ways for each question, where vectors are there.
SETTINGS = {"words": MemorySettings(), "both": MemorySettings(recall=RecallSettings(strategy="hybrid"))}


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The result of one question: the ranks (from 1) of the messages that hold the answer, and their number.

    `shown` of these stand whole in the block that a model gets, which has `chars`. `cpu_ms` is the block's alone.
    """

    history: str
    way: str
    kind: str
    places: tuple[int, ...]
    evidence: int
    shown: int
    chars: int
    ms: float
    cpu_ms: float


@dataclass(slots=True)
class Feed:
    """One history in a database of its own."""

    history: History
    memory: Memory
    scope: Scope
    home: Path
    ids: dict[int, str] = field(default_factory=dict)  # of the transcript, to those of the history
    cpu_ms: list[float] = field(default_factory=list)  # of keeping each message, its share of the commit included
    vectors_cpu_s: float = 0.0
    way: list[str] = field(default_factory=lambda: ["words"])

    @classmethod
    @asynccontextmanager
    async def of(cls, history: History, home: Path, *, vectors: bool = False) -> AsyncIterator["Feed"]:
        home.mkdir(parents=True)  # noqa: ASYNC240 - nothing else runs
        database = await open_database("sqlite:///tieline.db", home)
        try:
            way = ["both" if vectors else "words"]
            embedder = LocalEmbedder() if vectors and is_installed() else None
            memory = memory_of(database, embedder, way)
            feed = cls(history, memory, memory.scope(GROUP, "group", None), home, way=way)
            await feed._take(database)
            if memory.vectors is not None:
                began = time.process_time()
                await memory.vectors.catch_up(feed.scope.own, BILL)
                feed.vectors_cpu_s = time.process_time() - began
            yield feed
        finally:
            await database.aclose()

    @property
    def bytes(self) -> int:
        """Of the database with its log."""
        return sum(path.stat().st_size for path in self.home.glob("tieline.db*"))

    async def asked(self, way: str) -> list[Found]:
        """Every question once: "words" as shipped, "both" with vectors for each question."""
        self.way[0] = way
        strategy: Strategy = "hybrid" if way == "both" else "keyword"
        found = []
        for question in self.history.questions:
            given = await self.memory.recall(question.text, self.scope, attribution=BILL, strategy=strategy, limit=MOST)
            order = list(dict.fromkeys(self.ids[item.message_id] for item in given.items if item.message_id))
            places = tuple(place for place, id in enumerate(order, 1) if id in question.evidence)
            worked, began = time.process_time(), time.perf_counter()
            block = await block_for(
                question.text, self.scope, self.memory, self.memory.settings.recall, attribution=BILL, begins=True
            )
            ms, cpu_ms = (time.perf_counter() - began) * 1000, (time.process_time() - worked) * 1000
            found.append(
                Found(
                    history=self.history.id,
                    way=way,
                    kind=question.kind,
                    places=places,
                    evidence=len(question.evidence),
                    shown=self._shown(question, block),
                    chars=len(block),
                    ms=ms,
                    cpu_ms=cpu_ms,
                )
            )
        return found

    def _shown(self, question: Asked, block: str) -> int:
        """The number of messages of the answer that are whole in the block."""
        lines = block.splitlines()
        wanted = (said for said in self.history.messages if said.id in question.evidence)
        return sum(any(line.endswith(_line(said)) for line in lines) for said in wanted)

    async def _take(self, database: Database) -> None:
        """Each message in a commit of its own, as turns do it."""
        for number, said in enumerate(self.history.messages):

            def work(conn: Connection, number: int = number, said: Said = said) -> float:
                session, person = SessionId(f"{said.at:%Y-%m-%d}"), PersonId(f"telegram:{said.speaker}")
                at = to_timestamp(said.at)
                store.open_session(conn, session, GROUP, title=said.text, at=at)
                message = text_message("user", said.text, created_at=said.at)
                stored = Stored(message=message, inbox_id=number, position=0, person=person)
                id = store.append(conn, session, GROUP, stored, at=at)
                assert id is not None
                self.ids[id] = said.id
                began = time.thread_time()
                kept = kept_of(
                    said.text,
                    person=person,
                    speaker=said.speaker,
                    session=session,
                    message_id=id,
                    inbox_id=number,
                )
                rows.keep(conn, self.scope, kept, self.memory.lexicon, at=at)
                return time.thread_time() - began

            self.cpu_ms.append(await database.write(work) * 1000)


def _line(said: Said) -> str:
    return harmless(f"{said.speaker or f'telegram:{said.speaker}'}: {' '.join(said.text.split())}")


def memory_of(database: Database, embedder: Embedder | None = None, way: Sequence[str] = ("words",)) -> Memory:
    """The memory of a default installation; with the embedder, `way[0]` says whether it is used."""
    settings = {
        name: MemorySettings(recall=one.recall, semantic=SemanticSettings(timeout_s=600))
        for name, one in SETTINGS.items()
    }

    async def current() -> Embedder | None:
        return embedder if way[0] == "both" else None

    vectors = Vectors(database, current) if embedder is not None else None
    return Memory(database, SystemClock(), settings=lambda: settings[way[0]], vectors=vectors)
