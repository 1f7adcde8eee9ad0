"""Kept, found, failed and missed, on both databases."""

import sys
import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import anyio
import pytest
from sqlalchemy import Connection, insert, select, text

from agent.compaction.settings import MemorySettings
from agent.core.errors import Refused
from agent.core.ids import ConversationId, CostAttribution, PersonId
from agent.memory import graph, pgvector, rows
from agent.memory.memory import Memory
from agent.memory.misses import BATCH, LONGEST_QUERY, MOST_WAITING, OUTCOME, MissLog, prune
from agent.memory.records import Edge, Kept, Scope, audience_of_place
from agent.memory.rows import follow
from agent.memory.settings import GraphSettings, RecallSettings
from agent.memory.vectors import AT_ONCE, Embedder, NoVectors, Vectors, nearest, unit
from agent.storage.database import Database
from agent.storage.tables import entity, memory, memory_vector, relation, skill_outcomes, user_model
from agent.storage.timestamps import to_timestamp
from tests.fakes.clock import FakeClock
from tests.fakes.embedding import FakeEmbedder

CHAT = ConversationId("telegram:77")
ANN = PersonId("telegram:77")
BILL = CostAttribution(purpose="turn", conversation=CHAT)


class GrowingEmbedder(FakeEmbedder):
    """A provider whose vectors under the same name have become longer."""

    longer = False

    def _of(self, text: str) -> bytes:
        return super()._of(text) + (bytes(4) * 64 if self.longer else b"")


class Room:
    """A memory over a database, with vectors from a fake embedder unless told otherwise."""

    def __init__(self, database: Database, clock: FakeClock, *, vectors: bool = True) -> None:
        self.database, self.clock = database, clock
        self.settings = MemorySettings()
        self.embedder = FakeEmbedder(same={"vessel": "boat"})

        async def embedder() -> FakeEmbedder:
            return self.embedder

        self.vectors = Vectors(database, embedder) if vectors else None
        self.memory = Memory(database, clock, settings=lambda: self.settings, vectors=self.vectors)
        self.scope = self.memory.scope(CHAT, "direct", ANN)

    async def fact(self, words: str, scope: Scope | None = None, **more: Any) -> int:
        fact = Kept(kind="fact", text=words, source="tool", person=ANN, **more)
        id = await self.memory.remember(scope or self.scope, fact)
        assert id is not None
        if self.vectors is not None:
            await self.vectors.catch_up((scope or self.scope).own, BILL)
        return id

    async def texts(self, query: str, **more: Any) -> Sequence[str]:
        found = await self.memory.recall(query, more.pop("scope", self.scope), attribution=BILL, limit=5, **more)
        return [item.text for item in found.items]

    async def missed(self) -> list[Any]:
        await self.memory.misses.flush()
        return list(
            await self.database.read(
                lambda conn: conn.execute(select(skill_outcomes).order_by(skill_outcomes.c.id)).all()
            )
        )


async def test_a_fact_is_kept_once_found_and_replaced(database: Database, clock: FakeClock) -> None:
    room = Room(database, clock, vectors=False)
    first = await room.fact("Ann's boat is called Albatross.")
    assert await room.fact("ann's boat is called ALBATROSS") == first
    await room.fact("Ann drinks tea at four.")
    assert await room.texts("what is her boat called?") == ["Ann's boat is called Albatross."]
    newer = await room.memory.remember(
        room.scope, Kept(kind="fact", text="Ann's boat is called Petrel.", source="tool"), replaces=first
    )
    assert await room.texts("boat") == ["Ann's boat is called Petrel."]
    assert newer is not None
    assert await room.memory.remember(room.scope, Kept(kind="fact", text="?!", source="tool")) is None
    assert await room.memory.drop(room.scope, newer)
    assert not await room.memory.drop(room.scope, newer)
    assert await room.texts("boat") == []


@pytest.mark.requirement("G-25")
async def test_audiences_are_strangers(database: Database, clock: FakeClock) -> None:
    room = Room(database, clock)
    group = room.memory.scope(ConversationId("telegram:-5"), "group", ANN)
    bob = room.memory.scope(CHAT, "direct", PersonId("telegram:78"))
    number = await room.fact("The harbour password is heron.")
    for other in (group, bob):
        for strategy in ("keyword", "semantic", "hybrid", "graph"):
            assert await room.texts("harbour password heron", scope=other, strategy=strategy) == []
        assert not await room.memory.drop(other, number)
        fact = Kept(kind="fact", text="Another thing entirely.", source="tool")
        await room.memory.remember(other, fact, replaces=number)
    assert await room.texts("harbour password") == ["The harbour password is heron."]


