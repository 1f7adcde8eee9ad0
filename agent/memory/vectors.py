"""Vectors of the memory and the search among them. Every vector belongs to one audience and one model.

Up to some hundred thousand of them comparing with each takes milliseconds: there is no index. Where
PostgreSQL has pgvector it compares them itself, and none are held here.
"""

import importlib
import math
from array import array
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

import anyio
import anyio.to_thread
from sqlalchemy import Connection, bindparam, delete, func, insert, select

from agent.core.errors import Transient
from agent.core.ids import CostAttribution
from agent.memory import pgvector
from agent.memory.records import Audience, Scope
from agent.storage.database import Database
from agent.storage.statements import or_update
from agent.storage.tables import memory, memory_vector

MOST_CACHED = 40_000  # vectors of all audiences together: some 60 MB
AT_ONCE = 32  # texts of one call
LONGEST = 2_000  # characters of a text that are looked at

_KEEP = or_update(insert(memory_vector), key=("memory_id",), columns=("audience", "model", "vector"))
_NEWER = (
    select(memory_vector.c.memory_id, memory_vector.c.vector)
    .where(
        memory_vector.c.audience == bindparam("of"),
        memory_vector.c.model == bindparam("made_by"),
        func.length(memory_vector.c.vector) == bindparam("size"),
        memory_vector.c.memory_id > bindparam("after"),
    )
    .order_by(memory_vector.c.memory_id)
)
_EXTENT = select(func.count(), func.max(memory_vector.c.memory_id)).where(
    memory_vector.c.audience == bindparam("of"),
    memory_vector.c.model == bindparam("made_by"),
    func.length(memory_vector.c.vector) == bindparam("size"),
)
# A provider may give a model another size of vectors: those cannot be compared, and are made again.
_OF_ANOTHER_SIZE = delete(memory_vector).where(
    memory_vector.c.audience == bindparam("of"),
    memory_vector.c.model == bindparam("made_by"),
    func.length(memory_vector.c.vector) != bindparam("size"),
)


class NoVectors(Transient):
    """No vector could be made just now; the words alone must do."""


class Embedder(Protocol):
    """Makes vectors. `name` names the model for good.

    From the similarity `least` on two of its vectors may be about the same matter, from `sure` on they are.
    """

    name: str
    least: float
    sure: float

    async def embed(self, texts: Sequence[str], *, as_query: bool, attribution: CostAttribution) -> Sequence[bytes]:
        """32-bit floats of length 1, one for each text. Raises an AgentError, NoVectors where nothing else fits."""


@dataclass(slots=True)
class _Held:
    """The vectors of one audience as they were read last: one after the other in `numbers`."""

    ids: list[int] = field(default_factory=list)
    numbers: bytearray = field(default_factory=bytearray)


