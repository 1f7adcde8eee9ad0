"""The memory in a turn: recall when it begins, words kept at its commit, background work after it.

In this order, always: known facts, semantic recall, code context, graph facts (Z-11). Failing, it costs the
recall and nothing else.
"""

import logging
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import anyio
from sqlalchemy import Connection, delete, select, update
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from agent.compaction.question import Ask, Question
from agent.core.clock import Clock
from agent.core.errors import AgentError
from agent.core.events import MemorySearched
from agent.core.ids import ConversationId, PersonId, SessionId
from agent.core.messages import Message, TextPart
from agent.memory import graph as extraction
from agent.memory import index, rows
from agent.memory.lexicon import Lexicon, is_about_something, kept_of
from agent.memory.memory import Memory
from agent.memory.recall_block import block_for
from agent.memory.records import ChatType, Item, Kept, Recollected, Scope
from agent.memory.rows import FORGOTTEN
from agent.providers.usage import CostAttribution
from agent.run.messages import shown_name, words_of
from agent.run.run import Run
from agent.run.settings import Settings
from agent.sessions.store import read_message, text_of
from agent.skills.signals import PREFIX
from agent.storage.database import Database, is_trouble
from agent.storage.errors import StorageError
from agent.storage.tables import memory_backlog, memory_unindexed, message
from agent.storage.timestamps import to_timestamp
from agent.turn.states import States, announce

log = logging.getLogger("tieline.turn")


async def open_memory(run: Run, states: States) -> None:
    """Set what this run may see of the memory, and where it keeps things; nothing where it is switched off.

    What people want is read even where the operator has recall off: drafts quote nobody who wants nothing kept.
    """
    state, runtime, incoming = states.memory, states.runtime, run.work.incoming
    run.memory = None
    if state.off is None:
        try:
            state.off = await runtime.memory.is_off(states.session.conversation)
        except (StorageError, SQLAlchemyError) as error:
            log.warning("the memory is left out, it cannot be opened: %s", _first_line(error), extra={"run": run.id})
            return
    if not state.off and run.settings.memory.recall.enabled:
        run.memory = runtime.memory.scope(
            states.session.conversation,
            incoming.chat_type,
            incoming.person,
            speaker=shown_name(incoming),
            session=run.session,
        )


async def recall(run: Run, states: States) -> None:
    """Find what may help with the newest words and keep it with the run. Bounded in time; never raises for its sake."""
    scope, words = run.memory, run.work.incoming.text
    if scope is None or run.audience.silent or not is_about_something(words):
        return
    settings = run.settings.memory.recall
    run.recalled_after = states.runtime.memory.forgotten.facts(scope.visible)
    with anyio.move_on_after(settings.timeout_s) as bounded:
        try:
            run.recall = await _block(words, scope, run, states)
        except (AgentError, StorageError, SQLAlchemyError) as error:
            log.warning("recall failed, the turn goes on without it: %s", _first_line(error), extra={"run": run.id})
    if bounded.cancelled_caught:
        log.warning("recall took over %g s, the turn goes on without it", settings.timeout_s, extra={"run": run.id})
        states.runtime.memory.misses.note(
            states.session.conversation, words, "hybrid", f"no answer in {settings.timeout_s:g} s", run.session
        )


async def _block(words: str, scope: Scope, run: Run, states: States) -> str:
    def told(found: Recollected) -> None:
        results = len(found.items) + len(found.edges)
        event = MemorySearched(
            conversation=states.session.conversation, run=run.id, strategy=found.strategy, results=results
        )
        announce(states, event)

    return await block_for(
        words,
        scope,
        states.runtime.memory,
        run.settings.memory.recall,
        attribution=run.attribution(),
        begins=run.fresh and not run.resumed and run.work.kind == "message",
        corrections=await _corrections(words, scope, run, states),
        told=told,
    )