async def test_what_another_told_is_not_ones_own_to_take_away(database: Database, clock: FakeClock) -> None:
    room = Room(database, clock, vectors=False)
    place = ConversationId("telegram:-5")
    anns, bobs = (room.memory.scope(place, "group", PersonId(f"telegram:{id}")) for id in (77, 78))
    number = await room.fact("The harbour password is heron.", anns)
    other = Kept(kind="fact", text="The harbour password is stork.", source="tool")
    with pytest.raises(Refused):
        await room.memory.drop(bobs, number, others_too=False)
    with pytest.raises(Refused):
        await room.memory.remember(bobs, other, replaces=number, others_too=False)
    assert await room.texts("harbour password", scope=bobs) == ["The harbour password is heron."]
    assert await room.memory.remember(anns, other, replaces=number, others_too=False)
    assert await room.texts("harbour password", scope=bobs) == ["The harbour password is stork."]


async def test_words_and_meaning_are_made_into_one_order(database: Database, clock: FakeClock) -> None:
    room = Room(database, clock)
    await room.fact("The boat lies in the harbour of Oslo.")
    await room.fact("A vessel needs paint each spring.")
    await room.fact("The dentist is on Tuesday.")
    assert await room.texts("boat", strategy="keyword") == ["The boat lies in the harbour of Oslo."]
    assert set(await room.texts("boat", strategy="semantic")) == {
        "The boat lies in the harbour of Oslo.",
        "A vessel needs paint each spring.",
    }
    assert (await room.texts("boat in Oslo", strategy="hybrid"))[0] == "The boat lies in the harbour of Oslo."
    room.settings = MemorySettings(recall=RecallSettings(strategy="keyword"))
    assert len(await room.texts("what about the boat there?")) == 1, "a configured way is taken always"


async def test_what_the_question_chose_hears_the_words_too(sqlite_database: Database, clock: FakeClock) -> None:
    room = Room(sqlite_database, clock)
    room.embedder.least = 0.6
    near, by_word = "Boat: the ticket.", "Boat paint, brushes, rollers, sandpaper and varnish lie here."
    for words in (near, by_word):
        await room.fact(words)
    asked = "where is the boat with its ticket?"
    assert await room.texts(asked, strategy="semantic") == [near]
    assert await room.texts(asked) == [near, by_word]
    room.settings = MemorySettings(recall=RecallSettings(strategy="semantic"))
    assert await room.texts(asked) == [near], "a configured way is taken alone"


async def test_vectors_follow_what_is_kept_forgotten_and_another_model(database: Database, clock: FakeClock) -> None:
    room = Room(database, clock)
    first = await room.fact("The boat lies in Oslo.")
    assert len(await room.texts("boat", strategy="semantic")) == 1
    await room.fact("Another boat lies in Bergen.")
    assert len(await room.texts("boat", strategy="semantic")) == 2, "what is new joins what was read before"
    await room.memory.drop(room.scope, first)
    assert await room.texts("boat", strategy="semantic") == ["Another boat lies in Bergen."]
    room.embedder.name = "other"
    assert room.vectors is not None
    assert await room.vectors.catch_up(room.scope.own, BILL) == 1
    assert await room.vectors.catch_up(room.scope.own, BILL) == 0
    held = await database.read(lambda conn: conn.execute(select(memory_vector.c.model)).scalars().all())
    assert held == ["other"]


async def test_where_postgresql_has_pgvector_it_compares_the_same(database: Database, clock: FakeClock) -> None:
    room = Room(database, clock)
    await room.fact("Ann's boat is called Albatross.")
    await room.fact("The oven is repaired on Friday.")
    assert room.vectors is not None
    query, in_database = "the vessel", await database.write(pgvector.prepare)
    expected = await room.vectors.search(query, room.scope, attribution=BILL, most=5)
    held = room.vectors.held
    assert bool(held) is not in_database, "nothing is held here then"
    if in_database:
        index = text("SELECT 1 FROM pg_indexes WHERE indexname = 'ix_memory_vector_waiting'")
        assert await database.read(lambda conn: conn.execute(index).scalar()) == 1
    if in_database:  # vectors that were made before the extension was there
        await database.write(lambda conn: conn.execute(text("UPDATE memory_vector SET embedding = NULL")))
        again = await room.vectors.search(query, room.scope, attribution=BILL, most=5)
        assert held, "until they are taken in they are compared here"
        assert [id for id, _ in again] == [id for id, _ in expected]
        assert [score for _, score in again] == pytest.approx([score for _, score in expected], abs=1e-6)
        await room.vectors.catch_up(room.scope.own, BILL)
        left = text("SELECT count(*) FROM memory_vector WHERE embedding IS NULL")
        assert await database.read(lambda conn: conn.execute(left).scalar_one()) == 0
    assert await room.memory.drop(room.scope, expected[0][0])
    room.vectors.forget()
    assert expected[0][0] not in [
        id for id, _ in await room.vectors.search(query, room.scope, attribution=BILL, most=5)
    ]


