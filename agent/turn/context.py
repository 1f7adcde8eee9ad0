"""CONTEXT: the history a model may see, the notes, and how large all that is (SPEC §2.3, §7.4). Bounded in time."""

import logging

import anyio
from sqlalchemy import Connection

from agent.core.context_events import MemoryRead
from agent.core.events import ContextBuilt
from agent.core.provider_events import ContextDegraded
from agent.goals import store as goals
from agent.sessions import store
from agent.storage import audit_rows
from agent.storage.timestamps import to_timestamp
from agent.tools.deferring import loaded_in
from agent.tools.plan_mode import ENTER, EXIT
from agent.turn.context_budget import load_window, options_of, sync_window
from agent.turn.environment import environment_of, look
from agent.turn.flushing import may_look_back
from agent.turn.notes import read_notes, says_terminated
from agent.turn.recalling import open_memory, recall
from agent.turn.requests import raw_of
from agent.turn.run import Executed, Notice, Prepared, Run
from agent.turn.skills import choose_skills, find_meanings
from agent.turn.states import States, announce

log = logging.getLogger("tieline.turn")


async def prepare(run: Run, states: States) -> Prepared:
    """Load what is not at hand. Too slow: the turn goes on with what was cached (Z-24)."""
    degraded = False
    if not states.message.loaded:
        states.message.forget()  # what a turn without its history left there
    states.context.engine.begin_turn(run.id, options_of(run.settings))
    if _in_back_off(run, states):
        log.info("context not prepared: no provider could answer just now", extra={"run": run.id})  # Z-26
    else:
        limit = run.settings.timeouts.context_prep
        with anyio.move_on_after(limit or float("inf")) as scope:
            await _advance(run, states)
        degraded = scope.cancelled_caught
        if degraded:
            log.warning("context not ready in %g s, going on with the cached one", limit, extra={"run": run.id})
            event = ContextDegraded(conversation=states.session.conversation, run=run.id, after_s=limit)
            announce(states, event)
    states.context.run = run
    states.context.engine.may_flush(may_look_back(run, states))
    notes = states.memory.text
    run.idle_minutes = _idle_minutes(states)
    sync_window(run, states)
    metrics = states.metrics
    metrics.context_raw = raw_of(run, states, notes)
    if choose_skills(run, states, metrics.context_tokens):
        metrics.context_raw = raw_of(run, states, notes)
    states.runtime.bus.publish(
        ContextBuilt(
            conversation=states.session.conversation,
            run=run.id,
            token_estimate=metrics.context_tokens,
            window=states.provider.slot.current().context_window,
        )
    )
    ended = None
    if says_terminated(notes):
        ended = Executed(verdict="refused", notice=Notice("agent_retired"))
    return Prepared(
        history=states.message.window.messages[: states.message.compaction.own],
        memory=notes,
        token_estimate=metrics.context_tokens,
        degraded=degraded,
        ended=ended,
    )


def _in_back_off(run: Run, states: States) -> bool:
    since = states.provider.none_at
    return since is not None and states.runtime.clock.monotonic() - since < run.settings.timeouts.no_providers_backoff


async def _advance(run: Run, states: States) -> None:
    notes = await read_notes(states.memory, run.settings.context.memory_chars, states.runtime.clock.now())
    if notes:
        announce(states, MemoryRead(conversation=states.session.conversation, run=run.id, size=len(notes)))
    await _look_around(run, states)
    if not states.message.loaded:
        await load_history(run, states)
    if run.settings.agent.goal.follows_session and states.goal.known_for != run.session:
        session_id = run.session
        states.goal.of_session = await states.runtime.database.read(lambda conn: goals.of_session(conn, session_id))
        states.goal.known_for = session_id
    await open_memory(run, states)
    await recall(run, states)
    vectors = states.runtime.memory.vectors
    if vectors is not None and await vectors.is_on():
        await find_meanings(run, states)


async def _look_around(run: Run, states: States) -> None:
    """Where this is: known before the prompt is made, and the same until the turn ends (R-10)."""
    instruction, settings = states.instruction, run.settings
    instruction.looked = await look(states.tool.workspace, instruction.looked, settings.context.project_chars)
    has_shell = "shell" in states.tool.executor.toolbox.names
    shell = settings.tools.shell.mode if has_shell else ""
    run.environment = environment_of(instruction.looked, place=run.work.incoming.place, shell=shell)


async def load_history(run: Run, states: States) -> None:
    """Read the session's window anew, this run's own messages with it; what it had loaded and planned holds again."""
    await load_window(run.session, run.ids, states)
    run.windowed = len(run.ids)
    window = states.message.window
    pairs = (window[place].message for position in window.results for place in (position - 1, position) if place >= 0)
    states.tool.load(run.session, loaded_in((*pairs, *run.messages)))
    conversation, session = states.session.conversation, run.session

    def planned(conn: Connection) -> bool:
        found = store.find(conn, session)
        since = to_timestamp(found.created_at) if found is not None else 0
        last = audit_rows.last_run(conn, conversation, (ENTER, EXIT))
        return last is not None and last.tool == ENTER and last.at >= since

    states.tool.plan(session, await states.runtime.database.read(planned))


def _idle_minutes(states: States) -> float:
    """How long nobody had said anything when this turn began; 0 where that is not known."""
    own, window = states.message.compaction.own, states.message.window
    at = window[own - 1].stored.created_at if own else None
    return (states.runtime.clock.now() - at).total_seconds() / 60 if at is not None else 0.0