class Vectors:
    """Vectors of all conversations. `embedder` gives who makes them now; None: nobody does, and nothing is found."""

    def __init__(
        self,
        database: Database,
        embedder: Callable[[], Awaitable[Embedder | None]],
        *,
        least: Callable[[], float | None] = lambda: None,
    ) -> None:
        self._database = database
        self._embedder = embedder
        self._least = least
        self.held: OrderedDict[tuple[str, str, int], _Held] = OrderedDict()
        self._asked: tuple[str, str, bytes] | None = None  # the newest query: its model, words and vector
        self._few: dict[tuple[str, str], bytes] = {}  # vectors of the texts that were compared last
        self._reading = anyio.Lock()
        self._by_database: bool | None = None  # None: not asked yet

    async def is_on(self) -> bool:
        """Whether somebody makes vectors, or should and cannot."""
        try:
            return await self._embedder() is not None
        except NoVectors:
            return True

    async def search(
        self, query: str, scope: Scope, *, attribution: CostAttribution, most: int, sure: bool = False
    ) -> list[tuple[int, float]]:
        """The things nearest in meaning, as (id, similarity), nearest first; only those that may, or `sure`ly, fit.

        Raises an AgentError or what the database raises.
        """
        embedder = await self._embedder()
        if embedder is None:
            raise NoVectors("nobody makes vectors")
        wanted = await self._wanted(embedder, query, attribution)
        chosen = self._least()
        least = (embedder.sure if sure else embedder.least) if chosen is None else chosen
        found: list[tuple[int, float]] = []
        by_database = await self._compared_there()
        for audience in scope.visible:
            if by_database:
                there = await self._database.read(
                    partial(
                        pgvector.nearest, audience=audience, model=embedder.name, wanted=wanted, least=least, most=most
                    )
                )
                if there is not None:
                    found += there
                    continue
            async with self._reading:  # two turns of one person must not both add what is new, nor while it is searched
                held = await self._current(audience, embedder.name, len(wanted))
                if held.ids:
                    found += await anyio.to_thread.run_sync(nearest, wanted, held.ids, held.numbers, least, most)
        found.sort(key=lambda pair: (-pair[1], -pair[0]))
        return found[:most]

    async def surely_near(
        self, query: str, texts: Mapping[str, str], *, attribution: CostAttribution
    ) -> dict[str, float]:
        """The texts, by key, that are surely about the query's matter, and how near they are.

        Their vectors are kept as long as the texts stay the same; all of them are looked at. Raises as `search` does.
        """
        embedder = await self._embedder()
        if embedder is None or not texts:
            return {}
        wanted_ones = [(embedder.name, text) for text in dict.fromkeys(texts.values())]
        kept = {key: self._few[key] for key in wanted_ones if key in self._few}
        missing = [key[1] for key in wanted_ones if key not in kept]
        for begin in range(0, len(missing), AT_ONCE):
            some = missing[begin : begin + AT_ONCE]
            numbers = await embedder.embed([text[:LONGEST] for text in some], as_query=False, attribution=attribution)
            made = {(embedder.name, text): vector for text, vector in zip(some, numbers, strict=True)}
            kept |= made
            self._few |= made  # at once: who has no time for all of them goes on from here the next time
        if missing:
            self._few = kept
        wanted = await self._wanted(embedder, query, attribution)
        keys = list(texts)
        numbers_of = b"".join(kept[embedder.name, texts[key]] for key in keys)
        places = list(range(len(keys)))
        chosen = self._least()
        least = embedder.sure if chosen is None else chosen
        near = await anyio.to_thread.run_sync(nearest, wanted, places, numbers_of, least, len(keys))
        return {keys[place]: score for place, score in near}

    async def _wanted(self, embedder: Embedder, query: str, attribution: CostAttribution) -> bytes:
        """The vector of a query; several ask for the same one within a turn."""
        words, asked = query[:LONGEST], self._asked
        if asked is None or asked[:2] != (embedder.name, words):
            (vector,) = await embedder.embed([words], as_query=True, attribution=attribution)
            self._asked = asked = (embedder.name, words, vector)
        return asked[2]

    async def catch_up(self, audience: Audience, attribution: CostAttribution) -> int:
        """Make the vectors that are missing; returns how many. Raises as `search` does."""
        embedder = await self._embedder()
        if embedder is None:
            return 0
        name, made = embedder.name, 0
        while True:
            waiting = await self._database.read(lambda conn: _without(conn, audience, name))
            if not waiting:
                if await self._compared_there():
                    await self._taken_in(audience, name)
                return made
            numbers = await embedder.embed(
                [text[:LONGEST] for _, text in waiting], as_query=False, attribution=attribution
            )
            found = [
                {"memory_id": id, "audience": audience, "model": name, "vector": vector}
                for (id, _), vector in zip(waiting, numbers, strict=True)
            ]
            by_database = await self._compared_there()
            await self._database.write(partial(_write, vectors=found, by_database=by_database))
            made += len(found)

    def forget(self) -> None:
        """Something was erased: nothing of it may stay here."""
        self.held.clear()
        self._asked = None

    async def _compared_there(self) -> bool:
        """Whether the database compares vectors itself."""
        if self._by_database is None:
            postgres = self._database.dialect == "postgresql"
            self._by_database = postgres and await self._database.write(pgvector.prepare)
        return self._by_database

    async def _taken_in(self, audience: Audience, model: str) -> None:
        some = pgvector.PAGE
        while some == pgvector.PAGE:
            some = await self._database.write(partial(pgvector.fill, audience=audience, model=model))

    async def _current(self, audience: Audience, model: str, size: int) -> _Held:
        """All vectors of an audience that have so many bytes; only what came since the last look is read."""
        key = (audience, model, size)
        which = {"of": audience, "made_by": model, "size": size}
        held = self.held.get(key, _Held())

        def read(conn: Connection) -> tuple[bool, list[Any]]:
            count, newest = conn.execute(_EXTENT, which).one()
            last = held.ids[-1] if held.ids else 0
            if count == len(held.ids) and (newest or 0) == last:
                return True, []
            rows = list(conn.execute(_NEWER, which | {"after": last}))
            if len(held.ids) + len(rows) == count:
                return True, rows
            return False, list(conn.execute(_NEWER, which | {"after": 0}))

        goes_on, rows = await self._database.read(read)
        if not goes_on:
            held = _Held()
        for row in rows:
            held.ids.append(row.memory_id)
            held.numbers += row.vector
        self.held[key] = held
        self.held.move_to_end(key)
        while len(self.held) > 1 and sum(len(one.ids) for one in self.held.values()) > MOST_CACHED:
            self.held.popitem(last=False)
        return held


