"""What was forgotten elsewhere in the middle of a run leaves its next request (docs/memory.md)."""

from dataclasses import replace

from agent.turn.context import load_history
from agent.turn.context_budget import sync_window
from agent.turn.notes import read_notes
from agent.turn.run import Prepared, Run
from agent.turn.states import States


async def renewed(prepared: Prepared, run: Run, states: States) -> Prepared:
    """The window and the notes as the store has them now, where words of this conversation were rewritten."""
    drop_stale_recall(run, states)
    count = states.runtime.memory.forgotten.words(states.session.conversation)
    if count == states.memory.forgotten:
        return prepared
    states.memory.forgotten = count
    states.provider.cache.forget()
    states.memory.signature = None
    notes = await read_notes(states.memory, run.settings.context.memory_chars, states.runtime.clock.now())
    if states.message.loaded:
        await read_anew(run, states)
    return replace(prepared, memory=notes)


def drop_stale_recall(run: Run, states: States) -> None:
    """An answer can do without what it was reminded of, of which something may be forgotten by now."""
    if run.memory is not None and states.runtime.memory.forgotten.facts(run.memory.visible) != run.recalled_after:
        run.recall = ""


async def read_anew(run: Run, states: States) -> None:
    """The window as the store has it, and what of the run is not stored yet."""
    states.message.forget()
    await load_history(run, states)
    sync_window(run, states)
