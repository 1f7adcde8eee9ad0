"""The memory of all conversations: keeps, finds and forgets, each within one audience.

A part of it that fails leaves its share out and notes a miss; only the database itself failing is an error to callers
that asked for something, and none of it ever is to a turn.
"""

import logging
import math
from collections.abc import Awaitable, Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Protocol

import anyio
from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from agent.core.clock import Clock
from agent.core.errors import AgentError, Refused
from agent.core.ids import ConversationId, CostAttribution, PersonId, SessionId
from agent.memory import graph as graph_rows
from agent.memory import index, rows
from agent.memory.eviction import UseLog
from agent.memory.lexicon import Lexicon, Term, coverage, telling
from agent.memory.misses import MissLog
from agent.memory.notes import folder_of
from agent.memory.ranking import merged, route
from agent.memory.records import (
    LONGEST_QUERY,
    ChatType,
    Edge,
    Forgotten,
    Item,
    Kept,
    Kind,
    Places,
    Recollected,
    Scope,
    Strategy,
    scope_of,
)
from agent.memory.rows import is_theirs
from agent.memory.settings import EvictionSettings, GraphSettings, RecallSettings, SemanticSettings
from agent.memory.vectors import Vectors
from agent.storage.database import Database
from agent.storage.errors import StorageError
from agent.storage.files.kept import in_one_place
from agent.storage.timestamps import to_timestamp

CANDIDATES = 40  # of each way, before they are made into one order
ENOUGH_WORDS = 0.33  # of what a question is about must stand in a fact or code that is shown unasked
EVERYTHING: tuple[Kind, ...] = ("fact", "said")

log = logging.getLogger("tieline.memory")


class Sections(Protocol):
    """The present sections of the configuration."""

    @property
    def recall(self) -> RecallSettings: ...
    @property
    def semantic(self) -> SemanticSettings: ...
    @property
    def graph(self) -> GraphSettings: ...
    @property
    def eviction(self) -> EvictionSettings: ...


def alone(conversation: ConversationId) -> Places:
    """The places of a conversation that has no neighbours."""
    return Places(home=conversation)


def only(person: PersonId) -> Sequence[PersonId]:
    """The accounts of a person who has no other."""
    return (person,)


@dataclass(slots=True)
class Outage:
    """Whether vectors could not be searched the last time."""

    goes_on: bool = False