async def test_without_the_right_to_it_postgresql_compares_nothing(database: Database) -> None:
    class TakenBackError(Exception):
        """So that nothing stays of the role."""

    def work(conn: Connection) -> None:
        if database.dialect == "postgresql":
            conn.execute(text("CREATE ROLE plain"))
            conn.execute(text("SET LOCAL ROLE plain"))
        assert not pgvector.prepare(conn)
        raise TakenBackError

    with pytest.raises(TakenBackError):
        await database.write(work)


async def test_texts_that_are_compared_again_and_again_are_made_piece_by_piece(
    sqlite_database: Database, clock: FakeClock
) -> None:
    class Tiring(FakeEmbedder):
        """Has no time for more than one piece."""

        async def embed(self, texts: Sequence[str], *, as_query: bool, attribution: CostAttribution) -> Sequence[bytes]:
            if self.texts and self.error is None:
                self.error = NoVectors("out of time")
            return await super().embed(texts, as_query=as_query, attribution=attribution)

    embedder = Tiring()

    async def current() -> Embedder:
        return embedder

    vectors = Vectors(sqlite_database, current)
    texts = {f"skill{number}": f"how to do number{number}" for number in range(AT_ONCE + 8)}
    with pytest.raises(NoVectors):
        await vectors.surely_near("number3", texts, attribution=BILL)
    made = len(embedder.texts)
    assert made >= AT_ONCE
    embedder.error = None
    embedder.texts.clear()
    with pytest.raises(NoVectors):
        await vectors.surely_near("number3", texts, attribution=BILL)
    assert embedder.texts[:8] == list(texts.values())[AT_ONCE:], "goes on where it was"


def test_nearest_is_the_same_with_and_without_numpy() -> None:
    vectors = [unit([1.0, 0.0, 0.1]), unit([0.0, 1.0, 0.0]), unit([0.9, 0.1, 0.0])]
    found = nearest(unit([1.0, 0.0, 0.0]), [5, 6, 7], b"".join(vectors), 0.5, 5)
    assert [id for id, _ in found] == [5, 7]
    with pytest.raises(NoVectors):
        unit([0.0, 0.0])


@pytest.mark.requirement("Z-133", "Z-134", "Z-135", "Z-138", "Z-140", "Z-142")
async def test_what_is_not_found_is_noted(database: Database, clock: FakeClock) -> None:
    room = Room(database, clock)
    scope = replace(room.scope, session="s-1")  # type: ignore[arg-type]
    await room.memory.recall("where is the petrel " + "x" * 1000, scope, attribution=BILL, limit=5, strategy="hybrid")
    missed = await room.missed()
    assert [(row.strategy, row.error, row.session_id) for row in missed] == [
        ("semantic", "no_results", "s-1"),
        ("hybrid", "no_results", "s-1"),
    ]
    assert {row.outcome_type for row in missed} == {"memory_miss"} == {OUTCOME}
    assert len(missed[0].query) == LONGEST_QUERY == 512
    assert missed[0].ts == int(clock.now().timestamp())
    assert await database.write(lambda conn: prune(conn, before_s=missed[0].ts)) == 0
    assert await database.write(lambda conn: prune(conn, before_s=missed[0].ts + 1)) == 2


@pytest.mark.requirement("Z-134", "Z-136", "Z-142")
@pytest.mark.parametrize("error", [NoVectors("the network is gone"), TimeoutError(), OSError("no model")])
async def test_vectors_that_fail_leave_the_words(database: Database, clock: FakeClock, error: Exception) -> None:
    room = Room(database, clock)
    await room.fact("The boat lies in Oslo.")
    room.embedder.error = error
    for strategy in ("semantic", "hybrid"):
        assert await room.texts("where is the boat", strategy=strategy) == ["The boat lies in Oslo."]
    missed = await room.missed()
    assert [(row.outcome_type, row.strategy) for row in missed] == [("memory_miss", "semantic")] * 2
    assert missed[0].error.startswith(type(error).__name__)