async def _corrections(words: str, scope: Scope, run: Run, states: States) -> list[Item]:
    """Corrections by people of answers to something like this, where they are kept."""
    learning = states.runtime.learning.settings
    if not (learning.feedback and learning.corrections):
        return []
    memory, least = states.runtime.memory, learning.min_similarity
    near = await memory.facts_like(words, scope, attribution=run.attribution(), least=least)
    return [item for item in near if item.text.startswith(PREFIX)][: learning.corrections]


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"


# Words that a run leaves in the memory, kept by the run's own commit (Z-15).


def keep_words(conn: Connection, run: Run, ids: Sequence[int | None], lexicon: Lexicon, *, at: int) -> None:
    """Keep what the person and the agent said in the run; `ids` are its messages' in the transcript."""
    if run.memory is None:
        return
    things = [
        thing
        for message, id in zip(run.messages, ids, strict=False)
        if id is not None
        for thing in _of(message, id, run)
    ]
    try:
        if conn.dialect.name == "sqlite":  # a statement that fails leaves the transaction as it was
            rows.keep(conn, run.memory, things, lexicon, at=at)
        elif things:
            with conn.begin_nested():
                rows.keep(conn, run.memory, things, lexicon, at=at)
    except DBAPIError as error:
        if is_trouble(error):
            raise
        log.warning("what was said is not in the memory: %s", str(error.orig), extra={"run": run.id})


def _of(message: Message, id: int, run: Run) -> tuple[Kept, ...]:
    person, speaker = run.work.incoming.person, run.memory.speaker if run.memory else ""
    if message is run.messages[0]:
        if run.work.kind != "message":
            return ()  # the gateway's own words
        text = words_of(message)
    elif message.role == "assistant":
        text, person, speaker = text_of(message), None, ""
    else:
        return ()
    return kept_of(text, person=person, speaker=speaker, session=run.session, message_id=id, inbox_id=run.work.inbox_id)


# Backlog: older messages are kept, too, once, in the background, from the newest down.

BATCH = 100  # messages of one transaction
PAUSE_S = 0.5  # between two of them: turns come first

_SENDER = re.compile(r"<sender>(.*)</sender>$", re.MULTILINE)


class Backlog:
    """Messages that an older version did not keep or index. An interrupted pass goes on at the next start."""

    def __init__(self, database: Database, memory: Memory, clock: Clock) -> None:
        self._database = database
        self._memory = memory
        self._clock = clock

    async def run(self) -> None:
        """Keep and index them all. Trouble with the database leaves the rest for the next start."""
        if not self._memory.settings.recall.enabled:
            return
        try:
            kept = await self._all(self.keep_some)
            indexed = await self._all(self.index_some)
        except (StorageError, SQLAlchemyError) as error:
            reason = str(error).partition("\n")[0]
            log.warning("older messages are not all in the memory, the rest waits for the next start: %s", reason)
            return
        if kept:
            log.info("older messages are in the memory now: %d pieces", kept)
        if indexed:
            log.info("what was kept before is in the new index: %d things", indexed)

    async def _all(self, some: Callable[[Connection], int | None]) -> int:
        done = 0
        if await self._database.read(_is_waiting):
            while (more := await self._database.write(some)) is not None:
                done += more
                await self._clock.sleep(PAUSE_S)
        return done

    def index_some(self, conn: Connection) -> int | None:
        """Make the words of the next batch; how many things, None when nothing is left."""
        return index.index_some(conn, self._memory.lexicon, most=BATCH)

    def keep_some(self, conn: Connection) -> int | None:
        """The next batch; how many pieces were kept, None when nothing is left."""
        below = _below(conn)
        if below is None:
            return None
        page = select(message).where(message.c.id < below, message.c.role.in_(("user", "assistant")))
        page = page.where(message.c.user_visible, message.c.inbox_id.is_not(None))
        found = conn.execute(page.order_by(message.c.id.desc()).limit(BATCH)).all()
        if not found:
            conn.execute(delete(memory_backlog))
            return None
        conn.execute(update(memory_backlog).values(below=found[-1].id))
        return sum(self._keep(conn, row, scope) for row, scope in self._with_scopes(conn, found))

    def _with_scopes(self, conn: Connection, found: Sequence[Any]) -> Iterator[tuple[Any, Scope]]:
        """Each message with whom it was said in front of, as the first message of its run tells."""
        begun = select(message).where(message.c.inbox_id.in_({row.inbox_id for row in found}), message.c.position == 0)
        scopes = {row.inbox_id: self._scope_of(row) for row in conn.execute(begun).all()}
        off = {conv: rows.is_off(conn, ConversationId(conv)) for conv in {row.conv for row in found}}
        for row in found:
            scope = scopes.get(row.inbox_id)
            if scope is not None and not off[row.conv]:
                yield row, scope

    def _scope_of(self, row: Any) -> Scope | None:
        """None for a run that no person has begun, or whose beginning cannot be read."""
        said = read_message(row)
        if said is None or row.role != "user" or row.person is None:
            return None
        header = said.parts[0] if len(said.parts) > 1 else None
        head = header.text if isinstance(header, TextPart) else ""
        if head.startswith("<scheduled>"):
            return None
        sender = _SENDER.match(head)
        person, session = PersonId(row.person), SessionId(row.session_id)
        speaker = sender[1].removesuffix(f" ({person})") if sender else ""
        chat_type: ChatType = "group" if sender else "direct"
        return self._memory.scope(ConversationId(row.conv), chat_type, person, speaker=speaker, session=session)

    def _keep(self, conn: Connection, row: Any, scope: Scope) -> int:
        said = read_message(row)
        if said is None:
            return 0
        by_person = row.role == "user" and row.position == 0
        words = words_of(said) if by_person else text_of(said) if row.role == "assistant" else ""
        if not words or words == FORGOTTEN:
            return 0
        things = kept_of(
            words,
            person=scope.person if by_person else None,
            speaker=scope.speaker if by_person else "",
            session=row.session_id,
            message_id=row.id,
            inbox_id=row.inbox_id,
        )
        rows.keep(conn, scope, things, self._memory.lexicon, at=row.created_at, older=True)
        return len(things)