def nearest(
    wanted: bytes, ids: Sequence[int], numbers: bytes | bytearray, least: float, most: int
) -> list[tuple[int, float]]:
    """The ids whose vectors are nearest to the wanted one, nearest first. Slow: for a worker thread."""
    try:
        numpy = importlib.import_module("numpy")
    except ImportError:
        return _nearest_without(wanted, ids, numbers, least, most)
    query = numpy.frombuffer(wanted, dtype="<f4")
    scores = numpy.frombuffer(numbers, dtype="<f4").reshape(len(ids), len(query)) @ query
    order = numpy.argsort(-scores)[:most]
    return [(ids[int(place)], float(scores[place])) for place in order if scores[place] >= least]


def unit(numbers: Sequence[float]) -> bytes:
    """A vector of length 1 in the bytes that are stored. Raises NoVectors for one without a direction."""
    length = math.sqrt(sum(number * number for number in numbers))
    if not length or not math.isfinite(length):
        raise NoVectors("a vector of no length came back")
    return array("f", [number / length for number in numbers]).tobytes()


def _nearest_without(
    wanted: bytes, ids: Sequence[int], numbers: bytes | bytearray, least: float, most: int
) -> list[tuple[int, float]]:
    """The same without numpy: 16 ms for a thousand."""
    query, every = array("f", wanted), array("f", bytes(numbers))
    width = len(query)
    found = []
    for place, id in enumerate(ids):
        begin = place * width
        score = sum(one * other for one, other in zip(query, every[begin : begin + width], strict=True))
        if score >= least:
            found.append((id, score))
    return sorted(found, key=lambda pair: -pair[1])[:most]


def _without(conn: Connection, audience: Audience, model: str) -> list[tuple[int, str]]:
    """Things of an audience without a vector of this model, oldest first."""
    has = select(memory_vector.c.memory_id).where(
        memory_vector.c.memory_id == memory.c.id, memory_vector.c.model == model
    )
    statement = (
        select(memory.c.id, memory.c.speaker, memory.c.text)
        .where(memory.c.audience == audience, memory.c.kind.in_(("fact", "said")), ~has.exists())
        .order_by(memory.c.id)
        .limit(AT_ONCE)
    )
    return [(row.id, f"{row.speaker}: {row.text}" if row.speaker else row.text) for row in conn.execute(statement)]


def _write(conn: Connection, vectors: list[dict[str, Any]], *, by_database: bool) -> None:
    """Store them; one whose text was forgotten meanwhile has nothing to belong to any more."""
    ids = [vector["memory_id"] for vector in vectors]
    left = set(conn.execute(select(memory.c.id).where(memory.c.id.in_(ids))).scalars())
    kept = [vector for vector in vectors if vector["memory_id"] in left]
    if kept:
        first = kept[0]
        which = {"of": first["audience"], "made_by": first["model"], "size": len(first["vector"])}
        conn.execute(_OF_ANOTHER_SIZE, which)
        conn.execute(_KEEP, kept)
        if by_database:
            pgvector.put(conn, [(vector["memory_id"], vector["vector"]) for vector in kept])