@pytest.mark.requirement("Z-11", "Z-133", "Z-137")
async def test_a_graph_that_knows_nothing_or_fails(database: Database, clock: FakeClock) -> None:
    room = Room(database, clock, vectors=False)
    found = await room.memory.recall("who is the sister of Ida", room.scope, attribution=BILL, limit=5)
    assert found.strategy == "graph"
    assert found.edges == ()

    source = await room.fact("Ida is a sister of Ann.")
    unsure = Edge(subject="Ida", word="sister of", object="Ann", confidence=0.01, memory_id=source)
    await database.write(lambda conn: graph.join(conn, room.scope.own, unsure, at=0))
    found = await room.memory.recall("who is the sister of Ida", room.scope, attribution=BILL, limit=5)
    assert found.edges == (), "below the threshold of confidence"

    def ruin(conn: Connection) -> None:
        edge = Edge(subject="Ida", word="sister of", object="Ann", confidence=1.0, memory_id=source)
        graph.join(conn, room.scope.own, edge, at=0)
        conn.execute(text("DROP TABLE relation"))

    await database.write(ruin)
    found = await room.memory.recall("who is the sister of Ida", room.scope, attribution=BILL, limit=5)
    assert [item.text for item in found.items] == ["Ida is a sister of Ann."]
    missed = await room.missed()
    assert [row.strategy for row in missed if row.strategy == "graph"] == ["graph"] * 3
    assert missed[0].error == "no_results"
    assert "relation" in missed[-1].error


async def test_relations_are_found_within_hops_and_above_a_confidence(database: Database, clock: FakeClock) -> None:
    room = Room(database, clock, vectors=False)
    source = await room.fact("Ida, Ann, Bob and Cem know each other.")
    at = to_timestamp(clock.now())

    def fill(conn: Connection) -> None:
        for subject, word, other, sure in (
            ("Ida Berg", "sister of", "Ann", 1.0),
            ("Ann", "works with", "Bob", 0.9),
            ("Bob", "married to", "Cem", 0.9),
            ("Ann", "dislikes", "tea", 0.2),
        ):
            edge = Edge(subject=subject, word=word, object=other, confidence=sure, memory_id=source)
            graph.join(conn, room.scope.own, edge, at=at)
            graph.join(conn, room.scope.own, edge, at=at)

    await database.write(fill)
    found = await room.memory.recall("who is related to Ida?", room.scope, attribution=BILL, limit=5)
    assert [edge.text for edge in found.edges] == ["Ida Berg sister of Ann", "Ann works with Bob"]
    room.settings = MemorySettings(graph=GraphSettings(max_hops=3, min_confidence=0.1))
    found = await room.memory.recall("who is related to Ida?", room.scope, attribution=BILL, limit=5)
    assert {edge.object for edge in found.edges} == {"Ann", "Bob", "Cem", "tea"}
    group = room.memory.scope(ConversationId("telegram:-5"), "group", ANN)
    assert not (await room.memory.recall("who is related to Ida?", group, attribution=BILL, limit=5)).edges

    def moved(conn: Connection) -> None:
        edge = Edge(subject="Ann", word="works with", object="Dora", confidence=0.9, memory_id=source)
        graph.join(conn, room.scope.own, edge, at=at, only_one=True)

    await database.write(moved)
    found = await room.memory.recall("who is related to Ann?", room.scope, attribution=BILL, limit=5)
    assert "Ann works with Bob" not in [edge.text for edge in found.edges], "what is over is not followed"
    await room.memory.drop(room.scope, source)
    left = await database.read(lambda conn: [*conn.execute(select(relation.c.id)), *conn.execute(select(entity.c.id))])
    assert left == []


@pytest.mark.requirement("Z-139")
async def test_noting_a_miss_never_waits(database: Database, clock: FakeClock) -> None:
    log = MissLog(database, clock)
    for number in range(MOST_WAITING + 40):
        log.note(CHAT, f"query {number}", "hybrid")
    await log.flush()
    held = await database.read(lambda conn: conn.execute(select(skill_outcomes.c.query)).scalars().all())
    assert len(held) == MOST_WAITING == 256, "what does not fit is dropped"
    assert BATCH == 16

    def ruin(conn: Connection) -> None:
        conn.execute(text("DROP TABLE skill_outcomes"))

    await database.write(ruin)
    log.note(CHAT, "lost", "hybrid")
    await log.flush()