def _is_waiting(conn: Connection) -> bool:
    return _below(conn) is not None or conn.execute(select(memory_unindexed.c.below)).first() is not None


def _below(conn: Connection) -> int | None:
    below: int | None = conn.execute(select(memory_backlog.c.below)).scalar_one_or_none()
    return below


# Work after a turn, in the background: vectors of what was just kept, and the next reading of the graph.

GRAPH_TOKENS = 1_500  # of the answer
GRAPH_WITHIN_S = 90.0


def catch_up_soon(run: Run, states: States, ask: Ask) -> None:
    """Begin, unless the last time goes on still then."""
    scope, settings, memory = run.memory, run.settings.memory, states.runtime.memory
    wanted = settings.graph.enabled or (memory.vectors is not None and settings.semantic.engine != "off")
    if scope is None or not run.opened or not wanted:
        return
    attribution = run.attribution()

    async def job() -> None:
        if states.memory.catching_up:
            return
        states.memory.catching_up = True
        try:
            await _vectors(scope, attribution, states)
            await _graph(scope, run.settings, states, ask)
        finally:
            states.memory.catching_up = False

    states.context.jobs.start(job)


async def _vectors(scope: Scope, attribution: CostAttribution, states: States) -> None:
    vectors = states.runtime.memory.vectors
    if vectors is None:
        return
    try:
        await vectors.catch_up(scope.own, attribution)
    except (AgentError, StorageError, SQLAlchemyError, TimeoutError, OSError) as error:
        log.warning("vectors wait for the next turn: %s", _short(error), extra={"conversation": scope.conversation})


async def _graph(scope: Scope, settings: Settings, states: States, ask: Ask) -> None:
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
        return await ask(question)

    runtime = states.runtime
    at = to_timestamp(runtime.clock.now())
    try:
        await extraction.read_new(runtime.database, scope, asked, every=graph.every, at=at)
    except (AgentError, StorageError, SQLAlchemyError, TimeoutError, OSError) as error:
        log.warning("the graph waits for the next turn: %s", _short(error), extra={"conversation": scope.conversation})


def _short(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
