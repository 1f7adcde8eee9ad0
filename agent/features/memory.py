"""Memory in a turn: recall of earlier conversations for a run, and the words that the run leaves behind.

Found once when its context is made, put before the newest words, never stored, in this order, always: known facts,
semantic recall, code context, graph facts (Z-11). Failing, it costs the recall and nothing else. The words
that were said are kept by the run's own commit (Z-15); in the background they get their vectors, and the graph is read
on.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import anyio
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from agent.between_turns import Jobs
from agent.compaction.question import Ask, Question
from agent.core.clock import Clock
from agent.core.errors import AgentError
from agent.core.events import Event, MemorySearched
from agent.core.ids import ConversationId, CostAttribution, SessionId
from agent.core.messages import Message
from agent.memory import graph as extraction
from agent.memory import rows
from agent.memory.index import take_back
from agent.memory.lexicon import is_about_something, kept_of
from agent.memory.memory import Memory
from agent.memory.recall_block import block_for
from agent.memory.records import Item, Kept, Recollected, Scope
from agent.memory.tools import MEMORY_TOOLS
from agent.run.features import Feature
from agent.run.messages import shown_name
from agent.run.run import Executed, Run, StagedChanges
from agent.run.settings import Settings
from agent.sessions.store import text_of, words_of
from agent.storage.database import Database, attempted, is_trouble
from agent.storage.errors import StorageError
from agent.storage.timestamps import to_timestamp

GRAPH_TOKENS = 1_500  # of the answer
GRAPH_WITHIN_S = 90.0

log = logging.getLogger("tieline.turn")


@dataclass(frozen=True, slots=True, kw_only=True)
class Corrections:
    """Corrections among the facts: their mark, how alike a question must be, and how many are shown."""

    prefix: str
    least: float
    most: int


@dataclass(slots=True, kw_only=True, eq=False)
class MemoryState(Feature):
    """The memory as one conversation sees it. `off`: people want nothing kept here; None: ask the store.
    `off_by_place`: it was the place's rules that said so last, which can end.

    `memory` is taken anew for each turn; `ask` puts questions beside the turn and is set when the agent is built.
    """

    conversation: ConversationId
    memory: Memory
    corrections: Callable[[], Corrections | None]
    database: Database
    clock: Clock
    announce: Callable[[Event], None]
    jobs: Jobs
    ask: Ask = field(init=False)
    off: bool | None = None
    off_by_place: bool = False
    catching_up: bool = False  # vectors and graph, in the background

    def is_off(self, conn: Connection) -> bool:
        """Whether people want nothing kept here."""
        return self.off if self.off is not None else rows.is_off(conn, self.conversation)

    async def context(self, run: Run) -> None:
        """Find what may help with the newest words and keep it with the run. Bounded in time; never raises for that."""
        await self.open(run)
        scope, words = run.memory.scope, run.work.incoming.text
        if scope is None or run.audience.silent or not is_about_something(words):
            return
        settings, memory = run.settings.memory.recall, self.memory
        run.memory.recalled_after = memory.forgotten.facts(scope.visible)
        with anyio.move_on_after(settings.timeout_s) as bounded:
            try:
                run.memory.recall = await self._block(words, scope, run)
            except (AgentError, StorageError, SQLAlchemyError) as error:
                log.warning("recall failed, the turn goes on without it: %s", _short(error), extra={"run": run.id})
        if bounded.cancelled_caught:
            log.warning("recall took over %g s, the turn goes on without it", settings.timeout_s, extra={"run": run.id})
            memory.misses.note(
                self.conversation, words, "hybrid", f"no answer in {settings.timeout_s:g} s", run.session
            )

    async def open(self, run: Run) -> None:
        """Set what this run may see of the memory, and where it keeps things; nothing where it is switched off.

        What people want is read even where the operator has recall off: drafts quote nobody who wants nothing kept.
        """
        memory, incoming = self.memory, run.work.incoming
        run.memory.scope = None
        if not run.settings.place.memory:
            self.off = True
        elif self.off is None or self.off_by_place:
            try:
                self.off = await memory.is_off(self.conversation)
            except (StorageError, SQLAlchemyError) as error:
                log.warning("the memory is left out, it cannot be opened: %s", _short(error), extra={"run": run.id})
                return
        self.off_by_place = not run.settings.place.memory
        if not self.off and run.settings.memory.recall.enabled:
            run.memory.scope = memory.scope(
                self.conversation,
                incoming.chat_type,
                incoming.person,
                speaker=shown_name(incoming),
                session=run.session,
            )

    def hides(self, run: Run) -> frozenset[str]:
        """Nothing is kept or found where the memory is switched off."""
        return MEMORY_TOOLS if self.off or not run.settings.memory.recall.enabled else frozenset()

    def changing(self, conn: Connection, staged: StagedChanges, session: SessionId, at: int) -> None:
        """Remove messages that people took back from recall."""
        if staged.hide_from is not None and staged.hide_from_people:
            take_back(conn, session, staged.hide_from)

    def forgotten(self) -> None:
        """Ask the store again what people want."""
        self.off = None

    def stored(self, conn: Connection, run: Run, ids: Sequence[int | None], at: int) -> None:
        """Keep what the person and the agent said in the run."""
        if run.memory.scope is None:
            return
        things = [
            thing
            for message, id in zip(run.messages, ids, strict=False)
            if id is not None
            for thing in _of(message, id, run)
        ]
        if not things:
            return
        lexicon = self.memory.lexicon
        try:
            with attempted(conn):
                rows.keep(conn, run.memory.scope, things, lexicon, at=at)
        except DBAPIError as error:
            if is_trouble(error):
                raise
            log.warning("what was said is not in the memory: %s", str(error.orig), extra={"run": run.id})

    def left_alone(self, run: Run, executed: Executed) -> None:
        """Make the vectors of what was just kept, and read the graph on, unless the last time goes on still then."""
        scope, settings, memory = run.memory.scope, run.settings.memory, self.memory
        wanted = settings.graph.enabled or (memory.vectors is not None and settings.semantic.engine != "off")
        if scope is None or not run.opened or not wanted:
            return
        attribution = run.attribution()

        async def job() -> None:
            if self.catching_up:
                return
            self.catching_up = True
            try:
                await self._vectors(scope, attribution)
                await self._graph(scope, run.settings)
            finally:
                self.catching_up = False

        self.jobs.start(job)

    async def _block(self, words: str, scope: Scope, run: Run) -> str:
        began = self.clock.monotonic()

        def told(found: Recollected) -> None:
            event = MemorySearched(
                conversation=self.conversation,
                run=run.id,
                strategy=found.strategy,
                results=len(found.items) + len(found.edges),
                elapsed_ms=round((self.clock.monotonic() - began) * 1000),
            )
            self.announce(event)

        return await block_for(
            words,
            scope,
            self.memory,
            run.settings.memory.recall,
            attribution=run.attribution(),
            begins=run.fresh and not run.resumed and run.work.kind == "message",
            corrections=await self._corrections(words, scope, run),
            told=told,
        )

    async def _corrections(self, words: str, scope: Scope, run: Run) -> list[Item]:
        """Corrections by people of answers to something like this, where they are kept."""
        kept = self.corrections()
        if kept is None:
            return []
        near = await self.memory.facts_like(words, scope, attribution=run.attribution(), least=kept.least)
        return [item for item in near if item.text.startswith(kept.prefix)][: kept.most]

    async def _vectors(self, scope: Scope, attribution: CostAttribution) -> None:
        vectors = self.memory.vectors
        if vectors is None:
            return
        try:
            await vectors.catch_up(scope.own, attribution)
        except (AgentError, StorageError, SQLAlchemyError, TimeoutError, OSError) as error:
            log.warning("vectors wait for the next turn: %s", _short(error), extra={"conversation": scope.conversation})

    async def _graph(self, scope: Scope, settings: Settings) -> None:
        graph = settings.memory.graph
        if not graph.enabled:
            return

        async def asked(rules: str, text: str) -> str:
            question = Question(
                purpose="graph",
                system=rules,
                text=text,
                max_tokens=GRAPH_TOKENS,
                timeout_s=GRAPH_WITHIN_S,
                provider=graph.provider,
            )
            return await self.ask(question)

        at = to_timestamp(self.clock.now())
        try:
            await extraction.read_new(self.database, scope, asked, every=graph.every, at=at)
        except (AgentError, StorageError, SQLAlchemyError, TimeoutError, OSError) as error:
            log.warning(
                "the graph waits for the next turn: %s", _short(error), extra={"conversation": scope.conversation}
            )


def _of(message: Message, id: int, run: Run) -> tuple[Kept, ...]:
    person, speaker = run.work.incoming.person, run.memory.scope.speaker if run.memory.scope else ""
    if message is run.messages[0]:
        if run.work.kind != "message":
            return ()  # the gateway's own words
        text = words_of(message)
    elif message.role == "assistant":
        text, person, speaker = text_of(message), None, ""
    else:
        return ()
    return kept_of(text, person=person, speaker=speaker, session=run.session, message_id=id, inbox_id=run.work.inbox_id)


def _short(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