@pytest.mark.requirement("Z-139")
async def test_recall_answers_while_misses_cannot_be_written(sqlite_database: Database, clock: FakeClock) -> None:
    room = Room(sqlite_database, clock, vectors=False)
    free = threading.Event()
    async with anyio.create_task_group() as group:
        group.start_soon(sqlite_database.write, lambda conn: free.wait(60))  # SQLite's one writer is busy
        group.start_soon(room.memory.misses.run)
        try:
            with anyio.fail_after(20):
                for number in range(2 * BATCH):
                    assert await room.texts(f"xylophone {number}", strategy="hybrid") == []
        finally:
            free.set()
        group.cancel_scope.cancel()
    await room.memory.misses.flush()
    assert len(await room.missed()) >= BATCH


@pytest.mark.requirement("Z-139")
async def test_what_no_database_takes_is_given_up(database: Database, clock: FakeClock) -> None:
    log = MissLog(database, clock)
    log.note(CHAT, "moored \ud83d harbour", "hybrid")  # no error of the database's: its driver cannot write it down
    await log.flush()
    log.note(CHAT, "the next one", "hybrid")
    await log.flush()
    held = await database.read(lambda conn: conn.execute(select(skill_outcomes.c.query)).scalars().all())
    assert held == ["the next one"]


async def test_off_and_counts_and_lists(database: Database, clock: FakeClock) -> None:
    room = Room(database, clock, vectors=False)
    assert not await room.memory.is_off(CHAT)
    await room.memory.set_off(CHAT, off=True)
    assert await room.memory.is_off(CHAT)
    for number in range(3):
        clock.advance(1)
        await room.fact(f"Fact number {number} about boats.")
    own = room.scope.own
    listed = await database.read(lambda conn: rows.facts(conn, (own,), most=2))
    assert [item.text[:13] for item in listed] == ["Fact number 2", "Fact number 1"]
    assert await database.read(lambda conn: rows.counts(conn, (own,))) == {"fact": 3}
    newest = to_timestamp(listed[0].at)
    amounts = await database.read(lambda conn: rows.amounts(conn, (own, audience_of_place(CHAT))))
    assert amounts == {own: rows.Amount(facts=3, said=0, at=newest)}
    assert await database.read(lambda conn: rows.conversations(conn, (own,))) == (CHAT,)
    assert len(await database.read(lambda conn: conn.execute(select(memory.c.id)).all())) == 3


async def test_a_place_that_is_renamed_keeps_what_it_knows(database: Database, clock: FakeClock) -> None:
    room = Room(database, clock)
    old, new = ConversationId("telegram:-5"), ConversationId("telegram:-1005")
    before, after = (room.memory.scope(place, "group", ANN) for place in (old, new))
    source = await room.fact("The harbour password is heron.", before)
    edge = Edge(subject="Ida", word="owns", object="the boat", confidence=1.0, memory_id=source)
    await database.write(lambda conn: graph.join(conn, before.own, edge, at=0))
    await room.memory.set_off(old, off=True)
    for person, audience, at in ((ANN, before.own, 1), ("telegram:78", before.own, 2), (ANN, after.own, 3)):
        style = {"person": person, "audience": audience, "updated_at": at}
        await database.write(lambda conn, style=style: conn.execute(insert(user_model), style))  # type: ignore[misc]
    await database.write(lambda conn: follow(conn, old, new))
    styles = await database.read(
        lambda conn: conn.execute(select(user_model.c.updated_at, user_model.c.audience)).all()
    )
    assert {tuple(row) for row in styles} == {(2, after.own), (3, after.own)}, "of both places: the new one's"
    for strategy in ("keyword", "semantic"):
        assert await room.texts("harbour password", scope=after, strategy=strategy) == [
            "The harbour password is heron."
        ]
        assert await room.texts("harbour password", scope=before, strategy=strategy) == []
    found = await room.memory.recall("what is related to Ida?", after, attribution=BILL, limit=5)
    assert [edge.object for edge in found.edges] == ["the boat"]
    assert await room.memory.is_off(new)
    await room.memory.set_off(old, off=False)
    await database.write(lambda conn: graph.join(conn, before.own, edge, at=0))
    await database.write(lambda conn: follow(conn, old, new))
    assert await room.memory.is_off(new), "the new place's own choice stays"


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("Ida writes C.", "Ida writes C++.", False),
        ("It has 18 degrees.", "It has -18 degrees.", False),
        ("It costs $5.", "It costs €5.", False),
        ("Ida's boat is well-known", "ida's boat: is WELL known!", True),
    ],
)
async def test_signs_make_another_fact(database: Database, clock: FakeClock, one: str, other: str, same: bool) -> None:
    room = Room(database, clock, vectors=False)
    assert (await room.fact(one) == await room.fact(other)) is same


