"""After a turn, in the background: what was just kept gets its vectors, and the graph is read on.

Failing leaves both for the next turn; nobody waits and nobody is told.
"""

import logging

from sqlalchemy.exc import SQLAlchemyError

from agent.compaction.asking import Ask, Question
from agent.core.errors import AgentError
from agent.memory import extraction
from agent.memory.audience import Scope
from agent.providers.metering import CostAttribution
from agent.storage.errors import StorageError
from agent.storage.timestamps import to_timestamp
from agent.turn.model_call import attribution_of
from agent.turn.run import Run
from agent.turn.settings import Settings
from agent.turn.states import States

GRAPH_TOKENS = 1_500  # of the answer
GRAPH_WITHIN_S = 90.0

log = logging.getLogger("tieline.turn")


def catch_up_soon(run: Run, states: States, ask: Ask) -> None:
    """Begin, unless the last time goes on still then."""
    scope, settings, memory = run.memory, run.settings.memory, states.runtime.memory
    wanted = settings.graph.enabled or (memory.vectors is not None and settings.semantic.engine != "off")
    if scope is None or not run.opened or not wanted:
        return
    attribution = attribution_of(run, states)

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
