"""The tools with which a model keeps, finds and forgets; each works within the audience of its run alone."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from dataclasses import replace as changed
from pathlib import Path
from typing import Annotated, TypedDict

import anyio.to_thread
from pydantic import Field
from sqlalchemy.exc import SQLAlchemyError

from agent.core.clock import Clock
from agent.core.errors import Refused, ToolError
from agent.core.events import Event, MemoryCompacted, MemorySearched, MemoryWritten
from agent.core.function_tools import tool
from agent.core.ids import ConversationId, CostAttribution, RunId
from agent.core.tools import Remembering, ToolContext
from agent.memory import notes
from agent.memory.memory import Memory
from agent.memory.notes import LONGEST as LONGEST_NOTES
from agent.memory.recall_block import edge_line, lines_of
from agent.memory.records import LONGEST_FACT, Kept, Recollected, Scope
from agent.storage.errors import StorageError

_Query = Annotated[str, Field(min_length=1, max_length=500)]


def _memory(context: ToolContext) -> Remembering:
    if context.memory is None:
        raise ToolError("the memory is switched off in this conversation")
    return context.memory


@tool(risk="safe", touches="place", effects=["write"], core=True, retryable=True)
async def remember(
    context: ToolContext,
    *,
    fact: Annotated[str, Field(min_length=3, max_length=LONGEST_FACT)],
    confidence: Annotated[float, Field(ge=0, le=1)] = 0.9,
    replaces: Annotated[int | None, Field(description="The number of a fact that is no longer true.", ge=1)] = None,
) -> str:
    """Keeps one durable fact for later sessions, such as a preference, a decision or a date: a whole sentence that
    names whom it is about. Nothing secret."""
    return await _memory(context).remember(fact, confidence=confidence, replaces=replaces, call=context.idempotency_key)


@tool(category="info", risk="safe", touches="place", effects=[], untrusted=True, retryable=True)
async def recall(context: ToolContext, *, query: _Query) -> str:
    """Finds facts and earlier messages of any session of these people, by meaning or words."""
    return await _memory(context).recall(query)


@tool(category="info", risk="safe", touches="place", effects=[], untrusted=True, retryable=True)
async def session_search(context: ToolContext, *, query: _Query) -> str:
    """Finds what was said in earlier sessions, by the words that stood there."""
    return await _memory(context).search_sessions(query)  # W-68


@tool(risk="safe", touches="place", effects=["write"], retryable=True)
async def forget(context: ToolContext, *, fact: Annotated[int, Field(ge=1)]) -> str:
    """Forgets one fact, by its number as recall or remember gave it."""
    return await _memory(context).forget(fact)


@tool(risk="safe", touches="place", effects=["write"], concurrency_safe=False, retryable=True)
async def write_notes(
    context: ToolContext,
    *,
    text: Annotated[str, Field(min_length=1, max_length=LONGEST_NOTES)],
    replace: bool = False,
) -> str:
    """Adds Markdown to the notes of this conversation (MEMORY.md), which you see in every turn; with replace the text
    takes their place."""
    return await _memory(context).write_notes(text, replace=replace)


MEMORY_FUNCTIONS = (remember, recall, session_search, forget, write_notes)
MEMORY_TOOLS = frozenset(one.spec.name for one in MEMORY_FUNCTIONS)
FLUSH_TOOLS = frozenset({remember.spec.name, write_notes.spec.name})


# The memory of one run's tools: bound to the run's scope, so that no call can name another audience.

MOST_FOUND = 8
MOST_CHARS = 6_000
NOTHING = "Nothing that was kept fits. Try other words."
log = logging.getLogger("tieline.memory")
NOT_REPLACED = "The notes are everybody's here: only an admin may have them replaced; they can be added to."
DATA = "What was kept, best first. It is data that people wrote, and may be outdated:"


class _About(TypedDict):
    conversation: ConversationId
    run: RunId


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryToolset:
    """Keeps the promise of `core.tools.Remembering`.

    `others_too`: the run may take away what others have told as well (`reaches_others`). `tell` publishes the erasure.
    """

    memory: Memory
    scope: Scope
    others_too: bool
    attribution: CostAttribution
    inbox_id: int
    run: RunId
    notes: Path
    clock: Clock
    tell: Callable[[Event], None]

    async def remember(self, text: str, *, confidence: float, replaces: int | None, call: str) -> str:
        fact = Kept(
            kind="fact",
            text=" ".join(text.split()),
            source="tool",
            person=self.scope.person,
            speaker=self.scope.speaker if not self.scope.is_private else "",
            confidence=confidence,
            session=self.scope.session,
            inbox_id=self.inbox_id,
        )
        try:
            id = await self.memory.remember(self.scope, fact, replaces=replaces, others_too=self.others_too)
        except Refused:
            raise ToolError(f"nothing was kept: {_of_another(replaces)}") from None
        except (StorageError, SQLAlchemyError) as error:
            raise _failed("kept", error) from None
        if id is None:
            raise ToolError("there is nothing in it to keep: write one whole sentence")
        self.tell(MemoryWritten(**self._about, kind="fact", delta=len(fact.text)))
        return f"Kept as fact {id}."

    async def recall(self, query: str) -> str:
        try:
            found = await self.memory.recall(query, self.scope, attribution=self.attribution, limit=MOST_FOUND)
            if found.strategy != "hybrid" and len(found.items) < MOST_FOUND // 2:  # somebody asked: look every way
                both = await self.memory.recall(
                    query, self.scope, attribution=self.attribution, strategy="hybrid", limit=MOST_FOUND
                )
                every = {item.id: item for item in (*found.items, *both.items)}
                found = changed(found, items=tuple(every.values())[:MOST_FOUND])
        except (StorageError, SQLAlchemyError) as error:
            raise _failed("searched", error) from None
        self._tell_searched(found)
        lines = [*map(edge_line, found.edges), *lines_of(found.items, most_chars=MOST_CHARS)]
        return "\n".join((DATA, *lines)) if lines else NOTHING

    async def search_sessions(self, query: str) -> str:
        try:
            found = await self.memory.recall(
                query,
                self.scope,
                attribution=self.attribution,
                strategy="keyword",
                kinds=("said", "code"),
                limit=MOST_FOUND,
            )
        except (StorageError, SQLAlchemyError) as error:
            raise _failed("searched", error) from None
        self._tell_searched(found)
        return "\n".join((DATA, *lines_of(found.items, most_chars=MOST_CHARS))) if found.items else NOTHING

    async def forget(self, fact: int) -> str:
        try:
            gone = await self.memory.drop(self.scope, fact, others_too=self.others_too)
        except Refused:
            raise ToolError(_of_another(fact)) from None
        except (StorageError, SQLAlchemyError) as error:
            raise _failed("changed", error) from None
        if not gone:
            raise ToolError(f"there is no fact {fact} here")
        return f"Fact {fact} is forgotten. With /memory forget the person can remove it from the history as well."

    async def write_notes(self, text: str, *, replace: bool) -> str:
        at = self.clock.now()

        def write() -> tuple[int, int]:
            before = notes.read(self.notes, notes.LONGEST) if self.notes.exists() else ""
            if replace and before.strip() and not self.others_too:
                raise ToolError(NOT_REPLACED)
            lines = text.strip()
            kept = "" if replace else before.rstrip()
            if f"\n{before.rstrip()}".endswith(f"\n{lines}") and not replace:  # the same call again, after a crash
                return len(before), len(before)
            whole = f"{kept}\n{lines}\n" if kept else f"{lines}\n"
            if len(whole) > notes.LONGEST:
                raise ToolError(f"the notes would have {len(whole)} characters; {notes.LONGEST} at most: replace them")
            notes.write(self.notes, whole, at=at)
            return len(before), len(whole)

        try:
            had, length = await anyio.to_thread.run_sync(write)
            await self.memory.sync_notes(self.scope.conversation)
        except OSError as error:
            log.warning("notes not written: %s", error, extra={"conversation": self.scope.conversation})
            raise ToolError("the notes could not be written just now", transient=True) from None
        if length != had:
            self.tell(MemoryWritten(**self._about, kind="notes", delta=length - had))
        if length < had:
            self.tell(MemoryCompacted(**self._about, before=had, after=length))
        return f"Written; the notes have {length} characters."

    @property
    def _about(self) -> _About:
        return {"conversation": self.scope.conversation, "run": self.run}

    def _tell_searched(self, found: Recollected) -> None:
        results = len(found.items) + len(found.edges)
        self.tell(MemorySearched(**self._about, strategy=found.strategy, results=results))


def _of_another(fact: int | None) -> str:
    return f"fact {fact} was told by somebody else: in a group only they or an admin may have it forgotten or replaced"


def _failed(what: str, error: Exception) -> ToolError:
    """Said to the model without the database's own words."""
    return ToolError(f"the memory could not be {what} just now ({type(error).__name__})", transient=True)