async def test_after_a_move_a_fact_is_kept_once(database: Database, clock: FakeClock) -> None:
    room = Room(database, clock, vectors=False)
    old, new = ConversationId("telegram:-5"), ConversationId("telegram:-1005")
    before, after = (room.memory.scope(place, "group", ANN) for place in (old, new))
    moved = await room.fact("The harbour password is heron.", before)
    await room.fact("Tea is at four.", before)
    there = await room.fact("Tea is at four.", after)
    await database.write(lambda conn: follow(conn, old, new))
    assert await room.fact("the harbour password is heron", after) == moved
    assert await room.fact("Tea is at four.", after) == there
    facts = await database.read(lambda conn: rows.facts(conn, (after.own,), most=9))
    assert len(facts) == 2


class Watched:
    """A database that notes in which files the work of its transactions was."""

    def __init__(self, inner: Database) -> None:
        self._inner = inner
        self.files: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def write(self, work: Any) -> Any:
        def watched(conn: Connection) -> Any:
            sys.setprofile(lambda frame, *_: self.files.add(frame.f_code.co_filename))
            try:
                return work(conn)
            finally:
                sys.setprofile(None)

        return await self._inner.write(watched)


async def test_names_are_compared_while_nobody_waits_to_write(sqlite_database: Database, clock: FakeClock) -> None:
    room = Room(sqlite_database, clock, vectors=False)
    for words in ("Idas boat is called Albatross.", "The boat was painted."):
        source = await room.fact(words)
    edge = Edge(subject="Albatross", word="is", object="a boat", confidence=1.0, memory_id=source)
    await sqlite_database.write(lambda conn: graph.join(conn, room.scope.own, edge, at=0))
    watched = Watched(sqlite_database)

    async def ask(rules: str, said: str) -> str:
        return '{"subject": "Albatros", "relation": "belongs to", "object": "Ida", "confidence": 0.9, "message": 1}'

    assert await graph.read_new(cast(Database, watched), room.scope, ask, every=1, at=1) == 1
    edges = await sqlite_database.read(lambda conn: graph.listed(conn, (room.scope.own,), most=9))
    assert "Albatross" in {one.subject for one in edges if one.object == "Ida"}, "known under that name"
    assert not any(file.endswith("difflib.py") for file in watched.files)
    assert any(file.endswith("memory/graph.py") for file in watched.files)


async def test_vectors_of_another_size_are_left_out_and_made_again(database: Database, clock: FakeClock) -> None:
    room = Room(database, clock)
    room.embedder = GrowingEmbedder(same={"vessel": "boat"})
    assert room.vectors is not None
    await room.fact("The boat lies in the harbour.")
    assert await room.texts("Where is the vessel?", strategy="semantic")
    room.embedder.longer = True
    assert await room.texts("Where is my vessel?", strategy="semantic") == []
    assert await room.texts("Where is the boat?")
    await room.fact("The harbour has a crane.")
    assert await room.texts("Where is that vessel?", strategy="semantic") == ["The boat lies in the harbour."]


async def test_an_outage_of_vectors_is_warned_about_once(
    sqlite_database: Database, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    room = Room(sqlite_database, clock)
    await room.fact("The boat lies in the harbour of Oslo.")
    for number, error in enumerate((TimeoutError("late"), TimeoutError("late"), None, TimeoutError("late"))):
        room.embedder.error = error
        found = await room.texts(f"where does the boat lie on day {number}?")  # a new question: vectors are kept
        assert found == ["The boat lies in the harbour of Oslo."]
    assert [record.levelname for record in caplog.records if "vectors were not searched" in record.message] == [
        "WARNING",
        "WARNING",
    ], "once for each outage"
    assert len(await room.missed()) == 3, "the log of misses has every one"
