"""A run that waits for people: it costs neither its own time nor a place among the turns that work."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from agent.turn.run import Run
from agent.turn.states import States


@asynccontextmanager
async def waiting_for_approval(run: Run, states: States) -> AsyncIterator[None]:
    """Nobody is at work in the block; several calls at once may ask for it. A stop waits for no place."""
    source = states.lifecycle.source
    with run.time.paused(), states.runtime.outbox.awaiting():
        if source is None:
            yield
            return
        source.park()
        try:
            yield
        finally:
            with run.interrupts.scope():
                await source.unpark()
