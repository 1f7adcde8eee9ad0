"""What of earlier conversations a run is shown: found once when it begins, put before the newest words, never stored.

In this order, always: known facts, semantic recall, code context, graph facts (Z-11, SPEC §16.1). Failing, it costs the
recall and nothing else.
"""

import logging

import anyio
from sqlalchemy.exc import SQLAlchemyError

from agent.core.context_events import MemorySearched
from agent.core.errors import AgentError
from agent.memory.audience import Scope
from agent.memory.block import block_for
from agent.memory.records import Item, Recollected
from agent.memory.words import is_about_something
from agent.skills.feedback import PREFIX
from agent.storage.errors import StorageError
from agent.turn.model_call import attribution_of
from agent.turn.prompt import shown_name
from agent.turn.run import Run
from agent.turn.states import States, announce

log = logging.getLogger("tieline.turn")


async def open_memory(run: Run, states: States) -> None:
    """What this run may see of the memory, and where it keeps things; nothing where it is switched off.

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
        attribution=attribution_of(run, states),
        begins=run.fresh and not run.resumed and run.work.kind == "message",
        corrections=await _corrections(words, scope, run, states),
        told=told,
    )


async def _corrections(words: str, scope: Scope, run: Run, states: States) -> list[Item]:
    """What people said was wrong the last time something like this was asked, where that is kept (SPEC §14.5)."""
    learning = states.runtime.learning.settings
    if not (learning.feedback and learning.corrections):
        return []
    memory, least = states.runtime.memory, learning.min_similarity
    near = await memory.facts_like(words, scope, attribution=attribution_of(run, states), least=least)
    return [item for item in near if item.text.startswith(PREFIX)][: learning.corrections]


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