class Memory:
    """One for the process; holds nothing of any conversation but vectors that were read already."""

    def __init__(
        self,
        database: Database,
        clock: Clock,
        *,
        settings: Callable[[], Sections],
        places: Callable[[ConversationId], Places] = alone,
        accounts: Callable[[PersonId], Sequence[PersonId]] = only,
        vectors: Vectors | None = None,
        misses: MissLog | None = None,
        sync: Callable[[str], Awaitable[None]] = in_one_place,
    ) -> None:
        """`accounts` are all of a person's, the given one first: what was told in one is known to the others.

        `sync` brings a folder of the data directory to the state that other processes know (`KeptFiles.sync`).
        """
        self.database = database
        self.misses = misses or MissLog(database, clock)
        self.uses = UseLog(database, clock)
        self.vectors = vectors
        self.forgotten = Forgotten(clock.monotonic)
        self.lexicon = Lexicon()
        self.accounts = accounts
        self._sync = sync
        self._outage = Outage()
        self._clock = clock
        self._settings = self._current = settings
        self._places = places

    @property
    def settings(self) -> Sections:
        return self._settings()

    def renewed(self) -> "Memory":
        """The same memory with the settings as they are now, whatever is changed later: for one turn (Z-21)."""
        taken, renewed = self._current(), copy(self)
        renewed._settings = lambda: taken
        return renewed

    async def sync_notes(self, conversation: ConversationId) -> None:
        """Bring MEMORY.md to the state that other processes know: before it is read, and after it was changed."""
        await self._sync(folder_of(conversation))

    def scope(
        self,
        conversation: ConversationId,
        chat_type: ChatType,
        person: PersonId | None,
        *,
        speaker: str = "",
        session: SessionId | None = None,
    ) -> Scope:
        """The scope of a turn in this conversation: what it may see and where it keeps things."""
        places = self._places(conversation)
        accounts = self.accounts(person) if person is not None else ()
        return scope_of(conversation, chat_type, person, places, accounts=accounts, speaker=speaker, session=session)

    # Keeping

    async def remember(
        self, scope: Scope, fact: Kept, *, replaces: int | None = None, others_too: bool = True
    ) -> int | None:
        """Keep a durable fact; returns its number, None when there is nothing in it to keep.

        `replaces` names the fact that it takes the place of, if one of that number is the scope's to take back.
        Raises Refused, and keeps nothing, when that is somebody else's and not `others_too` are within reach.
        """
        if not telling(fact.text):
            return None
        at = to_timestamp(self._clock.now())

        def work(conn: Connection) -> int:
            replaced = rows.fact(conn, scope.theirs, replaces) if replaces is not None else None
            _check_right(conn, scope, replaced, others_too)
            id = rows.keep_fact(conn, scope, fact, self.lexicon, at=at)
            if replaced is not None and replaced.id != id:
                rows.remove(conn, [replaced.id])
            return id

        id = await self.database.write(work)
        if replaces is not None:
            self._tell(scope)
        return id

    async def drop(self, scope: Scope, fact: int, *, others_too: bool = True) -> bool:
        """Forget one fact that is the scope's to take back, and what was derived from it.

        Raises Refused when it is somebody else's and not `others_too` are within reach.
        """

        def work(conn: Connection) -> bool:
            found = rows.fact(conn, scope.theirs, fact)
            _check_right(conn, scope, found, others_too)
            return found is not None and found.kind == "fact" and bool(rows.remove(conn, [fact]))

        dropped = await self.database.write(work)
        if dropped:
            self._tell(scope)
        return dropped

    def _tell(self, scope: Scope) -> None:
        """Let whoever has read facts of the scope read them again."""
        for audience in scope.theirs:
            self.forgotten.tell(audience)

    # Finding

    async def recall(
        self,
        query: str,
        scope: Scope,
        *,
        attribution: CostAttribution,
        strategy: Strategy | None = None,
        kinds: Sequence[Kind] = EVERYTHING,
        limit: int,
        code: int = 0,
        unasked: bool = False,
        beside: bool = False,
    ) -> Recollected:
        """Things that fit the question, best first, at most `limit`, and at most so much `code` that holds its words.

        `beside`: with what was said just before and after each.
        `strategy` None goes by the question. `unasked`: only what is surely about it, since nobody asked to see it.
        Raises StorageError or SQLAlchemyError when the words themselves cannot be looked up.
        """
        query = query[:LONGEST_QUERY]
        words, terms = telling(query), self.lexicon.terms(query)
        chosen = strategy or self._routed(query)
        vectors = self.vectors if self.vectors is not None and await self.vectors.is_on() else None
        if chosen == "semantic" and vectors is None:
            chosen = "hybrid"  # of which the words are left
        edges: tuple[Edge, ...] = ()
        if chosen == "graph":
            edges = await self._edges(query, words, scope)
        similar: dict[int, Item] = {}
        if chosen != "keyword" and vectors is not None:
            similar = await self._by_meaning(query, scope, kinds, attribution, vectors, unasked=unasked)
        # The words count, too, where the question chose the way: vectors alone found less (docs/memory-recall.md).
        only_vectors = chosen == "semantic" and (strategy or self.settings.recall.strategy) == "semantic"
        wanted = () if only_vectors and similar else kinds  # where vectors find nothing, words are better than that
        settings = self.settings.recall
        reordered = bool(similar) or settings.half_life_days > 0 or settings.diversity > 0
        most = max(limit, CANDIDATES if reordered else 0)
        by_words, with_code, around = await self._by_words(
            terms,
            scope,
            wanted,
            ("code",) if code else (),
            most=most,
            beside=beside and not reordered,
            unasked=unasked,
        )
        items = merged(by_words, similar, self.settings.recall, now=self._clock.now(), limit=limit)
        if chosen == "hybrid" and not items:
            self._missed(scope, query, "hybrid")
        if beside and reordered and items:
            around = await self.database.read(lambda conn: index.around(conn, scope, items))
        blocks = [item for item in with_code if coverage(words, item.text) >= ENOUGH_WORDS][:code]
        if self.settings.eviction.max_entries:
            self.uses.note((*items, *blocks))
        return Recollected(strategy=chosen, items=items, around=around, code=tuple(blocks), edges=edges)

    async def facts_about(self, query: str, scope: Scope, *, attribution: CostAttribution) -> tuple[Item, ...]:
        """Durable facts that a new session's first words are about, at most as many as configured (W-10).

        Each of the audiences in sight in turn, the nearest first.
        """
        most = self.settings.recall.facts
        found: dict[str, Item] = {}
        for audience in scope.visible:
            narrow = replace(scope, visible=(audience,))
            given = await self.recall(
                query, narrow, attribution=attribution, strategy="hybrid", kinds=("fact",), limit=most, unasked=True
            )
            for item in given.items:
                found.setdefault(item.text.casefold(), item)
        return tuple(found.values())[:most]

    async def facts_like(
        self, query: str, scope: Scope, *, attribution: CostAttribution, least: float
    ) -> tuple[Item, ...]:
        """Facts that are at least so similar to the words (0..1), the nearest first: by vectors and by shared words."""
        words = telling(query)
        facts, _, _ = await self._by_words(self.lexicon.terms(query), scope, ("fact",), (), most=CANDIDATES)
        found = {item.id: replace(item, score=coverage(words, item.text)) for item in facts}
        vectors = self.vectors if self.vectors is not None and await self.vectors.is_on() else None
        if vectors is not None:
            for id, item in (
                await self._by_meaning(query, scope, ("fact",), attribution, vectors, unasked=False)
            ).items():
                found[id] = max(item, found.get(id, item), key=lambda one: one.score)
        near = [item for item in found.values() if item.score >= least]
        return tuple(sorted(near, key=lambda item: (-item.score, -item.id)))

    # Looking

    async def is_off(self, conversation: ConversationId) -> bool:
        return await self.database.read(lambda conn: rows.is_off(conn, conversation))

    async def set_off(self, conversation: ConversationId, *, off: bool) -> None:
        await self.database.write(lambda conn: rows.set_off(conn, conversation, off=off))

    def _routed(self, query: str) -> Strategy:
        configured = self.settings.recall.strategy
        return route(query) if configured == "auto" else configured

    async def _by_words(
        self,
        terms: Sequence[Term],
        scope: Scope,
        kinds: Sequence[Kind],
        others: Sequence[Kind],
        *,
        most: int,
        beside: bool = False,
        unasked: bool = False,
    ) -> tuple[tuple[Item, ...], tuple[Item, ...], tuple[Item, ...]]:
        """Things of `kinds` and `others` that hold any of the words, best first, and what was said `beside` the first.

        `unasked`: of `kinds` only what is surely about them. One trip to the database for all.
        """

        def look(conn: Connection) -> tuple[tuple[Item, ...], tuple[Item, ...], tuple[Item, ...]]:
            names = self.lexicon.names
            found = index.search(conn, scope, terms, kinds=kinds, most=most, names=names, only_sure=unasked)
            apart = index.search(conn, scope, terms, kinds=others, most=most, names=names)
            return found, apart, index.around(conn, scope, found) if beside else ()

        return await self.database.read(look) if terms and (kinds or others) else ((), (), ())

    async def _by_meaning(
        self,
        query: str,
        scope: Scope,
        kinds: Sequence[Kind],
        attribution: CostAttribution,
        vectors: Vectors,
        *,
        unasked: bool,
    ) -> dict[int, Item]:
        """By vectors, best first; {} and a miss where they fail or find nothing (Z-135, Z-136)."""
        # Half of a turn's time is left for the words: a model that is still being loaded must not cost them.
        within_s = min(self.settings.semantic.timeout_s, self.settings.recall.timeout_s / 2 if unasked else math.inf)
        try:
            with anyio.fail_after(within_s):
                found = await vectors.search(query, scope, attribution=attribution, most=CANDIDATES, sure=unasked)
                ids = [id for id, _ in found]
                items = await self.database.read(lambda conn: rows.by_ids(conn, scope, ids)) if ids else {}
        except (AgentError, StorageError, SQLAlchemyError, TimeoutError, OSError) as error:
            reason = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
            level = logging.DEBUG if self._outage.goes_on else logging.WARNING  # an outage is told once
            self._outage.goes_on = True
            log.log(level, "vectors were not searched: %s", reason, extra={"conversation": scope.conversation})
            self._missed(scope, query, "semantic", reason)
            return {}
        if self._outage.goes_on:
            self._outage.goes_on = False
            log.info("vectors are searched again", extra={"conversation": scope.conversation})
        similar = {
            id: replace(items[id], score=score) for id, score in found if id in items and items[id].kind in kinds
        }
        if not similar:
            self._missed(scope, query, "semantic")
        return similar

    async def _edges(self, query: str, words: Sequence[str], scope: Scope) -> tuple[Edge, ...]:
        """Relations around the names in the question; () and a miss where the graph fails or knows nothing."""
        graph = self.settings.graph
        try:
            edges = await self.database.read(
                lambda conn: graph_rows.around(
                    conn,
                    scope.visible,
                    words,
                    hops=graph.max_hops,
                    least=graph.min_confidence,
                    most=graph.limit,
                )
            )
        except (StorageError, SQLAlchemyError) as error:
            reason = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
            log.warning("the graph was not searched: %s", reason, extra={"conversation": scope.conversation})
            self._missed(scope, query, "graph", reason)
            return ()
        if not edges:
            self._missed(scope, query, "graph")
        return edges

    def _missed(self, scope: Scope, query: str, strategy: Strategy, error: str = "no_results") -> None:
        self.misses.note(scope.conversation, query, strategy, error, scope.session)


def _check_right(conn: Connection, scope: Scope, item: Item | None, others_too: bool) -> None:
    if item is not None and not others_too and not is_theirs(conn, item, scope.person):
        raise Refused(f"thing {item.id} is somebody else's")
